"""Errors of parallel jobs: one on any rank ends the job within seconds, with one message.

Errors that are detected before ranks wait for each other are raised on all ranks by `agree`. Any other
exception leaves the block of `collective_errors` on the failing rank alone, while the others compute or wait
in a collective: it checks for a moment whether all ranks fail, prints the error of the lowest failing rank,
and ends the job.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from petacomm.base.console import tell
from petacomm.base.errors import UserError
from petacomm.base.phases import phase_of
from petacomm.base.root_cause import root_cause
from petacomm.mpi.agreement import RankError, is_agreed
from petacomm.mpi.communicator import Communicator, MpiCommunicator

# Seconds that a failing rank waits for all others to fail as well, and then for a lower rank to print its
# error first; and between two tests.
_ALL_FAIL_S = 0.5
_PRINT_S = 0.3
_POLL_S = 0.005
_TAG = 7


@contextmanager
def collective_errors(
    comm: Communicator, show: Callable[[BaseException], None] | None = None
) -> Iterator[None]:
    """End all ranks if an exception leaves the block on any of them. Collective on entry.

    Parameters
    ----------
    comm : Communicator
        All ranks of the job.
    show : callable, optional
        Prints the error; called on one rank only. By default `show_error`.

    Raises
    ------
    SystemExit
        With the ``exit_code`` of the error, on the ranks still running: that of `ResourceError` for want of
        memory, space or threads, and 1 for other errors that are no `UserError`.
    """
    if not isinstance(comm, MpiCommunicator):
        with _serial_errors(show or show_error):
            yield
        return
    error_comm = comm.mpi_comm.Dup()
    try:
        yield
    except BaseException as caught:
        error = root_cause(caught, comm.rank)
        error.__dict__["_rank"] = comm.rank
        code = _exit_code(error)
        if is_agreed(error) or _wait(_ALL_FAIL_S, error_comm.Ibarrier().Test):
            if comm.rank == 0:
                _print_error(error, show)
        else:
            if _is_lowest_failing(comm, error_comm):
                _print_error(error, show)
            comm.abort(code)
        raise SystemExit(code) from None


@contextmanager
def _serial_errors(show: Callable[[BaseException], None]) -> Iterator[None]:
    try:
        yield
    except (SystemExit, BrokenPipeError):  # nobody reads on, which is no error of a command
        raise
    except BaseException as caught:
        error = root_cause(caught)
        show(error)
        raise SystemExit(_exit_code(error)) from None


def show_error(error: BaseException) -> None:
    """Print an error to standard error: one line for a `UserError`, one traceback for others."""
    if isinstance(error, UserError):
        tell(f"petamap: {error.label}{error}")
    elif isinstance(error, KeyboardInterrupt):
        tell("petamap: interrupted; files already written are whole")
    elif isinstance(error, RankError):  # its message is the traceback
        tell(str(error))
    else:
        tell(_place_of(error) + "".join(traceback.format_exception(error)).rstrip())


def _place_of(error: BaseException) -> str:
    """Return rank and phase of a defect, to stand before its traceback; empty without ranks."""
    rank, phase = error.__dict__.get("_rank"), phase_of(error)
    if rank is None:
        return ""
    return f"on rank {rank}{f' in phase {phase!r}' if phase else ''}: "


def _print_error(error: BaseException, show: Callable[[BaseException], None] | None) -> None:
    if not isinstance(error, SystemExit):
        (show or show_error)(error)
    sys.stdout.flush()
    sys.stderr.flush()
    # Launchers that kill all ranks at once may lose a line that has not reached them yet.
    time.sleep(_PRINT_S)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, KeyboardInterrupt):
        return 130
    return error.exit_code if isinstance(error, UserError) else 1


def _is_lowest_failing(comm: MpiCommunicator, error_comm: Any) -> bool:
    """Return whether this is the lowest failing rank; a higher one waits for the lower one to end the job."""
    for higher in range(comm.rank + 1, comm.size):
        error_comm.isend(None, higher, _TAG)
    if not _wait(_PRINT_S, lambda: error_comm.Iprobe(tag=_TAG)):
        return True
    _wait(2.0, lambda: False)
    return False


def _wait(seconds: float, holds: Callable[[], bool]) -> bool:
    """Wait until a condition holds, or for so many seconds; return whether it holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(_POLL_S)
    return holds()
