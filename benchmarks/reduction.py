"""Seconds of the reductions for a Planck-like scan, dealt to ranks in time order.

    mpiexec -n 4 python benchmarks/reduction.py --n-side 512

Prints, for each algorithm and set-up: the seconds of the set-up on the slowest rank, the median milliseconds
of an all-reduce of three float64 a pixel, and the bytes sent by the busiest rank.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from petamap.base.typing import FloatArray, Int64Array
from petamap.comm.mpi import Communicator, collective_errors, world
from petamap.comm.reduction import ALGORITHMS, SETUPS, IndexMap, ReductionPlan

STOKES = 3


def planck_like_pixels(n_side: int, days: FloatArray, openings_deg: FloatArray) -> Int64Array:
    """Pixels hit by rings around a spin axis that follows the Sun, 7.5 degrees above and below its path."""
    import ducc0

    healpix = ducc0.healpix.Healpix_Base(n_side, "RING")
    spin = np.linspace(0, 2 * np.pi, 8 * n_side, endpoint=False)
    hit = np.zeros(12 * n_side**2, np.bool_)
    for day in days:
        longitude = 2 * np.pi * day / 365.25
        tilt = np.radians(7.5) * np.sin(2 * np.pi * day / 182.6)
        axis = np.array([np.cos(tilt) * np.cos(longitude), np.cos(tilt) * np.sin(longitude), np.sin(tilt)])
        east = np.array([-np.sin(longitude), np.cos(longitude), 0.0])
        north = np.cross(axis, east)
        for opening in np.radians(openings_deg):
            ring = np.cos(spin)[:, None] * east + np.sin(spin)[:, None] * north
            hit[healpix.vec2pix(np.cos(opening) * axis + np.sin(opening) * ring)] = True
    return np.flatnonzero(hit).astype(np.int64)


def median_ms(comm: Communicator, plan: ReductionPlan, n_calls: int) -> float:
    """Median over calls of the slowest rank's time."""
    values = np.ones((plan.index_map.n_keys, STOKES))
    times = []
    for _ in range(n_calls + 1):
        comm.barrier()
        begin = time.perf_counter()
        plan.allreduce(values, "max")
        times.append(comm.max(time.perf_counter() - begin))
    return 1e3 * float(np.median(times[1:]))


def main() -> None:
    """Time every algorithm and set-up."""
    comm = world()
    with collective_errors(comm):
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--n-side", type=int, default=512)
        parser.add_argument("--calls", type=int, default=15)
        given = parser.parse_args()
        days = np.arange(0, 365.25, 30 / given.n_side)
        mine = np.array_split(days, comm.size)[comm.rank]
        keys = planck_like_pixels(given.n_side, mine, np.array([83.0, 85.0]))
        index_map = IndexMap(comm, keys)
        for setup in SETUPS:
            for algorithm in ALGORITHMS:
                comm.barrier()
                begin = time.perf_counter()
                plan = ReductionPlan(index_map, algorithm=algorithm, setup=setup)
                seconds = comm.max(time.perf_counter() - begin)
                line = f"{seconds:6.3f} s  {median_ms(comm, plan, given.calls):8.2f} ms"
                busiest = comm.max(plan.bytes_per_call(STOKES, 8)) / 1e6
                holders = comm.sum(len(keys)) / plan.n_global
                if comm.rank == 0:
                    what = f"{comm.size} ranks, {plan.n_global} pixels on {holders:.2f} ranks each"
                    print(f"{what}: {setup:12} {algorithm:9} {line} {busiest:8.1f} MB", flush=True)


if __name__ == "__main__":
    main()
