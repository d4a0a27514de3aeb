"""Pixels that a run will cut, and its samples in them, foreseen on a sample of the sky."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import Int32Array, Int64Array, UInt32Array
from petamap.mapmaking.binning import weights_row
from petamap.mapmaking.coverage import solvable
from petamap.planning.sky_regions import SkySample
from petamap.sky.stokes import Stokes

# Pixels of the sample whose samples are summed, at most: with three Stokes parameters 240 MB a thread, but
# memory only for regions that are seen.
_MOST_PIXELS = 1 << 22
_SCALE = 2.0**30  # of the integers that samples are summed as


@dataclass(frozen=True)
class UnusedSamples:
    """Part of a run that is not used.

    Attributes
    ----------
    pixels : float
        Part of the pixels seen that are cut.
    in_unsolved : float
        Part of the samples that are in such pixels that are not solved for.
    flagged : float
        Part of the samples that are flagged or outside the map.
    """

    pixels: float = 0.0
    in_unsolved: float = 0.0
    flagged: float = 0.0

    @property
    def samples(self) -> float:
        """Part of the samples that are unknowns."""
        return self.in_unsolved + self.flagged

    def describe(self) -> str:
        """Return a line for the user."""
        parts = []
        if self.flagged:
            parts.append(f"{100 * self.flagged:.2g} % of the samples, flagged or outside the map")
        if self.in_unsolved:
            parts.append(
                f"about {100 * self.in_unsolved:.2g} % of the samples, in pixels that cannot be solved for"
            )
        if self.pixels:
            parts.append(f"about {100 * self.pixels:.2g} % of the pixels seen, which are cut")
        return "; ".join(parts)


class WeightSums:
    """Hits and Stokes weights of some pixels of a sample of the sky, by which it is seen which will be cut.

    All samples weigh the same. Each thread has sums of its own, of integers, so that their number does not
    matter.

    Parameters
    ----------
    sample : SkySample
    stokes : Stokes
    n_maps : int
        Maps that have pixels of their own.

    Attributes
    ----------
    regions : int32 (n_regions,)
        For each region of the sky its number among those that are summed, or -1.
    """

    def __init__(self, sample: SkySample, stokes: Stokes, n_maps: int = 1) -> None:
        self._sample, self._stokes, self._n_maps = sample, stokes, n_maps
        step = -(-n_maps * sample.n_sampled // _MOST_PIXELS)
        self._of_sample = np.arange(len(sample.regions))[::step]
        self.regions: Int32Array = np.full(sample.stratum_edges[-1], -1, np.int32)
        self.regions[sample.regions[self._of_sample]] = np.arange(len(self._of_sample))
        self._own, self._lock = threading.local(), threading.Lock()
        self._all: list[Int64Array] = []
        self._n_used = self._n_unused = 0

    @property
    def polarized(self) -> bool:
        """Whether response angles matter."""
        return self._stokes is not Stokes.I

    @property
    def rows(self) -> Int64Array:
        """Sums of this thread, map after map: int64 (n_maps n_pixels, row)."""
        if not hasattr(self._own, "rows"):
            n_pixels = self._n_maps * self._n_pixels
            self._own.rows = np.zeros((n_pixels, weights_row(self._stokes.n)), np.int64)
            with self._lock:
                self._all.append(self._own.rows)
        rows: Int64Array = self._own.rows
        return rows

    @property
    def _n_pixels(self) -> int:
        """Pixels of a map that are summed."""
        return len(self._of_sample) << self._sample.shift

    def kernel_arguments(self, number: int = 0) -> tuple[Int32Array, Int64Array, int, float]:
        """Return what kernels need to add to the sums of a map in this thread."""
        n = self._n_pixels
        return self.regions, self.rows[number * n : (number + 1) * n], self._stokes.n, _SCALE

    def count(self, n: int, n_unused: int) -> None:
        """Count samples that were looked at, some of which are flagged or outside the map."""
        with self._lock:
            self._n_used += n - n_unused
            self._n_unused += n_unused

    def add(self, pixels: Int32Array, angles: UInt32Array | None, efficiency: float, number: int = 0) -> None:
        """Add samples that are sound to a map: their pixels and, but for intensity alone, response angles."""
        shift = self._sample.shift
        regions = self.regions[pixels >> shift]
        places = np.where(regions < 0, np.int32(-1), (regions << shift) + (pixels & ((1 << shift) - 1)))
        _, rows, n_stokes, scale = self.kernel_arguments(number)
        _mapmaking.add_weights(places, angles, None, 1.0, efficiency, n_stokes, 1.0, scale, rows)

    def unused(self, rcond_min: float, rcond_solved: float) -> UnusedSamples:
        """Return what will not be used: pixels are cut, or not solved for, as `pixel_statistics` says."""
        if not self._all:
            return UnusedSamples()
        hits: Int64Array = np.asarray(sum(rows[:, 0] for rows in self._all))
        seen = np.flatnonzero(hits)
        n_looked = self._n_used + self._n_unused
        flagged = self._n_unused / n_looked if n_looked else 0.0
        if not len(seen):
            return UnusedSamples(flagged=flagged)
        rows = np.asarray(sum(rows[seen] for rows in self._all))
        cut, unsolved = (
            ~solvable(rows, _SCALE, self._stokes, least)
            for least in (rcond_min, min(rcond_solved, rcond_min))
        )
        regions = (seen % self._n_pixels) >> self._sample.shift
        weights = self._sample.weights[self._of_sample[regions]]
        n_samples = weights * hits[seen]
        in_unsolved = (1 - flagged) * float(n_samples @ unsolved / n_samples.sum())
        return UnusedSamples(float(weights @ cut / weights.sum()), in_unsolved, flagged)
