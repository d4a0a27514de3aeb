"""Time and memory of a rank for the streams of a long run: laid out, banded, dealt, its own part expanded.

Noise differs by detector, intervals are of an hour. Nothing is communicated: each rank does the same.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from petamap.data.observation import DetectorNoise, Observation
from petamap.mapmaking.bands import StreamBands, stream_bands
from petamap.mapmaking.noise_kernels import declared_model, inverse_noise
from petamap.mapmaking.time_layout import TimeLayout
from petamap.noise.model import OneOverF


def made_observation(n_intervals: int, n_det: int, rate: float) -> Observation:
    """Return an observation with intervals of an hour and the noise of each of its detectors."""
    length = round(3600 * rate)
    models = tuple(OneOverF(1e-3, 0.1, 0.01 * (1 + number % 7), -1.0) for number in range(n_det))
    return Observation(
        "all", 1, n_intervals * length, rate, tuple(f"d{number}" for number in range(n_det)),
        intervals=tuple((k * length, (k + 1) * length) for k in range(n_intervals)),
        noise=DetectorNoise(models),
    )  # fmt: skip


def set_up(one: Observation, bands: StreamBands, groups: int | None, size: int) -> int:
    """Lay out and deal the run, and expand the part of a rank in the middle; return its samples."""
    layout = TimeLayout([one], bands.n_lag, bands.n_lag)
    local = layout.local_blocks(layout.rank_blocks(groups, size, size // 2))
    inverse_noise([one], layout, local, declared_model, bands.lags)
    return local.n_out


def measured(work: Callable[[], object]) -> str:
    """Return processor seconds and the largest memory of a function, called twice."""
    begin = time.process_time()
    work()
    seconds = time.process_time() - begin
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return f"{seconds:8.2f} s {peak / 1e6:8.1f} MB"


def main() -> None:
    """Print a line for each step and distribution."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intervals", type=int, default=100_000)
    parser.add_argument("--detectors", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=16_384)
    parser.add_argument("--rate", type=float, default=20.0, help="Hz")
    chosen = parser.parse_args()
    one = made_observation(chosen.intervals, chosen.detectors, chosen.rate)
    print(f"{chosen.intervals * chosen.detectors:,} streams of {one.n_samp * one.n_det:.3g} samples in all")
    print("bands           ", measured(lambda: stream_bands([one], "auto")))
    bands = stream_bands([one], "auto")
    mixed = int(np.sqrt(chosen.detectors))
    for name, groups in (
        ("streams", None), ("time-major", 1), ("mixed", mixed), ("detector-major", chosen.detectors),
    ):  # fmt: skip
        print(f"{name:16}", measured(lambda: set_up(one, bands, groups, chosen.ranks)))  # noqa: B023


if __name__ == "__main__":
    main()
