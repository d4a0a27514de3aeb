"""Everything that the map-making equation of a run needs before the data are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petamap.base.errors import ConfigError, ResourceError
from petamap.base.machine import available_bytes
from petamap.base.progress import Progress
from petamap.base.timers import Timers
from petamap.base.typing import BoolArray, FloatArray, Int64Array
from petamap.comm.deal import deal
from petamap.comm.mpi import Communicator, agree
from petamap.comm.reduction import IndexMap, ReductionPlan
from petamap.data.observation import Observation
from petamap.mapmaking import binning
from petamap.mapmaking.kernels import InverseNoise, ModelOf, inverse_noise
from petamap.mapmaking.layout import Layout
from petamap.mapmaking.memory import MemoryPlan, plan_memory
from petamap.mapmaking.normal import Shared
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.vectors import Ownership, Unknowns
from petamap.sky.pixelization import Pixelization
from petamap.sky.stokes import Stokes


@dataclass(frozen=True)
class Choices:
    """How the system is set up: the options of a run that map-making itself needs.

    Attributes
    ----------
    n_lag : int
        Band of the inverse noise; 0 for white noise.
    free_ends : bool
        Whether the noise goes on beyond the ends of stationary intervals: then `n_lag` unknown samples are
        added there and marginalised as gaps are. Else N^-1 takes it as zero there, as MADmap does.
    flags, preconditioner, rcond_min, reduction, setup, pointing
        As in the run configuration.
    buffer : int
        Bytes of a communication buffer.
    memory : int, optional
        Bytes that the process may use.
    uniform_binning : bool
        Whether all samples weigh the same in the binned map.
    n_threads : int
    """

    stokes: Stokes = Stokes.IQU
    n_lag: int = 4096
    free_ends: bool = False
    flags: str = "exact"
    preconditioner: str = "block-diagonal"
    rcond_min: float = 1e-3
    reduction: str = "pairwise"
    setup: str = "rendezvous"
    buffer: int = 64 << 20
    pointing: str = "auto"
    memory: int | None = None
    uniform_binning: bool = False
    n_threads: int = 1

    @property
    def margin(self) -> int:
        """Unknown samples added at each end of a stationary interval."""
        return self.n_lag if self.free_ends and self.flags != "cut" else 0


@dataclass(frozen=True)
class Statistics:
    """What the samples of the run say about each pixel of this rank, without their values.

    Attributes
    ----------
    hits : (n_local,) int64
        How many there are.
    hits_max : int
        Most of any pixel in the run, at least 1.
    covariance : (n_local, triangle) float64
        (P^T diag(N^-1) P)^-1, K^2; zero where a pixel is not solved for.
    rcond : (n_local,) float64
        Smallest over largest eigenvalue of its inverse.
    dead : (n_local,) bool
        Pixels that cannot be solved for.
    binned_weights : (n_segment,) float64
        w of each segment's samples in the binned map.
    binned_inverse : (n_local, triangle) float64
        (P^T w P)^-1.
    """

    hits: Int64Array
    hits_max: int
    covariance: FloatArray
    rcond: FloatArray
    dead: BoolArray
    binned_weights: FloatArray
    binned_inverse: FloatArray


@dataclass
class System:
    """The map-making equation of a run on this rank, before the data.

    Attributes
    ----------
    keys : (n_local,) int64
        Pixels of the rows of this rank's maps.
    statistics : Statistics
        Of the samples in each pixel.
    preconditioner : Unknowns
        M^-1: as the covariance on pixels, and on gaps.
    gap_samples : dict of int to int
        How many output samples of this rank are gaps, by stream.
    """

    comm: Communicator
    layout: Layout
    projection: Projection
    noise: InverseNoise
    shared: Shared
    keys: Int64Array
    statistics: Statistics
    preconditioner: Unknowns
    memory: MemoryPlan
    gap_samples: dict[int, int]

    @property
    def owned(self) -> Ownership:
        """Which rows count on this rank."""
        return self.shared.owned

    @property
    def n_gap_samples(self) -> int:
        """Output samples of this rank that are gaps."""
        return sum(self.gap_samples.values())


def set_up(
    observations: Sequence[Observation],
    pixelization: Pixelization,
    choices: Choices,
    model_of: ModelOf,
    comm: Communicator,
    timers: Timers,
    progress: Progress,
    deal_streams: bool = False,
) -> System:
    """Return the system of a run. Collective.

    `deal_streams`: give each rank whole streams, as estimating their noise needs.
    """
    layout = Layout(observations, choices.n_lag, choices.margin)
    share = layout.share(*_deal(layout, comm, deal_streams))
    with timers.phase("noise kernels"):
        noise = inverse_noise(observations, layout, share, model_of, white=choices.n_lag == 0)
    progress.begin("pointing", share.n_held, "samples")
    with timers.phase("pointing"):
        projection = Projection(
            observations, layout, share, pixelization, choices.stokes,
            flags=choices.flags, n_threads=choices.n_threads,
        )  # fmt: skip
        projection.set_units(comm)
        noise = noise.in_units(projection.units, share, layout.transform)
        memory = _keep_or_not(projection, choices, comm)
        if memory.keep:
            projection.keep()
    progress.end(memory.in_words())
    with timers.phase("reduction plan"):
        keys = projection.keys()
        shared = Shared(comm, _plan(comm, keys, choices))
    with timers.phase("weights"):
        statistics = _statistics(projection, noise, shared, choices)
        projection.drop(statistics.dead)
    with timers.phase("reduction plan"):
        shared.gaps = _gap_plan(comm, projection.number_gaps(), choices)
    preconditioner = _preconditioner(projection, noise, statistics.covariance, choices, comm)
    return System(
        comm, layout, projection, noise, shared, keys, statistics, preconditioner, memory,
        projection.gaps.by_stream(),
    )  # fmt: skip


def _deal(layout: Layout, comm: Communicator, streams: bool) -> tuple[int, int]:
    if streams:
        lengths = np.diff(layout.sample_keys).astype(np.float64)
        bounds = layout.first_blocks[deal(lengths, comm.size)]
    else:
        bounds = deal(layout.costs(), comm.size)
    return int(bounds[comm.rank]), int(bounds[comm.rank + 1])


def _keep_or_not(projection: Projection, choices: Choices, comm: Communicator) -> MemoryPlan:
    limit = choices.memory or available_bytes() // comm.node_size()
    plan = plan_memory(projection, choices.pointing != "recompute", comm.size)
    everyone_can_expand = comm.max(float(not projection.can_expand)) == 0
    if choices.pointing == "recompute" and not everyone_can_expand:
        raise ConfigError(
            "recorded pixels cannot be recomputed", mend='set resources.pointing = "keep" or "auto"'
        )
    if choices.pointing == "auto" and comm.max(plan.total / limit) > 1 and everyone_can_expand:
        plan = plan_memory(projection, False, comm.size)
    too_much = ResourceError(
        f"this needs {plan.total / 1e9:.2f} GB a process, there are {limit / 1e9:.2f} GB",
        mend="use more processes or fewer threads, a lower n_side, or raise resources.memory",
    )
    agree(comm, too_much if plan.total > limit else None)
    return plan


def _plan(comm: Communicator, keys: Int64Array, choices: Choices) -> ReductionPlan:
    row = 8 * choices.stokes.n
    return ReductionPlan(
        IndexMap(comm, keys),
        algorithm=choices.reduction,
        setup=choices.setup,
        buffer_keys=max(1, choices.buffer // row),
        n_threads=choices.n_threads,
    )


def _gap_plan(comm: Communicator, keys: Int64Array, choices: Choices) -> ReductionPlan | None:
    if comm.max(len(keys)) == 0:
        return None
    # neighbours in time share gaps, so a dense reduction would send nothing but zeros
    return ReductionPlan(
        IndexMap(comm, keys), algorithm="pairwise", setup="rendezvous", n_threads=choices.n_threads
    )


def _statistics(projection: Projection, noise: InverseNoise, shared: Shared, choices: Choices) -> Statistics:
    hits = binning.hits(projection, shared)
    hits_max = max(1, int(shared.comm.max(float(hits.max(initial=0)))))

    def inverted(weights: FloatArray, rcond_min: float) -> tuple[FloatArray, FloatArray]:
        matrices = binning.stokes_weights(projection, shared, weights, hits_max)
        rcond = np.zeros(projection.n_local)
        _mapmaking.invert(choices.stokes.n, rcond_min, matrices, rcond, choices.n_threads)
        return matrices, rcond

    weights = noise.weights
    covariance, rcond = inverted(weights, choices.rcond_min)
    dead = (rcond < choices.rcond_min) | (rcond == 0)
    binned = covariance
    if choices.uniform_binning:
        weights = projection.units**2
        binned, _ = inverted(weights, 0.0)
        binned[dead] = 0.0
    return Statistics(hits, hits_max, covariance, rcond, dead, weights, binned)


def _preconditioner(
    projection: Projection,
    noise: InverseNoise,
    covariance: FloatArray,
    choices: Choices,
    comm: Communicator,
) -> Unknowns:
    n_stokes = choices.stokes.n
    pixels = covariance
    if choices.preconditioner != "block-diagonal":
        diagonal = [0, 1, 2] if n_stokes == 1 else [0, 2] if n_stokes == 2 else [0, 3, 5]
        diagonal = diagonal[:n_stokes]
        pixels = np.zeros_like(covariance)
        pixels[:, diagonal] = covariance[:, diagonal]
        if choices.preconditioner == "none":
            # one number for all ranks
            weight = comm.max(float(noise.weights.max(initial=0)))
            pixels[:, diagonal] = (covariance[:, :1] > 0) / max(weight, 1e-300)
    gaps = np.zeros((projection.gaps.n, 1))
    if projection.gaps.length:
        gaps[:, 0] = 1 / noise.weights[projection.gaps.segments()]
    return Unknowns(pixels, gaps)
