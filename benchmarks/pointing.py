"""Nanoseconds a sample of pointing expansion: one core, HEALPix nested, N_side 512, a Planck-like scan.

Run ``python benchmarks/pointing.py [samples]``. Peers measured on this kind of machine, ns a sample: so3g 71
(pixels alone), litebird_sim 308 (pointing), ducc0's ang2pix alone 29.
"""

import sys
import time

import numpy as np

from petamap.pointing import quaternion
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import SampledPlate, UniformPlate


class Nested:
    """HEALPix, nested, N_side 512, as the kernels take it."""

    grid = np.array([1.0, 512.0])


def boresight(n_samp: int, spacing: float, order: str) -> Boresight:
    """Spin once a minute, 85 degrees from an axis that drifts by a degree a day; 79 samples a second."""
    n_knots = max(5, int(np.ceil(n_samp / spacing)) + 1)
    seconds = np.arange(n_knots) * spacing / 78.8
    spin = quaternion.multiply(
        quaternion.about_z(np.radians(seconds / 86400)), quaternion.about_y(np.full(n_knots, np.pi / 2))
    )
    turned = quaternion.multiply(spin, quaternion.about_z(2 * np.pi * seconds / 60))
    return Boresight(
        quaternion.multiply(turned, quaternion.about_y(np.radians(85))), n_samp, spacing, order=order
    )


def nanoseconds(pointing: CompressedPointing, n: int, with_angles: bool = True, repeats: int = 5) -> float:
    """Return the best of `repeats` passes over n samples, in calls of 2^16."""
    step = 1 << 16
    pixels, angles = np.empty(step, np.int32), np.empty(step, np.uint32) if with_angles else None
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        for start in range(0, n, step):
            pointing.expand(Nested(), 0, start, start + step, pixels, angles)
        best = min(best, time.perf_counter() - begin)
    return best / n * 1e9


def main(n: int) -> None:
    """Print the table."""
    detector = quaternion.from_angles(0.05, 0.3, 1.0)
    rows = [
        ("SLERP, knots every 512 samples", 512.0, "slerp", None),
        ("cubic, knots every 512 samples", 512.0, "cubic", None),
        ("cubic, knots every 100 samples", 100.0, "cubic", None),
        ("cubic, knots every 10 samples", 10.0, "cubic", None),
        ("knots at every sample", 1.0, "cubic", None),
        ("cubic, 512, uniform half-wave plate", 512.0, "cubic", UniformPlate(0.1, 0.16)),
        ("cubic, 512, sampled half-wave plate", 512.0, "cubic", SampledPlate(0.16 * np.arange(n))),
    ]
    for name, spacing, order, plate in rows:
        pointing = CompressedPointing(boresight(n, spacing, order), detector, plate=plate)
        print(f"{name:38s} pixel and angle {nanoseconds(pointing, n):5.1f} ns a sample, "
              f"pixel alone {nanoseconds(pointing, n, with_angles=False):5.1f}")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 21)
