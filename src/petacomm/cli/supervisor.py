"""A process beside each rank that tells how the rank ended if the rank cannot say it itself.

Launchers end all other ranks as soon as one is killed, so none of these can tell of it. Hence a command that
was started by a launcher goes on in a child process. Its parent waits, and is there to say which rank ended,
how, and in which phase, before it ends itself and the launcher notices. It ends by a signal then: after a
mere exit code of a rank that has not started MPI yet, MPICH's launcher would let the others wait forever.
"""

from __future__ import annotations

import mmap
import os
import platform
import resource
import signal
import sys

from petacomm.base import phases
from petacomm.base.errors import UserError
from petacomm.base.launcher import launched_rank, launched_size

_PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_AWAITED = (*_FORWARDED, signal.SIGCHLD)
_MENDS = {
    signal.SIGKILL: "the system does so where memory is short: use more nodes, fewer processes on each, or "
    "fewer threads",
    signal.SIGXCPU: "allow more time (ulimit -t)",
    signal.SIGBUS: "a file or /dev/shm may be full, or cut short by others",
}


def supervise(prog: str) -> None:
    """Return in a child process whose end this process tells, if a launcher started it; else just return.

    The child ends with its parent and gets the signals that the parent gets. ``PETAMAP_SUPERVISOR=0`` leaves
    the parent away; so does a script that has started MPI, which no child could end: its threads are the
    parent's.

    Parameters
    ----------
    prog : str
        Name of the command, for messages.
    """
    wanted = os.environ.get("PETAMAP_SUPERVISOR") != "0"
    if not wanted or sys.platform != "linux" or launched_size() == 1 or _has_started_mpi():
        return
    note, parent = phases.share_note(), os.getpid()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a launcher may ignore it; then none could be awaited
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _end_with(parent)
        return
    try:  # whatever happens, the parent must not return into the command
        code = _watch(child, note, prog)
        if code < 0:
            end_by_signal(-code)
        os._exit(code)
    finally:
        os._exit(1)


def _has_started_mpi() -> bool:
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and bool(mpi.Is_initialized())


def _end_with(parent: int) -> None:
    """Let the system kill this process when its parent ends."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def end_by_signal(number: int) -> None:
    """End this process by a signal, without a second core file.

    Parameters
    ----------
    number : int
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _watch(child: int, note: mmap.mmap, prog: str) -> int:
    """Wait for a process, tell its end unless it was told, and return its exit code or minus a signal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from a terminal, the child gets it as well
    code, asked = _wait_and_forward(child)
    when = phases.read_note(note)
    if -code in {*asked, signal.SIGINT}:  # before it could tell of it, as while MPI starts
        if launched_rank() == "0" and when:
            told = "interrupted" if -code == signal.SIGINT else f"ended by {signal.Signals(-code).name}"
            print(f"{prog}: {told}", file=sys.stderr, flush=True)
        return code
    if code >= 0 and not when:
        return code
    print(f"{prog}: error: {_end_of(child, code, when or 'at its end')}", file=sys.stderr, flush=True)
    return code if code < 0 else -signal.SIGTERM


def _wait_and_forward(child: int) -> tuple[int, set[int]]:
    """Return the exit code of a process, or minus its signal, and the signals passed on to it until then.

    All that is awaited is blocked: a handler that runs just before `os.waitpid` begins would be too late.
    """
    asked: set[int] = set()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), asked
        number = signal.sigwait(_AWAITED)
        if number != signal.SIGCHLD:
            asked.add(number)
            os.kill(child, number)


def _end_of(process: int, code: int, when: str) -> UserError:
    """Return the error that tells the end of a process."""
    who = f"rank {launched_rank()} (process {process} on {platform.node()})"
    if code >= 0:
        return UserError(f"{who} ended before its work was done, with exit code {code}, {when}")
    number = signal.Signals(-code)
    return UserError(f"{who} was ended by signal {-code} ({number.name}) {when}", mend=_MENDS.get(number))
