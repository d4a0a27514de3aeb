"""Forecasts of the loads of reduction plans from the occupancy of keys, without running the ranks.

The keys may be a sample: sums over keys are then scaled, their errors estimated by a jackknife over parts of
the sample, and the imbalance of ranks estimated from all keys of some ranks.
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
    HYBRID_DENSE_PHASE,
    HybridTables,
    SendVolume,
    SharingCounts,
    butterfly_loads,
    dense_loads,
    hierarchical_loads,
    hybrid_loads,
    loads_from_counts,
)
from petacomm.costs.nested_group_counts import LayerCounts, count_layers
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import DEFAULT_OPTIONS, ReductionOptions
from petacomm.costs.rank_counts import PartnerCounts, RankCounts, count_partners, count_ranks, node_of_ranks
from petacomm.network import Load, LoadPhase, RankLoad, busiest_load


@dataclass(frozen=True)
class Estimate:
    """Number and its standard error, which is 0 without sampling."""

    value: float
    error: float = 0.0

    @property
    def relative(self) -> float:
        """Error relative to the value."""
        return self.error / self.value if self.value else 0.0


Statistic = Callable[[FloatArray, FloatArray], float]


@dataclass(frozen=True)
class SampleParts:
    """Parts of a sample of keys.

    Attributes
    ----------
    fractions : float64 (n_parts,)
        Fraction of all keys that each part represents; their sum is 1.
    sampled : float
        Fraction of all keys that are in the sample.
    """

    fractions: FloatArray
    sampled: float


ALL_KEYS = SampleParts(np.ones(1), 1.0)


def jackknife(sums: FloatArray, parts: SampleParts, statistic: Statistic) -> Estimate:
    """Return a statistic of a sample, and its error by leaving out one part after the other.

    Parameters
    ----------
    sums : float64 (n_parts, n)
        Sums over each part of the sample.
    parts : SampleParts
    statistic : callable
        Function of the sums and the fractions of their parts.
    """
    fractions, n = parts.fractions, len(sums)
    value = statistic(sums, fractions)
    if parts.sampled >= 1 or n < 2:
        return Estimate(value)
    left_out = [statistic(np.delete(sums, i, axis=0), np.delete(fractions, i)) for i in range(n)]
    return Estimate(value, math.sqrt((n - 1) * float(np.var(left_out)) * (1 - parts.sampled)))


def mean_over_ranks(sums: FloatArray, fractions: FloatArray) -> float:
    """Return the mean over ranks of the scaled totals of sums over parts."""
    return float(sums.sum(axis=0).mean()) / float(fractions.sum())


class Imbalance(NamedTuple):
    """Ratio of the busiest rank or node to the mean, for each kind of sum over keys.

    Attributes
    ----------
    keys, pairs, owners : (float, float)
        Ratios of ranks and of nodes: of keys, of rows to all other holders, of rows to and from owners.
    """

    keys: tuple[float, float]
    pairs: tuple[float, float]
    owners: tuple[float, float]

    def for_algorithm(self, algorithm: str) -> tuple[float, float]:
        """Return the ratios of ranks and of nodes for the rows of an algorithm."""
        # Rows to other nodes are distributed over the ranks of a node.
        between_nodes = self.owners[1], self.owners[1]
        ratios = {
            "dense": self.keys,
            "pairwise": self.pairs,
            "hierarchical": between_nodes,
            "hybrid": between_nodes,
            "butterfly": self.keys,
        }
        return ratios.get(algorithm, self.owners)


def rank_loads(
    counts: RankCounts,
    messages: PartnerCounts,
    layers: Sequence[LayerCounts],
    n_global: int,
    options: ReductionOptions,
    node_of: Int32Array,
) -> dict[str, tuple[RankLoad, ...]]:
    """Return the loads of all ranks by algorithm."""
    simple = loads_from_counts(sharing_counts(counts, messages), n_global, options.buffer_keys, node_of)
    nested = {"butterfly": butterfly_loads([layer.volume() for layer in layers])}
    between = node_algorithm_loads(counts, messages, node_of)
    return simple | {"hierarchical": between["hierarchical"]} | nested | {"hybrid": between["hybrid"]}


def node_algorithm_loads(
    counts: RankCounts, messages: PartnerCounts, node_of: Int32Array
) -> dict[str, tuple[RankLoad, ...]]:
    """Return the loads of all ranks in the algorithms that first sum on nodes."""
    to_owner_nodes, from_owner_nodes, *hybrid = (
        SendVolume(sent, rows, rows)
        for sent, rows in [
            (messages.to_owner_nodes, counts.to_owner_node_rows),
            (messages.from_owner_nodes, counts.from_owner_node_rows),
            (messages.hybrid_to_owner_nodes, counts.hybrid_to_owner_nodes),
            (messages.hybrid_from_owner_nodes, counts.hybrid_from_owner_nodes),
            (messages.hybrid_pairs, counts.hybrid_pairs),
        ]
    )
    volumes, n_dense = (hybrid[0], hybrid[1], hybrid[2]), float(counts.hybrid_dense.sum())
    tables = counts.local_table_rows, counts.owned_table_rows, counts.sent_table_rows
    of_hybrid = HybridTables(
        counts.local_table_rows,
        counts.dense_table,
        counts.pairs_table,
        counts.hybrid_owned_table,
        counts.hybrid_sent_table,
    )
    return {
        "hierarchical": hierarchical_loads(
            counts.n_shared, counts.n_runs, tables, to_owner_nodes, from_owner_nodes, node_of[-1] == 0
        ),
        "hybrid": hybrid_loads(counts.n_shared, counts.n_runs, of_hybrid, volumes, n_dense, node_of),
    }


def sharing_counts(counts: RankCounts, messages: PartnerCounts) -> SharingCounts:
    """Return the sharing counts of all ranks."""
    return SharingCounts(
        counts.n_keys,
        counts.n_shared,
        counts.n_owned_shared,
        counts.n_runs,
        pairs=SendVolume(messages.pairs, counts.pair_rows, counts.pair_rows_off, counts.pair_runs),
        to_owners=SendVolume(
            messages.to_owners, counts.to_owner_rows, counts.to_owner_rows_off, counts.to_owner_runs
        ),
        to_ghosts=SendVolume(
            messages.to_ghosts, counts.to_ghost_rows, counts.to_ghost_rows_off, counts.to_ghost_runs
        ),
    )


class LargestCounts(NamedTuple):
    """Counts of the rank that has most of each, in the sample or as the imbalance tells.

    Attributes
    ----------
    n_keys, n_owned : float
    rows : mapping of str to tuple of float
        Rows sent in each phase, by algorithm.
    error : float
        Standard error of what the rank with most sends, holds or owns, relative to it; the largest of these.
    """

    n_keys: float
    n_owned: float
    rows: Mapping[str, tuple[float, ...]]
    error: float = 0.0


@dataclass(frozen=True)
class Forecast:
    """Forecast of the plans of a reduction.

    Attributes
    ----------
    size, ranks_per_node : int
        Number of ranks, and of ranks of a node.
    n_keys : float
        Keys of a rank, the maximum over ranks.
    n_held : float
        Keys of a rank, the mean over ranks.
    n_global : Estimate
        Distinct keys.
    multiplicity : Estimate
        Ranks that hold a key, the mean over keys.
    partners, partners_most : Estimate
        Ranks with which a rank shares a key: the mean and the maximum over ranks.
    rows : mapping of str to Estimate
        Rows that a rank sends in an all-reduce, the mean over ranks, by algorithm.
    loads : mapping of str to Load
        Loads by algorithm; without sampling the same as `ReductionPlan.load`.
    most : LargestCounts
        What bounds are made of: of a sample, the largest counts of any rank.
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
    most: LargestCounts


