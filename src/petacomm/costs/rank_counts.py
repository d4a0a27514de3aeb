"""Counts of keys, rows and messages of all ranks, from the occupancy of their keys."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array
from petacomm.costs.node_counts import (
    count_messages_between_nodes,
    count_rows_between_nodes,
    node_runs,
    sum_at_index,
)
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import DEFAULT_OPTIONS, ReductionOptions
from petacomm.costs.run_counts import ListRuns, list_runs
from petacomm.sharing.sharing_graph import expand_groups

# Pairs of a key and a holder that are counted at once.
_PIECE = 1 << 22


class RankCounts(NamedTuple):
    """Sums over keys of each rank: float64 (size,) each, or (n_parts, size) over parts of the keys.

    Attributes
    ----------
    n_keys, n_shared, n_owned, n_owned_shared
        Keys held; shared with other ranks; owned; owned and shared.
    n_runs
        Runs of shared keys, as defined by `SharingGraph.n_runs`.
    pair_rows, pair_rows_off, pair_runs
        Rows to all other holders of each key, those of them to other nodes, and their runs.
    to_owner_rows, to_owner_rows_off, to_owner_runs, to_ghost_rows, to_ghost_rows_off, to_ghost_runs
        The same for rows to owners, and from owners to ghosts.
    to_owner_node_rows, from_owner_node_rows
        Rows that a rank sends between nodes to the nodes of owners, and back from them.
    local_table_rows, owned_table_rows, sent_table_rows
        Its equal part of its node's tables, as defined by `algorithm_loads.hierarchical_loads`.
    hybrid_to_owner_nodes, hybrid_from_owner_nodes, hybrid_pairs
        Rows that it sends between nodes in a hybrid reduction: to the nodes of owners, back from them, and
        by pairs of nodes.
    hybrid_dense, dense_table, pairs_table, hybrid_owned_table, hybrid_sent_table
        Dense keys of a hybrid reduction that it owns; its equal part of `algorithm_loads.HybridTables`.
    """

    n_keys: FloatArray
    n_shared: FloatArray
    n_owned: FloatArray
    n_owned_shared: FloatArray
    n_runs: FloatArray
    pair_rows: FloatArray
    pair_rows_off: FloatArray
    pair_runs: FloatArray
    to_owner_rows: FloatArray
    to_owner_rows_off: FloatArray
    to_owner_runs: FloatArray
    to_ghost_rows: FloatArray
    to_ghost_rows_off: FloatArray
    to_ghost_runs: FloatArray
    to_owner_node_rows: FloatArray
    from_owner_node_rows: FloatArray
    local_table_rows: FloatArray
    owned_table_rows: FloatArray
    sent_table_rows: FloatArray
    hybrid_to_owner_nodes: FloatArray
    hybrid_from_owner_nodes: FloatArray
    hybrid_pairs: FloatArray
    hybrid_dense: FloatArray
    dense_table: FloatArray
    pairs_table: FloatArray
    hybrid_owned_table: FloatArray
    hybrid_sent_table: FloatArray


class PartnerCounts(NamedTuple):
    """Number of ranks to which each rank sends messages: float64 (size,) each, or of some ranks.

    Attributes
    ----------
    pairs, to_owners, to_ghosts
        Ranks with which it shares a key; owners of its ghosts; ranks that hold ghosts of its keys.
    to_owner_nodes, from_owner_nodes
        Ranks to which it sends for its node: of the nodes of owners, and back from them.
    hybrid_to_owner_nodes, hybrid_from_owner_nodes, hybrid_pairs
        The same for the keys that a hybrid reduction sends to owners, and by pairs of nodes.
    """

    pairs: FloatArray
    to_owners: FloatArray
    to_ghosts: FloatArray
    to_owner_nodes: FloatArray
    from_owner_nodes: FloatArray
    hybrid_to_owner_nodes: FloatArray
    hybrid_from_owner_nodes: FloatArray
    hybrid_pairs: FloatArray


def node_of_ranks(size: int, ranks_per_node: int) -> Int32Array:
    """Return the node of each rank, int32 (size,), for nodes of consecutive ranks."""
    return (np.arange(size) // ranks_per_node).astype(np.int32)


def count_ranks(
    occupancy: Occupancy,
    node_of: Int32Array,
    part_of: Int64Array | None = None,
    weights: FloatArray | None = None,
    options: ReductionOptions = DEFAULT_OPTIONS,
) -> RankCounts:
    """Return the counts of all ranks over each part of the keys, (n_parts, size) each.

    Parameters
    ----------
    occupancy : Occupancy
    node_of : int32 (size,)
        Node of each rank.
    part_of : int64 (n,), optional
        Part of each key, from 0 on; by default there is one part.
    weights : float64 (n,), optional
        Number of keys that each key represents; by default 1.
    options : ReductionOptions, optional
        Options of "hybrid".
    """
    if part_of is None:
        part_of = np.zeros(len(occupancy.keys), np.int64)
    if weights is None:
        weights = np.ones(len(occupancy.keys))
    shape = (int(part_of.max(initial=0)) + 1, occupancy.size)
    sums = np.zeros((len(RankCounts._fields), *shape))
    bounds = np.searchsorted(occupancy.offsets, np.arange(0, occupancy.offsets[-1], _PIECE))
    # Pieces begin at multiples of 64 keys, where runs end.
    aligned = np.searchsorted(occupancy.keys, occupancy.keys[bounds[bounds < len(occupancy.keys)]] & ~63)
    edges = np.unique([*aligned, len(occupancy.keys)])
    for first, last in itertools.pairwise([0, *edges[edges > 0].tolist()]):
        piece = slice(first, last)
        sums += _count_piece(
            occupancy.key_range(first, last), node_of, part_of[piece], weights[piece], shape, options
        )
    return RankCounts(*sums)


def _count_piece(
    occupancy: Occupancy,
    node_of: Int32Array,
    part_of: Int64Array,
    weights: FloatArray,
    shape: tuple[int, int],
    options: ReductionOptions,
) -> FloatArray:
    multiplicity, key_of, holders = occupancy.multiplicity, occupancy.key_of, occupancy.holders
    owner, weights_held = occupancy.owner, weights[key_of]
    held_in, owned_in = part_of[key_of] * shape[1] + holders, part_of * shape[1] + owner

    def by_holder(rows: FloatArray | Int64Array | BoolArray) -> FloatArray:
        return sum_at_index(held_in, rows * weights_held, shape)

    def by_owner(rows: FloatArray | BoolArray) -> FloatArray:
        return sum_at_index(owned_in, rows * weights, shape)

    others = (multiplicity - 1).astype(np.float64)
    node = node_of[holders]
    ghost_off = node != node_of[owner][key_of]
    n_runs, runs = _runs(occupancy)
    n_off = np.add.reduceat(ghost_off, occupancy.offsets[:-1], dtype=np.float64)
    counts = RankCounts(
        n_keys=by_holder(key_of >= 0),
        n_shared=by_holder(others[key_of] > 0),
        n_owned=by_owner(owner >= 0),
        n_owned_shared=by_owner(others > 0),
        n_runs=by_holder(n_runs),
        pair_rows=by_holder(others[key_of]),
        pair_rows_off=by_holder(multiplicity[key_of] - _on_node(key_of, node)),
        pair_runs=by_holder(runs.pairs),
        to_owner_rows=by_holder(holders != owner[key_of]),
        to_owner_rows_off=by_holder(ghost_off),
        to_owner_runs=by_holder(runs.to_owners),
        to_ghost_rows=by_owner(others),
        to_ghost_rows_off=by_owner(n_off),
        to_ghost_runs=by_holder(runs.to_ghosts),
        **count_rows_between_nodes(occupancy, node_of, part_of, weights, shape, options),
    )
    return np.array(counts)


def _runs(occupancy: Occupancy) -> tuple[BoolArray, ListRuns]:
    """Return the numbers of runs that begin at each holder of each key: of shared keys, and of lists."""
    keys, multiplicity = occupancy.keys, occupancy.multiplicity
    continues = np.zeros(len(keys), np.bool_)
    continues[1:] = (np.diff(keys) == 1) & (keys[1:] % 64 != 0) & (multiplicity[1:] == multiplicity[:-1])
    order = _by_rank(occupancy)
    position, holder = occupancy.key_of[order], occupancy.holders[order]
    before = np.zeros(len(order), np.bool_)
    before[1:] = (holder[1:] == holder[:-1]) & (position[1:] == position[:-1] + 1)
    shared = (multiplicity[position] > 1) & ~(before & continues[position])
    lists = list_runs(keys[position], occupancy.owner[position], multiplicity[position], holder)
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return shared[inverse], ListRuns(*(runs[inverse] for runs in lists))


def _on_node(key_of: Int32Array, node: Int32Array) -> FloatArray:
    """Return for each holder of a key the number of its holders on the same node."""
    if len(node) == 0:
        return np.zeros(0)
    _, lengths = node_runs(key_of, node)
    return np.repeat(lengths, lengths).astype(np.float64)


def count_partners(
    occupancy: Occupancy, node_of: Int32Array, options: ReductionOptions = DEFAULT_OPTIONS
) -> PartnerCounts:
    """Return the numbers of partners of all ranks; the work grows with squares of multiplicities."""
    size, holders, owner = occupancy.size, occupancy.holders, occupancy.owner[occupancy.key_of]
    owned = np.zeros((size, size), np.bool_)
    owned[holders, owner] = True
    np.fill_diagonal(owned, False)
    shared = [_n_partners(occupancy, keys) for keys in _keys_by_rank(occupancy)]
    counts = (np.asarray(count, np.float64) for count in (shared, owned.sum(1), owned.sum(0)))
    return PartnerCounts(*counts, **count_messages_between_nodes(occupancy, node_of, options))


def assumed_partners(counts: RankCounts, pairs: float, owners: float, nodes: float) -> PartnerCounts:
    """Return partner counts for all ranks from those of the busiest rank.

    Parameters
    ----------
    counts : RankCounts
        Counts of the ranks, of which those that are 0 need no messages in a hybrid reduction.
    pairs, owners : float
        Ranks with which a rank shares a key, and owners of its ghosts.
    nodes : float
        Nodes of owners to which it sends for its node.
    """
    rows_sent = (counts.hybrid_to_owner_nodes, counts.hybrid_from_owner_nodes, counts.hybrid_pairs)
    hybrid = [nodes if rows.any() else 0.0 for rows in rows_sent]
    return PartnerCounts(*(np.array([float(n)]) for n in (pairs, owners, owners, nodes, nodes, *hybrid)))


def _by_rank(occupancy: Occupancy) -> Int64Array:
    """Return the entries of `holders` in the order of ranks, and of keys for each rank."""
    # NumPy sorts words of 16 bits by their digits, many times faster than others.
    small = np.uint16 if occupancy.size <= 1 << 16 else np.int32
    return np.argsort(occupancy.holders.astype(small), kind="stable")


def _keys_by_rank(occupancy: Occupancy) -> Sequence[Int32Array]:
    """Return the positions of the keys of each rank."""
    order = _by_rank(occupancy)
    ends = np.cumsum(np.bincount(occupancy.holders, minlength=occupancy.size))
    return np.split(occupancy.key_of[order], ends[:-1])


def _n_partners(occupancy: Occupancy, keys: Int32Array) -> int:
    """Return the number of other ranks that hold any of the keys of a rank."""
    is_holder = np.zeros(occupancy.size, np.bool_)
    is_holder[occupancy.holders[expand_groups(keys, occupancy.offsets)]] = True
    return max(0, int(is_holder.sum()) - 1)
