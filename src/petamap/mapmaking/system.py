"""Everything that the map-making equation of a run needs before the data are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import ConfigError, ResourceError
from petacomm.base.host import available_bytes
from petacomm.base.progress import Progress
from petacomm.base.timers import Timers
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.mpi import Communicator, SerialCommunicator, agree
from petacomm.reduction import AUTO, OwnedRows, ReductionPlan
from petacomm.sharing import IndexMap
from petamap.data.observation import Observation
from petamap.mapmaking import binning
from petamap.mapmaking.distribution import deal
from petamap.mapmaking.memory import MemoryPlan, plan_memory
from petamap.mapmaking.noise_kernels import InverseNoise, ModelOf, inverse_noise
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.time_layout import Layout
from petamap.mapmaking.vectors import Shared, Unknowns
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
    n_rhs : int
        Right-hand sides that will be read and solved for at once: memory is planned for them.
    n_kept : int
        Vectors of the solver's kind that will be kept beside, as recycling does (`Deflation.n_kept`).
    """

    stokes: Stokes = Stokes.IQU
    n_lag: int = 4096
    free_ends: bool = False
    flags: str = "exact"
    preconditioner: str = "block-diagonal"
    rcond_min: float = 1e-3
    reduction: str = AUTO
    setup: str = "rendezvous"
    buffer: int = 64 << 20
    pointing: str = "auto"
    memory: int | None = None
    uniform_binning: bool = False
    n_threads: int = 1
    n_rhs: int = 1
    n_kept: int = 0

    @property
    def margin(self) -> int:
        """Unknown samples added at each end of a stationary interval."""
        return self.n_lag if self.free_ends and self.flags != "cut" else 0


@dataclass(frozen=True)
class Statistics:
    """What the samples of the run say about each pixel that this rank owns, without their values.

    Attributes
    ----------
    hits : (n_owned,) int64
        How many there are.
    hits_max : int
        Most of any pixel in the run, at least 1.
    covariance : (n_owned, triangle) float64
        (P^T diag(N^-1) P)^-1, K^2; zero where a pixel is not solved for.
    rcond : (n_owned,) float64
        Smallest over largest eigenvalue of its inverse.
    dead : (n_owned,) bool
        Pixels that cannot be solved for.
    binned_weights : (n_segment,) float64
        w of each segment's samples in the binned map.
    binned_inverse : (n_owned, triangle) float64
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
    keys : (n_owned,) int64
        The pixels that this rank owns: the rows of its maps.
    statistics : Statistics
        Of the samples in each pixel.
    preconditioner : Unknowns
        M^-1 at the owners: as the covariance on pixels, and on gaps.
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
    share = layout.share(np.arange(*_deal(layout, comm, deal_streams)))
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
    with timers.phase("reduction plan"):
        pixels = _shared_pixels(comm, projection, choices)
    with timers.phase("pointing"):
        memory = _keep_or_not(projection, pixels, choices)
        if memory.keep:
            projection.keep()
    progress.end(memory.in_words())
    with timers.phase("weights"):
        statistics = _statistics(projection, noise, pixels, choices)
        projection.drop(pixels.to_holders(statistics.dead.view(np.uint8)).view(np.bool_))
    with timers.phase("reduction plan"):
        shared = Shared(pixels, _shared_gaps(comm, projection, choices))
    preconditioner = _preconditioner(projection, noise, shared, statistics.covariance, choices)
    return System(
        comm, layout, projection, noise, shared, pixels.keys, statistics, preconditioner, memory,
        projection.gaps.by_stream(),
    )  # fmt: skip


def _deal(layout: Layout, comm: Communicator, streams: bool) -> tuple[int, int]:
    if streams:
        lengths = np.diff(layout.sample_keys).astype(np.float64)
        bounds = layout.first_blocks[deal(lengths, comm.size)]
    else:
        bounds = deal(layout.costs(), comm.size)
    return int(bounds[comm.rank]), int(bounds[comm.rank + 1])


def _keep_or_not(projection: Projection, pixels: OwnedRows, choices: Choices) -> MemoryPlan:
    comm = pixels.comm
    limit = choices.memory or available_bytes() // comm.node_size()
    batch = choices.n_rhs, choices.n_kept
    plan = plan_memory(projection, pixels, choices.pointing != "recompute", *batch)
    everyone_can_expand = comm.max(float(not projection.can_expand)) == 0
    if choices.pointing == "recompute" and not everyone_can_expand:
        raise ConfigError(
            "recorded pixels cannot be recomputed", mend='set resources.pointing = "keep" or "auto"'
        )
    if choices.pointing == "auto" and comm.max(plan.total / limit) > 1 and everyone_can_expand:
        plan = plan_memory(projection, pixels, False, *batch)
    fewer = "fewer maps at once, " if choices.n_rhs > 1 else ""
    too_much = ResourceError(
        f"this needs {plan.total / 1e9:.2f} GB a process, there are {limit / 1e9:.2f} GB",
        mend=f"use {fewer}more processes or fewer threads, a lower n_side, or raise resources.memory",
    )
    agree(comm, too_much if plan.total > limit else None)
    return plan


def _shared_pixels(comm: Communicator, projection: Projection, choices: Choices) -> OwnedRows:
    row = 8 * choices.stokes.n
    plan = ReductionPlan(
        IndexMap(comm, projection.keys()),
        algorithm=choices.reduction,
        setup=choices.setup,
        buffer_keys=max(1, choices.buffer // row),
        n_threads=choices.n_threads,
        checks="first",
    )
    # as the solver will call it, not as hits and weights do before
    plan.choose(choices.stokes.n, np.int64, in_halves=True)
    return OwnedRows(plan, choices.n_threads)


def _shared_gaps(comm: Communicator, projection: Projection, choices: Choices) -> OwnedRows:
    keys = projection.number_gaps()
    if comm.max(len(keys)) == 0:
        # what stands for the gaps then is each rank's own
        comm, keys = SerialCommunicator(), np.arange(projection.gaps.n)
    # neighbours in time share gaps, so a dense reduction would send nothing but zeros
    plan = ReductionPlan(IndexMap(comm, keys), algorithm="owner", n_threads=choices.n_threads, checks="first")
    return OwnedRows(plan, choices.n_threads)


def _statistics(
    projection: Projection, noise: InverseNoise, pixels: OwnedRows, choices: Choices
) -> Statistics:
    hits = binning.hits(projection, pixels)
    hits_max = max(1, int(pixels.comm.max(float(hits.max(initial=0)))))

    def inverted(weights: FloatArray, rcond_min: float) -> tuple[FloatArray, FloatArray]:
        matrices = binning.stokes_weights(projection, pixels, weights, hits_max)
        rcond = np.zeros(pixels.n_owned)
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
    shared: Shared,
    covariance: FloatArray,
    choices: Choices,
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
            weight = shared.comm.max(float(noise.weights.max(initial=0)))
            pixels[:, diagonal] = (covariance[:, :1] > 0) / max(weight, 1e-300)
    gaps = np.zeros((shared.gaps.n_owned, 1))
    if projection.gaps.length:
        gaps[:, 0] = 1 / noise.weights[shared.gaps.pick(projection.gaps.segments())]
    return Unknowns(pixels, gaps)
