"""Opening of many files on several ranks: together, and each rank for itself.

    python benchmarks/opening.py [--files 400] [--n-side 1024] [--ranks 1,2,4,8]

Volumes of 100 detectors, 20 s at 20 Hz each, and an input map of I, Q, U. What stands is seconds until all
ranks have their observations, how often a volume is opened, and the memory of all ranks together beyond that
before, what they share counted once (PSS).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import h5py
import numpy as np

from petacomm.mpi import world
from petamap.data.config import open_sources, parse_config
from petamap.data.formats.volume_write import write_volume
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map

_MADE = """
[[source]]
kind = "ground"
duration = "{duration} s"
n_observations = {files}
n_det = 100
sample_rate = "20 Hz"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
"""
_READ = """
[map]
n_side = 64
frame = "equatorial"
[[source]]
kind = "volume"
path = "volumes"
[[source]]
kind = "sky-map"
map = "sky.fits"
"""
_DURATION = 20


def make(folder: Path, n_files: int, n_side: int) -> None:
    """Write the files."""
    folder.joinpath("volumes").mkdir()
    text = "[map]\nn_side = 64\n" + _MADE.format(files=n_files, duration=n_files * _DURATION)
    for number, one in enumerate(open_sources(parse_config(text))):
        write_volume(folder / "volumes" / f"{number:04d}.h5", [one])
    sky = np.random.default_rng(1).normal(size=(3, 12 * n_side**2))
    write_map(
        folder / "sky.fits", sky, Healpix(n_side), names="IQU", unit="K_CMB", run_id="a", frame="equatorial"
    )


def own_bytes() -> int:
    """Return the memory of this process, its part of what it shares."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("Pss:")))


def measure(folder: Path, together: bool) -> None:
    """Print a row of the table, on rank 0."""
    comm, count, opened = world(), [0], h5py.File

    def counted(*arguments: object, **options: object) -> object:
        count[0] += 1
        return opened(*arguments, **options)

    config = parse_config(_READ, folder / "run.toml")
    comm.barrier()
    before, begin = comm.sum(own_bytes()), time.perf_counter()
    with mock.patch.object(h5py, "File", counted):
        found = open_sources(config, comm=comm if together else None)
    seconds = comm.max(time.perf_counter() - begin)
    comm.barrier()
    n_bytes, opens = comm.sum(own_bytes()) - before, comm.sum(count[0])
    if comm.rank == 0:
        how = "together" if together else "each rank"
        each = opens / len(found)
        print(f"| {comm.size} | {how} | {seconds:.2f} | {each:.2f} | {n_bytes / 1e6:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--n-side", type=int, default=1024)
    parser.add_argument("--ranks", default="1,2,4,8")
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "HOW"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(Path(arguments.measure[0]), arguments.measure[1] == "together")
        return
    with tempfile.TemporaryDirectory() as name:
        make(Path(name), arguments.files, arguments.n_side)
        print("| ranks | opened by | seconds | opens a file | MB |\n|---|---|---|---|---|", flush=True)
        for n_ranks in arguments.ranks.split(","):
            for how in ("alone", "together"):
                mpiexec = Path(sys.executable).with_name("mpiexec")
                job = [mpiexec, "-n", n_ranks, sys.executable, __file__, "--measure", name, how]
                subprocess.run(job, check=True, timeout=600)


if __name__ == "__main__":
    main()
