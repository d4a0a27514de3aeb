"""Pixels that a run will cut, and its samples in them, foreseen on a sample of the sky."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array, UInt32Array
from petamap.planning.sky_regions import SkySample
from petamap.sky.stokes import Stokes

# Pixels of the sample whose samples are summed, at most, and the columns of the sums of a pixel: 200 MB a
# thread, of which those of regions that are seen are memory.
_MOST_PIXELS, _N_COLUMNS = 1 << 22, 6
_UNIT = 2.0**-20  # of the sums
# Of these columns, those of the upper triangle of a matrix of Stokes parameters.
_TRIANGLES = {"I": [0], "QU": [3, 4, 5], "IQU": [0, 1, 2, 3, 4, 5]}


@dataclass(frozen=True)
class UnusedSamples:
    """Part of a run that makes no map.

    Attributes
    ----------
    pixels : float
        Part of the pixels seen that are cut, as they cannot be solved for.
    in_cut_pixels : float
        Part of the samples that are in these.
    flagged : float
        Part of the samples that are flagged or outside the map.
    """

    pixels: float = 0.0
    in_cut_pixels: float = 0.0
    flagged: float = 0.0

    @property
    def samples(self) -> float:
        """Part of the samples that makes no map."""
        return self.in_cut_pixels + self.flagged

    def describe(self) -> str:
        """Return a line for the user."""
        parts = []
        if self.flagged:
            parts.append(f"{100 * self.flagged:.2g} % of the samples, flagged or outside the map")
        if self.pixels:
            parts.append(
                f"about {100 * self.in_cut_pixels:.2g} % of the samples, in {100 * self.pixels:.2g} % of the "
                "pixels, which are seen from too few directions"
            )
        return "; ".join(parts)


class StokesSums:
    """Sums over the samples in some pixels of a sample of the sky, by which it is seen which will be cut.

    All samples weigh the same. Each thread has sums of its own, of integers, so that their number does not
    matter.

    Parameters
    ----------
    sample : SkySample
    stokes : Stokes

    Attributes
    ----------
    regions : int32 (n_regions,)
        For each region of the sky its number among those that are summed, or -1.
    """

    def __init__(self, sample: SkySample, stokes: Stokes) -> None:
        self._sample, self._stokes = sample, stokes
        step = -(-(len(sample.regions) << sample.shift) // _MOST_PIXELS)
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
        """Sums of this thread: int64 (n_pixels, 6), hits, then c, s, c², c s and s² in units of 2⁻²⁰."""
        if not hasattr(self._own, "rows"):
            self._own.rows = np.zeros((len(self._of_sample) << self._sample.shift, _N_COLUMNS), np.int64)
            with self._lock:
                self._all.append(self._own.rows)
        rows: Int64Array = self._own.rows
        return rows

    def count(self, n: int, n_unused: int) -> None:
        """Count samples that were looked at, some of which are flagged or outside the map."""
        with self._lock:
            self._n_used += n - n_unused
            self._n_unused += n_unused

    def add(self, pixels: Int32Array, angles: UInt32Array, efficiency: float) -> None:
        """Add samples that are sound: their pixels and response angles in turns / 2³²."""
        shift = self._sample.shift
        regions = self.regions[pixels >> shift]
        summed = regions >= 0
        places = (regions[summed].astype(np.int64) << shift) + (pixels[summed] & ((1 << shift) - 1))
        phases = 2 * np.pi * 2.0**-32 * angles[summed]
        c, s = efficiency * np.cos(phases), efficiency * np.sin(phases)
        rows = self.rows
        np.add.at(rows[:, 0], places, 1)
        for column, terms in enumerate((c, s, c * c, c * s, s * s), start=1):
            np.add.at(rows[:, column], places, np.rint(terms / _UNIT).astype(np.int64))

    def unused(self, rcond_min: float) -> UnusedSamples:
        """Return what will not be used, where pixels with a smaller reciprocal condition are cut."""
        if not self._all:
            return UnusedSamples()
        hits: Int64Array = np.asarray(sum(rows[:, 0] for rows in self._all))
        seen = np.flatnonzero(hits)
        n_looked = self._n_used + self._n_unused
        flagged = self._n_unused / n_looked if n_looked else 0.0
        if not len(seen):
            return UnusedSamples(flagged=flagged)
        cut = self._are_cut(np.asarray(sum(rows[seen] for rows in self._all)), rcond_min)
        weights = self._sample.weights[self._of_sample[seen >> self._sample.shift]]
        pixels, samples = (float(one @ cut / one.sum()) for one in (weights, weights * hits[seen]))
        return UnusedSamples(pixels, (1 - flagged) * samples, flagged)

    def _are_cut(self, rows: Int64Array, rcond_min: float) -> BoolArray:
        sums: FloatArray = rows * np.array([1.0, *5 * [_UNIT]])
        matrices = np.ascontiguousarray(sums[:, _TRIANGLES[self._stokes.value]])
        rcond = np.zeros(len(rows))
        _mapmaking.invert(self._stokes.n, rcond_min, matrices, rcond, 1)
        return np.asarray((rcond < rcond_min) | (rcond == 0))
