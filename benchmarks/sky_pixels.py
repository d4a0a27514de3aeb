"""Nanoseconds a direction for the pixels of random directions, on one core, beside healpy and ducc0.

    python benchmarks/sky_pixels.py [n_directions]

Each figure is the processor time of the fastest of five runs over all directions; every pixel is compared.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import ducc0.healpix
import healpy
import numpy as np

from petamap.sky import _sky

N_SIDES = (64, 512, 4096)


def fastest(work: Callable[[], object], n: int, runs: int = 5) -> float:
    """Return the nanoseconds of processor time a direction of the fastest run."""
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return 1e9 * min(seconds) / n


def main() -> None:
    """Print the table."""
    n = int(float(sys.argv[1])) if len(sys.argv) > 1 else 2_000_000
    directions = np.random.default_rng(1).standard_normal((n, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    x, y, z = (np.ascontiguousarray(column) for column in directions.T)
    pixels = np.empty(n, np.int32)
    print(f"{n} random directions, one core, ns a direction")
    print("n_side order     components  vectors  ducc0  healpy  ducc0/petamap  healpy/petamap")
    for n_side in N_SIDES:
        for nest, order in enumerate(("ring", "nested")):
            grid = np.array([nest, n_side], np.float64)
            base = ducc0.healpix.Healpix_Base(n_side, "NEST" if nest else "RING")
            vectors = fastest(lambda g=grid: _sky.pixels_of(g, directions, pixels, 1), n)
            ours = fastest(lambda g=grid: _sky.pixels_of_components(g, x, y, z, pixels), n)
            ducc = fastest(lambda b=base: b.vec2pix(directions, nthreads=1), n)
            theirs = fastest(lambda s=n_side, o=nest: healpy.vec2pix(s, x, y, z, nest=bool(o)), n, runs=2)
            assert np.array_equal(pixels, base.vec2pix(directions)), "pixels differ from ducc0"
            assert np.array_equal(pixels, healpy.vec2pix(n_side, x, y, z, nest=bool(nest))), "healpy differs"
            print(
                f"{n_side:6d} {order:8s} {ours:11.2f} {vectors:8.2f} {ducc:6.1f} {theirs:7.1f} "
                f"{ducc / ours:14.1f} {theirs / ours:15.1f}"
            )


if __name__ == "__main__":
    main()
