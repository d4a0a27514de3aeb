"""Memory that users give for the results of collectives."""

from __future__ import annotations

from petacomm.base.arguments import require_arrays
from petacomm.base.typing import AnyArray
from petacomm.schedule import ScheduleError


def require_result(array: AnyArray, out: AnyArray) -> None:
    """Raise an error unless a result of the shape and dtype of an array can be written to `out`.

    Parameters
    ----------
    array, out : array
        May be the same one.

    Raises
    ------
    DataError
        If one is no array of NumPy.
    ScheduleError
        If `out` has another shape or dtype, or is read-only.
    """
    require_arrays(array=array, out=out)
    if out.shape != array.shape or out.dtype != array.dtype:
        raise ScheduleError(
            f"an array of {array.dtype} {array.shape} into one of {out.dtype} {out.shape}",
            mend="give `out` the shape and dtype of the array",
        )
    if not out.flags.writeable:
        raise ScheduleError("the result would be written to a read-only array", mend="give a copy of it")
