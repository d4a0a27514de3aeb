"""Passes over the samples: hits, Stokes weights, and the right-hand sides of both maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import DataError
from petacomm.base.threads import map_threads, map_with_states
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import agree_on_errors
from petacomm.reduction import OwnedRows
from petamap.data.observation import Signal
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.vectors import MAX_WIDTH, SharedUnknowns, aligned_zeros, width_for

# A sum keeps 62 bits; its terms are rounded at 2^-50 of the largest, or coarser where hits need the room.
_SUM_BITS, _TERM_BITS, _WEIGHT_BITS = 62, 50, 50
# Samples up to 2^30 times the noise may be added up; there is no such instrument.
_SIGNAL_BITS = 30


def triangle(n_stokes: int) -> int:
    """Return the number of independent values of a symmetric matrix."""
    return n_stokes * (n_stokes + 1) // 2


def hits(projection: Projection, pixels: OwnedRows) -> Int64Array:
    """Return the number of samples of the run in each pixel that this rank owns, (n_owned,). Collective."""
    counts = np.zeros(projection.n_local, np.int64)

    def count(block: Int64Array) -> None:
        samples = projection.sample_pointing(block, inputs=False)
        _mapmaking.add_hits(samples.pixels, projection.n_threads > 1, counts)

    map_threads(count, projection.local.blocks, projection.n_threads)
    return pixels.scatter_rev(counts)


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
    sums = np.zeros((projection.n_local, triangle(n_stokes)), np.int64)
    largest = pixels.comm.max(float(np.abs(segment_weights).max(initial=0.0)))
    bits = min(_WEIGHT_BITS, _SUM_BITS - max(hits_max, 1).bit_length())
    scale = math.ldexp(1.0, bits - math.frexp(largest)[1])

    def add(block: Int64Array) -> None:
        samples = projection.sample_pointing(block, inputs=False)
        _mapmaking.add_weights(
            samples.pixels, samples.angles, samples.gains, samples.efficiency, n_stokes,
            float(segment_weights[block[5]]), scale, projection.n_threads > 1, sums,
        )  # fmt: skip

    map_threads(add, projection.local.blocks, projection.n_threads)
    weights: FloatArray = pixels.scatter_rev(sums) / scale
    return weights


@dataclass(frozen=True)
class RightHandSide:
    """P^T N^-1 d, (n_owned, n_stokes) and (n_gaps, 1), and P^T w d of the binned map, at the owners."""

    pixels: FloatArray
    gaps: FloatArray
    binned: FloatArray


class _Sums:
    """Sums of one thread: two words each of P^T N^-1 d and P^T w d on pixels, of the first on gaps."""

    def __init__(self, projection: Projection, width: int) -> None:
        self.pixels = aligned_zeros(projection.n_local, projection.stokes.n, 4, width)
        self.gaps = aligned_zeros(projection.gaps.n, 2, width)

    def add(self, other: _Sums) -> None:
        self.pixels += other.pixels
        self.gaps += other.gaps


@dataclass(frozen=True)
class _Scale:
    """Fixed-point scale of the right-hand sides: values below 2^30 times the noise, whatever the hits."""

    unit: float
    high_bits: int
    low_bits: int

    @staticmethod
    def of(weight: float, hits_max: int) -> _Scale:
        bits = min(_TERM_BITS, _SUM_BITS - max(hits_max, 1).bit_length())
        return _Scale(math.ldexp(1.0, math.frexp(math.sqrt(weight))[1] + _SIGNAL_BITS - bits), bits, bits)

    def values(self, words: Int64Array, n_threads: int) -> tuple[FloatArray, FloatArray]:
        """Return the two values of each row of four words, (n, n_stokes, 4, width)."""
        first, second = np.empty((2, *words.shape[:2], words.shape[3]))
        _mapmaking.settle_words(words, self.unit, self.low_bits, first, second, n_threads)
        return first, second


def right_hand_side(
    projection: Projection,
    noise: InverseNoise,
    shared: SharedUnknowns,
    binned_weights: FloatArray,
    hits_max: int,
    advance: Callable[[float], None] = lambda amount: None,
) -> RightHandSide:
    """Return P^T N^-1 d and P^T w d of the observations' own signals: `right_hand_sides` of one dataset."""
    own = [observation.signals for observation in projection.observations]
    return right_hand_sides(projection, noise, shared, binned_weights, hits_max, [own], advance)[0]


