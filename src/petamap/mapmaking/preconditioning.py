"""Choice of the preconditioner of a system, and its set-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator
from petamap.data.observation import Observation
from petamap.mapmaking import binning
from petamap.mapmaking.amplitudes import Amplitudes
from petamap.mapmaking.baseline_amplitudes import BaselineAmplitudes, destriping_noises
from petamap.mapmaking.baseline_model import BaselineModel
from petamap.mapmaking.linear_operators import BlockDiagonalPreconditioner, Preconditioner
from petamap.mapmaking.mode_model import ModeModel, modelled_groups, with_shapes
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.pixel_statistics import Statistics
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.stream_terms import SelectedTerms, StreamTerms, is_common
from petamap.mapmaking.template_memory import TemplateBytes, template_model_bytes
from petamap.mapmaking.template_model import LEAST_ADDED, AmplitudePreconditioner, TemplateModel
from petamap.mapmaking.transfer import NuisanceTransfer, PixelTransfer
from petamap.mapmaking.two_level import SLOW_BYTES, ModelInverse, TwoLevelPreconditioner, slow_steps
from petamap.mapmaking.vectors import SharedUnknowns, Unknowns
from petamap.mapmaking.visits import gather_visits, stream_noises
from petamap.noise.baselines import LONGEST_STEP, BaselineNoise, fit_baselines
from petamap.noise.toeplitz import fast_length, toeplitz_spectrum
from petamap.sky.parents import parent_pixels

TWO_LEVEL, BLOCK_DIAGONAL = "two-level", "block-diagonal"

# Ratio of the noise's largest to its smallest power above which two levels pay, if most samples have it.
# Measured with set-up, to 1e-6, on satellites' scans and rasters: 1.10 to 1.34 of block-diagonal's time at
# ratios of 50 to 130, but for a raster at 100 (0.79); 0.67 to 0.88 at 200 to 500; far less above.
_STEEP = 150
# Samples that a visit of the model should have in the mean: a product with it then costs less than with A.
SAMPLES_PER_VISIT = 2.5
# With templates the model has the map's pixels: where a visit has 1.2 samples, bins of azimuth take 17
# iterations then and 75, in five times the time, with coarser ones.
_WITH_TEMPLATES = 1.0
_COARSEST = 6
# Most amplitudes that streams have in common and connect, and most squares of such sets, of which each rank
# has the inverse: 2048 take 8 s to invert, 50 MB, and 10 ms in each product with the model.
_MOST_CONNECTED, _MOST_COMMON = 2048, 1 << 22
# Most pixels of the coarse map: its matrix is made by as many products with that of the model, side by side
# in eights, and each rank holds it.
_MOST_COARSE = 64

# Bytes of a visit of a pixel, of a gap and of a knot, and of the last two for each vector that it is applied
# to at once, held once. A process took 2311 MB of 2455 told with 43 million visits and 9 million gaps, and
# 7.9 GB of 8.5 with 68 million gaps; two, which hold them twice, 6.8 of 7.2 GB each with half of these.
_VISIT_BYTES, _GAP_BYTES, _KNOT_BYTES = 31, 9, 140
_GAP_VECTOR_BYTES, _KNOT_VECTOR_BYTES = 24, 16
_MOST_COPIES = 2


@dataclass(frozen=True)
class PreconditionerPlan:
    """What preconditioner a run uses, known before pixels are cut.

    Attributes
    ----------
    kind : str
        two-level, block-diagonal, diagonal or none.
    noises : list of BaselineNoise
        Of the segments of this rank, for two levels.
    modes : list of BaselineNoise
        Of the common modes of its groups of blocks.
    destripes : bool
        Whether their baselines are the amplitudes of templates.
    common_beside : bool
        Whether there are too many amplitudes that streams share to be solved for with the map.
    level : int
        Of the model's pixels above those of the map.
    templates : TemplateBytes
        Of the model of their amplitudes.
    n_visits, n_gaps, n_knots : int
        About how many of them this rank has; gaps also without two levels. Samples of pixels that are cut
        become gaps.
    n_copies : int
        How often visits and gaps are held: twice where whole streams are dealt to ranks anew.
    """

    kind: str
    noises: list[BaselineNoise] = field(default_factory=list)
    modes: list[BaselineNoise] = field(default_factory=list)
    level: int = 0
    n_visits: int = 0
    n_gaps: int = 0
    n_knots: int = 0
    n_copies: int = 1
    destripes: bool = False
    common_beside: bool = False
    templates: TemplateBytes = field(default_factory=TemplateBytes)

    def n_bytes(self, width: int = 1) -> int:
        """Return what it takes on this rank beside the solver's vectors, applied to `width` at once."""
        n_gaps = self.n_gaps if self.kind == TWO_LEVEL else 0
        return (
            self.templates.kept
            + _VISIT_BYTES * self.n_copies * self.n_visits
            + (_GAP_BYTES + _GAP_VECTOR_BYTES * width) * self.n_copies * n_gaps
            + (_KNOT_BYTES + _KNOT_VECTOR_BYTES * width) * self.n_knots
        )


