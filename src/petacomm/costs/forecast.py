"""What plans would ask of ranks that do not exist: loads of algorithms, from the occupancy of keys.

The keys may be a sample of all: what adds up over keys is then scaled, its error is that of a jackknife over
parts of the sample, and how much more than others the busiest rank has is told from all keys of some ranks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import FloatArray, Int32Array
from petacomm.costs.algorithm_loads import (
    HYBRID_LANES,
    HybridTables,
    Sharing,
    Volume,
    butterfly_shares,
    dense_shares,
    hierarchical_shares,
    hybrid_shares,
    shares_by_counts,
)
from petacomm.costs.nested_group_counts import HopCounts, count_hops
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import DEFAULTS, Options
from petacomm.costs.rank_counts import Counts, Messages, count, meet, node_numbers
from petacomm.network import Load, Phase, Share, busiest


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


@dataclass(frozen=True)
class Parts:
    """The parts of a sample of keys.

    Attributes
    ----------
    fractions : float64 (n_parts,)
        Of everything that each part stands for; together 1.
    sampled : float
        Of everything that the sample is.
    """

    fractions: FloatArray
    sampled: float


WHOLE = Parts(np.ones(1), 1.0)


def jackknife(sums: FloatArray, parts: Parts, statistic: Statistic) -> Estimate:
    """Return a statistic of a sample and its error, from leaving out one part after the other.

    Parameters
    ----------
    sums : float64 (n_parts, n)
        Over each part of the sample.
    parts : Parts
    statistic : callable
        Of sums and the fractions of their parts.
    """
    fractions, n = parts.fractions, len(sums)
    value = statistic(sums, fractions)
    if parts.sampled >= 1 or n < 2:
        return Estimate(value)
    without = [statistic(np.delete(sums, i, axis=0), np.delete(fractions, i)) for i in range(n)]
    return Estimate(value, math.sqrt((n - 1) * float(np.var(without)) * (1 - parts.sampled)))


def mean(sums: FloatArray, fractions: FloatArray) -> float:
    """Return the mean over ranks of what sums over parts add up to."""
    return float(sums.sum(axis=0).mean()) / float(fractions.sum())


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
        known = {
            "dense": self.keys,
            "pairwise": self.pairs,
            "hierarchical": between_nodes,
            "hybrid": between_nodes,
            "butterfly": self.keys,
        }
        return known.get(algorithm, self.owners)


def shares(
    counts: Counts,
    messages: Messages,
    hops: Sequence[HopCounts],
    n_global: int,
    options: Options,
    node_of: Int32Array,
) -> dict[str, tuple[Share, ...]]:
    """Return what each algorithm asks of each rank, by its name."""
    found = shares_by_counts(sharing(counts, messages), n_global, options.buffer_keys, node_of)
    nested = {"butterfly": butterfly_shares([layer.hop() for layer in hops])}
    between = shares_between_nodes(counts, messages, node_of)
    return found | {"hierarchical": between["hierarchical"]} | nested | {"hybrid": between["hybrid"]}


def shares_between_nodes(
    counts: Counts, messages: Messages, node_of: Int32Array
) -> dict[str, tuple[Share, ...]]:
    """Return what the algorithms that sum on nodes first ask of each rank."""
    there, home, *hybrid = (
        Volume(sent, rows, rows)
        for sent, rows in [
            (messages.there, counts.there_rows),
            (messages.home, counts.home_rows),
            (messages.hybrid_there, counts.hybrid_there),
            (messages.hybrid_home, counts.hybrid_home),
            (messages.hybrid_pairs, counts.hybrid_pairs),
        ]
    )
    volumes, n_dense = (hybrid[0], hybrid[1], hybrid[2]), float(counts.hybrid_dense.sum())
    tables = counts.local_rows, counts.met_rows, counts.sent_rows
    of_hybrid = HybridTables(
        counts.local_rows, counts.dense_table, counts.pairs_table, counts.hybrid_met, counts.hybrid_sent
    )
    return {
        "hierarchical": hierarchical_shares(
            counts.n_shared, counts.n_runs, tables, there, home, node_of[-1] == 0
        ),
        "hybrid": hybrid_shares(counts.n_shared, counts.n_runs, of_hybrid, volumes, n_dense, node_of),
    }


def sharing(counts: Counts, messages: Messages) -> Sharing:
    """Return the counts of all ranks as the loads of algorithms need them."""
    return Sharing(
        counts.n_keys,
        counts.n_shared,
        counts.n_lent,
        counts.n_runs,
        pairs=Volume(messages.pairs, counts.pair_rows, counts.pair_rows_off, counts.pair_runs),
        ghosts=Volume(messages.ghosts, counts.ghost_rows, counts.ghost_rows_off, counts.ghost_runs),
        asked=Volume(messages.asked, counts.asked_rows, counts.asked_rows_off, counts.asked_runs),
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


def forecast(occupancy: Occupancy, ranks_per_node: int, options: Options = DEFAULTS) -> Forecast:
    """Return what the plans of ranks with this occupancy would be, exactly.

    Parameters
    ----------
    occupancy : Occupancy
        Of all keys.
    ranks_per_node : int
        Nodes are filled one after the other.
    options : Options
        Of the algorithms.
    """
    node_of = node_numbers(occupancy.size, ranks_per_node)
    messages = meet(occupancy, node_of, options)
    partners = Estimate(float(messages.pairs.mean())), Estimate(float(messages.pairs.max()))
    counts = count(occupancy, node_of, options=options)
    hops = count_hops(occupancy, node_of, options.radix)
    return combine(counts, hops, WHOLE, messages, partners, None, ranks_per_node, options)


def combine(
    counts: Counts,
    hops: Sequence[HopCounts],
    parts: Parts,
    messages: Messages,
    partners: tuple[Estimate, Estimate],
    imbalance: Imbalance | None,
    ranks_per_node: int,
    options: Options,
) -> Forecast:
    """Return the forecast of counts over parts of a sample of the keys.

    Parameters
    ----------
    counts : Counts
        (n_parts, size) each.
    hops : sequence of HopCounts
        Likewise, for each layer of nested groups.
    parts : Parts
    messages : Messages
        (size,), or one number for all ranks.
    partners : pair of Estimate
        The mean and the most over ranks.
    imbalance : Imbalance or None
        None where the counts are those of all keys, which tell it themselves.
    ranks_per_node : int
    options : Options
    """
    size = counts.n_keys.shape[1]
    node_of = node_numbers(size, ranks_per_node)
    every = Counts(*(sums.sum(axis=0) for sums in counts))
    n_global = jackknife(counts.n_owned, parts, lambda sums, f: size * mean(sums, f))
    n_keys_global = round(n_global.value)
    both = np.stack([counts.n_keys.sum(axis=1), counts.n_owned.sum(axis=1)], axis=1)
    asked = shares(every, messages, hops, n_keys_global, options, node_of)
    busy = {name: level(name, phases, imbalance, node_of) for name, phases in asked.items()}
    n_keys = float(every.n_keys.max())
    if imbalance is not None:
        n_keys = float(every.n_keys.mean()) * imbalance.keys[0]
        busy["dense"] = busiest(dense_shares(n_keys, n_keys_global, options.buffer_keys, node_of), node_of)
    return Forecast(
        size=size,
        ranks_per_node=ranks_per_node,
        n_keys=n_keys,
        n_held=float(every.n_keys.mean()),
        n_global=n_global,
        multiplicity=jackknife(both, parts, lambda sums, _: float(sums[:, 0].sum() / sums[:, 1].sum())),
        partners=partners[0],
        partners_most=partners[1],
        rows=_rows(counts, hops, parts, n_global.value, int(node_of[-1]) + 1),
        loads=busy,
    )


def _rows(
    counts: Counts, hops: Sequence[HopCounts], parts: Parts, n_global: float, n_nodes: int
) -> dict[str, Estimate]:
    """Return the rows that a rank sends, the mean over ranks, by algorithm."""
    size = counts.n_keys.shape[1]
    dense = 2.0 * n_global * (size - 1) / size
    hopped = sum((layer.sent + layer.arrived for layer in hops), np.zeros_like(counts.n_keys))
    # each dense key of a hybrid is sent twice by all nodes but for one part in n_nodes
    lanes = 2.0 * (n_nodes - 1) * counts.hybrid_dense
    by_nodes = counts.hybrid_there + counts.hybrid_home + counts.hybrid_pairs + lanes
    return {
        "dense": Estimate(dense),
        "pairwise": jackknife(counts.pair_rows, parts, mean),
        "owner": jackknife(counts.ghost_rows + counts.asked_rows, parts, mean),
        "hierarchical": jackknife(counts.there_rows + counts.home_rows, parts, mean),
        "butterfly": jackknife(hopped, parts, mean),
        "hybrid": jackknife(by_nodes, parts, mean),
    }


def level(name: str, shares: Sequence[Share], imbalance: Imbalance | None, node_of: Int32Array) -> Load:
    """Return what an algorithm asks of the busiest rank and node.

    Parameters
    ----------
    name : str
        Of the algorithm.
    shares : sequence of Share
        What it asks of each rank.
    imbalance : Imbalance or None
        How much more than the mean the busiest has, where the shares are those of a sample.
    node_of : int32 (size,)
    """
    load = busiest(shares, node_of)
    if imbalance is None:
        return load
    even = _levelled(name, load, shares, imbalance, node_of)
    if name == "hybrid" and node_of.any():  # all its lanes reduce alike
        return (*even[:HYBRID_LANES], load[HYBRID_LANES], *even[HYBRID_LANES + 1 :])
    return even


def _levelled(name: str, load: Load, shares: Sequence[Share], uneven: Imbalance, node_of: Int32Array) -> Load:
    """Return a load with means over ranks and nodes, times a ratio, instead of what the sample has most."""
    # the last node may have fewer ranks
    per_node = np.count_nonzero(node_of == 0)
    rank, node = uneven.of(name)
    node *= per_node

    def levelled(phase: Phase, share: Share) -> Phase:
        rows, off_node, moved, runs = (
            float(np.mean(x)) for x in (share.rows, share.off_node_rows, share.moved, share.runs)
        )
        # ranks that are alone in their group leave the work of a layer to others
        alone = np.mean(np.asarray(share.messages) == 0) if name == "butterfly" else 0.0
        busy = rank / (1.0 - float(alone)) if alone < 1 else rank
        return dataclasses.replace(
            phase,
            rows=rows * busy,
            moved=moved * busy,
            off_node_rows=off_node * node,
            node_rows=rows * node,
            node_moved=moved * node,
            runs=runs * rank,
            node_runs=runs * node,
        )

    return tuple(levelled(phase, share) for phase, share in zip(load, shares, strict=True))
