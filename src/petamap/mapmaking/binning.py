"""Passes over the pointing: hits and Stokes weights of pixels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import DataError
from petacomm.base.threads import map_with_states
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator, agree
from petacomm.reduction import OwnedRows
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.vectors import aligned_zeros

# A sum keeps 62 bits; its terms are rounded at 2^-50 of the largest, or coarser where hits need the room.
_SUM_BITS, _TERM_BITS = 62, 50


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


def hits(projection: Projection, pixels: OwnedRows) -> Int64Array:
    """Return the number of samples of the run in each pixel that this rank owns, (n_owned,). Collective."""

    def count(counts: Int64Array, block: Int64Array) -> None:
        _mapmaking.add_hits(projection.sample_pointing(block, inputs=False).pixels, counts)

    return pixels.scatter_rev(_sum_of_blocks(projection, (projection.n_local,), count))


def _sum_of_blocks(
    projection: Projection, shape: tuple[int, ...], add: Callable[[Int64Array, Int64Array], None]
) -> Int64Array:
    """Return what is added to zeros by ``add(sums, block)``; each thread has sums of its own.

    An atomic addition to sums that threads share costs several plain ones.
    """
    sums = map_with_states(lambda: aligned_zeros(*shape), add, projection.local.blocks, projection.n_threads)
    total = sums.pop(0)
    while sums:
        total += sums.pop()
    return total


def stokes_weights(
    projection: Projection, pixels: OwnedRows, segment_weights: FloatArray, hits_max: int
) -> FloatArray:
    """Return sum_t w_t p_t p_t^T for each pixel that this rank owns, (n_owned, triangle). Collective.

    Parameters
    ----------
    projection : Projection
    pixels : OwnedRows
    segment_weights : float64 (n_segment,)
        w of the samples of each segment.
    hits_max : int
        Most hits of a pixel in the run.
    """
    n_stokes = projection.stokes.n
    scale = weight_scale(segment_weights, term_bits(hits_max), pixels.comm)

    def add(sums: Int64Array, block: Int64Array) -> None:
        samples = projection.sample_pointing(block, inputs=False)
        _mapmaking.add_weights(
            samples.pixels, samples.angles, samples.gains, samples.intensity, samples.efficiency, n_stokes,
            float(segment_weights[block[5]]), scale, sums,
        )  # fmt: skip

    sums = _sum_of_blocks(projection, (projection.n_local, triangle(n_stokes)), add)
    return pixels.scatter_rev(sums) / scale
