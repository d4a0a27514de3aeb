"""Nanoseconds a sample and iteration of map-making, beside the bare FFTs that it needs (ducc0) and peers.

Run ``python benchmarks/mapmaking.py [--samples 30e6] [--n-side 512] [--threads 1 2]``. A satellite scan of 8
detectors, I, Q, U, a band of 4096 lags, float64, as in a real run: the observation comes from the satellite
source, noise is simulated on request, and the solver iterates on what it finds. Times are the best of several
passes of this process on a machine that may be noisy: compare ratios.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import ducc0
import numpy as np

from petamap.base.progress import Silent
from petamap.base.timers import Timers
from petamap.comm.mpi import world
from petamap.data.config import loads, open_sources
from petamap.data.observation import Observation
from petamap.mapmaking.binning import right_hand_side
from petamap.mapmaking.kernels import declared_model
from petamap.mapmaking.normal import NormalOperator
from petamap.mapmaking.pcg import ConjugateGradients
from petamap.mapmaking.system import Choices, System, set_up
from petamap.mapmaking.vectors import Unknowns
from petamap.sky.healpix import Healpix
from petamap.sky.stokes import Stokes

N_DET, N_LAG, RATE = 8, 4096, 78.8

CONFIG = """
[map]
n_side = {n_side}
[[source]]
kind = "satellite"
n_det = {n_det}
duration = "{duration} s"
sample_rate = "{rate} Hz"
spin_period = "1 min"
opening = "50 deg"
precession_angle = "45 deg"
precession_period = "6 h"
net = "50 uK s^0.5"
fknee = "50 mHz"
fmin = "0.01 mHz"
[[source]]
kind = "noise"
"""


def observations(n_samples: int, n_side: int) -> list[Observation]:
    """Return a satellite's observation of `n_samples` in all."""
    text = CONFIG.format(n_side=n_side, n_det=N_DET, duration=n_samples / N_DET / RATE, rate=RATE)
    return open_sources(loads(text, Path("benchmark.toml")))


def best(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the least of several calls, s: processor time, which other programs disturb least."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def bare_ffts(system: System, n_threads: int) -> float:
    """Return the time of the real transforms, forward and back, that all blocks need (ducc0), s."""
    blocks, layout = system.projection.share.blocks, system.layout
    half = layout.block // 2
    n_transforms = int(np.ceil(blocks[:, 3] / half).sum())
    time_domain = np.random.default_rng(0).standard_normal((n_threads, layout.transform))
    spectrum = np.empty((n_threads, layout.transform // 2 + 1), complex)

    def transforms() -> None:
        for _ in range(n_transforms // n_threads):
            ducc0.fft.r2c(time_domain, axes=(1,), out=spectrum, nthreads=n_threads)
            ducc0.fft.c2r(
                spectrum, axes=(1,), out=time_domain, lastsize=layout.transform, forward=False,
                inorm=2, nthreads=n_threads,
            )  # fmt: skip

    return best(transforms, 2)


def measure(found: list[Observation], n_side: int, n_threads: int, pointing: str) -> dict[str, float]:
    """Return ns a sample of each part of the job."""
    timers, comm = Timers(), world()
    choices = Choices(stokes=Stokes.IQU, n_lag=N_LAG, pointing=pointing, n_threads=n_threads)
    system = set_up(found, Healpix(n_side, nest=True), choices, declared_model, comm, timers, Silent())
    n_samp = system.layout.n_samp
    with timers.phase("data"):
        rhs = right_hand_side(
            system.projection, system.noise, system.shared, system.statistics.binned_weights,
            system.statistics.hits_max,
        )  # fmt: skip
    operator = NormalOperator(system.projection, system.noise, system.shared, system.statistics.hits_max)
    vector = Unknowns(np.ones_like(rhs.pixels), np.zeros_like(rhs.gaps))
    out = vector.zeros_like()
    apply = best(lambda: operator.apply(vector, 3.0, out))
    gradients = ConjugateGradients(operator, system.preconditioner, system.owned, comm, n_threads)
    solution = gradients.solve(Unknowns(rhs.pixels, rhs.gaps), 0.0, 6)
    steps = np.diff([step.seconds for step in solution.history])
    seconds = {
        "set-up: pixels, pointing, weights": sum(
            timers.phases[name].seconds for name in ("pointing", "weights", "reduction plan")
        ),
        "data: noise, filter, both right-hand sides": timers.phases["data"].seconds,
        "P^T N^-1 P": apply,
        "iteration (median)": float(np.median(steps)),
        "bare FFTs (ducc0)": bare_ffts(system, n_threads),
    }
    print(
        f"{n_samp / 1e6:.1f} M samples, {system.projection.n_local} pixels, transforms of "
        f"{system.layout.transform}, {n_threads} threads, pointing {pointing}: "
        f"{system.memory.bytes_per_sample:.2f} bytes a sample"
    )
    return {name: value / n_samp * 1e9 for name, value in seconds.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=float, default=30e6)
    parser.add_argument("--n-side", type=int, default=512)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    found = observations(int(arguments.samples), arguments.n_side)
    for pointing in ("keep", "recompute"):
        for n_threads in arguments.threads:
            table = measure(found, arguments.n_side, n_threads, pointing)
            for name, value in table.items():
                print(f"  {name:45s} {value:8.2f} ns a sample")
            ratio = table["iteration (median)"] / table["bare FFTs (ducc0)"]
            print(f"  {'iteration / bare FFTs':45s} {ratio:8.2f}")


if __name__ == "__main__":
    main()
