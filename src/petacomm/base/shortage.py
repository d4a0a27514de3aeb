"""Errors of memory, threads or space that do not suffice, wherever they come from, as ResourceErrors."""

from __future__ import annotations

import errno
import traceback

from petacomm.base.errors import ResourceError, UserError, printable
from petacomm.base.phases import phase_of

_NO_MEMORY = "use more nodes, fewer processes on each, or fewer threads"
_NO_SPACE = "free space, or write to another place"
_NO_THREAD = "allow more threads (ulimit -u) and more memory (ulimit -v), or use fewer threads"


def shortage_error(error: BaseException, rank: int | str | None = None) -> ResourceError | None:
    """Return the ResourceError of an error that says that memory, threads or space are short, else None.

    The variables of the functions that the error went through are dropped, so that there is memory again to
    tell it.

    Parameters
    ----------
    error : BaseException
        MemoryError, by Python, NumPy or a kernel; OSError for want of memory or space; ImportError of a
        library for which there is no memory; RuntimeError of a thread that cannot be started.
    rank : int or str, optional
        Rank of this process, to be named.
    """
    found = _shortage(error)
    if found is None:
        return None
    short, mend = found
    traceback.clear_frames(error.__traceback__)
    phase = phase_of(error)
    who = "" if rank is None else f"rank {rank} has "
    when = f" in phase '{phase}'" if phase else ""
    detail = printable(" ".join(str(error).split()))
    return ResourceError(f"{who}{short}{when}" + (f": {detail}" if detail else ""), mend=mend)


def _shortage(error: BaseException) -> tuple[str, str] | None:
    """Return what is missing and its remedy, or None."""
    if isinstance(error, UserError):
        return None
    number = error.errno if isinstance(error, OSError) else None
    unloadable = isinstance(error, ImportError) and "failed to map segment" in str(error)
    if isinstance(error, MemoryError) or number == errno.ENOMEM or unloadable:
        return "no memory left", _NO_MEMORY
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "no space left", _NO_SPACE
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "no room for threads", _NO_THREAD
    return None
