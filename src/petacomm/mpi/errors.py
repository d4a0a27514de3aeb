"""An error on any rank ends the whole job within seconds, with one message, and never hangs.

Two ways lead there. Where an error can be foreseen before ranks wait for each other, they `agree` on it:
all of them raise the error of the lowest failing rank. Any other exception leaves `collective_errors`
on the failing rank alone, while the others compute or wait in a collective: it looks for a moment whether
all ranks fail together, lets the lowest failing rank speak, and ends the job.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from petacomm.base.errors import UserError
from petacomm.mpi.communicator import Communicator, MpiCommunicator

# Seconds a failing rank waits for all others to fail as well, then for a lower rank to speak first.
_TOGETHER = 0.5
_SPEAK = 0.3
_POLL = 0.005
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
        Says the error; called on one rank only. By default a line on standard error for errors that a
        user can act on, and a traceback for all others.

    Raises
    ------
    SystemExit
        With the error's ``exit_code`` (1 for errors of unknown kind), on the ranks that still live.
    """
    if not isinstance(comm, MpiCommunicator):
        with _serial_errors(show or show_error):
            yield
        return
    channel = comm.mpi_comm.Dup()
    try:
        yield
    except BaseException as error:
        code = _exit_code(error)
        if getattr(error, "_agreed", False) or _wait(_TOGETHER, channel.Ibarrier().Test):
            if comm.rank == 0:
                _say(error, show)
        else:
            if _lowest(comm, channel):
                _say(error, show)
            comm.abort(code)
        raise SystemExit(code) from None


@contextmanager
def _serial_errors(show: Callable[[BaseException], None]) -> Iterator[None]:
    try:
        yield
    except SystemExit:
        raise
    except BaseException as error:
        show(error)
        raise SystemExit(_exit_code(error)) from None


def show_error(error: BaseException) -> None:
    """Say an error on standard error: one line where a user can act on it, else its traceback."""
    if isinstance(error, UserError):
        print(f"petamap: error: {error}", file=sys.stderr, flush=True)
    elif isinstance(error, KeyboardInterrupt):
        print("petamap: interrupted", file=sys.stderr, flush=True)
    else:
        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
        sys.stderr.flush()


def _say(error: BaseException, show: Callable[[BaseException], None] | None) -> None:
    if not isinstance(error, SystemExit):
        (show or show_error)(error)
    sys.stdout.flush()
    sys.stderr.flush()
    # Launchers that kill at once may lose a line that is still on its way to them.
    time.sleep(_SPEAK)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, KeyboardInterrupt):
        return 130
    return error.exit_code if isinstance(error, UserError) else 1


def _lowest(comm: MpiCommunicator, channel: Any) -> bool:
    """Whether this is the lowest failing rank; a higher one waits for the lower one to end the job."""
    for higher in range(comm.rank + 1, comm.size):
        channel.isend(None, higher, _TAG)
    if not _wait(_SPEAK, lambda: channel.Iprobe(tag=_TAG)):
        return True
    _wait(2.0, lambda: False)
    return False


def _wait(seconds: float, holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(_POLL)
    return holds()
