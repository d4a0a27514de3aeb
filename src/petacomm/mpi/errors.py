"""Errors of parallel jobs: one on any rank ends the job within seconds, with one message.

Errors that are detected before ranks wait for each other are raised on all ranks by `agree`. Any other
exception leaves the block of `collective_errors` on the failing rank alone, while the others compute or wait
in a collective. A rank that fails checks for a moment whether all ranks do; the lowest failing rank prints
its error, and ends the job if others go on. Ranks that fail while another is about to print see its claim,
and leave it the word.
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
from petacomm.base.phases import clear_note, phase_of
from petacomm.base.root_cause import root_cause
from petacomm.mpi.agreement import RankError
from petacomm.mpi.communicator import Communicator, MpiCommunicator

_OTHERS_FAIL_S = 0.6  # s that a failing rank waits for others to fail as well
_CLAIM_S = 0.1  # s that a rank about to print waits for the claims of others that were sent before its own
_PRINT_S = 0.3  # s that launchers need to take a line
_END_S = 2.0  # s, at most, from the claim of a rank to the end of the job by it
_POLL_S = 0.005
# Tags of what a failing rank tells others: that it fails, to higher ones; that it is about to print.
_FAILS, _LOWER_PRINTS, _HIGHER_PRINTS = 7, 8, 9


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
        # Errors that ranks agree on, too: one that a signal ends amid the agreement fails by itself.
        if not _end_among_failing(error_comm, lambda: _print_error(error, show)):
            comm.abort(code)
        raise SystemExit(code) from None


def _end_among_failing(error_comm: Any, print_error: Callable[[], None]) -> bool:
    """Print the error on one failing rank; return whether all ranks fail, and need no end by this one."""
    failing = _FailingRank(error_comm)
    all_fail = failing.wait_for_others()
    prints = failing.claim_printing(all_fail)
    # Launchers may end this rank by a signal as soon as another one has ended: the end of the job is told.
    clear_note()
    if prints:
        print_error()
    elif not all_fail:
        time.sleep(_END_S)  # the rank that prints ends the job
    return all_fail


class _FailingRank:
    """One of the ranks that fail, at any time after one another, with its messages to the others.

    Every failing rank is here and answers within `_CLAIM_S`; all others may compute for long.
    """

    def __init__(self, error_comm: Any) -> None:
        self._comm, self._rank = error_comm, error_comm.Get_rank()
        self._all_fail = error_comm.Ibarrier()
        self._tell(range(self._rank + 1, error_comm.Get_size()), _FAILS)

    def wait_for_others(self) -> bool:
        """Wait until all ranks fail, or for a moment; return whether all do."""
        return _wait(_OTHERS_FAIL_S, self._all_fail.Test)

    def claim_printing(self, all_fail: bool) -> bool:
        """Tell others that this rank prints if it is the lowest that fails; return whether it may."""
        lower_fails = self._rank > 0 and (all_fail or self._hears(_FAILS))
        if lower_fails or self._hears(_LOWER_PRINTS) or self._hears(_HIGHER_PRINTS):
            return False
        self._tell(range(self._rank + 1, self._comm.Get_size()), _LOWER_PRINTS)
        self._tell(range(self._rank), _HIGHER_PRINTS)
        # Of two that claim at once, neither has heard of the other yet: the lower one prints.
        return not _wait(_CLAIM_S, lambda: self._hears(_LOWER_PRINTS))

    def _hears(self, tag: int) -> bool:
        return bool(self._comm.Iprobe(tag=tag))

    def _tell(self, ranks: range, tag: int) -> None:
        for rank in ranks:
            self._comm.isend(None, rank, tag)


@contextmanager
def _serial_errors(show: Callable[[BaseException], None]) -> Iterator[None]:
    try:
        yield
    except SystemExit:
        raise
    except BaseException as caught:
        error = root_cause(caught)
        show(error)
        raise SystemExit(_exit_code(error)) from None


def show_error(error: BaseException, program: str = "petamap") -> None:
    """Print an error to standard error: one line for a `UserError`, one traceback for others.

    Parameters
    ----------
    error : BaseException
    program : str
        What is said to fail.
    """
    if isinstance(error, UserError):
        tell(f"{program}: {error.label}{error}")
    elif isinstance(error, KeyboardInterrupt):
        tell(f"{program}: interrupted; files already written are whole")
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


def _wait(seconds: float, holds: Callable[[], bool]) -> bool:
    """Wait until a condition holds, or for so many seconds; return whether it holds."""
    # By turns and not by the clock: where a machine stalls, the time of all ranks would pass at once, before
    # they have sent or heard anything.
    for _ in range(round(seconds / _POLL_S)):
        if holds():
            return True
        time.sleep(_POLL_S)
    return holds()