def forecast(
    occupancy: Occupancy, ranks_per_node: int, options: ReductionOptions = DEFAULT_OPTIONS
) -> Forecast:
    """Return the exact forecast of the plans of ranks with this occupancy.

    Parameters
    ----------
    occupancy : Occupancy
        Occupancy of all keys.
    ranks_per_node : int
        Ranks of a node; nodes have consecutive ranks.
    options : ReductionOptions
    """
    node_of = node_of_ranks(occupancy.size, ranks_per_node)
    messages = count_partners(occupancy, node_of, options)
    partners = Estimate(float(messages.pairs.mean())), Estimate(float(messages.pairs.max()))
    counts = count_ranks(occupancy, node_of, options=options)
    layers = count_layers(occupancy, node_of, options.radix)
    return forecast_from_counts(counts, layers, ALL_KEYS, messages, partners, None, ranks_per_node, options)


def forecast_from_counts(
    counts: RankCounts,
    layers: Sequence[LayerCounts],
    parts: SampleParts,
    messages: PartnerCounts,
    partners: tuple[Estimate, Estimate],
    imbalance: Imbalance | None,
    ranks_per_node: int,
    options: ReductionOptions,
) -> Forecast:
    """Return the forecast of counts over parts of a sample of the keys.

    Parameters
    ----------
    counts : RankCounts
        Arrays of shape (n_parts, size).
    layers : sequence of LayerCounts
        The same for each layer of nested groups.
    parts : SampleParts
    messages : PartnerCounts
        Arrays of shape (size,), or one number for all ranks.
    partners : pair of Estimate
        Mean and maximum over ranks of the number of partners.
    imbalance : Imbalance or None
        None if the counts are those of all keys.
    ranks_per_node : int
    options : ReductionOptions
    """
    size = counts.n_keys.shape[1]
    node_of = node_of_ranks(size, ranks_per_node)
    totals = RankCounts(*(sums.sum(axis=0) for sums in counts))
    n_global = jackknife(counts.n_owned, parts, lambda sums, f: size * mean_over_ranks(sums, f))
    n_keys_global = round(n_global.value)
    both = np.stack([counts.n_keys.sum(axis=1), counts.n_owned.sum(axis=1)], axis=1)
    loads_of_ranks = rank_loads(totals, messages, layers, n_keys_global, options, node_of)
    loads = {
        name: load_with_imbalance(name, phases, imbalance, node_of) for name, phases in loads_of_ranks.items()
    }
    n_keys = float(totals.n_keys.max())
    if imbalance is not None:
        n_keys = float(totals.n_keys.mean()) * imbalance.keys[0]
        loads["dense"] = busiest_load(
            dense_loads(n_keys, n_keys_global, options.buffer_keys, node_of), node_of
        )
    return Forecast(
        size=size,
        ranks_per_node=ranks_per_node,
        n_keys=n_keys,
        n_held=float(totals.n_keys.mean()),
        n_global=n_global,
        multiplicity=jackknife(both, parts, lambda sums, _: float(sums[:, 0].sum() / sums[:, 1].sum())),
        partners=partners[0],
        partners_most=partners[1],
        rows=_rows(counts, layers, parts, n_global.value, int(node_of[-1]) + 1),
        loads=loads,
        most=_largest_counts(counts, parts, n_keys, loads, loads_of_ranks),
    )


