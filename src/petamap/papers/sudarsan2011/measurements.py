"""What can be measured here of Figures 3 and 5 of the source: the published set-up, and collectives."""

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
from petamap.mapmaking.target import target_pixelization
from petamap.planning.node_samples import keys_of_rank
from petamap.planning.plan import lay_out
from petamap.planning.rank_samples import dealt

# Ranks of which those here play the first: some keys, and neighbours that share most of them.
_OF = 4096
# Keys of all ranks together that are gathered at once.
_BUFFER_KEYS = 1 << 20
# Values in messages, and how often each is timed.
_LENGTHS = (1 << 12, 1 << 15, 1 << 18, 1 << 20)
_REPEATS = 5


@dataclass(frozen=True)
class Measured:
    """What was measured on this computer.

    Attributes
    ----------
    ranks, of : int
        Ranks here, and how many a run would have of which these are the first.
    keys : float
        Of a rank, the mean.
    steps : dict of str to float
        Seconds of the set-up, by step: that of the slowest rank.
    sift_time, initialise_time : float
        Seconds a key gathered, and a key found to be shared.
    constants : dict of str to (float, float)
        Alpha and beta by collective; none of a single rank.
    """

    ranks: int
    of: int
    keys: float
    steps: dict[str, float]
    sift_time: float
    initialise_time: float
    constants: dict[str, tuple[float, float]]


def measure(config: RunConfig, comm: Communicator, groups: int | None) -> Measured:
    """Set up a plan by gathering and sifting, and time collectives. Collective."""
    observations, layout = lay_out(config)
    grid = target_pixelization(config.map, observations)
    of = max(comm.size, min(_OF, layout.n_blocks))
    keys = keys_of_rank(observations, layout, grid, dealt(layout, groups, of), comm.rank)
    timers = Timers()
    graph = gather_sift(comm, keys, want_overlaps=True, buffer_keys=_BUFFER_KEYS, timers=timers)
    steps = {name: comm.max(phase.seconds) for name, phase in timers.phases.items()}
    total = comm.sum(len(keys))
    held = comm.max(float(graph.multiplicity.sum(dtype=np.int64)))
    return Measured(
        ranks=comm.size,
        of=of,
        keys=total / comm.size,
        steps=steps,
        sift_time=steps["sift"] / total,
        initialise_time=steps["initialise"] / max(held, 1.0),
        constants=_constants(comm) if comm.size > 1 else {},
    )


def _constants(comm: Communicator) -> dict[str, tuple[float, float]]:
    """Time collectives with several lengths, and fit their closed forms."""
    counts = np.zeros(comm.size, np.int64)
    calls: dict[str, Callable[[int], object]] = {
        "allreduce": lambda n: comm.allreduce(np.ones(n)),
        "ring-allgather": lambda n: comm.allgather_rows(np.ones(n)),
        "alltoallv": lambda n: comm.alltoallv(np.ones(n // comm.size * comm.size), counts + n // comm.size),
    }
    found = {}
    for name, call in calls.items():
        seconds = [_least(comm, call, n) for n in _LENGTHS]
        found[name] = fit_collective(name, [comm.size] * len(_LENGTHS), [8.0 * n for n in _LENGTHS], seconds)
    return found


def _least(comm: Communicator, call: Callable[[int], object], n: int) -> float:
    """Return the least time of a call, each time that of the slowest rank."""
    times = []
    for _ in range(_REPEATS):
        comm.barrier()
        begin = time.perf_counter()
        call(n)
        times.append(comm.max(time.perf_counter() - begin))
    return min(times)
