"""The system of map-making equations of a run on this rank, set up before the data are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.errors import ConfigError, ResourceError
from petacomm.base.host import available_bytes, resident_bytes, return_free_memory
from petacomm.base.progress import Progress
from petacomm.base.text import format_bytes
from petacomm.base.timers import Timers
from petacomm.base.typing import AnyArray, BoolArray, Int64Array, UInt8Array
from petacomm.mpi import Communicator, SerialCommunicator, agree
from petacomm.reduction import OwnedRows, ReductionPlan
from petacomm.sharing import IndexMap
from petacomm.sharing.index_map import rows_of_keys
from petamap.data.formats.lazy import share_pointing
from petamap.data.observation import Observation, share_templates
from petamap.data.parts import Parts
from petamap.mapmaking.amplitudes import Amplitudes, LocalPixels
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.distribution import Distribution
from petamap.mapmaking.joint_blocks import JointNoise
from petamap.mapmaking.linear_operators import Operator, Preconditioner
from petamap.mapmaking.memory import MemoryPlan, component_bytes, plan_memory, sky_bytes, split_bytes
from petamap.mapmaking.noise_kernels import InverseNoise, ModelOf, inverse_noise
from petamap.mapmaking.normal_operator import NormalOperator
from petamap.mapmaking.pixel_statistics import Statistics, pixel_statistics
from petamap.mapmaking.preconditioning import (
    BLOCK_DIAGONAL,
    TWO_LEVEL,
    PreconditionerInputs,
    PreconditionerPlan,
    has_templates,
    plan_preconditioner,
)
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.shared_samples import share_samples
from petamap.mapmaking.single_pass import BinnedSums, can_read_once, localize_faults, read_once
from petamap.mapmaking.stream_terms import StreamTerms
from petamap.mapmaking.system_options import SystemOptions
from petamap.mapmaking.time_layout import TimeLayout
from petamap.mapmaking.vectors import MAX_WIDTH, SharedUnknowns, width_for
from petamap.sky.pixelization import Pixelization

if TYPE_CHECKING:
    from petamap.cuda.device import Device
    from petamap.cuda.normal_pass import NormalPass


@dataclass
class MapmakingSystem:
    """The system of map-making equations of a run on this rank.

    Attributes
    ----------
    keys : (n_owned,) int64
        The pixels that this rank owns: the rows of its maps.
    statistics : Statistics
        Of the samples in each pixel.
    preconditioner : Preconditioner
    map_names : tuple of str
        Of the maps that are solved for: of parts of the data or of components; empty for the map of all data.
        Map k has the rows of keys k n_pix + p.
    binned_only : bool
        Whether its right-hand side P^T N^-1 d is left at zero.
    binned_sums : BinnedSums, optional
        Sums of the data, if they are read already, until they are asked for.
    device : Device, optional
        Applies the operator instead of the processor.
    """

    comm: Communicator
    layout: TimeLayout
    projection: Projection
    noise: InverseNoise
    shared: SharedUnknowns
    keys: Int64Array
    statistics: Statistics
    preconditioner: Preconditioner
    memory: MemoryPlan
    map_names: tuple[str, ...] = ("",)
    binned_only: bool = False
    binned_sums: BinnedSums | None = None
    device: Device | None = None

    def operator(self) -> Operator:
        """Return the operator A = P^T N^-1 P. Collective."""
        return NormalOperator(
            self.projection, self.noise, self.shared, self.statistics.hits_max, self._on_device
        )

    @cached_property
    def _on_device(self) -> NormalPass | None:
        if self.device is None:
            return None
        from petamap.mapmaking.device_pass import device_pass

        return device_pass(self.device, self.projection, self.noise, self.comm)

    def solver(self) -> ConjugateGradients:
        """Return the solver of A x = b. Collective."""
        return ConjugateGradients(self.operator(), self.preconditioner)


# Returns the statistics of the rows that a rank owns; collective.
StatisticsOf: TypeAlias = Callable[[Projection, InverseNoise, OwnedRows], Statistics]


def set_up(
    observations: Sequence[Observation],
    pixelization: Pixelization,
    options: SystemOptions,
    model_of: ModelOf,
    comm: Communicator,
    timers: Timers,
    progress: Progress,
    whole: str | None = None,
    statistics_of: StatisticsOf | None = None,
) -> MapmakingSystem:
    """Return the system of a run. Collective.

    Parameters
    ----------
    observations, pixelization, model_of, comm, timers, progress
        Data, pixels and noise of the run, and its listeners.
    options : SystemOptions
    whole : "streams" or "intervals", optional
        Give each rank complete streams, or complete intervals of all detectors, as the estimation of their
        noise needs.
    statistics_of : callable, optional
        Returns the statistics of the pixels; by default those of each row alone.

    Raises
    ------
    ConfigError, DataError, ResourceError
        On all ranks, if the data do not allow a map, or memory does not suffice.
    """
    layout = TimeLayout(observations, options.n_lag, options.margin)
    local = layout.local_blocks(_own_blocks(layout, comm, options.distribution, whole))
    with timers.phase("noise kernels"):
        noise = inverse_noise(
            observations, layout, local, model_of, options.stream_lags, options.mode_lags, options.n_threads
        )
    room = _room_for_pointing(options, comm)
    once = options.read_once and options.binned_only and statistics_of is None
    progress.begin("pointing", local.n_held, "samples")
    with timers.phase("pointing"):
        share_pointing(observations, layout.observations_of(local), comm)
        projection = Projection(
            observations, layout, local, pixelization, options.stokes,
            flags=options.gaps, n_threads=options.n_threads, parts=options.parts, find=False,
        )  # fmt: skip
        sums: BinnedSums | None = None
        if once and not options.uniform_binning and can_read_once(projection, comm, room):
            sums = read_once(projection, noise, comm)
        if sums is None:
            share_samples(projection, comm, pointing=True)
            projection.find_pixels(room)
        projection.set_units(comm)
        noise = noise.in_units(projection.units)
    solved_for = has_templates(observations) and not options.binned_only
    if solved_for:
        share_templates(observations, comm)
    terms = StreamTerms(observations, layout, model_of) if solved_for else None
    statistics_of = statistics_of or _statistics_by_row(options, sums=sums)
    return _assemble(projection, noise, terms, options, comm, timers, progress, statistics_of, sums)


def set_up_parts(
    run: MapmakingSystem,
    parts: Parts,
    options: SystemOptions,
    timers: Timers,
    progress: Progress,
    more_gaps: UInt8Array | None = None,
) -> MapmakingSystem:
    """Return the system of the maps of parts of the data of a run, solved for together. Collective.

    Its pixels are those of all parts (`PartPixels`). A pixel that is cut in the run is cut in the parts as
    well, as its samples are not read.

    Parameters
    ----------
    run : MapmakingSystem
    parts : Parts
    options, timers, progress
        As in `set_up`.
    more_gaps : uint8 (n_held / 8,), optional
        Bits of samples that are gaps in any case (`Gaps.bits`).

    Raises
    ------
    ConfigError, ResourceError
        On all ranks, if there are too many pixels, or memory does not suffice.
    """
    whole = run.projection
    progress.begin("pointing", whole.local.n_held, "samples")
    with timers.phase("pointing"):
        projection = Projection(
            whole.observations, whole.layout, whole.local, whole.sky, whole.stokes,
            flags=options.gaps, n_threads=options.n_threads, parts=parts,
        )  # fmt: skip
        projection.share(whole)
        if more_gaps is not None:
            projection.gaps.bits |= more_gaps
    noise = run.noise.of_blocks(projection.used[whole.local.blocks[:, 5]])
    terms = whole.amplitudes.terms if whole.amplitudes else None
    statistics_of = _statistics_by_row(options, run)
    return _assemble(projection, noise, terms, options, run.comm, timers, progress, statistics_of)


def _statistics_by_row(
    options: SystemOptions, run: MapmakingSystem | None = None, sums: BinnedSums | None = None
) -> StatisticsOf:
    """Return what makes the statistics of rows, of sums if given, with pixels cut that are cut in a run."""

    def statistics_of(projection: Projection, noise: InverseNoise, pixels: OwnedRows) -> Statistics:
        cut: tuple[BoolArray, BoolArray] | None = None
        if run is not None:
            both = np.stack([run.statistics.dead, run.statistics.unsolved], axis=1).view(np.uint8)
            dead, unsolved = common_pixels(run, projection, pixels, both).view(np.bool_).T
            cut = dead, unsolved
        return pixel_statistics(
            projection, noise, pixels, options.rcond_min, options.rcond_solved,
            uniform_binning=options.uniform_binning, cut=cut, sums=sums,
        )  # fmt: skip

    return statistics_of


def common_pixels(
    common: MapmakingSystem, projection: Projection, pixels: OwnedRows, values: AnyArray
) -> AnyArray:
    """Return values of a map of all data, (n_owned, ...), at the owners of the pixels of parts. Collective.

    Parameters
    ----------
    common : MapmakingSystem
        Of all data.
    projection, pixels
        Of the parts.
    values : array (n_owned, ...)
        At the owners of the pixels of `common`.
    """
    # a rank that holds a pixel of a part holds that of the common map, from the same samples
    held = common.shared.pixels.scatter_fwd(values)
    rows = rows_of_keys(common.projection.keys(), projection.keys() % projection.sky.n_pix)
    return pixels.select_owned(held[rows])


def _assemble(
    projection: Projection,
    noise: InverseNoise,
    terms: StreamTerms | None,
    options: SystemOptions,
    comm: Communicator,
    timers: Timers,
    progress: Progress,
    statistics_of: StatisticsOf,
    sums: BinnedSums | None = None,
) -> MapmakingSystem:
    """Return the system of a projection and its noise; pointing of what is read is not kept. Collective."""
    layout, local = projection.layout, projection.local
    with timers.phase("reduction plan"):
        pixels = _shared_pixels(comm, projection, options)
    with timers.phase("pointing"):
        amplitudes = None
        if terms:
            looked_at = LocalPixels(projection.sky, projection.keys() % projection.sky.n_pix)
            amplitudes = Amplitudes(terms, local, looked_at, comm)
        kind = BLOCK_DIAGONAL if options.binned_only else options.preconditioner
        plan = plan_preconditioner(kind, projection, noise, comm, amplitudes)
        n_amplitudes = amplitudes.n if amplitudes else 0
        choose = partial(_choose_memory_plan, projection, pixels, options, noise.joint, n_amplitudes)
        memory = choose(plan, may_keep=sums is None)
        if memory.keep:
            projection.keep()
        else:
            projection.expand_anew()
        if memory.keep or sums:
            projection.release_pointing()
    progress.end(memory.describe())
    with timers.phase("weights"):
        statistics = statistics_of(projection, noise, pixels)
        unsolved = pixels.scatter_fwd(statistics.unsolved.view(np.uint8)).view(np.bool_)
        if sums:
            localize_faults(sums, projection, unsolved)
        else:
            projection.drop_pixels(unsolved)
    with timers.phase("reduction plan"):
        projection.amplitudes = amplitudes
        nuisance = _shared_nuisance(pixels, projection, options, statistics.hits_max, noise.norm)
        shared = SharedUnknowns(pixels, nuisance, _first_amplitudes(projection, nuisance))
        # samples of pixels that are not solved for are unknowns, too
        plan = replace(plan, n_gaps=projection.gaps.n)
        memory = choose(plan, may_keep=memory.keep, base=memory.base)
        if not memory.keep:
            projection.expand_anew()
    with timers.phase("preconditioner"):
        names = options.parts.names if options.parts else ("",)
        inputs = PreconditionerInputs(projection, noise, shared, pixels.keys, statistics, names)
        preconditioner = make_preconditioner(inputs, plan)
    return_free_memory()
    return MapmakingSystem(
        comm, layout, projection, noise, shared, pixels.keys, statistics, preconditioner, memory,
        names, options.binned_only, sums, options.device,
    )  # fmt: skip


def make_preconditioner(inputs: PreconditionerInputs, plan: PreconditionerPlan) -> Preconditioner:
    """Return the preconditioner that was planned. Collective."""
    if plan.kind != TWO_LEVEL and not inputs.projection.amplitudes:
        return inputs.local(plan.kind)
    from petamap.mapmaking.model_inputs import ModelInputs  # most runs have no model: its import takes a MB

    model = ModelInputs(inputs)
    if plan.kind != TWO_LEVEL:
        return model.with_templates(inputs.local(plan.kind))
    from petamap.mapmaking.undetermined import leave_undetermined

    return leave_undetermined(model.two_level(plan), inputs)


def _own_blocks(
    layout: TimeLayout, comm: Communicator, distribution: Distribution, whole: str | None
) -> Int64Array:
    """Return the blocks of this rank, increasing: of a distribution, or of complete streams or intervals."""
    if whole is None:
        return layout.rank_blocks(distribution.groups, comm.size, comm.rank)
    bounds = layout.first_blocks(layout.rank_streams(comm.size, intervals=whole == "intervals"))
    return np.arange(bounds[comm.rank], bounds[comm.rank + 1])


def _memory_limit(options: SystemOptions, comm: Communicator) -> int:
    """Return the bytes that this process may use."""
    return options.memory or available_bytes(comm.node_size()) + resident_bytes()


def _room_for_pointing(options: SystemOptions, comm: Communicator) -> int:
    """Return the bytes that pointing may take before it is known whether it will be kept."""
    return 0 if options.pointing == "recompute" else _memory_limit(options, comm) // 2


def _choose_memory_plan(
    projection: Projection,
    pixels: OwnedRows,
    options: SystemOptions,
    joint: JointNoise,
    n_amplitudes: int,
    preconditioner: PreconditionerPlan,
    may_keep: bool,
    base: int | None = None,
) -> MemoryPlan:
    """Return the plan of memory. Collective.

    Pointing that `may_keep` is kept if there is room, for later. `base` is that of an earlier plan, of which
    a part is in memory by now.
    """
    comm = pixels.comm
    limit = _memory_limit(options, comm)
    width = min(options.n_rhs, MAX_WIDTH)
    filters = joint.n_bytes(projection.local.blocks, width_for(width), projection.n_threads)

    return_free_memory()  # what is resident is then in use
    n_pixels = len(distinct(pixels.keys % projection.sky.n_pix)) if options.n_components else 0
    more = component_bytes(pixels.n_owned, n_pixels, options.n_components, options.stokes.n)

    pointing = _pointing_choice(projection, options, comm)
    skies, beside = sky_bytes(projection.observations, comm)

    def planned(keep: bool) -> MemoryPlan:
        n_unknowns = preconditioner.n_gaps + n_amplitudes
        plan = plan_memory(
            projection, pixels, keep, n_unknowns, options.n_rhs, options.n_kept, options.gives_back
        )
        return replace(
            plan,
            base=plan.base if base is None else base,
            maps=plan.maps + more,
            writing=plan.writing + more,
            preconditioner=preconditioner.n_bytes(width),
            beside=max(preconditioner.templates.beside, beside),
            filters=filters,
            skies=skies,
        )

    plan = planned(may_keep and pointing != "recompute")
    wanted = plan.total + sum(split_bytes(plan, n_parts) for n_parts in options.splits)
    if pointing == "auto" and comm.max(wanted / limit) > 1:
        plan = planned(False)
    fewer = "fewer maps at once, " if options.n_rhs > 1 else ""
    too_much = ResourceError(
        f"this needs {format_bytes(plan.total)} a process, there are {format_bytes(limit)}",
        mend=f"use {fewer}more processes or fewer threads, a lower n_side, or raise resources.memory",
    )
    agree(comm, too_much if plan.total > limit else None)
    return plan


def _pointing_choice(projection: Projection, options: SystemOptions, comm: Communicator) -> str:
    """Return whether to "keep" or "recompute" pointing, or "auto" if memory decides. Collective."""
    can_expand = projection.can_expand
    if options.device:
        from petamap.mapmaking.device_pass import can_expand_on_device

        can_expand = can_expand_on_device(projection)
    if comm.max(float(not can_expand)) == 0:
        # a device has less memory than its host, and expanding takes it little
        return "recompute" if options.device and options.pointing == "auto" else options.pointing
    if options.pointing == "recompute":
        what = (
            "what a device cannot expand" if options.device and projection.can_expand else "recorded pixels"
        )
        raise ConfigError(f"{what} cannot be recomputed", mend='set resources.pointing = "keep" or "auto"')
    return "keep"


def _shared_pixels(comm: Communicator, projection: Projection, options: SystemOptions) -> OwnedRows:
    row = 8 * options.stokes.n
    plan = ReductionPlan(
        IndexMap(comm, projection.keys()),
        algorithm=options.reduction,
        setup=options.setup,
        buffer_keys=max(1, options.buffer // row),
        n_threads=options.n_threads,
        checks="first",
    )
    # Chosen for the calls of the solver, not for those of hits and weights before.
    plan.choose(options.stokes.n, np.int64, calls="owned_rows")
    return OwnedRows(plan, options.n_threads)


def _first_amplitudes(projection: Projection, nuisance: OwnedRows) -> tuple[int, int] | None:
    """Return the first row of amplitudes at the owners and among ghosts, if there are templates."""
    if not projection.amplitudes:
        return None
    of_gaps = (np.arange(projection.n_nuisance) < projection.gaps.n).astype(np.int64)
    return int(nuisance.select_owned(of_gaps).sum()), int(nuisance.select_ghosts(of_gaps).sum())


def _shared_nuisance(
    pixels: OwnedRows, projection: Projection, options: SystemOptions, hits_max: int, noise_norm: float
) -> OwnedRows:
    """Return owners and holders of the unknowns beside the map: gaps, then amplitudes. Collective."""
    comm, keys, amplitudes = pixels.comm, projection.number_gaps(), projection.amplitudes
    if amplitudes:
        exact = projection.gaps.length > 0
        amplitudes.set_up(projection.gaps.n, hits_max, projection.units, noise_norm)
        # samples that are cut fall into one row, which nobody solves for
        keys = np.concatenate([keys if exact else np.zeros(1, np.int64), amplitudes.keys])
    if comm.max(len(keys)) == 0:
        # Without gaps, each rank keeps its own placeholder.
        comm, keys = SerialCommunicator(), np.arange(projection.gaps.n)
    # Only neighbours in time share gaps: a dense reduction would send almost nothing but zeros.
    chosen = str(pixels.plan.chosen)
    algorithm = chosen if pixels.plan.allreduce_only and comm.size > 1 else "owner"
    plan = ReductionPlan(
        IndexMap(comm, keys), algorithm=algorithm, n_threads=options.n_threads, checks="first"
    )
    return OwnedRows(plan, options.n_threads)
