"""The start of MPI."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from petacomm.base.errors import ResourceError
from petacomm.base.launcher import launched_size
from petacomm.base.signal_errors import raise_swallowed
from petacomm.base.threads import node_processors

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
_LOCAL_SIZE_VARIABLES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE")

# Settings for more ranks than processors, where MPICH's shared-memory collectives spin for seconds and Open
# MPI does not yield.
OVERSUBSCRIBED = {
    "MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD": "100000000",
    "MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "mpir",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_mpi_yield_when_idle": "1",
}


def load_mpi() -> Any:
    """Start MPI and return ``mpi4py.MPI``.

    Raises
    ------
    ResourceError
        If mpi4py is not installed, or built with another MPI library than the launcher's.
    """
    expected = launched_size()
    _set_mpi_variables()
    try:
        import mpi4py

        # Only the main thread calls MPI.
        mpi4py.rc.thread_level = "funneled"
        with _signals_at_once():
            from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ResourceError(
            f"started by an MPI launcher, but mpi4py cannot be used: {str(error).splitlines()[0]}",
            mend="pip install mpi4py mpich, or set PETAMAP_MPI=0 to run every process alone",
        ) from error
    size = MPI.COMM_WORLD.Get_size()
    if expected is not None and expected != size:
        raise ResourceError(
            f"the launcher started {expected} processes, but MPI sees {size}: they belong to two MPIs",
            mend="use the mpiexec of the MPI that mpi4py was built with",
        )
    return MPI


@contextlib.contextmanager
def _signals_at_once() -> Iterator[None]:
    """Let signals end the process within the block, in the place of what Python would make of them after it.

    As it starts, MPI waits for all ranks: for ever, if a signal has ended some that had not come so far.
    """
    handled = [number for number in _ENDS if callable(signal.getsignal(number))]
    if threading.current_thread() is not threading.main_thread():
        handled = []  # only the main thread may change them, and Python calls them there
    before = {number: signal.signal(number, signal.SIG_DFL) for number in handled}
    try:
        raise_swallowed()
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def load_mpi_of_program() -> Any:
    """Return ``mpi4py.MPI`` in a program that has started MPI, whose error handlers stay as they are.

    mpi4py would have errors on MPI_COMM_WORLD returned, which the program does not expect.

    Raises
    ------
    ResourceError
        As `load_mpi` does.
    """
    with contextlib.suppress(ImportError):
        import mpi4py

        mpi4py.rc.errors = "default"
    return load_mpi()


def unlink_mpi_memory() -> None:
    """Unlink the files of shared memory that MPICH has mapped, once all ranks have mapped them.

    MPICH does so at an orderly end alone: of each job that is killed, a megabyte a rank would stay. To be
    called after a barrier of all ranks.
    """
    with contextlib.suppress(OSError):
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        for path in set(re.findall(r"/dev/shm/mpich_shm_\w+$", maps, re.MULTILINE)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _set_mpi_variables() -> None:
    """Set environment variables that MPI reads when it starts, unless the user has set them."""
    # petamap prints its own error message; MPICH would print a second one.
    os.environ.setdefault("MPIR_CVAR_SUPPRESS_ABORT_MESSAGE", "1")
    local = [int(os.environ[name]) for name in _LOCAL_SIZE_VARIABLES if os.environ.get(name, "").isdecimal()]
    if local and local[0] > node_processors():
        for name, value in OVERSUBSCRIBED.items():
            os.environ.setdefault(name, value)
