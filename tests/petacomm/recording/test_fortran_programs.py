"""Recordings of programs in Fortran, by each interface to MPI, with each MPI that has a compiler here."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from recorded import byte_matrix, petacomm

from petacomm.recording import load_recording
from petacomm.recording.recording import CALLS

PROGRAM = Path(__file__).with_name("samples") / "ring.F90"
INTERFACES = {"mpif.h": [], "mpi": ["-DMODULE"], "mpi_f08": ["-DF08"]}
# Of commands, as Debian names them where there may be several MPIs.
SUFFIXES = [name for name in (".mpich", ".openmpi") if shutil.which(f"mpifort{name}")] or [""]


def compiled(folder, suffix, interface):
    """Return the path of the program, or skip the test where it cannot be compiled."""
    names = [f"{name}{suffix}" for name in ("mpifort", "mpicc", "mpiexec")]
    if not all(map(shutil.which, names)):
        pytest.skip(f"no {', '.join(names)}")
    words = [names[0], "-w", *INTERFACES[interface], PROGRAM, "-o", folder / "ring"]
    loose = [names[0], "-fallow-argument-mismatch", *words[1:]]  # GCC 10 and later, of mpif.h
    ended = [subprocess.run(one, capture_output=True, text=True, timeout=120, check=False)
             for one in (loose, words)]  # fmt: skip
    if all(one.returncode for one in ended):
        pytest.skip(f"{names[0]} does not compile: {ended[-1].stderr.strip().splitlines()[-1:]}")
    return folder / "ring"


def expected(n_ranks):
    """Return what the program sends to single ranks, in phase 0 and 1."""
    ranks = np.arange(n_ranks)
    faces, prepared = np.zeros((2, n_ranks, n_ranks), np.int64)
    for step in (1, -1):
        np.add.at(faces, (ranks, (ranks + step) % n_ranks), 5 * 8000)
    prepared[ranks, ranks] = 80
    prepared[ranks, (ranks + 1) % n_ranks] = 2 * 56
    return faces, prepared


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_ring_and_collectives(tmp_path, monkeypatch, suffix, interface):
    for name in ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe"):
        monkeypatch.setenv(f"OMPI_{name}", "1")
    program = compiled(tmp_path, suffix, interface)
    words = ["record", "--mpicc", f"mpicc{suffix}", "--out", tmp_path / "recorded", "--"]
    ended = petacomm(*words, f"mpiexec{suffix}", "-n", 4, program, cwd=tmp_path)
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"
    recording = load_recording(tmp_path / "recorded.npz")
    for phase, matrix in enumerate(expected(4)):
        assert np.array_equal(byte_matrix(recording.of_phase(phase).direct, 4), matrix), phase
    assert recording.direct["messages"].sum() == 4 * (10 + 1 + 2)
    calls = sorted((CALLS[row["call"]], recording.groups[row["group"]].ranks.tolist(), int(row["root"]),
                    int(row["size"])) for row in recording.collectives)  # fmt: skip
    everyone = list(range(4))
    halves = [("allreduce", ranks, 0, 32) for ranks in ([2, 0], [3, 1])]
    others = [("alltoall", everyone, 0, 24), ("barrier", everyone, 0, 0), ("bcast", everyone, 1, 800)]
    assert calls == [*halves, *others]
    assert set(recording.collectives["phase"]) == {1}
