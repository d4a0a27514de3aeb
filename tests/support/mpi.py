"""Run a function of a test file on several ranks, as one test."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import rank_program
from commands import run_command

from petacomm.mpi import SerialCommunicator

MPIEXEC = Path(sys.executable).with_name("mpiexec")

_PROGRAM = """
import sys
if sys.argv[4:]:
    from petacomm.cli.supervisor import supervise
    supervise("petamap")
sys.path.insert(0, sys.argv[3])
from rank_program import run_function
run_function(*sys.argv[1:3])
"""

# Where ranks are forked: with --fork-ranks a server's address.
server: str | None = None


@dataclass
class Ended:
    """How a job ended: exit code, output and seconds."""

    code: int
    out: str
    err: str
    seconds: float


def launch(
    function: Callable[..., None], n_ranks: int, timeout: float = 180.0, supervised: bool = False
) -> Ended:
    """Run ``function(comm)`` of a test module under mpiexec on `n_ranks` ranks, or as a command."""
    program = [sys.executable, "-c", _PROGRAM, *_place(function), str(Path(__file__).parent)]
    return _job(program + ["supervised"] * supervised, n_ranks, timeout)


def run_ranks(function: Callable[..., Any], n_ranks: int, timeout: float = 240.0) -> Ended:
    """Launch, and fail the test unless all ranks end well."""
    if server:
        client = [sys.executable, "-IS", rank_program.__file__, server, *_place(function)]
        ended = _job(client, n_ranks, timeout)
    else:
        ended = launch(function, n_ranks, timeout)
    assert ended.code == 0, f"{n_ranks} ranks ended with {ended.code}:\n{ended.out}\n{ended.err}"
    return ended


def check_same_on_ranks(function: Callable[..., Any], n_ranks: int) -> None:
    """Fail the test unless ``function(comm)`` returns the same on each of `n_ranks` ranks and here."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VALUES_OF_RANKS", folder)
        run_ranks(function, n_ranks)
        values = [pickle.loads(Path(folder, str(rank)).read_bytes()) for rank in range(n_ranks)]
    alone = function(SerialCommunicator())
    assert all(value == alone for value in values), f"{n_ranks} ranks and one process differ"


def can_fork_ranks() -> bool:
    """Return whether the system tells of the end of a process by a file, as the server of ranks needs."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


@contextlib.contextmanager
def forked_ranks(folder: Path) -> Iterator[None]:
    """Have `run_ranks` fork ranks from a server, whose socket is in a folder."""
    global server
    server = str(folder / "ranks")
    with rank_program.rank_server(server, rank_environ()):
        yield
    server = None


def _place(function: Callable[..., None]) -> tuple[str, str]:
    """Return the file of a function and its name."""
    return function.__code__.co_filename, function.__name__


def _job(program: list[str], n_ranks: int, timeout: float) -> Ended:
    if not MPIEXEC.exists():
        pytest.skip("no mpiexec beside this Python: pip install mpich")
    begin = time.monotonic()
    ended = run_command([MPIEXEC, "-n", n_ranks, *program], timeout, env=rank_environ())
    return Ended(ended.returncode, ended.stdout, ended.stderr, time.monotonic() - begin)


def rank_environ() -> dict[str, str]:
    """Return the environment of ranks."""
    # One thread a rank: the tests share few cores.
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error::RuntimeWarning"}
