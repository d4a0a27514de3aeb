"""Run a function of a test file on several ranks, as one test."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import run_command

MPIEXEC = Path(sys.executable).with_name("mpiexec")

_PROGRAM = """
import importlib.util, sys
if sys.argv[4:]:
    from petacomm.cli.supervisor import supervise
    supervise("petamap")
from petacomm.mpi import collective_errors, world
spec = importlib.util.spec_from_file_location("ranks", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.path.insert(0, sys.argv[3])
comm = world()
with collective_errors(comm):
    spec.loader.exec_module(module)
    getattr(module, sys.argv[2])(comm)
"""


@dataclass
class Ended:
    """How a job ended: exit code, output and seconds."""

    code: int
    out: str
    err: str
    seconds: float


def launch(
    function: Callable[..., None], n_ranks: int, timeout: float = 60.0, supervised: bool = False
) -> Ended:
    """Run ``function(comm)`` of a test module under mpiexec on `n_ranks` ranks, or as a command."""
    if not MPIEXEC.exists():
        pytest.skip("no mpiexec beside this Python: pip install mpich")
    path = Path(function.__code__.co_filename)
    begin = time.monotonic()
    program = [sys.executable, "-c", _PROGRAM, str(path), function.__name__, str(Path(__file__).parent)]
    program += ["supervised"] * supervised
    # One thread a rank: the tests share few cores.
    environ = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error::RuntimeWarning"}
    ended = run_command([MPIEXEC, "-n", n_ranks, *program], timeout, env=environ)
    return Ended(ended.returncode, ended.stdout, ended.stderr, time.monotonic() - begin)


def run_ranks(function: Callable[..., None], n_ranks: int, timeout: float = 60.0) -> Ended:
    """Launch, and fail the test unless all ranks end well."""
    ended = launch(function, n_ranks, timeout)
    assert ended.code == 0, f"{n_ranks} ranks ended with {ended.code}:\n{ended.out}\n{ended.err}"
    return ended
