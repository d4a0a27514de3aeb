"""Choice of an algorithm by paired timings: one that is not the default must be faster beyond noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

DEFAULT = "default"
_ERROR = 0.05  # probability that any choice of a cell is of noise alone
_CLEAR = 1.03  # gains whose lower bound is less are not worth a rule


@dataclass(frozen=True)
class AlgorithmChoice:
    """The algorithm that was chosen for a collective and a size.

    Attributes
    ----------
    name : str
        Name of the algorithm, or "default".
    gain : float
        Median over the rounds of all jobs of the time of the default by that of the algorithm.
    low, high : float
        Bounds of the median: a confidence interval.
    """

    name: str
    gain: float = 1.0
    low: float = 1.0
    high: float = 1.0


def median_bounds(values: Sequence[float], error: float) -> tuple[float, float]:
    """Return a confidence interval of the median of any distribution, from order statistics.

    The k-th smallest and k-th largest of n values enclose the median but for a probability of
    2 P(B < k), with B binomial of n trials of 1/2.

    Parameters
    ----------
    values : sequence of float
    error : float
        Probability that the median is outside.

    Returns
    -------
    low, high : float
        0 and infinity if there are too few values.
    """
    ordered, n = sorted(values), len(values)
    outside, k = 0.0, 0
    while k < n // 2 and outside + 2 * math.comb(n, k) / 2**n <= error:
        outside += 2 * math.comb(n, k) / 2**n
        k += 1
    return (ordered[k - 1], ordered[n - k]) if k else (0.0, math.inf)


def best_algorithms(times: Mapping[str, Sequence[float]], number: int) -> list[str]:
    """Return the algorithms of a cell that seem to be faster than the default, at most so many, best first.

    Parameters
    ----------
    times : mapping of str to sequence of float
        Seconds of "default" and of each algorithm, in rounds in which all take turns. An algorithm may have
        fewer rounds than the default, if it was given up.
    number : int
    """
    gains = {name: float(np.median(_gains(times, name) or [0.0])) for name in times if name != DEFAULT}
    faster = [name for name, gain in gains.items() if gain > _CLEAR]
    return sorted(faster, key=lambda name: -gains[name])[:number]


def select_algorithm(jobs: Sequence[Mapping[str, Sequence[float]]]) -> AlgorithmChoice:
    """Return the algorithm of a cell that gains most in the job in which it gains least, or the default.

    What else runs on a machine, or where a virtual one has its cores, may change for minutes which algorithm
    is faster: one that is chosen is faster in each job, and beyond the noise in all of them together.

    Parameters
    ----------
    jobs : sequence of mapping of str to sequence of float
        Seconds of rounds in each job, as of `best_algorithms`.

    Returns
    -------
    AlgorithmChoice
        The bounds of all algorithms hold together with 95 % (Bonferroni).
    """
    names = [
        name for name in (jobs[0] if jobs else ()) if name != DEFAULT and all(name in job for job in jobs)
    ]
    best, most = AlgorithmChoice(DEFAULT), _CLEAR
    for name in names:
        gains = [_gains(job, name) or [0.0] for job in jobs]
        every = [gain for job in gains for gain in job]
        low, high = median_bounds(every, _ERROR / len(names))
        least = min(float(np.median(job)) for job in gains)
        if low > _CLEAR and least > most:
            best, most = AlgorithmChoice(name, float(np.median(every)), low, high), least
    return best


def _gains(times: Mapping[str, Sequence[float]], name: str) -> list[float]:
    """Return the time of the default by that of an algorithm, for each round that it has."""
    return [own / taken for own, taken in zip(times[DEFAULT], times.get(name, ()), strict=False)]


def geometric_mean(gains: Sequence[float]) -> float:
    """Return the geometric mean; 1 of none."""
    return math.exp(math.fsum(map(math.log, gains)) / len(gains)) if gains else 1.0
