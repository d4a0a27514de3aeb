"""All commands with the files that they need, for campaigns that cut them short."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
from montecarlo_runs import TINY
from mpi import MPIEXEC

from petacomm.recording.recording import COLLECTIVES, MESSAGES, RankGroup, Recording
from petamap.cli.main import main

JOB = """\
ranks = 8
ranks_per_node = 2
[graph]
file = "halo.csv"
[machine]
name = "fugaku"
shape = "2x2x1"
hosts = ["n1", "n2", "n3", "n4"]
"""
HALO = "".join(f"{rank},{(rank + step) % 8},{65536 * step}\n" for rank in range(8) for step in (1, 2))
TABLE = """\
[run]
name = "table"
[map]
n_side = 4
[[source]]
kind = "table"
path = "day.csv"
signal = "I"
"""
NET = "--machine bluegene-l --shape 4x4x2 --bytes 960"
SHORT = "source.0.duration=3 h"
LAUNCHER = shlex.join([str(MPIEXEC), "-n", "2"])
PROGRAM = shlex.join([sys.executable, "-c", "from mpi4py import MPI; MPI.COMM_WORLD.allreduce(1)"])
# name -> words, in a folder that `prepare` has filled; what is written is named out
COMMANDS = {
    "run": f"petamap run tiny.toml --out out {SHORT!r}",
    "run --dry-run": f"petamap run tiny.toml --dry-run {SHORT!r}",
    "simulate": f"petamap simulate tiny.toml --out out {SHORT!r}",
    "sweep": f"petamap sweep tiny.toml --out out run.seed=1,2 {SHORT!r}",
    "coadd": "petamap coadd one two --out out",
    "coadd --joint": "petamap coadd --joint one two --out out",
    "mc": f"petamap mc tiny.toml --out out montecarlo.realizations=4 {SHORT!r}",
    "init": "petamap init out/new.toml",
    "check": f"petamap check tiny.toml {SHORT!r}",
    "check --hash": "petamap check table.toml --hash out",
    "convert": "petamap convert tiny.toml out.xml",
    "plan": "petamap plan tiny.toml --ranks 8 --machine hopper",
    "plan mc": f"petamap plan mc tiny.toml --ranks 8 --machine hopper {SHORT!r}",
    "plan paper": f"petamap plan paper tiny.toml --out out.html {SHORT!r}",
    "scaling": f"petamap scaling tiny.toml --ranks 1,2 --out out --force {SHORT!r}",
    "slurm": "petamap slurm tiny.toml --machine hopper",
    "report": "petamap report copy",
    "spectra": "petamap spectra one --out out.fits",
    "spectra --fit": "petamap spectra one --against planck2018 --fit amplitude --out out.fits",
    "compare": "petamap compare one two",
    "examples": "petamap examples",
    "doctor": "petamap doctor",
    "completion": "petamap completion bash",
    "net predict": f"petacomm net predict allreduce {NET}",
    "net simulate": f"petacomm net simulate alltoall {NET}",
    "net draw": f"petacomm net draw broadcast {NET} --out out.svg",
    "net export": f"petacomm net export allreduce {NET} --algorithm ring --out out.goal",
    "net export msccl": f"petacomm net export alltoall {NET} --format msccl --out out.xml",
    "net export mscclpp": f"petacomm net export alltoall {NET} --format mscclpp --out out.json",
    "net export simgrid": f"petacomm net export alltoall {NET} --format simgrid --out out.tit",
    "map": "petacomm map job.toml --format openmpi --out out --report out.html",
    "map compare": "petacomm map compare job.toml --strategies greedy,recursive",
    "record": f"petacomm record --out out.npz -- {LAUNCHER} {PROGRAM}",
    "record show": "petacomm record show halo.npz --out out.csv",
    "tune": f"petacomm tune --out out --force --collectives barrier --sizes 8 --seconds 0.1 -- {LAUNCHER}",
    "petacomm completion": "petacomm completion bash",
    "topology": "petacomm topology fugaku",
    "datatypes": "petacomm datatypes bench halo --shape 4x4 --turns 1",
    "config": "petacomm config",
}


def prepare(folder: Path) -> None:
    """Fill a folder with what the commands read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.toml").write_text(TINY)
    (folder / "job.toml").write_text(JOB)
    (folder / "halo.csv").write_text(HALO)
    everyone = RankGroup("MPI_COMM_WORLD", np.arange(8, dtype=np.int32))
    sent = np.array([(0, 0, 0, 1, 2, 9, 5, 1500)], dtype=MESSAGES)
    Recording(8, "Some MPI", [everyone], sent, np.zeros(0, COLLECTIVES)).save(folder / "halo.npz")
    (folder / "table.toml").write_text(TABLE)
    (folder / "day.csv").write_text(
        "time,ra,dec,psi,I\n" + "".join(f"{i},{i},{i},{i},{i}\n" for i in range(50))
    )
    for name, day in (("one", 1), ("two", 2)):
        settings = [SHORT, f"source.0.name={name}", f"source.0.start=2026-01-0{day}"]
        words = [str(folder / "tiny.toml"), *settings, "--out", str(folder / name), "--quiet"]
        assert main(["run", *words]) == 0
    shutil.copytree(folder / "one", folder / "copy")
