"""How many partners ranks have, told from all keys of some of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.costs.forecast import Estimate, Imbalance
from petacomm.costs.occupancy import Occupancy

# Neighbouring keys that mostly have one owner.
_RUN_BITS = 6
# Runs in a table of runs and ranks; pairs of holders of a key that are looked at before others are tried.
_RUNS = 1 << 13
_WORK = 1e8
# The choice of owners is mended where a rank sends this much more than its part of all it sends.
_LUCK = 2 * 0.05


@dataclass(frozen=True, eq=False)
class Company:
    """All keys of the ranks of some nodes, drawn from all nodes, or a part of them where they are very many.

    Attributes
    ----------
    occupancy : Occupancy
        Its ranks are those drawn, node after node.
    n_nodes : int
        Nodes drawn.
    ranks_per_node : int
    size : int
        Ranks there are.
    part : float
        Of all runs of 64 keys, those that are kept.
    """

    occupancy: Occupancy
    n_nodes: int
    ranks_per_node: int
    size: int
    part: float = 1.0

    def merged(self, number: int) -> Company:
        """Return the company where each `number` consecutive ranks of a node are one."""
        per_node = -(-self.ranks_per_node // number)
        size = -(-self.size // number)
        return Company(self.occupancy.merged(number), self.n_nodes, per_node, size, self.part)


def owner_chance(sample: Occupancy, first_key: Int64Array) -> FloatArray:
    """Return how often one of two ranks that hold keys of a run owns a key that the other holds.

    Parameters
    ----------
    sample : Occupancy
        Keys of some runs of 64 with all their holders.
    first_key : int64 (n,)
        The first key of each of the runs, increasing.

    Returns
    -------
    chance : float64 (n,)
        That of all runs together, where nobody holds any.
    """
    run = np.searchsorted(first_key, sample.keys, side="right") - 1
    key_of, size, n = sample.key_of, sample.size, len(first_key)
    held = _distinct_runs(run[key_of] * size + sample.holders, size, n)
    owner = sample.owner[key_of]
    other = owner != sample.holders
    triples = (run[key_of[other]] * size + sample.holders[other]) * size + owner[other]
    met = _distinct_runs(triples, size * size, n)
    pairs = held * (held - 1.0)
    return np.where(pairs > 0, met / np.maximum(pairs, 1.0), met.sum() / max(pairs.sum(), 1.0))


def _distinct_runs(codes: Int64Array, radix: int, n: int) -> FloatArray:
    """Count the distinct codes of each run, which is code / radix."""
    return np.bincount(distinct(codes) // radix, minlength=n).astype(np.float64)


def meet_some(company: Company, chance: FloatArray) -> tuple[float, float, tuple[Estimate, Estimate]]:
    """Return the partners of ranks, estimated from pairs of those in company.

    Parameters
    ----------
    company : Company
    chance : float64 (n,)
        For each key of the company, that of its run.

    Returns
    -------
    pairs, owners : float
        Ranks with which the rank that has most shares a key, and to which it sends as to owners.
    partners : pair of Estimate
        Ranks with which a rank shares a key: the mean, and the most.
    """
    some = company.occupancy
    run = np.cumsum(np.diff(some.keys >> _RUN_BITS, prepend=-1) != 0) - 1
    expected = _touched(some, run, -np.log1p(-np.minimum(chance, 0.9))[_firsts(run)])
    expected /= company.part
    shared = _shared(some, expected > 0).astype(np.float64)
    owned = -np.expm1(-expected) * shared
    for matrix in (shared, owned):
        np.fill_diagonal(matrix, 0.0)
    pairs, owners = _Pairs(shared, company), _Pairs(owned, company).most()
    most = pairs.jackknife(_Pairs.most)
    return most.value, owners, (pairs.jackknife(_Pairs.mean), most)


def _touched(some: Occupancy, run: Int64Array, likelihood: FloatArray) -> FloatArray:
    """Add up the likelihood of the runs of which two ranks both hold keys, for all pairs (n, n)."""
    weight = np.sqrt(likelihood)
    places = distinct(run[some.key_of] * some.size + some.holders)
    bounds = np.searchsorted(places, np.arange(0, (len(weight) + _RUNS) * some.size, _RUNS * some.size))
    sums = np.zeros((some.size, some.size))
    for i, (begin, end) in enumerate(itertools.pairwise(bounds.tolist())):
        runs, ranks = np.divmod(places[begin:end], some.size)
        table = np.zeros((_RUNS, some.size), np.float32)
        table[runs - i * _RUNS, ranks] = weight[runs]
        sums += table.T @ table
    return sums


def _shared(some: Occupancy, candidates: BoolArray) -> BoolArray:
    """Return whether two ranks hold any key in common, of the pairs that may."""
    from scipy.sparse import csr_matrix

    held = csr_matrix((np.ones(len(some.holders)), some.holders, some.offsets), (len(some.keys), some.size))
    work = float(np.square(some.multiplicity.astype(np.float64)).sum())
    few = held[:: max(1, math.ceil(work / _WORK))]
    shared: BoolArray = (few.T @ few).toarray() > 0
    if few.shape == held.shape:
        return shared
    keys = np.split(held.tocsc().indices, np.cumsum(np.bincount(some.holders, minlength=some.size))[:-1])
    for one, other in np.argwhere(np.triu(candidates & ~shared, 1)):
        shared[one, other] = shared[other, one] = len(np.intersect1d(keys[one], keys[other], True)) > 0
    return shared


def _firsts(run: Int64Array) -> Int64Array:
    return np.flatnonzero(np.diff(run, prepend=-1))


def imbalance(company: Company, others: FloatArray, ghosts: FloatArray, scatter: float) -> Imbalance:
    """Return how much more the busiest rank and node have than others, from all keys of those in company.

    Parameters
    ----------
    company : Company
    others, ghosts : float64 (n,)
        For each key of the company, expected: its other holders, and the chance that it is a ghost.
    scatter : float
        By which the luck of owners makes what a rank owns differ from what is expected, as a part of it.
    """
    some, per_node = company.occupancy, company.ranks_per_node
    node = np.arange(some.size) // per_node
    whole = np.bincount(node) == per_node if company.n_nodes > 1 else np.ones(1, np.bool_)

    def ratios(weights: FloatArray) -> tuple[float, float]:
        sums = np.bincount(some.holders, weights[some.key_of], some.size)
        of_nodes = np.bincount(node, sums)[whole]
        return float(sums.max() / sums.mean()), float(of_nodes.max() / of_nodes.mean())

    rank, node_ratio = ratios(ghosts)
    # the choice of owners does not leave more to luck
    luck = min(scatter * math.sqrt(2 * math.log(max(company.size, 2))), _LUCK)
    owners = 1 + math.hypot(rank - 1, luck), 1 + math.hypot(node_ratio - 1, luck / math.sqrt(per_node))
    return Imbalance(ratios(np.ones(len(some.keys))), ratios(others), owners)


class _Pairs:
    """What pairs of ranks in company have to do with each other, (n, n), and what follows for all pairs."""

    def __init__(self, matrix: FloatArray, company: Company, nodes: Int64Array | None = None) -> None:
        self.matrix = matrix
        self.company = company
        self.nodes = np.arange(company.n_nodes) if nodes is None else nodes

    def _rows(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums of each rank with those of its node, and with those of each node (n_nodes, n)."""
        per_node, n = self.company.ranks_per_node, len(self.matrix)
        node = np.arange(n) // per_node
        kept = np.isin(node, self.nodes)
        matrix, node = self.matrix[np.ix_(kept, kept)], np.searchsorted(self.nodes, node[kept])
        sums = np.zeros((len(self.nodes), len(node)))
        np.add.at(sums, node, matrix)
        own = sums[node, np.arange(len(node))].copy()
        # its own node is no example of others
        sums[node, np.arange(len(node))] = np.nan
        return own, sums

    def _totals(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return sums within the node, sums with each other node, and the fraction of nodes that each is."""
        own, sums = self._rows()
        others = self.company.size - min(self.company.ranks_per_node, self.company.size)
        n = len(self.nodes)
        filled = np.where(np.isnan(sums), _mean_of_others(sums), sums)
        fraction = (n - 1) * self.company.ranks_per_node / others if others else 1.0
        return own, filled * ((n - 1) / n), np.full(n, min(1.0, fraction) / n)

    def mean(self) -> float:
        own, sums, fractions = self._totals()
        return float((own + sums.sum(axis=0) / fractions.sum()).mean())

    def most(self) -> float:
        own, sums, fractions = self._totals()
        return min(float((own + sums.sum(axis=0) / fractions.sum()).max()), self.company.size - 1.0)

    def jackknife(self, statistic: Callable[[_Pairs], float]) -> Estimate:
        value, n = statistic(self), len(self.nodes)
        total = -(-self.company.size // self.company.ranks_per_node)
        if n >= total or n < 3:
            return Estimate(value)
        without = [statistic(_Pairs(self.matrix, self.company, np.delete(self.nodes, i))) for i in range(n)]
        return Estimate(value, math.sqrt((n - 1) * float(np.var(without)) * (1 - n / total)))


def _mean_of_others(sums: FloatArray) -> FloatArray:
    if len(sums) < 2:
        return np.zeros_like(sums)
    means: FloatArray = np.broadcast_to(np.nanmean(sums, axis=0), sums.shape)
    return means
