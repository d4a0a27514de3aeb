"""Statistics of the samples in each pixel: hits, weights and which pixels can be solved for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import DataError
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.mpi import agree
from petacomm.reduction import OwnedRows
from petamap.mapmaking import binning
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.single_pass import BinnedSums

# Reciprocal condition below which a matrix is singular but for rounding.
SINGULAR = 1e-12


@dataclass(frozen=True)
class Statistics:
    """Statistics of the samples in each pixel that this rank owns.

    Attributes
    ----------
    hits : (n_owned,) int64
        Number of samples.
    hits_max : int
        Most of any pixel in the run, at least 1.
    covariance : (n_owned, triangle) float64
        (P^T diag(N^-1) P)^-1, K^2; zero where a pixel is not solved for.
    rcond : (n_owned,) float64
        Smallest over largest eigenvalue of its inverse.
    dead : (n_owned,) bool
        Pixels that have no value in maps.
    unsolved : (n_owned,) bool
        Of these, pixels that are not solved for: each of their samples is an unknown.
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
    unsolved: BoolArray
    binned_weights: FloatArray
    binned_inverse: FloatArray


def pixel_statistics(
    projection: Projection,
    noise: InverseNoise,
    pixels: OwnedRows,
    rcond_min: float,
    rcond_solved: float,
    *,
    uniform_binning: bool,
    cut: tuple[BoolArray, BoolArray] | None = None,
    sums: BinnedSums | None = None,
) -> Statistics:
    """Return the statistics of the samples in each pixel. Collective.

    Parameters
    ----------
    projection : Projection
    noise : InverseNoise
    pixels : OwnedRows
    rcond_min : float
        Pixels with a smaller one have no value in maps.
    rcond_solved : float
        Of these, pixels with a smaller one, or one below `SINGULAR`, are not solved for.
    uniform_binning : bool
        Whether all samples weigh the same in the binned map.
    cut : bool (n_owned,) and (n_owned,), optional
        Pixels that are dead, and unsolved, in any case.
    sums : BinnedSums, optional
        Hits and weights of the samples, where they are known.
    """
    if sums:
        hits = pixels.scatter_rev(sums.hits)
        scale = binning.weight_scale(noise.weights, binning.term_bits(1), pixels.comm)
        matrices = pixels.scatter_rev(sums.weights) / scale
    else:
        hits, matrices = binning.hits_and_weights(projection, pixels, noise.weights)
    rcond_min = max(rcond_min, SINGULAR)
    rcond_solved = min(max(rcond_solved, SINGULAR), rcond_min)
    hits_max = max(1, int(pixels.comm.max(float(hits.max(initial=0)))))

    def inverted(matrices: FloatArray, least: float) -> tuple[FloatArray, FloatArray]:
        _require_finite(matrices, pixels)
        rcond = np.zeros(pixels.n_owned)
        _mapmaking.invert(projection.stokes.n, least, matrices, rcond, projection.n_threads)
        return matrices, rcond

    weights = noise.weights
    covariance, rcond = inverted(matrices, rcond_solved)
    dead, unsolved = rcond < rcond_min, rcond < rcond_solved
    if cut is not None:
        dead, unsolved = dead | cut[0] | cut[1], unsolved | cut[1]
        covariance[unsolved] = 0.0
    binned = covariance
    if uniform_binning:
        weights = projection.units**2
        binned, _ = inverted(binning.hits_and_weights(projection, pixels, weights)[1], 0.0)
        binned[dead] = 0.0
    return Statistics(hits, hits_max, covariance, rcond, dead, unsolved, weights, binned)


def _require_finite(matrices: FloatArray, pixels: OwnedRows) -> None:
    """Raise a DataError on all ranks if a weight of a pixel is not finite. Collective."""
    bad = ~np.isfinite(matrices).all(axis=1)
    error = None
    if bad.any():
        pixel = int(pixels.keys[np.flatnonzero(bad)[0]])
        error = DataError(f"the weights of pixel {pixel} are not finite", where=f"rank {pixels.comm.rank}")
    agree(pixels.comm, error)
