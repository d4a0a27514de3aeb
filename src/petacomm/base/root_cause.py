"""The error to tell in the place of one that leaves a command."""

from __future__ import annotations

from typing import NoReturn

from petacomm.base.errors import UserError
from petacomm.base.shortage import shortage_error

_of_signal: BaseException | None = None


def raise_of_signal(error: BaseException) -> NoReturn:
    """Raise an error from a handler of a signal, and keep it for `root_cause`.

    Libraries put their own errors in the place of it: NumPy, when it compares structured arrays, makes a
    TypeError of whatever a handler raises meanwhile, and drops that.
    """
    global _of_signal
    _of_signal = error
    raise error


def raise_swallowed() -> None:
    """Raise again what a signal has raised, if it went lost: where Python or a library drops errors."""
    if _of_signal is not None:
        raise _of_signal


def forget_signal() -> None:
    """Forget what `raise_of_signal` raised: the command that it ended has told it, or another one begins."""
    global _of_signal
    _of_signal = None


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
    return _of_signal or shortage_error(error, rank) or error
