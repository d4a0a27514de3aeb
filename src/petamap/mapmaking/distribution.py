"""Distribution of blocks of work over ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array


@dataclass(frozen=True)
class Distribution:
    """Distribution of the data over ranks.

    Attributes
    ----------
    name : str
        "streams", "time-major", "mixed" or "detector-major".
    groups : int or None
        Groups of detectors, as in `TimeLayout.order`.
    """

    name: str
    groups: int | None

    @property
    def description(self) -> str:
        """Name, with the number of groups if it is mixed."""
        return f"{self.name}, {self.groups}" if self.name == "mixed" else self.name


STREAMS, TIME_MAJOR = Distribution("streams", None), Distribution("time-major", 1)


def possible_distributions(n_det: int) -> list[Distribution]:
    """Return the distributions of the data of `n_det` detectors; "mixed" has about sqrt(n_det) groups."""
    distributions = [STREAMS, TIME_MAJOR]
    groups = min((g for g in range(2, n_det) if n_det % g == 0), key=lambda g: abs(g - n_det**0.5), default=0)
    if groups:
        distributions.append(Distribution("mixed", groups))
    if n_det > 1:
        distributions.append(Distribution("detector-major", n_det))
    return distributions


def find_distribution(name: str, n_det: int) -> Distribution:
    """Return the distribution of a name for the data of `n_det` detectors.

    Raises
    ------
    ConfigError
        If there is none of that name for so many detectors.
    """
    known = {distribution.name: distribution for distribution in possible_distributions(n_det)}
    if name not in known:
        raise ConfigError(
            f"comm.distribution cannot be '{name}' for {n_det} detector{'s' * (n_det > 1)}",
            mend=f"choose one of {', '.join(known)}",
        )
    return known[name]


def distribute(costs: FloatArray | int, size: int) -> Int64Array:
    """Distribute blocks to ranks in contiguous runs of nearly equal cost.

    The most loaded rank has at most one block's cost more than in the best such distribution.

    Parameters
    ----------
    costs : float64 (n_blocks,) or int
        Finite, non-negative cost of each block, or the number of blocks of equal cost.
    size : int
        Number of ranks.

    Returns
    -------
    boundaries : int64 (size + 1,)
        Rank r has blocks ``boundaries[r]`` to ``boundaries[r + 1]``. Every rank has a block if there are
        enough of them; else the last ranks have none. Depends on the arguments alone.

    Raises
    ------
    ValueError
        If a cost is negative or not finite, or `size` is not positive.
    """
    if size < 1:
        raise ValueError(f"cannot distribute to {size} ranks")
    costs = np.ones(costs) if isinstance(costs, int | np.integer) else np.asarray(costs, np.float64)
    if not np.all(np.isfinite(costs) & (costs >= 0)):
        raise ValueError("costs must be finite and not negative")
    n_blocks = len(costs)
    ends = np.concatenate([[0.0], np.cumsum(costs)])
    middles = 0.5 * (ends[:-1] + ends[1:])
    return cut(np.searchsorted(middles, ends[-1] * np.arange(size + 1) / size), n_blocks, size)


def cut(nearest: Int64Array, n_units: int, size: int) -> Int64Array:
    """Return the boundaries of ranks, (size + 1,), from the cut nearest to each rank's even part.

    Each rank gets a unit of work, also beside very large ones; if there are not enough, the last have none.
    """
    ranks = np.arange(size + 1)
    if n_units <= size:
        return np.minimum(ranks, n_units).astype(np.int64)
    nearest[0], nearest[-1] = 0, n_units
    distinct = np.maximum.accumulate(nearest - ranks) + ranks
    return np.minimum(distinct, n_units - size + ranks).astype(np.int64)


@dataclass(frozen=True)
class RegularUnits:
    """Units of work in rows: a row has, `repeats` times, `n_first` units of one cost and `n_last` of another.

    Attributes
    ----------
    repeats, n_first, n_last : int64 (n_row,)
    first, last : int64 (n_row,)
        Positive costs.
    """

    repeats: Int64Array
    n_first: Int64Array
    first: Int64Array
    n_last: Int64Array
    last: Int64Array

    @cached_property
    def begins(self) -> Int64Array:
        """Number of the first unit of each row, and of all units: (n_row + 1,)."""
        return _begins(self.repeats * (self.n_first + self.n_last))

    @cached_property
    def _costs(self) -> Int64Array:
        return _begins(self.repeats * (self.n_first * self.first + self.n_last * self.last))

    @property
    def n(self) -> int:
        """Number of units."""
        return int(self.begins[-1])

    @property
    def cost(self) -> int:
        """Cost of all units."""
        return int(self._costs[-1])

    def before(self, targets: FloatArray) -> Int64Array:
        """Return how many units have their middles below each of some costs of units from the first on."""
        rows = np.searchsorted(self._costs, targets, side="right") - 1
        rows = np.minimum(rows, len(self.repeats) - 1)
        n_first, first, n_last, last = (
            column[rows] for column in (self.n_first, self.first, self.n_last, self.last)
        )
        period = np.maximum(n_first * first + n_last * last, 1)
        left = targets - self._costs[rows]
        repeats = np.minimum(left // period, self.repeats[rows] - 1).astype(np.int64)
        left -= repeats * period
        within = np.minimum(_middles_below(left, first), n_first)
        within += np.minimum(_middles_below(left - n_first * first, last), n_last)
        return np.asarray(self.begins[rows] + repeats * (n_first + n_last) + within, np.int64)

    def distribute(self, size: int) -> Int64Array:
        """Return the boundaries of ranks, as `distribute` of the cost of each unit."""
        return distribute_groups([self.n], [self.cost], lambda _: self, size)


def distribute_groups(
    n_units: Sequence[int], costs: Sequence[int], units_of: Callable[[int], RegularUnits], size: int
) -> Int64Array:
    """Return the boundaries of ranks among the units of groups, one after the other, as `distribute` does.

    Parameters
    ----------
    n_units, costs : sequence of int
        Of each group.
    units_of : callable
        Returns the units of a group, of which one at a time is asked for.
    size : int
    """
    if size < 1:
        raise ValueError(f"cannot distribute to {size} ranks")
    n_before, cost_before = _begins(np.array(n_units, np.int64)), _begins(np.array(costs, np.int64))
    targets = float(cost_before[-1]) * np.arange(size + 1) / size
    groups = np.searchsorted(cost_before, targets, side="right") - 1
    nearest = np.full(size + 1, n_before[-1])
    for group in distinct(groups[groups < len(costs)]).tolist():
        own = groups == group
        nearest[own] = n_before[group] + units_of(group).before(targets[own] - cost_before[group])
    return cut(nearest, int(n_before[-1]), size)


def _begins(counts: Int64Array) -> Int64Array:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _middles_below(end: FloatArray, cost: Int64Array) -> Int64Array:
    """Return how many of units of equal cost have their middles below an end, at least 0."""
    number = np.maximum(np.ceil(end / cost - 0.5), 0).astype(np.int64)
    number += (number + 0.5) * cost < end  # rounded quotients
    number -= (number > 0) & ((number - 0.5) * cost >= end)
    return number
