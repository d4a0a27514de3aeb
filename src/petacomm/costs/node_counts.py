"""Counts of rows and messages between nodes for all ranks, from the occupancy of keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.distinct import first_of_equal
from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import ReductionOptions
from petacomm.sharing.node_classes import KeyClasses, classify_keys


@dataclass(frozen=True)
class NodeEntries:
    """Pairs of a key and a node that holds it, in the order of keys; all (n,).

    Attributes
    ----------
    key, node : int
        Position of the key, and the node.
    n_ranks, n_nodes : int64
        Ranks of the node that hold the key, and nodes that hold it.
    owner : int32
        Node of the key's owner.
    shared : bool
        Whether several ranks hold the key.
    classes : KeyClasses
        Class of the key in a hybrid reduction.
    """

    key: Int32Array
    node: Int32Array
    n_ranks: Int64Array
    n_nodes: Int64Array
    owner: Int32Array
    shared: BoolArray
    classes: KeyClasses

    @classmethod
    def from_occupancy(
        cls, occupancy: Occupancy, node_of: Int32Array, options: ReductionOptions
    ) -> NodeEntries:
        """Return the entries of all keys."""
        starts, n_ranks = node_runs(occupancy.key_of, node_of[occupancy.holders])
        key, node = occupancy.key_of[starts], node_of[occupancy.holders[starts]]
        n_nodes = np.bincount(key, minlength=len(occupancy.keys))[key]
        classes = classify_keys(n_nodes, int(node_of[-1]) + 1, options.theta, options.mu)
        owner = node_of[occupancy.owner[key]]
        return cls(key, node, n_ranks, n_nodes, owner, occupancy.multiplicity[key] > 1, classes)

    @property
    def is_ghost(self) -> BoolArray:
        """Whether another node owns the key."""
        is_ghost: BoolArray = self.node != self.owner
        return is_ghost

    def pairs(self) -> tuple[Int64Array, Int64Array]:
        """Return the two entries of each ordered pair of nodes that exchange a key in a hybrid reduction."""
        chosen = np.flatnonzero(self.classes.pairs)
        n = self.n_nodes[chosen]
        first = np.searchsorted(self.key, self.key[chosen])
        ends = np.cumsum(n)
        one = np.repeat(chosen, n)
        other = np.repeat(first - (ends - n), n) + np.arange(len(one))
        differ = one != other
        return one[differ], other[differ]


def count_rows_between_nodes(
    occupancy: Occupancy,
    node_of: Int32Array,
    part_of: Int64Array,
    weights: FloatArray,
    shape: tuple[int, int],
    options: ReductionOptions,
) -> dict[str, FloatArray]:
    """Return the counts of `rank_counts.RankCounts` of rows between nodes, each of shape (n_parts, size).

    Parameters as in `rank_counts.count_ranks`.
    """
    nodes, entries = ConsecutiveNodes(node_of), NodeEntries.from_occupancy(occupancy, node_of, options)
    part, weight = part_of[entries.key], weights[entries.key]

    def sent_rows(selected: Int64Array, sources: Int32Array, destinations: Int32Array) -> FloatArray:
        index = part[selected] * shape[1] + nodes.senders(sources, destinations)
        return sum_at_index(index, weight[selected], shape)

    def table_rows(selected: BoolArray, rows: FloatArray | Int64Array) -> FloatArray:
        index = part[selected] * nodes.n + entries.node[selected]
        sums = sum_at_index(index, (rows * weight)[selected], (shape[0], nodes.n))
        return (sums / nodes.sizes)[:, node_of]

    is_ghost, single, classes = entries.is_ghost, entries.n_nodes == 1, entries.classes
    sent, by_owners = np.flatnonzero(is_ghost), np.flatnonzero(is_ghost & classes.owners)
    one, other = entries.pairs()
    with_others, with_slot = entries.n_ranks + entries.n_nodes - 1, entries.n_ranks + 1
    dense = np.flatnonzero(classes.dense & first_of_equal(entries.key))
    owners = occupancy.owner[entries.key[dense]]
    return {
        "to_owner_node_rows": sent_rows(sent, entries.node[sent], entries.owner[sent]),
        "from_owner_node_rows": sent_rows(sent, entries.owner[sent], entries.node[sent]),
        "local_table_rows": table_rows(single & entries.shared, entries.n_ranks),
        "owned_table_rows": table_rows(~single & ~is_ghost, with_others),
        "sent_table_rows": table_rows(is_ghost, with_slot),
        "hybrid_to_owner_nodes": sent_rows(by_owners, entries.node[by_owners], entries.owner[by_owners]),
        "hybrid_from_owner_nodes": sent_rows(by_owners, entries.owner[by_owners], entries.node[by_owners]),
        "hybrid_pairs": sent_rows(one, entries.node[one], entries.node[other]),
        "hybrid_dense": sum_at_index(part[dense] * shape[1] + owners, weight[dense], shape),
        "dense_table": table_rows(classes.dense, with_slot),
        "pairs_table": table_rows(classes.pairs, with_others),
        "hybrid_owned_table": table_rows(classes.owners & ~is_ghost, with_others),
        "hybrid_sent_table": table_rows(classes.owners & is_ghost, with_slot),
    }


def count_messages_between_nodes(
    occupancy: Occupancy, node_of: Int32Array, options: ReductionOptions
) -> dict[str, FloatArray]:
    """Return the counts of `rank_counts.PartnerCounts` of messages between nodes, of shape (size,)."""
    nodes, entries = ConsecutiveNodes(node_of), NodeEntries.from_occupancy(occupancy, node_of, options)

    def n_messages(sources: Int32Array, destinations: Int32Array) -> FloatArray:
        has_message = np.zeros((nodes.n, nodes.n), np.bool_)
        has_message[sources, destinations] = True
        np.fill_diagonal(has_message, False)
        senders = nodes.senders(*np.nonzero(has_message))
        return np.bincount(senders, minlength=len(node_of)).astype(np.float64)

    by_owners = entries.classes.owners
    one, other = entries.pairs()
    return {
        "to_owner_nodes": n_messages(entries.node, entries.owner),
        "from_owner_nodes": n_messages(entries.owner, entries.node),
        "hybrid_to_owner_nodes": n_messages(entries.node[by_owners], entries.owner[by_owners]),
        "hybrid_from_owner_nodes": n_messages(entries.owner[by_owners], entries.node[by_owners]),
        "hybrid_pairs": n_messages(entries.node[one], entries.node[other]),
    }


class ConsecutiveNodes:
    """Nodes of consecutive ranks.

    Parameters
    ----------
    node_of : int32 (size,)
        Node of each rank, increasing.

    Attributes
    ----------
    sizes : int64 (n,)
        Number of ranks of each node.
    n : int
        Number of nodes.
    """

    def __init__(self, node_of: Int32Array) -> None:
        self.sizes = np.bincount(node_of)
        self.n = len(self.sizes)
        self._first = np.cumsum(self.sizes) - self.sizes

    def first(self, node: int) -> int:
        """Return the first rank of a node."""
        return int(self._first[node])

    def senders(self, source: Int32Array | Int64Array, destination: Int32Array | Int64Array) -> Int64Array:
        """Return the rank of the source node that sends its messages to another node: see `NodePairs`."""
        number = (destination - source) % self.n - 1
        return self._first[source] + number % self.sizes[source]


def node_runs(key_of: Int32Array, node: Int32Array) -> tuple[Int64Array, Int64Array]:
    """Return the begin of each run of holders of one key on one node, and their number."""
    first = np.ones(len(node), np.bool_)
    first[1:] = (key_of[1:] != key_of[:-1]) | (node[1:] != node[:-1])
    starts = np.flatnonzero(first)
    return starts, np.diff(np.append(starts, len(node)))


def sum_at_index(index: Int64Array, rows: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Return the sums of rows at flat indices of an array of this shape."""
    sums = np.bincount(index, rows, shape[0] * shape[1]).astype(np.float64, copy=False)
    return sums.reshape(shape)
