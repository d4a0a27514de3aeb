"""The error to tell in the place of one that leaves a command."""

from __future__ import annotations

from petacomm.base.errors import UserError
from petacomm.base.shortage import shortage_error
from petacomm.base.signal_errors import error_of_signal


def root_cause(error: BaseException, rank: int | str | None = None) -> BaseException:
    """Return the error to tell in the place of one that leaves a command: its cause, or the error itself.

    Parameters
    ----------
    error : BaseException
    rank : int or str, optional
        Rank of this process, to be named where memory, threads or space are short.

    Returns
    -------
    BaseException
        A `UserError` or an interrupt as it is. For another error: what a signal has raised before, a
        `ResourceError` for want of memory, threads or space, or the error.
    """
    if isinstance(error, UserError | KeyboardInterrupt | SystemExit):
        return error
    return error_of_signal() or shortage_error(error, rank) or error
