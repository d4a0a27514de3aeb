"""Floating-point sums by integers, in two phases, as on networks whose arithmetic is integer (Almasi et al.
2005, 5.2): exact, and the same for every order of the ranks.

First all learn the largest exponent of each element, and the smallest; then mantissas that are aligned to
these are added as integers, and rounded once. The integers are the limbs of `petacomm.base.exact`.
"""

from __future__ import annotations

import numpy as np

from petacomm.base.exact import N_PLACES, rounded_sums, sliced
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.collectives.calls import SEGMENT, Done, allreduce
from petacomm.collectives.executor import Moved
from petacomm.mpi.agreement import together
from petacomm.mpi.communicator import Communicator
from petacomm.schedule import ScheduleError
from petacomm.topology import Torus


def exact_allreduce(
    comm: Communicator,
    array: FloatArray,
    *,
    out: FloatArray | None = None,
    algorithm: str = "auto",
    grid: Torus | None = None,
    ranks: Int64Array | None = None,
    segment: int = SEGMENT,
) -> Done:
    """Return the correctly rounded sums over all ranks: into `out`, or a new array. Collective on `comm`.

    The bits depend on the values alone: not on the algorithm, nor on how many ranks hold them. An element
    takes 4 bytes in the first phase, and in the second 8 for each limb of 32 bits from its largest value to
    the last bit of its smallest: 24 or 32 where all have about the same size, instead of 8.

    Parameters
    ----------
    comm : Communicator
    array : float64 array
        Finite, below 2^900; bits below 2^-992 are dropped. Of one shape on all ranks.
    out, algorithm, grid, ranks, segment
        As in `petacomm.collectives.calls.allreduce`; "tree" can be used, since integers are summed.

    Returns
    -------
    Done
        With the schedule of the second phase, and what both moved.

    Raises
    ------
    ScheduleError
        On all ranks, if values cannot be summed, calls differ, or the algorithm cannot be used.
    """
    with together(comm):
        lowest, limbs = _sliced(array)
    given = {"algorithm": algorithm, "grid": grid, "ranks": ranks, "segment": segment}
    held = lowest >= 0
    # The largest, and minus the smallest: one maximum finds both. Zeros have neither.
    ends = np.where(held, [lowest, -lowest], np.iinfo(np.int16).min).astype(np.int16)
    first = allreduce(comm, ends, "max", out=ends, **given)  # type: ignore[arg-type]
    bottom = np.maximum(-ends[1].astype(np.int64), 0) * (ends[0] >= 0)
    width = np.where(ends[0] >= 0, ends[0] - bottom + N_PLACES, 0)
    begin = np.cumsum(width) - width
    aligned = np.zeros(int(width.sum()), np.int64)
    place = (begin + lowest - bottom)[held]
    for i in range(N_PLACES):
        aligned[place + i] = limbs[held, i]
    second = allreduce(comm, aligned, "sum", out=aligned, **given)  # type: ignore[arg-type]
    sums = _rounded(aligned, begin, width, bottom).reshape(array.shape)
    target = sums if out is None else out
    target[...] = sums
    return Done(target, second.schedule, _added(first.moved, second.moved))


def _sliced(array: FloatArray) -> tuple[Int64Array, Int64Array]:
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
    return sliced(array.reshape(-1))


def _rounded(aligned: Int64Array, begin: Int64Array, width: Int64Array, bottom: Int64Array) -> FloatArray:
    """Round the sums of all elements, those of one width together."""
    sums = np.zeros(len(width))
    for limbs in np.unique(width[width > 0]):
        of = np.flatnonzero(width == limbs)
        sums[of] = rounded_sums(aligned[begin[of, None] + np.arange(limbs)], bottom[of])
    return sums


def _added(a: Moved, b: Moved) -> Moved:
    return Moved(*(getattr(a, name) + getattr(b, name) for name in vars(a)))
