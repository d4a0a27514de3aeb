"""What each of many ranks would carry between nodes, counted from the occupancy of keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import Options
from petacomm.sharing.node_classes import Classes, classify


@dataclass(frozen=True)
class NodeEntries:
    """The nodes that hold keys: an entry for each node of each key, those of a key together; all (n,).

    Attributes
    ----------
    key, node : int
        Position of the key, and the node.
    n_ranks, n_nodes : int64
        Ranks of the node that hold the key, and nodes that do.
    owner : int32
        The node of the key's owner.
    shared : bool
        Whether several ranks hold the key.
    classes : Classes
        How it goes between nodes in a hybrid.
    """

    key: Int32Array
    node: Int32Array
    n_ranks: Int64Array
    n_nodes: Int64Array
    owner: Int32Array
    shared: BoolArray
    classes: Classes

    @classmethod
    def of(cls, occupancy: Occupancy, node_of: Int32Array, options: Options) -> NodeEntries:
        """Find the nodes of ranks."""
        starts, n_ranks = node_runs(occupancy.key_of, node_of[occupancy.holders])
        key, node = occupancy.key_of[starts], node_of[occupancy.holders[starts]]
        n_nodes = np.bincount(key, minlength=len(occupancy.keys))[key]
        classes = classify(n_nodes, int(node_of[-1]) + 1, options.theta, options.mu)
        owner = node_of[occupancy.owner[key]]
        return cls(key, node, n_ranks, n_nodes, owner, occupancy.multiplicity[key] > 1, classes)

    @property
    def away(self) -> BoolArray:
        """Whether another node owns the key."""
        away: BoolArray = self.node != self.owner
        return away

    def pairs(self) -> tuple[Int64Array, Int64Array]:
        """Return the two entries of each pair of nodes that exchange a key in a hybrid, both ways."""
        chosen = np.flatnonzero(self.classes.pairs)
        n = self.n_nodes[chosen]
        first = np.searchsorted(self.key, self.key[chosen])
        ends = np.cumsum(n)
        one = np.repeat(chosen, n)
        other = np.repeat(first - (ends - n), n) + np.arange(len(one))
        differ = one != other
        return one[differ], other[differ]


def between_nodes(
    occupancy: Occupancy,
    node_of: Int32Array,
    part_of: Int64Array,
    weights: FloatArray,
    shape: tuple[int, int],
    options: Options,
) -> dict[str, FloatArray]:
    """Return those of `counting.Counts` that are about nodes; parameters as in `counting.count`.

    The counts have `shape`: (n_parts, size).
    """
    nodes, held = Nodes(node_of), NodeEntries.of(occupancy, node_of, options)
    part, weight = part_of[held.key], weights[held.key]

    def carried(entries: Int64Array, a: Int32Array, b: Int32Array) -> FloatArray:
        where = part[entries] * shape[1] + nodes.carriers(a, b)
        return flat_sums(where, weight[entries], shape)

    def table(chosen: BoolArray, rows: FloatArray | Int64Array) -> FloatArray:
        where = part[chosen] * nodes.n + held.node[chosen]
        sums = flat_sums(where, (rows * weight)[chosen], (shape[0], nodes.n))
        equal: FloatArray = (sums / nodes.sizes)[:, node_of]
        return equal

    away, alone, classes = held.away, held.n_nodes == 1, held.classes
    sent, by_owners = np.flatnonzero(away), np.flatnonzero(away & classes.owners)
    one, other = held.pairs()
    with_others, with_slot = held.n_ranks + held.n_nodes - 1, held.n_ranks + 1
    dense = np.flatnonzero(classes.dense & (np.diff(held.key, prepend=-1) != 0))
    owners = occupancy.owner[held.key[dense]]
    return {
        "there_rows": carried(sent, held.node[sent], held.owner[sent]),
        "home_rows": carried(sent, held.owner[sent], held.node[sent]),
        "local_rows": table(alone & held.shared, held.n_ranks),
        "met_rows": table(~alone & ~away, with_others),
        "sent_rows": table(away, with_slot),
        "hybrid_there": carried(by_owners, held.node[by_owners], held.owner[by_owners]),
        "hybrid_home": carried(by_owners, held.owner[by_owners], held.node[by_owners]),
        "hybrid_pairs": carried(one, held.node[one], held.node[other]),
        "hybrid_dense": flat_sums(part[dense] * shape[1] + owners, weight[dense], shape),
        "dense_table": table(classes.dense, with_slot),
        "pairs_table": table(classes.pairs, with_others),
        "hybrid_met": table(classes.owners & ~away, with_others),
        "hybrid_sent": table(classes.owners & away, with_slot),
    }


class NodeMessages(NamedTuple):
    """Ranks that each rank sends something to for its node, float64 (size,): as in `counting.Messages`."""

    there: FloatArray
    home: FloatArray
    hybrid_there: FloatArray
    hybrid_home: FloatArray
    hybrid_pairs: FloatArray


def messages_between_nodes(occupancy: Occupancy, node_of: Int32Array, options: Options) -> NodeMessages:
    """Return the partners of all ranks on other nodes."""
    nodes, held = Nodes(node_of), NodeEntries.of(occupancy, node_of, options)

    def sent(a: Int32Array, b: Int32Array) -> FloatArray:
        crossed = np.zeros((nodes.n, nodes.n), np.bool_)
        crossed[a, b] = True
        np.fill_diagonal(crossed, False)
        carriers = nodes.carriers(*np.nonzero(crossed))
        return np.bincount(carriers, minlength=len(node_of)).astype(np.float64)

    by_owners = held.classes.owners
    one, other = held.pairs()
    return NodeMessages(
        sent(held.node, held.owner),
        sent(held.owner, held.node),
        sent(held.node[by_owners], held.owner[by_owners]),
        sent(held.owner[by_owners], held.node[by_owners]),
        sent(held.node[one], held.node[other]),
    )


class Nodes:
    """Nodes of consecutive ranks.

    Parameters
    ----------
    node_of : int32 (size,)
    """

    def __init__(self, node_of: Int32Array) -> None:
        self.sizes = np.bincount(node_of)
        self.n = len(self.sizes)
        self._first = np.cumsum(self.sizes) - self.sizes

    def first(self, node: int) -> int:
        """Return the first rank of a node."""
        return int(self._first[node])

    def carriers(self, a: Int32Array | Int64Array, b: Int32Array | Int64Array) -> Int64Array:
        """Return the rank of node a that carries to b, as `crossing.Pairs` has it."""
        ranks: Int64Array = self._first[a] + ((b - a) % self.n - 1) % self.sizes[a]
        return ranks


def node_runs(key_of: Int32Array, node: Int32Array) -> tuple[Int64Array, Int64Array]:
    """Return where the holders of a key on one node begin, and how many they are."""
    first = np.ones(len(node), np.bool_)
    first[1:] = (key_of[1:] != key_of[:-1]) | (node[1:] != node[:-1])
    starts = np.flatnonzero(first)
    return starts, np.diff(np.append(starts, len(node)))


def flat_sums(places: Int64Array, rows: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Add up rows at flat places of an array."""
    sums = np.bincount(places, rows, shape[0] * shape[1]).astype(np.float64, copy=False)
    return sums.reshape(shape)
