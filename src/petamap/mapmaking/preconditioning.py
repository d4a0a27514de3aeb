"""Choice of the preconditioner of a system, and its set-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from petacomm.base.threads import map_threads
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator
from petamap.data.observation import Observation
from petamap.mapmaking import binning
from petamap.mapmaking.amplitudes import Amplitudes
from petamap.mapmaking.linear_operators import BlockDiagonalPreconditioner, Preconditioner
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.pixel_statistics import Statistics
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.stream_terms import StreamTerms
from petamap.mapmaking.template_memory import SLOW_BYTES, TemplateBytes, template_model_bytes
from petamap.mapmaking.vectors import SharedUnknowns, Unknowns
from petamap.noise.baselines import LONGEST_STEP, BaselineNoise, fit_baselines
from petamap.noise.toeplitz import fast_length, toeplitz_spectrum
from petamap.sky.parents import parent_pixels

TWO_LEVEL, BLOCK_DIAGONAL = "two-level", "block-diagonal"

# Ratio of the noise's largest to its smallest power above which two levels pay, if most samples have it.
# Measured with set-up, to 1e-6, on satellites' scans and rasters: 1.10 to 1.34 of block-diagonal's time at
# ratios of 50 to 130, but for a raster at 100 (0.79); 0.67 to 0.88 at 200 to 500; far less above.
_STEEP = 150
# Samples that a visit of the model should have in the mean: a product with it then costs less than with A.
_SAMPLES_PER_VISIT = 2.5
# With templates the model has the map's pixels: where a visit has 1.2 samples, bins of azimuth take 17
# iterations then and 75, in five times the time, with coarser ones.
_SAMPLES_PER_VISIT_WITH_TEMPLATES = 1.0
_COARSEST = 6
# Most amplitudes that streams have in common and connect, and most squares of such sets, of which each rank
# has the inverse: 2048 take 8 s to invert, 50 MB, and 10 ms in each product with the model.
_MOST_CONNECTED, _MOST_COMMON = 2048, 1 << 22

# Bytes of a visit of a pixel, of a gap and of a knot, and of the last two for each vector that it is applied
# to at once, held once. A process took 1145 MB of 1171 told with 24 million samples, 12 million visits; when
# visits had 8 bytes more, 7.9 GB of 8.5 with 68 million gaps, and two, which hold them twice, 6.8 of 7.2 GB
# each with half of these.
_VISIT_BYTES, _GAP_BYTES, _KNOT_BYTES = 23, 9, 140
_GAP_VECTOR_BYTES, _KNOT_VECTOR_BYTES = 24, 16


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


def fewest_samples_per_visit(templates: bool) -> float:
    """Return the samples that a visit of the model should have at least, in the mean."""
    return _SAMPLES_PER_VISIT_WITH_TEMPLATES if templates else _SAMPLES_PER_VISIT


def visit_copies(n_ranks: int) -> int:
    """Return how often visits and gaps are held: twice where whole streams are dealt to ranks anew."""
    return min(n_ranks, 2)


def bytes_a_sample(knots: float, visits: float, n_ranks: int) -> float:
    """Return the bytes of two levels a sample, with so many knots and visits a sample and without gaps."""
    n_visits = visit_copies(n_ranks) * (visits + knots)
    return _VISIT_BYTES * n_visits + (_KNOT_BYTES + _KNOT_VECTOR_BYTES) * knots


def bytes_a_gap(n_ranks: int) -> int:
    """Return the bytes of two levels for a gap."""
    return visit_copies(n_ranks) * (_GAP_BYTES + _GAP_VECTOR_BYTES)


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
    destriping = _destriping(projection, noise, terms, comm) if terms else None
    if kind != TWO_LEVEL:
        alone = template_model_bytes(functions if destriping is None else [], 1 / LONGEST_STEP, 0)
        return PreconditionerPlan(kind, n_gaps=n_gaps, templates=alone)
    if destriping is None:
        noises, modes = _fitted(projection, noise, comm)
    else:
        noises, modes = destriping, []
    least = fewest_samples_per_visit(amplitudes is not None)
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
        kind, noises, modes, level, n_visits, n_gaps, n_knots, visit_copies(comm.size),
        destripes=destriping is not None, common_beside=are_many(terms), templates=templates,
    )  # fmt: skip


def _destriping(
    projection: Projection, noise: InverseNoise, terms: StreamTerms, comm: Communicator
) -> list[BaselineNoise] | None:
    from petamap.mapmaking.baseline_amplitudes import destriping_noises

    return destriping_noises(projection, noise, terms, comm)


def are_many(terms: StreamTerms | None) -> bool:
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
    fitted = map_threads(lambda lags: fit_baselines(lags, longest), noise.lags, projection.n_threads)
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


def _is_first(projection: Projection, block: Int64Array) -> bool:
    """Return whether the outputs of a block begin with the first sample of their stream."""
    segment = projection.local.segments[int(block[5])]
    first = segment.start + int(block[0] + block[2]) - segment.offset
    return first == projection.layout.streams[segment.stream].start


def _choose_level(projection: Projection, least: float, comm: Communicator) -> tuple[int, float]:
    """Return the finest level in which first visits have `least` samples, and how many. Collective."""
    firsts = [number for number, block in enumerate(projection.local.blocks) if _is_first(projection, block)]
    keys, per_visit = projection.keys(), 0.0
    for level in range(_COARSEST + 1):
        coarse = parent_pixels(projection.pixelization, keys, level)
        n_samples = n_visits = 0
        for number in firsts:
            pixels = projection.outputs(number).pixels
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
    map_names : tuple of str
        Of the maps that are solved for, as `MapmakingSystem.map_names`.
    """

    projection: Projection
    noise: InverseNoise
    shared: SharedUnknowns
    keys: Int64Array
    statistics: Statistics
    map_names: tuple[str, ...] = ("",)

    @property
    def comm(self) -> Communicator:
        """All ranks of the run."""
        return self.shared.comm

    def local(self, kind: str) -> Preconditioner:
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
        gaps = np.zeros(projection.n_nuisance)
        if projection.gaps.length:
            gaps[: projection.gaps.n] = projection.gaps.of_segments(1 / self.noise.weights)
        blocks = self.shared.with_ghosts(Unknowns(pixels, self.shared.gaps.select_owned(gaps[:, None])))
        return BlockDiagonalPreconditioner(blocks, projection.n_threads, kind)
