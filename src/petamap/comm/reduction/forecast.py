"""What plans would ask of ranks that do not exist: loads of algorithms, from the occupancy of keys.

The keys may be a sample of all: what adds up over keys is then scaled, its error is that of a jackknife over
parts of the sample, and how much more than others the busiest rank has is told from all keys of some ranks.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from petamap.base.typing import BoolArray, FloatArray, Int32Array, Int64Array
from petamap.comm.network import Load, Phase, Share, busiest
from petamap.comm.reduction.loads import (
    Sharing,
    Volume,
    dense_shares,
    hierarchical_shares,
    shares_by_counts,
)
from petamap.comm.reduction.occupancy import Occupancy

# Pairs of a key and its holder that are counted in one go.
_PIECE = 1 << 22


class Counts(NamedTuple):
    """What adds up over keys, of each rank: float64 (size,) each, or (n_parts, size) over parts of the keys.

    Attributes
    ----------
    n_keys, n_shared, n_owned, n_lent
        Keys held; those that others hold as well; those owned; those both.
    pair_rows, pair_rows_off
        Rows for each other holder of each key, and those of them that go to other nodes.
    ghost_rows, ghost_rows_off, asked_rows, asked_rows_off
        Rows for owners, and back.
    there_rows, home_rows
        Rows that a rank carries between nodes, to those of owners and back.
    local_rows, met_rows, sent_rows
        Its equal part of its node's tables, as `loads.hierarchical_shares` has them.
    """

    n_keys: FloatArray
    n_shared: FloatArray
    n_owned: FloatArray
    n_lent: FloatArray
    pair_rows: FloatArray
    pair_rows_off: FloatArray
    ghost_rows: FloatArray
    ghost_rows_off: FloatArray
    asked_rows: FloatArray
    asked_rows_off: FloatArray
    there_rows: FloatArray
    home_rows: FloatArray
    local_rows: FloatArray
    met_rows: FloatArray
    sent_rows: FloatArray


class Messages(NamedTuple):
    """How many ranks each rank sends something to: (size,) float64 each, or of some ranks alone.

    Attributes
    ----------
    pairs, ghosts, asked
        To those with which it shares a key; to the owners of its ghosts; to those whose ghosts it owns.
    there, home
        For its node, to those of owners, and back.
    """

    pairs: FloatArray
    ghosts: FloatArray
    asked: FloatArray
    there: FloatArray
    home: FloatArray


def node_numbers(size: int, ranks_per_node: int) -> Int32Array:
    """Return the node of each rank, (size,), where nodes are filled one after the other."""
    return (np.arange(size) // ranks_per_node).astype(np.int32)


def count(occupancy: Occupancy, node_of: Int32Array, part_of: Int64Array | None = None) -> Counts:
    """Return the counts of all ranks over each part of the keys, (n_parts, size) each.

    Parameters
    ----------
    occupancy : Occupancy
    node_of : int32 (size,)
    part_of : int64 (n,), optional
        The part of each key, from 0 on; by default there is one.
    """
    if part_of is None:
        part_of = np.zeros(len(occupancy.keys), np.int64)
    shape = (int(part_of.max(initial=0)) + 1, occupancy.size)
    sums = np.zeros((len(Counts._fields), *shape))
    bounds = np.searchsorted(occupancy.offsets, np.arange(0, occupancy.offsets[-1], _PIECE))
    edges = np.unique([*bounds, len(occupancy.keys)])
    for first, last in itertools.pairwise([0, *edges[edges > 0].tolist()]):
        sums += _count(occupancy.part(first, last), node_of, part_of[first:last], shape)
    return Counts(*sums)


def _count(
    occupancy: Occupancy, node_of: Int32Array, part_of: Int64Array, shape: tuple[int, int]
) -> FloatArray:
    multiplicity, key_of, holders = occupancy.multiplicity, occupancy.key_of, occupancy.holders
    owner = occupancy.owner
    held_in, owned_in = part_of[key_of] * shape[1] + holders, part_of * shape[1] + owner

    def by_holder(weights: FloatArray | BoolArray | None = None) -> FloatArray:
        return np.bincount(held_in, weights, shape[0] * shape[1]).reshape(shape).astype(np.float64)

    def by_owner(weights: FloatArray | BoolArray | None = None) -> FloatArray:
        return np.bincount(owned_in, weights, shape[0] * shape[1]).reshape(shape).astype(np.float64)

    others = (multiplicity - 1).astype(np.float64)
    node = node_of[holders]
    ghost_off = node != node_of[owner][key_of]
    n_off = np.add.reduceat(ghost_off, occupancy.offsets[:-1], dtype=np.float64)
    counts = Counts(
        n_keys=by_holder(),
        n_shared=by_holder(others[key_of] > 0),
        n_owned=by_owner(),
        n_lent=by_owner(others > 0),
        pair_rows=by_holder(others[key_of]),
        pair_rows_off=by_holder(multiplicity[key_of] - _on_node(key_of, node)),
        ghost_rows=by_holder(holders != owner[key_of]),
        ghost_rows_off=by_holder(ghost_off),
        asked_rows=by_owner(others),
        asked_rows_off=by_owner(n_off),
        **_between_nodes(occupancy, node_of, part_of, shape),
    )
    return np.array(counts)


def _between_nodes(
    occupancy: Occupancy, node_of: Int32Array, part_of: Int64Array, shape: tuple[int, int]
) -> dict[str, FloatArray]:
    """Return the counts of sums on nodes and between them."""
    nodes = Nodes(node_of)
    starts, lengths = _node_runs(occupancy.key_of, node_of[occupancy.holders])
    key, node = occupancy.key_of[starts], node_of[occupancy.holders[starts]]
    n_nodes = np.bincount(key, minlength=len(occupancy.keys))[key]
    shared = occupancy.multiplicity[key] > 1
    owner, part = node_of[occupancy.owner[key]], part_of[key]
    away, alone = node != owner, n_nodes == 1

    def carried(a: Int32Array, b: Int32Array) -> FloatArray:
        where = part[away] * shape[1] + nodes.carriers(a[away], b[away])
        return np.bincount(where, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)

    def table(chosen: BoolArray, rows: FloatArray | Int64Array) -> FloatArray:
        where = part[chosen] * nodes.n + node[chosen]
        sums = np.bincount(where, rows[chosen], shape[0] * nodes.n).reshape(shape[0], nodes.n)
        equal: FloatArray = (sums / nodes.sizes)[:, node_of]
        return equal

    return {
        "there_rows": carried(node, owner),
        "home_rows": carried(owner, node),
        "local_rows": table(alone & shared, lengths),
        "met_rows": table(~alone & ~away, lengths + n_nodes - 1),
        "sent_rows": table(away, lengths + 1),
    }


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

    def carriers(self, a: Int32Array | Int64Array, b: Int32Array | Int64Array) -> Int64Array:
        """Return the rank of node a that carries to b, as `crossing.Pairs` has it."""
        ranks: Int64Array = self._first[a] + ((b - a) % self.n - 1) % self.sizes[a]
        return ranks


def _on_node(key_of: Int32Array, node: Int32Array) -> FloatArray:
    """Return how many holders of the same key are on the node of each holder; they stand side by side."""
    if len(node) == 0:
        return np.zeros(0)
    _, lengths = _node_runs(key_of, node)
    return np.repeat(lengths, lengths).astype(np.float64)


def _node_runs(key_of: Int32Array, node: Int32Array) -> tuple[Int64Array, Int64Array]:
    """Return where the holders of a key on one node begin, and how many they are."""
    first = np.ones(len(node), np.bool_)
    first[1:] = (key_of[1:] != key_of[:-1]) | (node[1:] != node[:-1])
    starts = np.flatnonzero(first)
    return starts, np.diff(np.append(starts, len(node)))


def meet(occupancy: Occupancy, node_of: Int32Array) -> Messages:
    """Return the partners of all ranks; the work grows with the squares of multiplicities."""
    size, holders, owner = occupancy.size, occupancy.holders, occupancy.owner[occupancy.key_of]
    owned = np.zeros((size, size), np.bool_)
    owned[holders, owner] = True
    np.fill_diagonal(owned, False)
    nodes = Nodes(node_of)
    crossed = np.zeros((nodes.n, nodes.n), np.bool_)
    crossed[node_of[holders], node_of[owner]] = True
    np.fill_diagonal(crossed, False)
    there, home = (
        np.bincount(nodes.carriers(*_pairs(matrix)), minlength=size) for matrix in (crossed, crossed.T)
    )
    shared = np.array([_partners(occupancy, rank) for rank in _by_rank(occupancy)])
    counts = (shared, owned.sum(1), owned.sum(0), there, home)
    return Messages(*(np.asarray(count, np.float64) for count in counts))


def _pairs(matrix: BoolArray) -> tuple[Int64Array, Int64Array]:
    rows, columns = np.nonzero(matrix)
    return rows.astype(np.int64), columns.astype(np.int64)


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


@dataclass(frozen=True)
class Estimate:
    """A number and its standard error; 0 where nothing was sampled."""

    value: float
    error: float = 0.0

    @property
    def relative(self) -> float:
        """The error as a part of the value."""
        return self.error / self.value if self.value else 0.0


Statistic = Callable[[FloatArray, FloatArray], float]


def jackknife(parts: FloatArray, fractions: FloatArray, statistic: Statistic) -> Estimate:
    """Return a statistic of a sample and its error, from leaving out one part after the other.

    Parameters
    ----------
    parts : float64 (n_parts, n)
        Sums over each part of the sample.
    fractions : float64 (n_parts,)
        Of everything that each part is.
    statistic : callable
        Of parts and their fractions.
    """
    value, n = statistic(parts, fractions), len(parts)
    left = 1 - float(fractions.sum())
    if left <= 0 or n < 2:
        return Estimate(value)
    without = [statistic(np.delete(parts, i, axis=0), np.delete(fractions, i)) for i in range(n)]
    return Estimate(value, math.sqrt((n - 1) * float(np.var(without)) * left))


def mean(parts: FloatArray, fractions: FloatArray) -> float:
    """Return the mean over ranks of what the parts add up to."""
    return float(parts.sum(axis=0).mean()) / float(fractions.sum())


class Imbalance(NamedTuple):
    """The busiest rank or node over the mean of all, for each of the sums over keys that a load is made of.

    Attributes
    ----------
    keys, pairs, owners : (float, float)
        Of ranks and of nodes: for keys, for rows to all other holders, for rows to and from owners.
    """

    keys: tuple[float, float]
    pairs: tuple[float, float]
    owners: tuple[float, float]

    def of(self, algorithm: str) -> tuple[float, float]:
        """Return that of the sums that an algorithm is made of."""
        # what leaves a node is spread over its ranks
        between_nodes = self.owners[1], self.owners[1]
        known = {"dense": self.keys, "pairwise": self.pairs, "hierarchical": between_nodes}
        return known.get(algorithm, self.owners)


def shares(
    counts: Counts, messages: Messages, n_global: int, buffer_keys: int, node_of: Int32Array
) -> dict[str, tuple[Share, ...]]:
    """Return what each algorithm asks of each rank, by its name."""
    found = shares_by_counts(sharing(counts, messages), n_global, buffer_keys, node_of)
    tables = counts.local_rows, counts.met_rows, counts.sent_rows
    there = Volume(messages.there, counts.there_rows, counts.there_rows)
    home = Volume(messages.home, counts.home_rows, counts.home_rows)
    found["hierarchical"] = hierarchical_shares(counts.n_shared, tables, there, home, node_of[-1] == 0)
    return found


def sharing(counts: Counts, messages: Messages) -> Sharing:
    """Return the counts of all ranks as the loads of algorithms need them."""
    return Sharing(
        counts.n_keys,
        counts.n_shared,
        counts.n_lent,
        pairs=Volume(messages.pairs, counts.pair_rows, counts.pair_rows_off),
        ghosts=Volume(messages.ghosts, counts.ghost_rows, counts.ghost_rows_off),
        asked=Volume(messages.asked, counts.asked_rows, counts.asked_rows_off),
    )


@dataclass(frozen=True)
class Forecast:
    """What the plans of a reduction would be.

    Attributes
    ----------
    size, ranks_per_node : int
    n_keys : float
        Keys of the rank that has most.
    n_global : Estimate
        Distinct keys.
    n_held : float
        Keys of a rank, the mean.
    multiplicity : Estimate
        Ranks that hold a key, the mean over keys.
    partners, partners_most : Estimate
        Ranks with which a rank shares a key: the mean, and the most.
    rows : mapping of str to Estimate
        Rows that a rank sends in an all-reduce, the mean over ranks, by algorithm.
    loads : mapping of str to Load
        By algorithm; what `ReductionPlan.load` says if nothing was sampled.
    """

    size: int
    ranks_per_node: int
    n_keys: float
    n_held: float
    n_global: Estimate
    multiplicity: Estimate
    partners: Estimate
    partners_most: Estimate
    rows: Mapping[str, Estimate]
    loads: Mapping[str, Load]


def forecast(occupancy: Occupancy, ranks_per_node: int, buffer_keys: int = 1 << 20) -> Forecast:
    """Return what the plans of ranks with this occupancy would be, exactly.

    Parameters
    ----------
    occupancy : Occupancy
        Of all keys.
    ranks_per_node : int
        Nodes are filled one after the other.
    buffer_keys : int
        Keys of a buffer of "dense".
    """
    node_of = node_numbers(occupancy.size, ranks_per_node)
    messages = meet(occupancy, node_of)
    partners = Estimate(float(messages.pairs.mean())), Estimate(float(messages.pairs.max()))
    counts = count(occupancy, node_of)
    return combine(counts, np.ones(1), messages, partners, None, ranks_per_node, buffer_keys)


def combine(
    counts: Counts,
    fractions: FloatArray,
    messages: Messages,
    partners: tuple[Estimate, Estimate],
    imbalance: Imbalance | None,
    ranks_per_node: int,
    buffer_keys: int,
) -> Forecast:
    """Return the forecast of counts over parts of a sample of the keys.

    Parameters
    ----------
    counts : Counts
        (n_parts, size) each.
    fractions : float64 (n_parts,)
        Of all keys that each part is.
    messages : Messages
        (size,), or one number for all ranks.
    partners : pair of Estimate
        The mean and the most over ranks.
    imbalance : Imbalance or None
        None where the counts are those of all keys, which tell it themselves.
    ranks_per_node, buffer_keys : int
    """
    size = counts.n_keys.shape[1]
    node_of = node_numbers(size, ranks_per_node)
    every = Counts(*(part.sum(axis=0) / fractions.sum() for part in counts))
    n_global = jackknife(counts.n_owned, fractions, lambda part, f: size * mean(part, f))
    totals = round(n_global.value), buffer_keys
    both = np.stack([counts.n_keys.sum(axis=1), counts.n_owned.sum(axis=1)], axis=1)
    asked = shares(every, messages, *totals, node_of)
    busy = {name: busiest(phases, node_of) for name, phases in asked.items()}
    n_keys = float(every.n_keys.max())
    if imbalance is not None:
        n_keys = float(every.n_keys.mean()) * imbalance.keys[0]
        busy = {name: _levelled(busy[name], asked[name], imbalance.of(name), node_of) for name in asked}
        busy["dense"] = busiest(dense_shares(n_keys, *totals, node_of), node_of)
    return Forecast(
        size=size,
        ranks_per_node=ranks_per_node,
        n_keys=n_keys,
        n_held=float(every.n_keys.mean()),
        n_global=n_global,
        multiplicity=jackknife(both, fractions, lambda part, _: float(part[:, 0].sum() / part[:, 1].sum())),
        partners=partners[0],
        partners_most=partners[1],
        rows=_rows(counts, fractions, n_global.value),
        loads=busy,
    )


def _rows(counts: Counts, fractions: FloatArray, n_global: float) -> dict[str, Estimate]:
    """Return the rows that a rank sends, the mean over ranks, by algorithm."""
    size = counts.n_keys.shape[1]
    dense = 2.0 * n_global * (size - 1) / size
    return {
        "dense": Estimate(dense),
        "pairwise": jackknife(counts.pair_rows, fractions, mean),
        "owner": jackknife(counts.ghost_rows + counts.asked_rows, fractions, mean),
        "hierarchical": jackknife(counts.there_rows + counts.home_rows, fractions, mean),
    }


def _levelled(load: Load, shares: Sequence[Share], ratios: tuple[float, float], node_of: Int32Array) -> Load:
    """Return a load with means over ranks and nodes, times a ratio, instead of what the sample has most."""
    # the last node may have fewer ranks
    per_node = np.count_nonzero(node_of == 0)
    rank, node = ratios[0], per_node * ratios[1]

    def levelled(phase: Phase, share: Share) -> Phase:
        rows, off_node, moved = (float(np.mean(x)) for x in (share.rows, share.off_node_rows, share.moved))
        return dataclasses.replace(
            phase,
            rows=rows * rank,
            moved=moved * rank,
            off_node_rows=off_node * node,
            node_rows=rows * node,
            node_moved=moved * node,
        )

    return tuple(levelled(phase, share) for phase, share in zip(load, shares, strict=True))
