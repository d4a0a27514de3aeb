"""From files to maps: whole jobs beside TOAST's on the same volume, and litebird_sim's on arrays in memory.

    python benchmarks/from_file.py [--hours 7.5] [--observations 1] [--turns 3] [--peers PYTHON]

A satellite's 8 detectors at 64 Hz, I, Q, U at N_side 128, 1/f noise with a knee of 0.1 Hz, 1% of the samples
flagged for all detectors and 0.2% for each; written by TOAST's own operator, then as petamap's volume and as
MADmap 1 files (I alone, and I, Q, U; no flags). Each job is a process of its own on one core, in turns; what
stands is the least of them: seconds of the processor without imports and with them, and the most memory.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from destriping import FKNEE, FMIN, N_SIDE, NET, RATE, Recorded, distance, made

from petacomm.base.host import peak_bytes
from petacomm.base.progress import SilentProgress
from petacomm.base.timers import Timers
from petacomm.mpi import world
from petamap.data.config import RunConfig, parse_config
from petamap.data.formats.madmap1_write import write_madmap1
from petamap.data.formats.toast import ToastOptions, ToastSource
from petamap.data.formats.volume_write import write_volume
from petamap.data.observation import DetectorNoise, Observation
from petamap.data.source import SourceContext
from petamap.mapmaking.noise_kernels import declared_model
from petamap.mapmaking.right_hand_side import right_hand_side
from petamap.mapmaking.run import run
from petamap.mapmaking.system import set_up
from petamap.mapmaking.system_options import SystemOptions
from petamap.noise.model import InverseLags, OneOverF
from petamap.noise.toeplitz import inverse_lags
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_map
from petamap.templates.kinds import Baselines

HERE = Path(__file__).parent
LENGTH = 4.0  # of a baseline, seconds
ITERATIONS = 30  # of destripers on arrays
MADMAP_LAGS = 2048
PEER = "of a peer"

_RUN = f"""
[run]
name = "made"
[map]
n_side = {N_SIDE}
stokes = "{{stokes}}"
frame = "equatorial"
[resources]
threads = 1
pointing = "{{pointing}}"
[solver]
binned_only = {{binned}}
[noise]
kernel = "{{kernel}}"
[[source]]
"""
_MADMAP = (
    'kind = "madmap1"\ntod = "{}"\nfilters = "filters"\nhealpix = "nested"\n'
    f'frame = "equatorial"\nsample_rate = "{RATE} Hz"\n'
)
_SOURCES = {
    "toast": 'kind = "toast"\npath = "toast"\n',
    "volume": 'kind = "volume"\npath = "volume.h5"\n',
    "madmap1": _MADMAP.format("tod"),
    "madmap1-iqu": _MADMAP.format("tod-iqu"),
}


def config(folder: Path, source: str, kind: str, pointing: str) -> RunConfig:
    """Return a run from files in a folder: "binned" with white weights, or "map"."""
    binned, stokes = kind == "binned", "I" if source == "madmap1" else "IQU"
    kernel = "white" if binned else "model"
    text = _RUN.format(stokes=stokes, pointing=pointing, binned=str(binned).lower(), kernel=kernel)
    return parse_config(text + _SOURCES[source], folder / "run.toml")


# --- what is measured, each in a process of its own


def file_job(folder: Path, source: str, kind: str, pointing: str) -> None:
    """Make the maps of files, and print what that took."""
    begin = time.process_time()
    with tempfile.TemporaryDirectory(dir=folder) as out:
        found = run(config(folder, source, kind, pointing), out=out)
        seconds, peak = time.process_time() - begin, peak_bytes()
        if source == "toast":
            np.save(folder / f"{kind}.npy", read_map(Path(out) / f"made_{kind}.fits").values.T)
            write_noise(folder, Path(out))
    iterations = found.solver.iterations if found.solver else 0
    tell(seconds=seconds, with_imports=begin + seconds, bytes=peak, iterations=iterations)


def array_job(folder: Path, kind: str) -> None:
    """Make a map of arrays in memory in `ITERATIONS` iterations, and print what that took."""
    with np.load(folder / "scan.npz") as file:
        scan = dict(file)
    n_det, n_samp = scan["signal"].shape
    begin = time.process_time()
    one = Observation(
        name="scan", uid=1, n_samp=n_samp, sample_rate=RATE, intervals=((0, n_samp),),
        detectors=tuple(f"d{k}" for k in range(n_det)), signals=(Recorded(scan["signal"]),),
        pointing=CompressedPointing(Boresight(scan["boresight"], n_samp), scan["detectors"]),
        noise=DetectorNoise((OneOverF(NET, FKNEE, FMIN, -1.0),) * n_det),
        templates=(Baselines(LENGTH),) if kind == "destriped" else (),
    )  # fmt: skip
    options = SystemOptions(n_lag=0 if kind == "destriped" else 8192, pointing="keep")
    system = set_up(
        [one], Healpix(N_SIDE, nest=True), options, declared_model, world(), Timers(), SilentProgress()
    )
    found = system.solver().solve(right_hand_side(system).unknowns, 0.0, ITERATIONS)
    tell(seconds=time.process_time() - begin, bytes=peak_bytes(), iterations=found.iterations)


def tell(**found: float) -> None:
    """Print a result for the process that asked for it."""
    print(json.dumps(found), flush=True)


# --- the files


def write_scan(folder: Path, hours: float) -> None:
    """Write the arrays that peers are given."""
    one, samples = made(hours)
    assert isinstance(one.pointing, CompressedPointing)
    rng, (n_det, n) = np.random.default_rng(3), samples.shape
    shared, flags = np.zeros(n, np.uint8), np.zeros((n_det, n), np.uint8)
    for start in rng.integers(0, n, n // 64_000):
        shared[start : start + 640] = 1
    for row in flags:
        for start in rng.integers(0, n, n // 32_000):
            row[start : start + 64] = 1
    np.savez(
        folder / "scan.npz", boresight=one.pointing.boresight.quaternions(0, n),
        detectors=one.pointing.detectors, signal=samples, shared_flags=shared, detector_flags=flags,
        n_side=N_SIDE, rate=RATE, net=NET, fknee=FKNEE, fmin=FMIN, length=LENGTH,
    )  # fmt: skip


def write_others(folder: Path) -> None:
    """Write the volume of TOAST again, as petamap's and as MADmap's files."""
    read = ToastSource(ToastOptions(path="toast"), SourceContext(folder)).extend([])
    write_volume(folder / "volume.h5", read)
    lags = InverseLags(inverse_lags(OneOverF(NET, FKNEE, FMIN, -1.0), RATE, MADMAP_LAGS))
    bare = [replace(one, flags=(), noise=DetectorNoise((lags,) * one.n_det)) for one in read]
    for tod, stokes in (("tod", "I"), ("tod-iqu", "IQU")):
        write_madmap1(folder / tod, folder / "filters", bare, Healpix(N_SIDE, nest=True), stokes=stokes)


def write_noise(folder: Path, out: Path) -> None:
    """Write the noise of the pixels of a map, nan where they are not solved for."""
    noise = np.sqrt(read_map(out / "made_covariance.fits").values[[0, 3, 5]].T)
    noise[noise[:, 0] == 0] = np.nan
    np.save(folder / "noise.npy", noise)


# --- the table


class Table:
    """Jobs, which take turns; of each the least seconds and bytes."""

    def __init__(self, folder: Path, peers: str) -> None:
        self.folder, self.peers = folder, peers
        self.found: dict[tuple[str, ...], dict[str, float]] = {}

    def ask(self, *words: str) -> None:
        """Run a job, ours or that of a peer, and note what it says."""
        self.found.setdefault(words, {})
        for name, value in _answer(self.command(*words)).items():
            known = self.found[words].get(name, value)
            self.found[words][name] = min(known, value) if isinstance(value, float | int) else value

    def command(self, *words: str) -> list[str]:
        """Return the command line of a job."""
        if words[0] != PEER:
            return [sys.executable, __file__, "--folder", str(self.folder), "--job", " ".join(words)]
        scan = str(self.folder / "scan.npz")
        given = [scan, str(self.folder / "toast"), *words[2:]] if words[1] == "toast" else [scan, *words[2:]]
        return [self.peers, str(HERE / "peers" / f"from_file_{words[1]}.py"), *given]

    def show(self, title: str, *jobs: Sequence[str]) -> None:
        """Print jobs, and what they take in units of the first."""
        print(title)
        first = self.found[tuple(jobs[0])]
        for words in jobs:
            found = self.found[tuple(words)]
            times, memory = found["seconds"] / first["seconds"], found["bytes"] / first["bytes"]
            whole = f"{found['with_imports']:8.2f}" if "with_imports" in found else "        "
            own = "petamap " if words[0] != PEER else ""
            name = own + " ".join(words[1:] if words[0] == PEER else words)
            seconds = f"{found['seconds']:8.2f} s{whole} s {found['bytes'] / 1e6:7.0f} MB"
            steps = f"  {found['iterations']:.0f} iterations" if found.get("iterations") else ""
            print(f"  {name:36s}{seconds}   x{times:5.1f}  x{memory:5.1f}{steps}", flush=True)


def _answer(command: Sequence[str]) -> dict[str, float]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(folder: Path) -> None:
    """Print how far maps of the peer are from ours, in units of the noise of a pixel."""
    noise = np.load(folder / "noise.npy")
    for ours, theirs in (("binned", "binned"), ("map", "destriped")):
        maps = np.load(folder / f"{ours}.npy"), np.load(folder / f"scan.npz.{theirs}.npy")
        print(f"  {ours} against TOAST's {theirs}: {distance(*maps, noise):.1e} of the noise of a pixel, rms")


def measure(folder: Path, given: argparse.Namespace) -> None:
    """Print the table."""
    write_scan(folder, given.hours)
    toast = [given.peers, str(HERE / "peers" / "from_file_toast.py"), str(folder / "scan.npz")]
    subprocess.run([*toast, str(folder / "toast"), "write", str(given.observations)], check=True)
    write_others(folder)
    binned = [("toast", "binned", "keep"), (PEER, "toast", "binned", "recompute")]
    binned += [(PEER, "toast", "binned", "keep")]
    kept = [("toast", "map", "keep"), (PEER, "toast", "destriped", "keep")]
    anew = [("toast", "map", "recompute"), (PEER, "toast", "destriped", "recompute")]
    sources = ("volume", "madmap1", "madmap1-iqu")
    others = [(source, kind, "keep") for source in sources for kind in ("binned", "map")]
    arrays = [("arrays", "destriped"), ("arrays", "map"), (PEER, "litebird_sim", str(ITERATIONS))]
    table = Table(folder, given.peers)
    for turn in range(given.turns):
        for words in (*binned, *kept, *anew[: 2 if given.slow and not turn else 1], *others, *arrays):
            table.ask(*words)
    print("seconds of the processor, without imports and with them; in units of the first of each")
    table.show("binned, from a TOAST volume", *binned)
    table.show("maximum likelihood and MapMaker with the prior of the noise, pointing kept", *kept)
    table.show("    pointing expanded in every pass", *anew[: 1 + given.slow])
    table.show("from other files", *others)
    table.show(f"from arrays in memory, {ITERATIONS} iterations", *arrays)
    compare(folder)


def main() -> None:
    """Print the table, or do one job of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hours", type=float, default=7.5)
    parser.add_argument("--observations", type=int, default=1, help="that the scan is divided into")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--slow", action="store_true", help="TOAST's default MapMaker, too: minutes")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--job", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    source, *rest = given.job.split() or [""]
    if source == "arrays":
        array_job(given.folder, *rest)
    elif source:
        file_job(given.folder, source, *rest)
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), given)


if __name__ == "__main__":
    main()
