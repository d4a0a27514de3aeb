"""Which keys each rank holds: the patterns on which reductions are compared.

    python benchmarks/patterns.py          # their figures for 4, 8 and 16 ranks, without MPI

Each is made anew, in about a second a rank, and is the same everywhere. Pixels are in nested order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np

from petacomm.base.typing import Int64Array
from petamap.data.config import open_sources, parse_config
from petamap.sky.healpix import Healpix

# Keys of a rank among so many.
Pattern: TypeAlias = Callable[[int, int], Int64Array]

_YEAR = 31556925.0  # s
_DAY = 86400.0
_REQUEST = 1 << 16
# A rank of a run of this size, and those next to it.
NEIGHBOURS = 1024


def full_year(rank: int, size: int, n_side: int = 512) -> Int64Array:
    """P: a year of a Planck-like satellite, 8 pairs of detectors, N_side 512, cut in time order."""
    return _hit(n_side, _planck_like(n_side), rank, size)


def neighbours(rank: int, size: int, n_side: int = 1024) -> Int64Array:
    """N: the first ranks of the same year at N_side 1024 on 1024 ranks: neighbours in time."""
    return _hit(n_side, _planck_like(n_side), rank, NEIGHBOURS)


def litebird_like(rank: int, size: int, n_side: int = 256) -> Int64Array:
    """L: a year of a satellite that spins and precesses as LiteBIRD will, 4 detectors, N_side 256."""
    coarser = 256 / n_side
    scan = _satellite(4, 1200.0 * coarser, 1.0, 50.0, 45.0, 11541.0 * coarser, 0.5 / coarser)
    return _hit(n_side, scan, rank, size)


def ground(rank: int, size: int) -> Int64Array:
    """G: a telescope at constant elevation, 8 detectors, N_side 512, a day a rank: all see the same sky."""
    duration = f'duration = "{size * _DAY} s"\nn_observations = {size}\n'
    return _hit(512, f'kind = "ground"\nn_det = 8\nsample_rate = "8 Hz"\n{duration}', 0, 1, rank)


def random(rank: int, size: int) -> Int64Array:
    """R: each of a million keys on a quarter of the ranks, without any order."""
    return np.flatnonzero(np.random.default_rng([2026, rank]).random(1_000_000) < 0.25)


PATTERNS: dict[str, Pattern] = {
    "N": neighbours,
    "P": full_year,
    "L": litebird_like,
    "G": ground,
    "R": random,
}


def _planck_like(n_side: int) -> str:
    # Rings half a pixel apart, where Planck goes along each of them many times; they hit the same pixels.
    return _satellite(16, 4800.0 * 512 / n_side, 60.0, 85.0, 7.5, _YEAR / 2, 1.1 * n_side / 512)


def _satellite(
    n_det: int,
    spin_period: float,
    spacing_arcmin: float,
    opening_deg: float,
    precession_deg: float,
    precession_period: float,
    density: float = 1.0,
) -> str:
    # One sample a pixel of N_side 512 along a great circle, times `density`.
    rate = density * 3100 / spin_period
    return f"""
kind = "satellite"
n_det = {n_det}
spacing = "{spacing_arcmin} arcmin"
duration = "{_YEAR} s"
sample_rate = "{rate} Hz"
spin_period = "{spin_period} s"
opening = "{opening_deg} deg"
precession_angle = "{precession_deg} deg"
precession_period = "{precession_period} s"
pointing_error = "1 arcmin"
"""


def _hit(n_side: int, scan: str, part: int, n_parts: int, observation: int = 0) -> Int64Array:
    """Return the pixels hit by one of `n_parts` equal parts of an observation, in time order."""
    config = parse_config(f"[map]\nn_side = {n_side}\n[[source]]\n{scan}", Path("pattern.toml"))
    seen = open_sources(config)[observation]
    pointing, sky = seen.pointing, Healpix(n_side, nest=True)
    assert pointing is not None
    hit = np.zeros(12 * n_side**2, np.bool_)
    pixels = np.empty(_REQUEST, np.int32)
    begin, end = seen.n_samp * part // n_parts, seen.n_samp * (part + 1) // n_parts
    for detector in range(pointing.n_det):
        for start in range(begin, end, _REQUEST):
            few = pixels[: min(_REQUEST, end - start)]
            pointing.expand(sky, detector, start, start + len(few), few, None)
            hit[few] = True
    return np.flatnonzero(hit)


def main() -> None:
    """Print keys a rank and mean multiplicity of each pattern."""
    print(f"{'':4}{'ranks':>6}{'keys a rank':>13}{'most':>9}{'all keys':>10}{'mean multiplicity':>19}")
    for name, pattern in PATTERNS.items():
        for size in (4, 8, 16):
            keys = [pattern(rank, size) for rank in range(size)]
            counts = np.bincount(np.concatenate(keys))
            most, held, n_all = max(map(len, keys)), int(counts.sum()), int(np.count_nonzero(counts))
            print(f"{name:4}{size:6}{held // size:13}{most:9}{n_all:10}{held / n_all:19.2f}", flush=True)


if __name__ == "__main__":
    main()