def _largest_counts(
    counts: RankCounts,
    parts: SampleParts,
    n_keys: float,
    loads: Mapping[str, Load],
    loads_of_ranks: Mapping[str, Sequence[RankLoad]],
) -> LargestCounts:
    """Return the largest counts of any rank, which a sample tells less well than their mean."""
    rows = {
        name: tuple(
            max(phase.rows, float(np.max(of_ranks.rows)))
            for phase, of_ranks in zip(loads[name], phases, strict=True)
        )
        for name, phases in loads_of_ranks.items()
    }
    sums = counts.to_owner_rows + counts.to_ghost_rows, counts.n_keys, counts.n_owned
    busiest = [one[:, [int(one.sum(axis=0).argmax())]] for one in sums]
    error = max(jackknife(one, parts, mean_over_ranks).relative for one in busiest)
    _, most_keys, most_owned = (float(one.sum()) for one in busiest)
    return LargestCounts(max(n_keys, most_keys), most_owned, rows, error)


def _rows(
    counts: RankCounts, layers: Sequence[LayerCounts], parts: SampleParts, n_global: float, n_nodes: int
) -> dict[str, Estimate]:
    """Return the mean over ranks of the rows sent, by algorithm."""
    size = counts.n_keys.shape[1]
    dense = 2.0 * n_global * (size - 1) / size
    nested = sum((layer.sent + layer.arrived for layer in layers), np.zeros_like(counts.n_keys))
    # A striped all-reduce over n_nodes nodes sends 2 (n_nodes - 1) / n_nodes rows of each dense key and node.
    striped = 2.0 * (n_nodes - 1) * counts.hybrid_dense
    by_nodes = counts.hybrid_to_owner_nodes + counts.hybrid_from_owner_nodes + counts.hybrid_pairs + striped
    return {
        "dense": Estimate(dense),
        "pairwise": jackknife(counts.pair_rows, parts, mean_over_ranks),
        "owner": jackknife(counts.to_owner_rows + counts.to_ghost_rows, parts, mean_over_ranks),
        "hierarchical": jackknife(
            counts.to_owner_node_rows + counts.from_owner_node_rows, parts, mean_over_ranks
        ),
        "butterfly": jackknife(nested, parts, mean_over_ranks),
        "hybrid": jackknife(by_nodes, parts, mean_over_ranks),
    }


def load_with_imbalance(
    name: str, rank_loads: Sequence[RankLoad], imbalance: Imbalance | None, node_of: Int32Array
) -> Load:
    """Return the load of an algorithm on the busiest rank and node.

    Parameters
    ----------
    name : str
        Name of the algorithm.
    rank_loads : sequence of RankLoad
        Loads of all ranks in each phase.
    imbalance : Imbalance or None
        Imbalance of ranks and nodes if the loads are those of a sample.
    node_of : int32 (size,)
    """
    load = busiest_load(rank_loads, node_of)
    if imbalance is None:
        return load
    scaled = _scaled_mean_load(name, load, rank_loads, imbalance, node_of)
    if name == "hybrid" and node_of.any():  # ranks have equal stripes
        return (*scaled[:HYBRID_DENSE_PHASE], load[HYBRID_DENSE_PHASE], *scaled[HYBRID_DENSE_PHASE + 1 :])
    return scaled


def _scaled_mean_load(
    name: str, load: Load, rank_loads: Sequence[RankLoad], imbalance: Imbalance, node_of: Int32Array
) -> Load:
    """Return a load of means over ranks and nodes times their imbalance, instead of maxima of the sample."""
    # The last node may have fewer ranks.
    per_node = np.count_nonzero(node_of == 0)
    rank, node = imbalance.for_algorithm(name)
    node *= per_node

    def scaled(phase: LoadPhase, load: RankLoad) -> LoadPhase:
        rows, off_node, moved, runs = (
            float(np.mean(x)) for x in (load.rows, load.off_node_rows, load.moved, load.runs)
        )
        # Ranks that are a group by themselves have no work in a layer.
        idle = np.mean(np.asarray(load.messages) == 0) if name == "butterfly" else 0.0
        busy = rank / (1.0 - float(idle)) if idle < 1 else rank
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

    return tuple(scaled(phase, load_of_ranks) for phase, load_of_ranks in zip(load, rank_loads, strict=True))
