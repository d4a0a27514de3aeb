"""Nanoseconds a sample of simulated noise and sky signal: one core, best of five, requests of 2^17 samples.

Run ``python benchmarks/simulation.py [samples]``. Sky signal includes the expansion of its pointing: a
Planck-like scan, knots every 512 samples, I, Q and U at N_side 512. Peer measured on this kind of machine:
litebird_sim's 1/f noise 153 ns a sample.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from petamap.data.observation import Observation, Signal
from petamap.noise.model import OneOverF
from petamap.pointing import quaternion
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.simulation.noise import SimulatedNoise, UniformNoise
from petamap.simulation.noise_filters import design_cascade
from petamap.simulation.point_sources import PointSources
from petamap.simulation.random_keys import Purpose, gaussians, random_stream
from petamap.simulation.sky import Sky, SkySignal
from petamap.sky.healpix import Healpix

RATE = 78.8
MODELS = {
    "white noise": OneOverF(2e-4),
    "1/f, fknee 50 mHz, fmin 11.5 uHz": OneOverF(2e-4, 0.05, 1.15e-5, -1.0),
    "1/f, fknee 1 Hz, fmin 1 mHz, alpha -2.5": OneOverF(2e-4, 1.0, 1e-3, -2.5),
}


def scan(n_samp: int) -> CompressedPointing:
    """Spin once a minute, 85 degrees from an axis that drifts by a degree a day; knots every 512 samples."""
    spacing = 512
    seconds = np.arange(n_samp // spacing + 5) * spacing / RATE
    spin = quaternion.multiply(
        quaternion.about_z(np.radians(seconds / 86400)), quaternion.about_y(np.full(len(seconds), np.pi / 2))
    )
    turned = quaternion.multiply(spin, quaternion.about_z(2 * np.pi * seconds / 60))
    boresight = quaternion.multiply(turned, quaternion.about_y(np.radians(85)))
    detector = quaternion.from_angles(0.05, 0.3, 1.0)
    return CompressedPointing(Boresight(boresight, n_samp, spacing, order="cubic"), [detector])


def nanoseconds(work: Callable[[], object], n: int) -> float:
    """Return the best of five."""
    best = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best / n * 1e9


def reading(signal: Signal, n: int, step: int) -> Callable[[], None]:
    """Return what reads n samples in requests of `step`."""
    out = np.zeros(step)

    def work() -> None:
        for start in range(0, n - step + 1, step):
            signal.add_signal(0, start, start + step, out)

    return work


def show(label: str, value: float, unit: str = "ns") -> None:
    """Print a line."""
    print(f"{label:<60}{value:8.1f} {unit}", flush=True)


def main(n: int) -> None:
    """Print the table."""
    n = max(n >> 17, 1) << 17
    words = random_stream(Purpose.NOISE, 1, 0)
    show("normal numbers", nanoseconds(lambda: gaussians(words, n), n))
    for name, model in MODELS.items():
        there = Observation("scan", 1, n, RATE, ("a",))
        noise = SimulatedNoise(there, UniformNoise(model), 1, 0)
        for step in (1 << 17, 1 << 12):
            show(f"{name}, requests of {step}", nanoseconds(reading(noise, n, step), n))
        show(
            "    its filters, made once",
            nanoseconds(partial(design_cascade, model, RATE, n / RATE), 1) / 1e6,
            "ms",
        )
    pointing = scan(n)
    values = np.random.default_rng(0).standard_normal((3, 12 * 512**2))
    for interpolate in (False, True):
        sky = SkySignal(Sky(Healpix(512, nest=True), lambda: values), pointing, interpolate)
        how = "bilinear" if interpolate else "nearest pixel"
        show(f"sky map, {how}", nanoseconds(reading(sky, n, 1 << 17), n))
    centres = pointing.directions(0, 0, 4)[0]
    sources = PointSources(pointing, centres, np.ones(4), np.full(4, 0.002))
    show("four point sources", nanoseconds(reading(sources, n, 1 << 17), n))


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 1 << 21)
