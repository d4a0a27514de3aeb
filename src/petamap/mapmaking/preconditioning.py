"""Choice of the preconditioner of a system, and its set-up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.mpi import Communicator
from petamap.mapmaking import binning
from petamap.mapmaking.baseline_model import BaselineModel
from petamap.mapmaking.linear_operators import BlockDiagonalPreconditioner, Preconditioner
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.transfer import GapTransfer, PixelTransfer
from petamap.mapmaking.two_level import ModelInverse, TwoLevelPreconditioner
from petamap.mapmaking.vectors import SharedUnknowns, Unknowns
from petamap.mapmaking.visits import gather_visits
from petamap.noise.baselines import BaselineNoise, fit_baselines
from petamap.noise.toeplitz import toeplitz_spectrum
from petamap.sky.parents import parent_pixels

TWO_LEVEL = "two-level"

# Ratio of the noise's largest to its smallest power above which two levels pay, if most samples have it.
# Block-diagonal takes tens of iterations below it, hundreds to thousands above (benchmarks/solver.py).
_STEEP = 1e3
# Samples that a visit of the model should have in the mean: a product with it then costs less than with A.
_SAMPLES_PER_VISIT = 2.5
_COARSEST = 6
# Most pixels of the coarse map: its matrix is made by as many products with that of the model, side by side
# in eights, and each rank holds it.
_MOST_COARSE = 128

# Bytes of a visit and of a knot at the peak of the set-up, measured on a ground scan of 2.3 million samples:
# 371 MB are predicted for the process, 357 are taken.
_VISIT_BYTES, _KNOT_BYTES = 150, 100


def choose_preconditioner(kind: str, projection: Projection, noise: InverseNoise, comm: Communicator) -> str:
    """Return the kind of preconditioner that a run uses, "auto" by the range of its noise. Collective."""
    if kind != "auto":
        return kind
    steep = np.array([_is_steep(lags) for lags in noise.lags], np.bool_)
    blocks = projection.local.blocks
    n_steep = int(blocks[steep[noise.kernel_of[blocks[:, 5]]], 3].sum()) if len(blocks) else 0
    return TWO_LEVEL if 2 * comm.sum(n_steep) > comm.sum(projection.local.n_out) else "block-diagonal"


def _is_steep(lags: FloatArray) -> bool:
    spectrum = toeplitz_spectrum(lags, 4 * len(lags))
    return bool(spectrum.max() > _STEEP * spectrum.min())


def preconditioner_bytes(kind: str, projection: Projection, noise: InverseNoise, comm: Communicator) -> int:
    """Return the bytes that a preconditioner takes on this rank beside the vectors of the solver. Collective.

    Known before pixels are cut, of which all samples become gaps, each a visit.
    """
    if kind != TWO_LEVEL:
        return 0
    _, per_visit = _choose_level(projection, comm)
    n_out, n_gaps = projection.local.n_out, projection.gaps.count() if projection.gaps.length else 0
    steps = np.array([fit_baselines(lags).step for lags in noise.lags], np.int64)
    outputs = projection.local.blocks[:, 3]
    n_knots = int((outputs // steps[noise.kernel_of[projection.local.blocks[:, 5]]] + 2).sum())
    return int(_VISIT_BYTES * (n_out / per_visit + n_gaps) + _KNOT_BYTES * n_knots)


def _choose_level(projection: Projection, comm: Communicator) -> tuple[int, float]:
    """Return the finest level in which the first visits of streams are long, and how long. Collective."""
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
        if per_visit >= _SAMPLES_PER_VISIT:
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
    hits : int64 (n_owned,)
    hits_max : int
        Most hits of a pixel in the run.
    dead : bool (n_owned,)
        Pixels that are not solved for.
    covariance : float64 (n_owned, triangle)
        (P^T diag(N^-1) P)^-1; zero where a pixel is not solved for.
    """

    projection: Projection
    noise: InverseNoise
    shared: SharedUnknowns
    keys: Int64Array
    hits: Int64Array
    hits_max: int
    dead: BoolArray
    covariance: FloatArray

    @property
    def comm(self) -> Communicator:
        """All ranks of the run."""
        return self.shared.comm

    def make(self, kind: str) -> Preconditioner:
        """Return a preconditioner: two-level, block-diagonal, diagonal or none. Collective."""
        return _TwoLevel(self).make() if kind == TWO_LEVEL else self._local(kind)

    def _local(self, kind: str) -> BlockDiagonalPreconditioner:
        """Return the inverse of each pixel's block or of its diagonal, or one number for all."""
        projection, covariance = self.projection, self.covariance
        pixels = covariance
        if kind != "block-diagonal":
            diagonal = binning.DIAGONAL[projection.stokes.n]
            pixels = np.zeros_like(covariance)
            pixels[:, diagonal] = covariance[:, diagonal]
            if kind == "none":
                # The same number on all ranks.
                weight = self.comm.max(float(self.noise.weights.max(initial=0)))
                pixels[:, diagonal] = (covariance[:, :1] > 0) / max(weight, 1e-300)
        gaps = np.zeros((self.shared.gaps.n_owned, 1))
        if projection.gaps.length:
            gaps[:, 0] = 1 / self.noise.weights[self.shared.gaps.select_owned(projection.gaps.segments())]
        blocks = self.shared.with_ghosts(Unknowns(pixels, gaps))
        return BlockDiagonalPreconditioner(blocks, projection.n_threads, kind)


