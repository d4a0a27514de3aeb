"""Faults of one rank in each phase of a run: the job ends within seconds, and one message tells of it."""

import os
import sys
import time
from pathlib import Path

import pytest
from cases import cases
from commands import run_command
from mpi import MPIEXEC
from rank_faults import KINDS, NUMBERS

SECONDS = 5.0  # from the fault to the end of the launcher
CODES = {"exception": 1, "memory": 5}
TEXT = """
[run]
name = "faulty"
[map]
n_side = 4
[noise]
n_lag = 64
[solver]
rcond_min = 1e-6
[resources]
threads = 1
[products]
filtered = true
modes_taken = true
pixel_covariance = true
[glitches]
find = "glitches"
[spectra]
width = 3
[[source]]
kind = "ground"
duration = "20 min"
sample_rate = "5 Hz"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
fknee = "50 mHz"
[[source]]
kind = "polynomials"
order = 1
rms = "1 mK"
"""
PHASES = (
    "sources", "distribution", "noise kernels", "pointing", "reduction plan", "weights", "preconditioner",
    "data", "iterations", "products", "filter and bin", "modes taken", "pixel covariance",
    "glitches", "spectra",
)  # fmt: skip
MONTE_CARLO = ("montecarlo.realizations=2", "montecarlo.parts=noise")
FAULTS = [(kind, phase) for phase in PHASES for kind in KINDS] + [("nan", phase) for phase in NUMBERS]
QUICK = [("exit", "noise kernels"), ("exception", "data"), ("nan", "iterations"), ("nan", "weights")]
PROGRAM = Path(__file__).parents[1] / "support" / "rank_faults.py"


@pytest.mark.parametrize(
    ("kind", "phase"), cases(*QUICK, long=[fault for fault in FAULTS if fault not in QUICK])
)
def test_one_rank_fails(kind, phase, tmp_path, ended_after):
    if not MPIEXEC.exists():
        pytest.skip("no mpiexec beside this Python: pip install mpich")
    (tmp_path / "faulty.toml").write_text(TEXT)
    rank, told = FAULTS.index((kind, phase)) % 3, tmp_path / "fails"
    environ = {"RANK_FAULT": f"{kind},{rank},{phase},{told}", "OMP_NUM_THREADS": "1"}
    command = ["mc", *MONTE_CARLO] if phase == "spectra" else ["run"]
    words = [sys.executable, PROGRAM, *command, tmp_path / "faulty.toml", "--out", tmp_path / "out"]
    ended = run_command([MPIEXEC, "-n", "3", *words], 60, env=os.environ | environ)
    seconds = time.time() - float(told.read_text())
    said = ended.stderr
    ended_after(kind, seconds)
    assert seconds < SECONDS, said
    assert ended.returncode == CODES.get(kind, ended.returncode) != 0, said
    assert said.count("petamap: error: ") + said.count("Traceback") == 1, said
    if phase == "weights" and kind == "nan":
        assert f"noise of rank {rank}: the weight of samples of segment " in said and "is nan" in said, said
    if kind != "nan":  # all ranks know of what is in the sums, and the place in the data is told of the rest
        assert f"rank {rank}" in said and f"in phase '{phase}'" in said, said