def right_hand_sides(
    projection: Projection,
    noise: InverseNoise,
    shared: SharedUnknowns,
    binned_weights: FloatArray,
    hits_max: int,
    datasets: Sequence[Sequence[Sequence[Signal]]],
    advance: Callable[[float], None] = lambda amount: None,
) -> list[RightHandSide]:
    """Return P^T N^-1 d and P^T w d of several data sets, read in one pass. Collective.

    Those of a data set are the same to the bit whatever others there are.

    Parameters
    ----------
    binned_weights : (n_segment,) float64
        w of each segment's samples in the binned map.
    hits_max : int
        Most hits of a pixel in the run.
    datasets : sequence
        For each data set, for each observation of the projection, the signals to add up instead of
        ``observation.signals``.
    advance : callable
        Called with the number of samples just done, of all data sets together.

    Raises
    ------
    DataError
        On all ranks, if a sample that is not flagged is not finite, or beyond 2^30 times the noise.
    """
    weight = shared.comm.max(max(noise.norm, float(binned_weights.max(initial=0.0))))
    reading = _Reading(projection, noise, shared, binned_weights, _Scale.of(weight, hits_max), advance)
    batches = [datasets[first : first + MAX_WIDTH] for first in range(0, len(datasets), MAX_WIDTH)]
    return [one for batch in batches for one in reading.of(batch)]


@dataclass(frozen=True)
class _Reading:
    """One pass over the samples for some data sets, side by side."""

    projection: Projection
    noise: InverseNoise
    shared: SharedUnknowns
    binned_weights: FloatArray
    scale: _Scale
    advance: Callable[[float], None]

    def of(self, datasets: Sequence[Sequence[Sequence[Signal]]]) -> list[RightHandSide]:
        """Return the right-hand sides of at most `MAX_WIDTH` data sets."""
        projection, width = self.projection, width_for(len(datasets))

        def add(sums: _Sums, block: Int64Array) -> None:
            self._add_block(block, datasets, sums)
            self.advance(float(block[3]) * len(datasets))

        with agree_on_errors(self.shared.comm):
            states = map_with_states(
                lambda: _Sums(projection, width), add, projection.local.blocks, projection.n_threads
            )
        total = states.pop(0)
        while states:
            total.add(states.pop())
        pixel_words, gap_words = self.shared.scatter_rev(total.pixels, total.gaps)
        del total
        filtered, binned = self.scale.values(pixel_words, projection.n_threads)
        del pixel_words
        gap_words = np.concatenate([gap_words, np.zeros_like(gap_words)], axis=1)
        gaps, _ = self.scale.values(gap_words[:, None], projection.n_threads)
        return [
            RightHandSide(*(np.ascontiguousarray(part[..., number]) for part in (filtered, gaps, binned)))
            for number in range(len(datasets))
        ]

    def _add_block(
        self, block: Int64Array, datasets: Sequence[Sequence[Sequence[Signal]]], sums: _Sums
    ) -> None:
        projection, n, width = self.projection, len(datasets), sums.pixels.shape[3]
        n_in, n_left, n_out = (int(value) for value in block[1:4])
        samples = projection.sample_pointing(block, inputs=True)
        data = np.empty((n, n_in))
        projection.read(block, samples.pixels, data, datasets)
        filtered, weighted = np.zeros((2, width, n_out))
        _mapmaking.filter_block(block, self.noise.handle, data, filtered[:n])
        outputs = samples.slice(n_left, n_left + n_out)
        with np.errstate(over="ignore"):  # detected below
            weighted[:n] = data[:, n_left : n_left + n_out] * self.binned_weights[block[5]]
        largest = np.empty(width)
        _mapmaking.add_signals(
            outputs.pixels, outputs.angles, outputs.gains, outputs.efficiency, filtered, weighted,
            1 / self.scale.unit, self.scale.low_bits, sums.pixels, sums.gaps, largest,
        )  # fmt: skip
        for number in range(n):
            fits = largest[number] < math.ldexp(1.0, self.scale.high_bits)
            if not (fits and np.isfinite(filtered[number]).all()):
                raise DataError(
                    "a sample is more than 10^9 times its noise",
                    where=projection.error_location(block, int(np.abs(data[number]).argmax())),
                    mend="flag it, or correct the unit of the signal or of the noise",
                )


def binned_map(inverse_weights: FloatArray, binned: FloatArray, n_threads: int) -> FloatArray:
    """Return (P^T w P)^-1 P^T w d from the inverted weights, (n_owned, n_stokes)."""
    out = np.empty_like(binned)
    _mapmaking.precondition(inverse_weights, binned[..., None], out[..., None], n_threads)
    return out
