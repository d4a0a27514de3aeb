"""Size of the batch job of a run: nodes, ranks, threads and time, by the predictions of the planner."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from petacomm.base.errors import ResourceError
from petacomm.base.progress import Progress
from petacomm.topology import Machine
from petamap.data.config import RunConfig
from petamap.planning.plan import plan
from petamap.planning.run_plan import RunPlan
from petamap.planning.run_prediction import RunPrediction
from petamap.planning.run_time import SampleTimes, predict_run_time
from petamap.planning.scanned_run import ScannedRun

# Part of a node's memory that ranks may be predicted to need: predictions leave flagged samples out.
_MEMORY_PART = 0.8
# More nodes are of no use where a node needs more than this part of what it needed of half as many.
_LEAST_GAIN = 0.95
# The time asked for is so many times the time predicted, and not less than the minimum.
MARGIN, LEAST_SECONDS = 2.0, 600.0


@dataclass(frozen=True)
class JobSize:
    """Size of a job.

    Attributes
    ----------
    nodes, ranks_per_node, threads : int
    seconds : float
        Predicted time of the run, with what is assumed of iterations.
    memory : float
        Predicted bytes of a node.
    distribution, algorithm : str
        How data are dealt to ranks, and the fastest reduction.
    """

    nodes: int
    ranks_per_node: int
    threads: int
    seconds: float
    memory: float
    distribution: str
    algorithm: str

    @property
    def wall_seconds(self) -> float:
        """Time to ask for, whole minutes."""
        return -(-max(MARGIN * self.seconds, LEAST_SECONDS) // 60) * 60


def size_job(
    config: RunConfig,
    machine: Machine,
    node_memory: float,
    wanted_seconds: float,
    n_nodes: int | None = None,
    progress: bool | Progress = False,
    measured: SampleTimes | None = None,
) -> JobSize:
    """Return the smallest job, in powers of two of nodes, that fits and is predicted to end in time.

    Where none ends in time, the one that does so first; the run then goes on in the next job.

    Parameters
    ----------
    config : RunConfig
    machine : Machine
    node_memory : float
        Bytes of a node.
    wanted_seconds : float
    n_nodes : int, optional
        Nodes, instead of the smallest number.
    progress : bool or Progress
    measured : SampleTimes, optional
        Of a run like it.

    Raises
    ------
    ResourceError
        If the run fits into no number of nodes.
    """
    n_blocks = ScannedRun.open(config).layout.n_blocks
    sizes: list[JobSize] = []
    needed = math.inf
    for nodes in [n_nodes] if n_nodes else _powers_of_two(machine.nodes):
        cores = min(nodes * machine.cores, n_blocks)
        flagged = measured.flagged if measured else 0.0
        found = plan(config, cores, machine, progress=progress, flagged=flagged)
        all_sizes = [_size(found, one, nodes, measured) for one in found.predictions]
        before, needed = needed, min(one.memory for one in all_sizes)
        sizes += [one for one in all_sizes if one.memory <= _MEMORY_PART * node_memory]
        if any(one.wall_seconds <= wanted_seconds for one in sizes) or cores < nodes * machine.cores:
            break
        if not sizes and needed > _LEAST_GAIN * before:
            break
    if not sizes:
        raise ResourceError(
            f"a node would need {needed / 1e9:.3g} GB, and {node_memory / 1e9:.3g} GB are there",
            mend="take more nodes, or a machine with more memory (--node-memory)",
        )
    in_time = [one for one in sizes if one.wall_seconds <= wanted_seconds]
    return min(in_time or sizes, key=lambda one: (one.nodes if in_time else 0, one.seconds))


def _powers_of_two(most: int) -> Iterator[int]:
    nodes = 1
    while nodes <= most:
        yield nodes
        nodes *= 2


def _size(found: RunPlan, prediction: RunPrediction, nodes: int, measured: SampleTimes | None) -> JobSize:
    per_node = -(-prediction.forecast.size // nodes)
    seconds = predict_run_time(found, prediction, measured).seconds
    return JobSize(
        nodes, per_node, prediction.threads, seconds, per_node * prediction.memory,
        prediction.distribution.description, prediction.best,
    )  # fmt: skip
