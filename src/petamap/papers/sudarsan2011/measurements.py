"""Measurements for Figures 3 and 5 of Sudarsan et al. 2011: the published set-up, and collectives."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from petacomm.base.timers import Timers
from petacomm.mpi import Communicator
from petacomm.network.fit import fit_collective
from petacomm.sharing.setup import gather_sift
from petamap.data.config import RunConfig
from petamap.planning.node_samples import rank_pixels
from petamap.planning.rank_samples import distribute_samples
from petamap.planning.scanned_run import ScannedRun

# Total number of ranks of the emulated run, of which the running ranks are the first.
_RUN_RANKS = 4096
# Total number of keys that are gathered at a time.
_BUFFER_KEYS = 1 << 20
# Message lengths in values, and number of repetitions.
_LENGTHS = (1 << 12, 1 << 15, 1 << 18, 1 << 20)
_REPEATS = 5


@dataclass(frozen=True)
class Measurements:
    """Measurements on the running system.

    Attributes
    ----------
    ranks, run_ranks : int
        Number of running ranks, and number of ranks of the run of which they are the first.
    keys : float
        Mean number of keys of a rank.
    steps : dict of str to float
        Seconds of each step of the set-up, on the slowest rank.
    sift_time, initialise_time : float
        Seconds per gathered key, and per shared key.
    constants : dict of str to (float, float)
        Alpha and beta by collective; empty for a single rank.
    """

    ranks: int
    run_ranks: int
    keys: float
    steps: dict[str, float]
    sift_time: float
    initialise_time: float
    constants: dict[str, tuple[float, float]]


def measure_setup(config: RunConfig, comm: Communicator, groups: int | None) -> Measurements:
    """Return timings of the published set-up and of collectives. Collective on comm."""
    run = ScannedRun.open(config)
    run_ranks = max(comm.size, min(_RUN_RANKS, run.layout.n_blocks))
    keys = rank_pixels(run, distribute_samples(run.layout, groups, run_ranks), comm.rank)
    timers = Timers()
    graph = gather_sift(comm, keys, want_overlaps=True, buffer_keys=_BUFFER_KEYS, timers=timers)
    steps = {name: comm.max(phase.seconds) for name, phase in timers.phases.items()}
    total = comm.sum(len(keys))
    held = comm.max(float(graph.multiplicity.sum(dtype=np.int64)))
    return Measurements(
        ranks=comm.size,
        run_ranks=run_ranks,
        keys=total / comm.size,
        steps=steps,
        sift_time=steps["sift"] / total,
        initialise_time=steps["initialise"] / max(held, 1.0),
        constants=_constants(comm) if comm.size > 1 else {},
    )


def _constants(comm: Communicator) -> dict[str, tuple[float, float]]:
    """Return alpha and beta of collectives, fitted to timings of several message lengths."""
    counts = np.zeros(comm.size, np.int64)
    calls: dict[str, Callable[[int], object]] = {
        "allreduce": lambda n: comm.allreduce(np.ones(n)),
        "ring-allgather": lambda n: comm.allgather_rows(np.ones(n)),
        "alltoallv": lambda n: comm.alltoallv(np.ones(n // comm.size * comm.size), counts + n // comm.size),
    }
    constants = {}
    for name, call in calls.items():
        seconds = [_shortest_time(comm, call, n) for n in _LENGTHS]
        constants[name] = fit_collective(
            name, [comm.size] * len(_LENGTHS), [8.0 * n for n in _LENGTHS], seconds
        )
    return constants


def _shortest_time(comm: Communicator, call: Callable[[int], object], n: int) -> float:
    """Return the shortest of several times of a call, each that of the slowest rank."""
    times = []
    for _ in range(_REPEATS):
        comm.barrier()
        begin = time.perf_counter()
        call(n)
        times.append(comm.max(time.perf_counter() - begin))
    return min(times)
