"""Passes over the pointing: hits and Stokes weights of pixels."""

from __future__ import annotations

import math

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator, agree
from petacomm.reduction import OwnedRows
from petamap.mapmaking.block_samples import Samples, output_samples
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.vectors import aligned_zeros

# A sum keeps 62 bits; its terms are rounded at 2^-50 of the largest, or coarser where hits need the room.
_SUM_BITS, _TERM_BITS = 62, 50
_EVERY = 16  # one of so many blocks is looked at first


def term_bits(hits_max: int) -> int:
    """Return the bits of a term of a sum on pixels, where a pixel has at most `hits_max` of them."""
    return min(_TERM_BITS, _SUM_BITS - max(hits_max, 1).bit_length())


# Samples up to 2^30 times the noise may be added up; there is no such instrument.
_SIGNAL_BITS = 30


def weight_scale(weights: FloatArray, bits: int, comm: Communicator) -> float:
    """Return what weights of segments are multiplied by to be integers of so many bits. Collective.

    Raises
    ------
    DataError
        On all ranks, if a weight is not finite: it would be an integer like any other.
    """
    error = None
    if not np.isfinite(weights).all():
        number = int(np.flatnonzero(~np.isfinite(weights))[0])
        what = f"the weight of samples of segment {number} is {weights[number]}"
        error = DataError(what, where=f"noise of rank {comm.rank}", mend="look at the noise of its detectors")
    agree(comm, error)
    largest = comm.max(float(np.abs(weights).max(initial=0.0)))
    return math.ldexp(1.0, bits - math.frexp(largest)[1])


def signal_unit(norm: float, weights: FloatArray, bits: int, comm: Communicator) -> float:
    """Return the unit of the first words of right-hand sides, of so many bits. Collective.

    Values are below 2^30 times the noise, whatever the hits.

    Parameters
    ----------
    norm : float
        Of N^-1.
    weights : (n_segment,) float64
        Of samples in the binned map.
    bits : int
        Of each word.
    comm : Communicator
    """
    largest = max(norm, float(weights.max(initial=0.0)))
    exponent = math.frexp(math.sqrt(comm.max(largest)))[1] + _SIGNAL_BITS
    return math.ldexp(1.0, exponent - bits)


# Places of II, QQ and UU in the upper triangle, by the number of Stokes parameters.
DIAGONAL = {1: [0], 2: [0, 2], 3: [0, 3, 5]}


def triangle(n_stokes: int) -> int:
    """Return the number of independent values of a symmetric matrix."""
    return n_stokes * (n_stokes + 1) // 2


def weights_row(n_stokes: int) -> int:
    """Return the numbers in a row of sums of weights: hits, and the upper triangle of a matrix."""
    return 1 + triangle(n_stokes)


def hits_and_weights(
    projection: Projection, pixels: OwnedRows, segment_weights: FloatArray
) -> tuple[Int64Array, FloatArray]:
    """Return hits and sum_t w_t p_t p_t^T of each pixel that this rank owns. Collective.

    Parameters
    ----------
    projection : Projection
    pixels : OwnedRows
    segment_weights : float64 (n_segment,)
        w of the samples of each segment.

    Returns
    -------
    int64 (n_owned,), float64 (n_owned, triangle)
    """
    comm, n_stokes = pixels.comm, projection.stokes.n
    whole = weight_scale(segment_weights, 0, comm)

    def sums(n_stokes: int, bits: int, every: int = 1) -> Int64Array:
        samples, scale = output_samples(projection, every), math.ldexp(whole, bits)
        return _sum_weights(samples, projection, n_stokes, segment_weights, scale)

    def most_bits(hits: Int64Array) -> int:
        return term_bits(int(comm.max(float(hits.max(initial=0)))))

    # The bits of terms follow from the hits. Both are found in one pass where no pixel is hit so often that
    # it matters, which some of the blocks tell.
    some = pixels.scatter_rev(sums(0, 0, _EVERY)[:, 0])
    rows = sums(n_stokes, _TERM_BITS) if most_bits(2 * _EVERY * some) == _TERM_BITS else None
    hits = pixels.scatter_rev((sums(0, 0) if rows is None else rows)[:, 0].copy())
    bits = most_bits(hits)
    if rows is None or bits != _TERM_BITS:
        rows = sums(n_stokes, bits)
    return hits, pixels.scatter_rev(rows[:, 1:].copy()) / math.ldexp(whole, bits)


def _sum_weights(
    samples: Samples, projection: Projection, n_stokes: int, segment_weights: FloatArray, scale: float
) -> Int64Array:
    """Return hits and weights of this rank's pixels, (n_local, row), in units of 1/scale.

    Of no Stokes parameter there are hits alone. Each thread has sums of its own: an atomic addition to common
    ones costs several plain ones.
    """
    n_threads, shape = projection.n_threads, (projection.n_local, weights_row(n_stokes))
    of_threads = aligned_zeros(n_threads, *shape)
    _mapmaking.sum_weights(samples, n_stokes, segment_weights, scale, of_threads)
    if n_threads == 1:
        return of_threads.reshape(shape)
    total = aligned_zeros(*shape)
    _mapmaking.fold(of_threads[..., None], total[..., None], n_threads)
    return total
