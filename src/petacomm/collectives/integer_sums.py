"""Exact floating-point sums by integer all-reduces in two phases, independent of the order of the ranks.

The method is that of networks with integer arithmetic (Almasi et al. 2005, section 5.2). The first phase
finds the largest and the smallest exponent of each element; the second adds mantissas that are aligned to
these as integers, and rounds once. The integers are the limbs of `petacomm.base.exact`.
"""

from __future__ import annotations

import numpy as np

from petacomm.base.arguments import numeric_array
from petacomm.base.exact import LIMBS_PER_VALUE, round_sums, split_limbs
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.collectives.calls import SEGMENT, CollectiveResult, allreduce
from petacomm.collectives.executor import ExecutionTraffic
from petacomm.collectives.result_memory import require_result
from petacomm.mpi.agreement import agree_on_errors
from petacomm.mpi.communicator import Communicator
from petacomm.schedule import ScheduleError
from petacomm.schedule.catalogue import PUBLISHED
from petacomm.topology import Torus


def exact_allreduce(
    comm: Communicator,
    array: FloatArray,
    *,
    out: FloatArray | None = None,
    algorithm: str = PUBLISHED,
    grid: Torus | None = None,
    ranks: Int64Array | None = None,
    segment: int = SEGMENT,
) -> CollectiveResult:
    """Compute the correctly rounded sums over all ranks, into `out` or a new array. Collective on `comm`.

    The bits depend on the values only, not on the algorithm or the number of ranks. An element takes 4 bytes
    in the first phase, and in the second 8 for each limb of 32 bits from its largest value to the last bit of
    its smallest one: 24 or 32 bytes if all values are of similar magnitude, instead of 8.

    Parameters
    ----------
    comm : Communicator
    array : float64 array
        Finite, of magnitude below 2^900; bits below 2^-992 are dropped. The same shape on all ranks.
    out : float64 array, optional
        Memory of the sums; by default a new array.
    algorithm : str
        Name of an algorithm for all-reduces, or "published"; "tree" is possible, since integers are summed.
    grid : Torus, optional
        Torus or mesh whose nodes the ranks fill.
    ranks : int64 (size,), optional
        Rank at each node of the grid, as returned by `petacomm.schedule.communicator_grid`; by default in
        rank order.
    segment : int
        Bytes of the segments of a pipelined algorithm; 0 for no segments.

    Returns
    -------
    CollectiveResult
        With the schedule of the second phase, and the traffic of both phases.

    Raises
    ------
    ScheduleError
        On all ranks, if values are out of range, arguments differ between ranks, or the algorithm cannot be
        used.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> petacomm.exact_allreduce(petacomm.world(), np.array([0.1, 0.2])).values
    array([0.1, 0.2])
    """
    with agree_on_errors(comm):
        array = numeric_array(array, "array")
        if out is not None:
            require_result(array, out)
        lowest, limbs = _limbs_of(array)
    given = {"algorithm": algorithm, "grid": grid, "ranks": ranks, "segment": segment}
    held = lowest >= 0
    # One maximum finds the largest limb and, negated, the smallest. Zeros have neither.
    ends = np.where(held, [lowest, -lowest], np.iinfo(np.int16).min).astype(np.int16)
    first = allreduce(comm, ends, "max", out=ends, **given)  # type: ignore[arg-type]
    bottom = np.maximum(-ends[1].astype(np.int64), 0) * (ends[0] >= 0)
    width = np.where(ends[0] >= 0, ends[0] - bottom + LIMBS_PER_VALUE, 0)
    begin = np.cumsum(width) - width
    aligned = np.zeros(int(width.sum()), np.int64)
    position = (begin + lowest - bottom)[held]
    for i in range(LIMBS_PER_VALUE):
        aligned[position + i] = limbs[held, i]
    second = allreduce(comm, aligned, "sum", out=aligned, **given)  # type: ignore[arg-type]
    sums = _rounded(aligned, begin, width, bottom).reshape(array.shape)
    target = sums if out is None else out
    target[...] = sums
    return CollectiveResult(target, second.schedule, _added(first.traffic, second.traffic))


def _limbs_of(array: FloatArray) -> tuple[Int64Array, Int64Array]:
    if array.dtype != np.float64:
        raise ScheduleError(
            f"an exact sum of {array.dtype}", mend="give float64; integers are exact as they are"
        )
    bad = np.flatnonzero(~(np.abs(array) < 2.0**900))
    if len(bad):
        raise ScheduleError(
            f"element {bad[0]} is {array.reshape(-1)[bad[0]]}: no exact sum holds it",
            mend="give finite values below 2^900",
        )
    return split_limbs(array.reshape(-1))


def _rounded(aligned: Int64Array, begin: Int64Array, width: Int64Array, bottom: Int64Array) -> FloatArray:
    """Round the sums of all elements, those of equal width in one call."""
    sums = np.zeros(len(width))
    for limbs in np.unique(width[width > 0]):
        elements = np.flatnonzero(width == limbs)
        sums[elements] = round_sums(aligned[begin[elements, None] + np.arange(limbs)], bottom[elements])
    return sums


def _added(a: ExecutionTraffic, b: ExecutionTraffic) -> ExecutionTraffic:
    return ExecutionTraffic(*(getattr(a, name) + getattr(b, name) for name in vars(a)))