class _TwoLevel:
    """Set-up of the two-level preconditioner. Collective."""

    def __init__(self, inputs: PreconditionerInputs) -> None:
        self.inputs, self.comm = inputs, inputs.comm
        projection, noise = inputs.projection, inputs.noise
        self.projection, self.pixelization = projection, projection.pixelization
        noises = [fit_baselines(lags) for lags in noise.lags]
        self.noises: list[BaselineNoise] = [noises[kernel] for kernel in noise.kernel_of]
        self.gap_keys = projection.gaps.keys() if projection.gaps.length else np.zeros(0, np.int64)

    def make(self) -> TwoLevelPreconditioner:
        """Return the preconditioner."""
        inputs = self.inputs
        level, _ = _choose_level(self.projection, self.comm)
        alive = ~inputs.dead
        model = self._model(parent_pixels(self.pixelization, inputs.keys[alive], level), level)
        transfer = PixelTransfer(model.pixels, model.rows, alive, inputs.hits, level == 0)
        blocks = np.where(alive[:, None], self._weights, 0.0)
        inverse = ModelInverse(
            model, transfer.restrict(blocks[:, :, None])[:, :, 0], self._coarse(model.pixels.keys, level)
        )
        gaps = None
        if self.comm.max(len(self.gap_keys)):
            gaps = GapTransfer(self.comm, inputs.shared.gaps.select_owned(self.gap_keys), model.gap_keys)
        return TwoLevelPreconditioner(
            inputs.shared, transfer, gaps, inverse, inputs.covariance if level else None
        )

    def _model(self, own_keys: Int64Array, level: int) -> BaselineModel:
        """Return the model of whole streams on pixels of a level."""
        projection = self.projection
        local_keys = parent_pixels(self.pixelization, projection.keys(), level)
        visits = gather_visits(projection, self.noises, self.gap_keys, local_keys, self.comm)
        weight = self.comm.max(max((noise.weight for noise in self.noises), default=0.0))
        # no pixel of the model has more samples, and no gap more than 64
        samples = max(self.inputs.hits_max << (2 * level), 64)
        return BaselineModel(
            self.comm, visits, own_keys, projection.stokes.n, weight * samples,
            marginalize=projection.gaps.length > 0, n_threads=projection.n_threads,
        )  # fmt: skip

    @cached_property
    def _weights(self) -> FloatArray:
        """D of the map's pixels, (n_owned, triangle)."""
        weights = np.array([noise.weight for noise in self.noises])
        return binning.stokes_weights(
            self.projection, self.inputs.shared.pixels, weights, self.inputs.hits_max
        )

    def _coarse(self, keys: Int64Array, level: int) -> Int64Array:
        """Return the coarse pixel of each of the model's pixels that this rank owns."""
        n, up = self.comm.sum(len(keys)), 0
        while n >> (2 * up) > _MOST_COARSE:
            up += 1
        return parent_pixels(self.pixelization, keys, level + up, start=level)
