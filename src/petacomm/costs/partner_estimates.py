"""Estimates of the partners and the imbalance of ranks, from all keys of a sample of ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.typing import AnyArray, BoolArray, FloatArray, Int64Array
from petacomm.costs.forecast import Estimate, Imbalance
from petacomm.costs.occupancy import Occupancy

# Runs of 2^_RUN_BITS consecutive keys mostly have one owner.
_RUN_BITS = 6
# Runs of a table of runs and ranks; and most pairs of holders of a key that a sparse product evaluates.
_TABLE_RUNS = 1 << 13
_MOST_PAIRS = 1e8
# Largest relative excess of the rows of a rank that the choice of owners leaves uncorrected.
_MOST_SCATTER = 2 * 0.05


@dataclass(frozen=True, eq=False)
class RankSample:
    """Keys of the ranks of a sample of nodes: all, or a part of their runs of 64 if they are many.

    Attributes
    ----------
    occupancy : Occupancy
        Occupancy of the ranks of the sampled nodes, node after node.
    n_nodes : int
        Number of sampled nodes.
    ranks_per_node : int
        Ranks of a node.
    size : int
        Number of all ranks.
    weights : float64 (n_keys,)
        Keys that each key of the occupancy stands for, itself among them; one value in a run of 64.
    """

    occupancy: Occupancy
    n_nodes: int
    ranks_per_node: int
    size: int
    weights: FloatArray

    def merge_ranks(self, number: int) -> RankSample:
        """Return the sample in which each `number` consecutive ranks of a node are one rank."""
        per_node = -(-self.ranks_per_node // number)
        size = -(-self.size // number)
        return RankSample(self.occupancy.merge_ranks(number), self.n_nodes, per_node, size, self.weights)


def owner_probability(occupancy: Occupancy, first_key: Int64Array) -> FloatArray:
    """Return the probability that one of two holders of keys of a run owns a key that the other holds.

    Parameters
    ----------
    occupancy : Occupancy
        Keys of some runs of 64 keys, with all their holders.
    first_key : int64 (n,)
        First key of each run, increasing.

    Returns
    -------
    float64 (n,)
        For runs without holders, the mean of all runs.
    """
    run = np.searchsorted(first_key, occupancy.keys, side="right") - 1
    key_of, size, n = occupancy.key_of, occupancy.size, len(first_key)
    held = _distinct_runs(run[key_of] * size + occupancy.holders, size, n)
    owner = occupancy.owner[key_of]
    other = owner != occupancy.holders
    triples = (run[key_of[other]] * size + occupancy.holders[other]) * size + owner[other]
    n_owning = _distinct_runs(triples, size * size, n)
    pairs = held * (held - 1.0)
    return np.where(pairs > 0, n_owning / np.maximum(pairs, 1.0), n_owning.sum() / max(pairs.sum(), 1.0))


def _distinct_runs(codes: Int64Array, radix: int, n: int) -> FloatArray:
    """Return the number of distinct codes of each run, which is code // radix."""
    return np.bincount(distinct(codes) // radix, minlength=n).astype(np.float64)


def estimate_partners(
    sample: RankSample, probability: FloatArray
) -> tuple[float, float, tuple[Estimate, Estimate]]:
    """Return the numbers of partners of ranks, estimated from pairs of ranks of the sample.

    Parameters
    ----------
    sample : RankSample
    probability : float64 (n,)
        For each key of the sample, the `owner_probability` of its run.

    Returns
    -------
    pairs, owners : float
        Maximum over ranks of the ranks with which a rank shares a key, and of the owners of its ghosts.
    partners : pair of Estimate
        Ranks with which a rank shares a key: the mean and the maximum over ranks.
    """
    occupancy = sample.occupancy
    run = np.cumsum(np.diff(occupancy.keys >> _RUN_BITS, prepend=-1) != 0) - 1
    first = np.flatnonzero(np.diff(run, prepend=-1))
    weights = -np.log1p(-np.minimum(probability, 0.9)) * sample.weights
    expected = _common_runs(occupancy, run, weights[first])
    shared = _share_keys(occupancy, expected > 0).astype(np.float64)
    owned = -np.expm1(-expected) * shared
    for matrix in (shared, owned):
        np.fill_diagonal(matrix, 0.0)
    pairs, owners = _Pairs(shared, sample), _Pairs(owned, sample).most()
    most = pairs.jackknife(_Pairs.most)
    return most.value, owners, (pairs.jackknife(_Pairs.mean), most)


def _common_runs(occupancy: Occupancy, run: Int64Array, run_weights: FloatArray) -> FloatArray:
    """Return for all pairs of ranks (n, n) the sum of weights over runs of which both hold keys."""
    weight = np.sqrt(run_weights)
    places = distinct(run[occupancy.key_of] * occupancy.size + occupancy.holders)
    bounds = np.searchsorted(
        places, np.arange(0, (len(weight) + _TABLE_RUNS) * occupancy.size, _TABLE_RUNS * occupancy.size)
    )
    sums = np.zeros((occupancy.size, occupancy.size))
    for i, (begin, end) in enumerate(itertools.pairwise(bounds.tolist())):
        runs, ranks = np.divmod(places[begin:end], occupancy.size)
        table = np.zeros((_TABLE_RUNS, occupancy.size), np.float32)
        table[runs - i * _TABLE_RUNS, ranks] = weight[runs]
        sums += table.T @ table
    return sums


def _share_keys(occupancy: Occupancy, candidates: BoolArray) -> BoolArray:
    """Return whether two ranks share a key, bool (n, n), for pairs that are candidates."""
    shared = np.zeros((occupancy.size, occupancy.size), np.bool_)
    work = float(np.square(occupancy.multiplicity.astype(np.float64)).sum())
    step = max(1, math.ceil(work / _MOST_PAIRS))
    firsts, counts = occupancy.offsets[:-1:step], occupancy.multiplicity[::step]
    for n in np.unique(counts).tolist():
        ranks = occupancy.holders[firsts[counts == n, None] + np.arange(n)]
        shared[ranks[:, :, None], ranks[:, None, :]] = True
    if step == 1:
        return shared
    order = np.argsort(occupancy.holders, kind="stable")
    ends = np.cumsum(np.bincount(occupancy.holders, minlength=occupancy.size))
    keys = np.split(occupancy.key_of[order], ends[:-1])
    unknown, is_held = np.triu(candidates & ~shared, 1), np.zeros(len(occupancy.keys), np.bool_)
    for one in np.flatnonzero(unknown.any(axis=1)).tolist():
        is_held[keys[one]] = True
        for other in np.flatnonzero(unknown[one]).tolist():
            shared[one, other] = shared[other, one] = is_held[keys[other]].any()
        is_held[keys[one]] = False
    return shared


def estimate_imbalance(
    sample: RankSample, others: FloatArray, ghosts: FloatArray, scatter: float
) -> Imbalance:
    """Return the imbalance of ranks and nodes, estimated from all keys of the sampled ranks.

    Parameters
    ----------
    sample : RankSample
    others, ghosts : float64 (n,)
        For each key of the sample, the expected number of other holders, and the probability that it is a
        ghost.
    scatter : float
        Relative standard deviation of the owned keys of a rank from their expectation.
    """
    occupancy, per_node = sample.occupancy, sample.ranks_per_node
    node = np.arange(occupancy.size) // per_node
    is_full = np.bincount(node) == per_node if sample.n_nodes > 1 else np.ones(1, np.bool_)

    def ratios(values: FloatArray) -> tuple[float, float]:
        sums = np.bincount(occupancy.holders, (values * sample.weights)[occupancy.key_of], occupancy.size)
        of_nodes = np.bincount(node, sums)[is_full]
        return _largest_over_mean(sums), _largest_over_mean(of_nodes)

    rank, node_ratio = ratios(ghosts)
    # The choice of owners corrects larger excesses. The maximum of n normal deviates is about sqrt(2 ln n).
    excess = min(scatter * math.sqrt(2 * math.log(max(sample.size, 2))), _MOST_SCATTER)
    owners = 1 + math.hypot(rank - 1, excess), 1 + math.hypot(node_ratio - 1, excess / math.sqrt(per_node))
    return Imbalance(ratios(np.ones(len(occupancy.keys))), ratios(others), owners)


class _Pairs:
    """Values (n, n) of pairs of sampled ranks, and statistics of all pairs estimated from them."""

    def __init__(self, matrix: FloatArray, sample: RankSample, nodes: Int64Array | None = None) -> None:
        self.matrix = matrix
        self.sample = sample
        self.nodes = np.arange(sample.n_nodes) if nodes is None else nodes

    @cached_property
    def _sums(self) -> FloatArray:
        """Sums of each rank over those of each node, of all nodes of the sample (n_nodes, n)."""
        sums = np.zeros((self.sample.n_nodes, len(self.matrix)))
        np.add.at(sums, self._node, self.matrix)
        return sums

    @cached_property
    def _node(self) -> Int64Array:
        return np.arange(len(self.matrix)) // self.sample.ranks_per_node

    def without_node(self, number: int) -> _Pairs:
        """Return the values of the ranks of all nodes but one."""
        fewer = _Pairs(self.matrix, self.sample, np.delete(self.nodes, number))
        fewer.__dict__["_sums"] = self._sums
        return fewer

    def _rows(self) -> tuple[FloatArray, FloatArray]:
        """Return for each rank the sum over ranks of its node, and over those of each node (n_nodes, n)."""
        kept = np.isin(self._node, self.nodes)
        node = np.searchsorted(self.nodes, self._node[kept])
        sums = self._sums[np.ix_(self.nodes, kept)]
        own = sums[node, np.arange(len(node))].copy()
        # A rank's own node does not represent other nodes.
        sums[node, np.arange(len(node))] = np.nan
        return own, sums

    def _totals(self) -> FloatArray:
        """Return the sum of each sampled rank over all ranks, float64 (n,)."""
        own, sums = self._rows()
        others = self.sample.size - min(self.sample.ranks_per_node, self.sample.size)
        n = len(self.nodes)
        filled = np.where(np.isnan(sums), _mean_of_others(sums), sums)
        fraction = (n - 1) * self.sample.ranks_per_node / others if others else 1.0
        # Each sampled node represents its part of this fraction of the other nodes.
        fractions = np.full(n, min(1.0, fraction) / n)
        totals: FloatArray = own + (filled * ((n - 1) / n)).sum(axis=0) / fractions.sum()
        return totals

    def mean(self) -> float:
        return float(self._totals().mean())

    def most(self) -> float:
        return min(float(self._totals().max()), self.sample.size - 1.0)

    def jackknife(self, statistic: Callable[[_Pairs], float]) -> Estimate:
        value, n = statistic(self), len(self.nodes)
        total = -(-self.sample.size // self.sample.ranks_per_node)
        if n >= total or n < 3:
            return Estimate(value)
        left_out = [statistic(self.without_node(i)) for i in range(n)]
        return Estimate(value, math.sqrt((n - 1) * float(np.var(left_out)) * (1 - n / total)))


def _mean_of_others(sums: FloatArray) -> FloatArray:
    if len(sums) < 2:
        return np.zeros_like(sums)
    return np.broadcast_to(np.nanmean(sums, axis=0), sums.shape)


def _largest_over_mean(sums: AnyArray) -> float:
    """Return the largest of some sums over their mean; 1 where there is nothing to share."""
    return float(sums.max() / sums.mean()) if sums.any() else 1.0
