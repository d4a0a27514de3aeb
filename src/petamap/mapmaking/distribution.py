"""Distribution of blocks of work over ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    ranks = np.arange(size + 1)
    if n_blocks <= size:
        return np.minimum(ranks, n_blocks).astype(np.int64)
    ends = np.concatenate([[0.0], np.cumsum(costs)])
    # The cut nearest to each rank's even part; then each rank gets a block, also beside very large ones.
    middles = 0.5 * (ends[:-1] + ends[1:])
    nearest = np.searchsorted(middles, ends[-1] * ranks / size)
    nearest[0], nearest[-1] = 0, n_blocks
    distinct = np.maximum.accumulate(nearest - ranks) + ranks
    return np.minimum(distinct, n_blocks - size + ranks).astype(np.int64)