def bytes_a_sample(knots: float) -> float:
    """Return the bytes of two levels a sample at most, with so many knots a sample and without gaps."""
    n_visits = _MOST_COPIES * (1 / SAMPLES_PER_VISIT + knots)
    return _VISIT_BYTES * n_visits + (_KNOT_BYTES + _KNOT_VECTOR_BYTES) * knots


def bytes_a_gap() -> int:
    """Return the bytes of two levels for a gap at most."""
    return _MOST_COPIES * (_GAP_BYTES + _GAP_VECTOR_BYTES)


def plan_preconditioner(
    kind: str,
    projection: Projection,
    noise: InverseNoise,
    comm: Communicator,
    amplitudes: Amplitudes | None = None,
) -> PreconditionerPlan:
    """Return the plan of a preconditioner, "auto" by the range of the noise. Collective.

    `amplitudes` are those of the templates that are solved for.
    """
    terms = amplitudes.terms if amplitudes else None
    if kind == "auto":
        kind = TWO_LEVEL if terms else _choose_kind(projection, noise, comm)
    n_gaps = projection.gaps.count()
    functions = amplitudes.functions() if amplitudes else []
    # whole streams are dealt to ranks anew
    functions = functions[: -(-len(projection.layout.streams) // comm.size)]
    destriping = destriping_noises(projection, noise, terms, comm) if terms else None
    if kind != TWO_LEVEL:
        alone = template_model_bytes(functions if destriping is None else [], 1 / LONGEST_STEP, 0)
        return PreconditionerPlan(kind, n_gaps=n_gaps, templates=alone)
    if destriping is None:
        noises, modes = _fitted(projection, noise, comm)
    else:
        noises, modes = destriping, []
    least = _WITH_TEMPLATES if amplitudes else SAMPLES_PER_VISIT
    level, per_visit = _choose_level(projection, least, comm)
    blocks = projection.local.blocks
    steps = np.array([one.step for one in noises], np.int64)[blocks[:, 5]]
    n_knots = int((blocks[:, 3] // steps + 2).sum())
    n_visits = int(projection.local.n_out / per_visit + n_knots)  # a visit ends at a knot too
    a_sample = n_knots / max(projection.local.n_out, 1)
    templates = TemplateBytes()
    if functions and destriping is None:
        templates = template_model_bytes(
            functions, a_sample, n_gaps, 1 / per_visit + a_sample, projection.n_local
        )
        templates = replace(templates, beside=templates.beside + SLOW_BYTES * projection.local.n_out)
    return PreconditionerPlan(
        kind, noises, modes, level, n_visits, n_gaps, n_knots, min(comm.size, _MOST_COPIES),
        destripes=destriping is not None, common_beside=_are_many(terms), templates=templates,
    )  # fmt: skip


def _are_many(terms: StreamTerms | None) -> bool:
    """Return whether more amplitudes are in common than are inverted."""
    most, squares = terms.largest_common_sets() if terms else (0, 0)
    return most > _MOST_CONNECTED or squares > _MOST_COMMON


def _fitted(
    projection: Projection, noise: InverseNoise, comm: Communicator
) -> tuple[list[BaselineNoise], list[BaselineNoise]]:
    """Return baselines of the noise of each segment, and of each common mode. Collective."""
    longest = LONGEST_STEP
    if comm.max(float(bool(noise.joint.groups))):
        # streams that share noise have the same knots
        every = np.concatenate([noise.lags, noise.mode_lags])
        longest = int(-comm.max(-min((fit_baselines(one, longest).step for one in every), default=longest)))
    fitted = [fit_baselines(lags, longest) for lags in noise.lags]
    modes = [fit_baselines(lags, longest) for lags in noise.mode_lags]
    return [fitted[kernel] for kernel in noise.kernel_of], modes


def _choose_kind(projection: Projection, noise: InverseNoise, comm: Communicator) -> str:
    """Return two levels where most samples have steep noise. Collective."""
    steep = np.array([is_steep(lags) for lags in noise.lags], np.bool_)
    blocks = projection.local.blocks
    mapped = steep[noise.kernel_of[blocks[:, 5]]] if len(blocks) else np.zeros(0, np.bool_)
    for group in noise.joint.groups:
        mapped[group.members] |= any(is_steep(noise.mode_lags[kernel]) for kernel in group.kernels)
    n_steep = int(blocks[mapped, 3].sum())
    return TWO_LEVEL if 2 * comm.sum(n_steep) > comm.sum(projection.local.n_out) else BLOCK_DIAGONAL


def has_templates(observations: Sequence[Observation]) -> bool:
    """Return whether there are templates, of which two levels alone know what they share with the map."""
    return any(observation.templates for observation in observations)


def is_steep(lags: FloatArray) -> bool:
    """Return whether two levels pay under noise of which the lags of N^-1 are given, (n_lag + 1,)."""
    spectrum = toeplitz_spectrum(lags, fast_length(4 * len(lags)))
    return bool(spectrum.max() > _STEEP * spectrum.min())


def _choose_level(projection: Projection, least: float, comm: Communicator) -> tuple[int, float]:
    """Return the finest level in which first visits have `least` samples, and how many. Collective."""
    firsts = [block for block in projection.local.blocks if projection.is_first(block)]
    keys, per_visit = projection.keys(), 0.0
    for level in range(_COARSEST + 1):
        coarse = parent_pixels(projection.pixelization, keys, level)
        n_samples = n_visits = 0
        for block in firsts:
            pixels = projection.sample_pointing(block, inputs=False).pixels
            inside = coarse[pixels[pixels >= 0]]
            n_samples += len(inside)
            n_visits += int(np.count_nonzero(inside[1:] != inside[:-1])) + 1
        per_visit = comm.sum(n_samples) / max(comm.sum(n_visits), 1)
        if per_visit >= least:
            break
    return level, max(per_visit, 1.0)


@dataclass(frozen=True)
class PreconditionerInputs:
    """What preconditioners are made of: parts of the system.

    Attributes
    ----------
    projection, noise, shared
        Of the system.
    keys : int64 (n_owned,)
        Pixels that this rank owns.
    statistics : Statistics
    """

    projection: Projection
    noise: InverseNoise
    shared: SharedUnknowns
    keys: Int64Array
    statistics: Statistics

    @property
    def comm(self) -> Communicator:
        """All ranks of the run."""
        return self.shared.comm

    def make(self, plan: PreconditionerPlan) -> Preconditioner:
        """Return the preconditioner that was planned. Collective."""
        return self._two_level(plan) if plan.kind == TWO_LEVEL else self._local(plan.kind)

    def _local(self, kind: str) -> Preconditioner:
        """Return the inverse of each pixel's block or of its diagonal, or one number for all."""
        projection, covariance = self.projection, self.statistics.covariance
        pixels = covariance
        if kind != BLOCK_DIAGONAL:
            diagonal = binning.DIAGONAL[projection.stokes.n]
            pixels = np.zeros_like(covariance)
            pixels[:, diagonal] = covariance[:, diagonal]
            if kind == "none":
                # The same number on all ranks.
                weight = self.comm.max(float(self.noise.weights.max(initial=0)))
                pixels[:, diagonal] = (covariance[:, :1] > 0) / max(weight, 1e-300)
        gaps = np.zeros((projection.n_nuisance, 1))
        if projection.gaps.length:
            gaps[: projection.gaps.n, 0] = 1 / self.noise.weights[projection.gaps.segments()]
        blocks = self.shared.with_ghosts(Unknowns(pixels, self.shared.gaps.select_owned(gaps)))
        local = BlockDiagonalPreconditioner(blocks, projection.n_threads, kind)
        if not projection.amplitudes:
            return local
        none, terms = np.zeros(0, np.int64), projection.amplitudes.terms
        templates: TemplateModel | BaselineAmplitudes
        noises = destriping_noises(projection, self.noise, terms, self.comm)
        if noises is not None:
            templates = BaselineAmplitudes(terms, stream_noises(projection, noises, self.comm), none)
        else:
            fitted = [fit_baselines(lags) for lags in self.noise.lags]
            noises = [fitted[kernel] for kernel in self.noise.kernel_of]
            templates = TemplateModel(
                terms, stream_noises(projection, noises, self.comm), none, self.comm,
                by_stream=_are_many(terms),
            )  # fmt: skip
        transfer = self._nuisance(none, templates, solve_gaps=False)
        return AmplitudePreconditioner(local, self.shared, transfer, templates.blocks())

    def _nuisance(
        self, gap_keys: Int64Array, templates: TemplateModel | BaselineAmplitudes | None, *, solve_gaps: bool
    ) -> NuisanceTransfer:
        """Return the transfer of unknowns beside the map, of which the model has gaps and templates."""
        amplitudes = self.projection.amplitudes
        held = self.projection.gaps.keys() if self.projection.gaps.length else np.zeros(0, np.int64)
        if amplitudes:
            placeholder = np.zeros(0 if self.projection.gaps.length else 1, np.int64)
            held = np.concatenate([placeholder, held, amplitudes.keys])
        return NuisanceTransfer(
            self.comm, self.shared.gaps.select_owned(held), self.projection.layout.streams.n_keys,
            gap_keys, templates.keys if templates else np.zeros(0, np.int64),
            templates.shares if templates else np.zeros(0), solve_gaps=solve_gaps,
            scale=amplitudes.scale if amplitudes else 1.0,
        )  # fmt: skip

    def _two_level(self, plan: PreconditionerPlan) -> Preconditioner:
        """Return the inverse of a model of the noise."""
        projection, statistics, level = self.projection, self.statistics, plan.level
        gap_keys = projection.gaps.keys() if projection.gaps.length else np.zeros(0, np.int64)
        alive = ~statistics.dead
        weight = self.comm.max(float(self.noise.weights.max(initial=0)))
        own_keys = parent_pixels(projection.pixelization, self.keys[alive], level)
        n_samples = self.comm.sum(projection.local.n_out)
        for least in LEAST_ADDED:
            model = self._model(plan, gap_keys, own_keys, weight, least)
            has_templates = isinstance(model.templates, TemplateModel)
            transfer = PixelTransfer(model.pixels, model.rows, alive, statistics.hits, level == 0)
            n_unknowns = model.n_stokes * self.comm.sum(len(model.pixels.keys))
            inverse = ModelInverse(
                model, transfer.restrict(self._weights()[:, :, None])[:, :, 0],
                self._coarse(model.pixels.keys, level), weight * n_samples,
                slow_steps(n_samples, n_unknowns) if has_templates else 0,
            )  # fmt: skip
            if inverse.is_positive or not has_templates:
                break
        nuisance = None
        if self.comm.max(len(gap_keys)) or model.templates:
            nuisance = self._nuisance(model.gap_keys, model.templates, solve_gaps=projection.gaps.length > 0)
        two_level = TwoLevelPreconditioner(
            self.shared, transfer, nuisance, inverse, statistics.covariance if level else None
        )
        return self._with_common(two_level, plan)

    def _with_common(self, local: Preconditioner, plan: PreconditionerPlan) -> Preconditioner:
        """Return a preconditioner with that of amplitudes that streams share beside it, if they are many."""
        projection, amplitudes = self.projection, self.projection.amplitudes
        if not amplitudes or not plan.common_beside:
            return local
        none, noises = np.zeros(0, np.int64), stream_noises(projection, plan.noises, self.comm)
        terms = SelectedTerms(amplitudes.terms, is_common)
        templates = TemplateModel(terms, noises, none, self.comm, by_stream=True)
        transfer = self._nuisance(none, templates, solve_gaps=False)
        return AmplitudePreconditioner(local, self.shared, transfer, templates.blocks())

    def _model(
        self,
        plan: PreconditionerPlan,
        gap_keys: Int64Array,
        own_keys: Int64Array,
        weight: float,
        least: float,
    ) -> BaselineModel:
        """Return the model of whole streams, whose samples have at most a weight."""
        projection = self.projection
        local_keys = parent_pixels(projection.pixelization, projection.keys(), plan.level)
        amplitudes = projection.amplitudes
        own: StreamTerms | SelectedTerms | None = None
        if amplitudes and not plan.destripes:
            own = amplitudes.terms
            if plan.common_beside:
                own = SelectedTerms(own, lambda template: not is_common(template))
        visits = gather_visits(
            projection, plan.noises, gap_keys, local_keys, self.comm,
            marginalize=projection.gaps.length > 0, terms=own,
        )  # fmt: skip
        groups = modelled_groups(projection, self.noise, plan.modes, visits.noises, self.comm)
        visits = replace(visits, noises=with_shapes(visits.noises, groups))
        # no pixel of the model has more samples, and no gap more than 64
        samples = max(self.statistics.hits_max << (2 * plan.level), 64)
        gaps = visits.gaps.keys
        templates: TemplateModel | BaselineAmplitudes | None = None
        if own:
            templates = TemplateModel(
                own, visits.noises, gaps, self.comm, by_stream=plan.common_beside, least=least
            )
        elif amplitudes:
            templates = BaselineAmplitudes(amplitudes.terms, visits.noises, gaps)
        return BaselineModel(
            self.comm, visits, own_keys, weight * samples,
            templates=templates, modes=ModeModel(visits, groups), n_threads=projection.n_threads,
        )  # fmt: skip

    def _weights(self) -> FloatArray:
        """Return D of the map's pixels, (n_owned, triangle); zero where a pixel is not solved for.

        The white noise of the model has the weights of samples alone (`BaselineNoise`).
        """
        matrices = self.statistics.covariance.copy()
        rcond = np.zeros(len(matrices))
        _mapmaking.invert(self.projection.stokes.n, 0.0, matrices, rcond, self.projection.n_threads)
        return matrices

    def _coarse(self, keys: Int64Array, level: int) -> Int64Array:
        """Return the coarse pixel of each of the model's pixels that this rank owns."""
        n, up = self.comm.sum(len(keys)), 0
        while n >> (2 * up) > _MOST_COARSE:
            up += 1
        return parent_pixels(self.projection.pixelization, keys, level + up, start=level)
