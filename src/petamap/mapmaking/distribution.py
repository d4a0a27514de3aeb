"""Distribution of blocks of work over ranks."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array


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
