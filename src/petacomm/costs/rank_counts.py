"""What each of many ranks would hold and send, counted from the occupancy of their keys."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array
from petacomm.costs.node_counts import between_nodes, flat_sums, messages_between_nodes, node_runs
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import DEFAULTS, Options
from petacomm.costs.run_counts import ListRuns, list_runs

# Pairs of a key and its holder that are counted in one go.
_PIECE = 1 << 22


class Counts(NamedTuple):
    """What adds up over keys, of each rank: float64 (size,) each, or (n_parts, size) over parts of the keys.

    Attributes
    ----------
    n_keys, n_shared, n_owned, n_lent
        Keys held; those that others hold as well; those owned; those both.
    n_runs
        Runs in which the shared ones lie, as `SharingGraph.n_runs` has them.
    pair_rows, pair_rows_off, pair_runs
        Rows for each other holder of each key, those of them that go to other nodes, and runs of rows.
    ghost_rows, ghost_rows_off, ghost_runs, asked_rows, asked_rows_off, asked_runs
        The same for owners, and back.
    there_rows, home_rows
        Rows that a rank carries between nodes, to those of owners and back.
    local_rows, met_rows, sent_rows
        Its equal part of its node's tables, as `loads.hierarchical_shares` has them.
    hybrid_there, hybrid_home, hybrid_pairs
        Of keys that a hybrid sends to nodes of owners: rows carried there and back; rows carried by pairs.
    hybrid_dense, dense_table, pairs_table, hybrid_met, hybrid_sent
        Keys owned that it all-reduces densely; its equal part of the tables of `loads.HybridTables`.
    """

    n_keys: FloatArray
    n_shared: FloatArray
    n_owned: FloatArray
    n_lent: FloatArray
    n_runs: FloatArray
    pair_rows: FloatArray
    pair_rows_off: FloatArray
    pair_runs: FloatArray
    ghost_rows: FloatArray
    ghost_rows_off: FloatArray
    ghost_runs: FloatArray
    asked_rows: FloatArray
    asked_rows_off: FloatArray
    asked_runs: FloatArray
    there_rows: FloatArray
    home_rows: FloatArray
    local_rows: FloatArray
    met_rows: FloatArray
    sent_rows: FloatArray
    hybrid_there: FloatArray
    hybrid_home: FloatArray
    hybrid_pairs: FloatArray
    hybrid_dense: FloatArray
    dense_table: FloatArray
    pairs_table: FloatArray
    hybrid_met: FloatArray
    hybrid_sent: FloatArray


class Messages(NamedTuple):
    """How many ranks each rank sends something to: (size,) float64 each, or of some ranks alone.

    Attributes
    ----------
    pairs, ghosts, asked
        To those with which it shares a key; to the owners of its ghosts; to those whose ghosts it owns.
    there, home
        For its node, to those of owners, and back.
    hybrid_there, hybrid_home, hybrid_pairs
        The same for keys that a hybrid sends to owners, and to the others of pairs of nodes.
    """

    pairs: FloatArray
    ghosts: FloatArray
    asked: FloatArray
    there: FloatArray
    home: FloatArray
    hybrid_there: FloatArray
    hybrid_home: FloatArray
    hybrid_pairs: FloatArray


def node_numbers(size: int, ranks_per_node: int) -> Int32Array:
    """Return the node of each rank, (size,), where nodes are filled one after the other."""
    return (np.arange(size) // ranks_per_node).astype(np.int32)


def count(
    occupancy: Occupancy,
    node_of: Int32Array,
    part_of: Int64Array | None = None,
    weights: FloatArray | None = None,
    options: Options = DEFAULTS,
) -> Counts:
    """Return the counts of all ranks over each part of the keys, (n_parts, size) each.

    Parameters
    ----------
    occupancy : Occupancy
    node_of : int32 (size,)
    part_of : int64 (n,), optional
        The part of each key, from 0 on; by default there is one.
    weights : float64 (n,), optional
        How many keys each one stands for, by default itself.
    options : Options, optional
        That tell a hybrid's keys apart.
    """
    if part_of is None:
        part_of = np.zeros(len(occupancy.keys), np.int64)
    if weights is None:
        weights = np.ones(len(occupancy.keys))
    shape = (int(part_of.max(initial=0)) + 1, occupancy.size)
    sums = np.zeros((len(Counts._fields), *shape))
    bounds = np.searchsorted(occupancy.offsets, np.arange(0, occupancy.offsets[-1], _PIECE))
    # no run goes on beyond a piece: at a multiple of 64 each ends
    aligned = np.searchsorted(occupancy.keys, occupancy.keys[bounds[bounds < len(occupancy.keys)]] & ~63)
    edges = np.unique([*aligned, len(occupancy.keys)])
    for first, last in itertools.pairwise([0, *edges[edges > 0].tolist()]):
        piece = slice(first, last)
        sums += _count(occupancy.part(first, last), node_of, part_of[piece], weights[piece], shape, options)
    return Counts(*sums)


def _count(
    occupancy: Occupancy,
    node_of: Int32Array,
    part_of: Int64Array,
    weights: FloatArray,
    shape: tuple[int, int],
    options: Options,
) -> FloatArray:
    multiplicity, key_of, holders = occupancy.multiplicity, occupancy.key_of, occupancy.holders
    owner, weights_held = occupancy.owner, weights[key_of]
    held_in, owned_in = part_of[key_of] * shape[1] + holders, part_of * shape[1] + owner

    def by_holder(rows: FloatArray | Int64Array | BoolArray) -> FloatArray:
        return flat_sums(held_in, rows * weights_held, shape)

    def by_owner(rows: FloatArray | BoolArray) -> FloatArray:
        return flat_sums(owned_in, rows * weights, shape)

    others = (multiplicity - 1).astype(np.float64)
    node = node_of[holders]
    ghost_off = node != node_of[owner][key_of]
    n_runs, runs = _runs(occupancy)
    n_off = np.add.reduceat(ghost_off, occupancy.offsets[:-1], dtype=np.float64)
    counts = Counts(
        n_keys=by_holder(key_of >= 0),
        n_shared=by_holder(others[key_of] > 0),
        n_owned=by_owner(owner >= 0),
        n_lent=by_owner(others > 0),
        n_runs=by_holder(n_runs),
        pair_rows=by_holder(others[key_of]),
        pair_rows_off=by_holder(multiplicity[key_of] - _on_node(key_of, node)),
        pair_runs=by_holder(runs.pairs),
        ghost_rows=by_holder(holders != owner[key_of]),
        ghost_rows_off=by_holder(ghost_off),
        ghost_runs=by_holder(runs.ghosts),
        asked_rows=by_owner(others),
        asked_rows_off=by_owner(n_off),
        asked_runs=by_holder(runs.asked),
        **between_nodes(occupancy, node_of, part_of, weights, shape, options),
    )
    return np.array(counts)


def _runs(occupancy: Occupancy) -> tuple[BoolArray, ListRuns]:
    """Return how many runs begin at each holder of each key: of its shared keys, and of its lists."""
    keys, multiplicity = occupancy.keys, occupancy.multiplicity
    goes_on = np.zeros(len(keys), np.bool_)
    goes_on[1:] = (np.diff(keys) == 1) & (keys[1:] % 64 != 0) & (multiplicity[1:] == multiplicity[:-1])
    order = np.argsort(occupancy.holders, kind="stable")
    place, holder = occupancy.key_of[order], occupancy.holders[order]
    before = np.zeros(len(order), np.bool_)
    before[1:] = (holder[1:] == holder[:-1]) & (place[1:] == place[:-1] + 1)
    shared = (multiplicity[place] > 1) & ~(before & goes_on[place])
    lists = list_runs(keys[place], occupancy.owner[place], multiplicity[place], holder)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return shared[back], ListRuns(*(runs[back] for runs in lists))


def _on_node(key_of: Int32Array, node: Int32Array) -> FloatArray:
    """Return how many holders of the same key are on the node of each holder; they stand side by side."""
    if len(node) == 0:
        return np.zeros(0)
    _, lengths = node_runs(key_of, node)
    return np.repeat(lengths, lengths).astype(np.float64)


def meet(occupancy: Occupancy, node_of: Int32Array, options: Options = DEFAULTS) -> Messages:
    """Return the partners of all ranks; the work grows with the squares of multiplicities."""
    size, holders, owner = occupancy.size, occupancy.holders, occupancy.owner[occupancy.key_of]
    owned = np.zeros((size, size), np.bool_)
    owned[holders, owner] = True
    np.fill_diagonal(owned, False)
    shared = np.array([_partners(occupancy, rank) for rank in _by_rank(occupancy)])
    counts = (shared, owned.sum(1), owned.sum(0), *messages_between_nodes(occupancy, node_of, options))
    return Messages(*(np.asarray(count, np.float64) for count in counts))


def told_messages(counts: Counts, pairs: float, owners: float, carried: float) -> Messages:
    """Return the partners of each rank if they are known for the busiest one.

    Parameters
    ----------
    counts : Counts
        A hybrid sends no message by a way that no key goes.
    pairs, owners : float
        Ranks with which a rank shares a key, and to which it sends as to owners.
    carried : float
        Nodes to which it carries what its node sends to owners.
    """
    ways = (counts.hybrid_there, counts.hybrid_home, counts.hybrid_pairs)
    hybrid = [carried if rows.any() else 0.0 for rows in ways]
    return Messages(*(np.array([float(n)]) for n in (pairs, owners, owners, carried, carried, *hybrid)))


def _by_rank(occupancy: Occupancy) -> Sequence[Int32Array]:
    """Return the positions of the keys of each rank."""
    order = np.argsort(occupancy.holders, kind="stable")
    ends = np.cumsum(np.bincount(occupancy.holders, minlength=occupancy.size))
    return np.split(occupancy.key_of[order], ends[:-1])


def _partners(occupancy: Occupancy, keys: Int32Array) -> int:
    """Return how many others hold any of the keys of a rank."""
    counts = occupancy.multiplicity[keys]
    ends = np.cumsum(counts)
    shift = np.repeat(occupancy.offsets[keys] - (ends - counts), counts)
    met = np.zeros(occupancy.size, np.bool_)
    met[occupancy.holders[shift + np.arange(len(shift))]] = True
    return max(0, int(met.sum()) - 1)
