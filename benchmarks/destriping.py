"""Destriping: whole jobs beside TOAST's MapMaker, the same samples and baselines, without a prior and with.

    python benchmarks/destriping.py [--hours 2] [--length 4] [--peers PYTHON]

A satellite's 8 detectors at 64 Hz, I, Q, U at N_side 128, 1/f noise with a knee of 0.1 Hz, slope -1, in
memory; each program on one core, one after the other. A job begins with the samples and ends with the map;
seconds are processor time. Both stop at the same relative residual, or where the peer stalls. Maps are
compared in units of the noise of a pixel, sigma, with a map that is solved to 1e-9; of I without its mean.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from petacomm.base.progress import SilentProgress
from petacomm.base.timers import Timers
from petacomm.base.typing import FloatArray
from petacomm.mpi import world
from petamap.data.config import open_sources, parse_config
from petamap.data.observation import Observation
from petamap.data.template import NoisePrior
from petamap.mapmaking.noise_kernels import declared_model
from petamap.mapmaking.right_hand_side import right_hand_side
from petamap.mapmaking.system import set_up
from petamap.mapmaking.system_options import SystemOptions
from petamap.pointing.compressed import CompressedPointing
from petamap.sky.healpix import Healpix
from petamap.templates.kinds import Baselines

HERE = Path(__file__).parent
N_SIDE, RATE, NET, FKNEE, FMIN = 128, 64.0, 50e-6, 0.1, 1e-5

_CONFIG = f"""
[map]
n_side = {N_SIDE}
[[source]]
kind = "satellite"
n_det = 8
duration = "{{hours}} h"
sample_rate = "{RATE} Hz"
spin_period = "1 min"
opening = "50 deg"
precession_angle = "45 deg"
precession_period = "6 h"
net = "{NET} K s^0.5"
fknee = "{FKNEE} Hz"
fmin = "{FMIN} Hz"
alpha = -1.0
[[source]]
kind = "noise"
"""


@dataclasses.dataclass(frozen=True, eq=False)
class Recorded:
    """Samples in memory (a signal of an observation)."""

    values: FloatArray

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples of a detector."""
        out += self.values[detector, start:stop]


def made(hours: float) -> tuple[Observation, FloatArray]:
    """Return the observation with its samples in memory, and these, (n_det, n_samp)."""
    (one,) = open_sources(parse_config(_CONFIG.format(hours=hours)))
    values = np.zeros((one.n_det, one.n_samp))
    for detector in range(one.n_det):
        for signal in one.signals:
            signal.add_signal(detector, 0, one.n_samp, values[detector])
    return dataclasses.replace(one, signals=(Recorded(values),)), values


def job(
    one: Observation, length: float, prior: bool, tolerance: float
) -> tuple[float, int, FloatArray, FloatArray]:
    """Return seconds, iterations, the map and the noise of its pixels, both (n_pix, 3), of a job."""
    template = Baselines(length, NoisePrior() if prior else None)
    one = dataclasses.replace(one, templates=(template,))
    begin = time.process_time()
    system = set_up(
        [one], Healpix(N_SIDE, nest=True), SystemOptions(n_lag=0, pointing="keep"), declared_model, world(),
        Timers(), SilentProgress(),
    )  # fmt: skip
    solution = system.solver().solve(right_hand_side(system).unknowns, tolerance, 1000)
    seconds = time.process_time() - begin
    values, noise = np.full((2, 12 * N_SIDE**2, 3), np.nan)
    values[system.keys] = solution.map.pixels
    noise[system.keys] = np.sqrt(system.statistics.covariance[:, [0, 3, 5]])
    noise[system.keys[system.statistics.dead]] = np.nan
    return seconds, solution.iterations, values, noise


def distance(one: FloatArray, other: FloatArray, noise: FloatArray) -> float:
    """Return the rms of the difference of two maps in units of their noise, of I without its mean."""
    difference = one - other
    good = np.isfinite(noise[:, 0]) & np.isfinite(difference).all(axis=1) & (other != 0).any(axis=1)
    difference = difference[good]
    difference[:, 0] -= difference[:, 0].mean()
    return float(np.sqrt(np.mean((difference / noise[good]) ** 2)))


def show(text: str) -> None:
    """Print a line now."""
    print(text, flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--length", type=float, default=4.0, help="of a baseline, seconds")
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON")
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    one, samples = made(given.hours)
    assert isinstance(one.pointing, CompressedPointing)
    print(
        f"{samples.size / 1e6:.1f} M samples, {samples.size / RATE / given.length:,.0f} baselines", flush=True
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scan.npz"
        np.savez(
            file,
            boresight=one.pointing.boresight.quaternions(0, one.n_samp),
            detectors=one.pointing.detectors,
            signal=samples,
            n_side=N_SIDE,
            rate=RATE,
            net=NET,
            fknee=FKNEE,
            fmin=FMIN,
            length=given.length,
            tolerance=given.tolerance,
        )
        command = [given.peers, str(HERE / "peers" / "destripe_toast.py"), str(file)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        peers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for peer in peers:
            compare(one, given, peer, np.load(f"{file}.{peer['prior']}.npy"))


def compare(one: Observation, given: argparse.Namespace, peer: dict[str, object], theirs: FloatArray) -> None:
    """Print what a job took, and how far the maps are off."""
    prior, times = peer["prior"] == "noise", float(str(peer["seconds"]))
    seconds, iterations, values, noise = job(one, given.length, prior, given.tolerance)
    exact = job(one, given.length, prior, 1e-9)[2]
    off = [f"{distance(each, exact, noise):.1e} sigma" for each in (values, theirs)]
    show(f"prior: {peer['prior']}")
    show(f"  petamap      {seconds:6.2f} s, {iterations} iterations, off by {off[0]}")
    show(f"  TOAST {peer['version']}  {times:6.2f} s, {times / seconds:.1f} times ours, off by {off[1]}")


if __name__ == "__main__":
    main()
