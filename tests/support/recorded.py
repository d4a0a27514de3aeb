"""Programs of MPI that tests record."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import run_command
from mpi import MPIEXEC

from petacomm.recording import load_recording

COMPILER = MPIEXEC.with_name("mpicc")


def require_compiler():
    """Skip the test where nothing can be recorded."""
    if not MPIEXEC.exists() or not COMPILER.exists() or shutil.which("cc") is None:
        pytest.skip("no mpiexec, mpicc and C compiler for this Python: pip install mpich, apt install gcc")


def petacomm(*words, **options):
    """Return the ended command ``petacomm`` with some words."""
    program = "import sys; from petacomm.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return run_command([sys.executable, "-c", program, *words], **options)


def record_command(folder: Path, n_ranks: int, *words, code=0, said=False, **options):
    """Return the recording of a program that ends with an exit code, and warnings if asked for."""
    require_compiler()
    job = [MPIEXEC, "-n", n_ranks, *words]
    ended = petacomm("record", "--out", folder / "recorded", "--", *job, cwd=folder, **options)
    assert ended.returncode == code, f"ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
    recording = load_recording(folder / "recorded.npz")
    return (recording, ended.stderr) if said else recording


def record_python(folder: Path, n_ranks: int, text: str, **options):
    """Return the recording of a program in Python, which has MPI, comm, rank, size, np and phase.

    The last is MPI_Pcontrol: mpi4py's own takes no levels above 2.
    """
    head = "import ctypes\nfrom mpi4py import MPI\nimport numpy as np\n"
    head += "phase = ctypes.CDLL(None).MPI_Pcontrol\n"
    head += "comm = MPI.COMM_WORLD\nrank, size = comm.rank, comm.size\n"
    (folder / "program.py").write_text(head + text)
    return record_command(folder, n_ranks, sys.executable, "program.py", **options)


def byte_matrix(rows, n_ranks):
    """Return the bytes of messages from each rank (row) to each (column)."""
    matrix = np.zeros((n_ranks, n_ranks), np.int64)
    np.add.at(matrix, (rows["source"], rows["target"]), rows["bytes"])
    return matrix
