"""What stretches of time see of the sky, or of a sample of it: looked at once, dealt to ranks afterwards.

Ends of the segments of all distributions cut the streams into stretches. The pixels of a rank are then those
of its stretches, however the blocks are dealt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

import petamap.planning._planning as kernels
from petacomm.base.distinct import distinct
from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress
from petacomm.base.threads import over_threads
from petacomm.base.typing import Int32Array, Int64Array
from petacomm.costs.occupancy import Occupancy
from petamap.data.observation import Observation
from petamap.mapmaking.time_layout import Layout
from petamap.planning.rank_samples import Dealing
from petamap.planning.sky_regions import SkySample
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.protocol import Pointing

# Samples looked at in one go, and pairs of pixel and rank sorted in one go.
_BATCH = 1 << 22
_SORTED = 1 << 24
# Pointing turns between two knots by a cubic, slightly faster at times than on average.
_SLACK = 1.2


@dataclass(frozen=True)
class Looks:
    """The pixels of stretches of time.

    Attributes
    ----------
    sample : SkySample
    cuts : int64 (n_stretches + 1,)
        Ends of the stretches, counted over all streams as in ``Layout.sample_keys``.
    offsets : int64 (n_stretches + 1,)
    pixels : int32 (offsets[-1],)
        Of each stretch, distinct, as numbers within the sample.
    """

    sample: SkySample
    cuts: Int64Array
    offsets: Int64Array
    pixels: Int32Array

    def occupancy(self, dealing: Dealing) -> Occupancy:
        """Return which rank holds which pixels of the sample."""
        begins = self.offsets[np.searchsorted(self.cuts, dealing.begin)]
        ends = self.offsets[np.searchsorted(self.cuts, dealing.end)]
        bits = max(1, int(dealing.size - 1).bit_length())
        parts = [np.zeros(0, np.int64)]
        for first, last in _rank_batches(dealing.ranks, ends - begins):
            counts = ends[first:last] - begins[first:last]
            pieces = [self.pixels[b:e] for b, e in zip(begins[first:last], ends[first:last], strict=True)]
            codes = np.concatenate(pieces).astype(np.int64) << bits
            codes |= np.repeat(dealing.ranks[first:last], counts)
            parts.append(distinct(codes))
        codes = np.concatenate(parts)
        codes.sort()
        numbers = codes >> bits
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        holders = (codes & ((1 << bits) - 1)).astype(np.int32)
        return Occupancy(
            self.sample.pixels(numbers[starts]), np.append(starts, len(codes)), holders, dealing.size
        )


def _rank_batches(ranks: Int64Array, counts: Int64Array) -> Iterator[tuple[int, int]]:
    """Yield ranges of segments, whole ranks each, with about as many pixels as are sorted in one go."""
    edges = np.append(np.flatnonzero(np.diff(ranks, prepend=-1)), len(ranks))
    sums = np.append(0, np.cumsum(counts))[edges]
    first = 0
    while first < len(edges) - 1:
        last = max(first + 1, int(np.searchsorted(sums, sums[first] + _SORTED)) - 1)
        yield int(edges[first]), int(edges[last])
        first = last


def look(
    observations: Sequence[Observation],
    layout: Layout,
    sample: SkySample,
    dealings: Sequence[Dealing],
    n_threads: int,
    progress: Progress,
) -> Looks:
    """Look at all samples of the run, wherever the sample of the sky may be in reach.

    Parameters
    ----------
    observations, layout
        The time domain.
    sample : SkySample
    dealings : sequence of Dealing
        Whose segments are to be unions of stretches.
    n_threads : int
    progress : Progress

    Raises
    ------
    ConfigError
        If an observation has no pointing.
    """
    cuts = np.unique(np.concatenate([layout.sample_keys, *(x for d in dealings for x in (d.begin, d.end))]))
    streams = np.searchsorted(layout.sample_keys, cuts[:-1], side="right") - 1
    table = np.array([(s.observation, s.detector, s.start, s.margin, s.stop) for s in layout.streams])[
        streams
    ]
    shift = table[:, 2] - layout.sample_keys[streams]
    start = np.maximum(cuts[:-1] + shift, table[:, 2] + table[:, 3])
    stop = np.maximum(np.minimum(cuts[1:] + shift, table[:, 4] - table[:, 3]), start)
    stretches = np.stack([table[:, 1], start, stop], axis=1)
    progress.begin("looks", float((stop - start).sum()), "samples")

    @cache
    def looker(number: int) -> _Looker:
        return _Looker(observations[number], sample)

    def run(batch: tuple[int, int]) -> tuple[Int32Array, Int64Array]:
        rows = np.ascontiguousarray(stretches[slice(*batch)])
        found = looker(int(table[batch[0], 0])).look(rows)
        progress.advance(float((rows[:, 2] - rows[:, 1]).sum()))
        return found

    results = over_threads(run, _batches(table[:, 0], stop - start), n_threads)
    progress.end()
    counts = np.concatenate([counts for _, counts in results])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Looks(sample, cuts, offsets, np.concatenate([pixels for pixels, _ in results]))


def _batches(observation: Int64Array, lengths: Int64Array) -> list[tuple[int, int]]:
    """Return ranges of stretches of one observation each, with about as many samples each."""
    ends = np.cumsum(lengths)
    breaks = np.diff(observation, prepend=-1) != 0
    breaks |= np.diff(ends // _BATCH, prepend=-1) != 0
    edges = [*np.flatnonzero(breaks).tolist(), len(lengths)]
    return list(pairwise(edges))


class _Looker:
    """Looks at stretches of one observation.

    Parameters
    ----------
    observation : Observation
    sample : SkySample
    """

    def __init__(self, observation: Observation, sample: SkySample) -> None:
        pointing = observation.pointing
        if pointing is None:
            raise ConfigError(
                "no source says where the detectors look", where=f"observation {observation.name}"
            )
        self._pointing: Pointing = pointing
        self._flags = observation.flags
        self._sample = sample
        self._skim: CompressedPointing | None = None
        if isinstance(pointing, CompressedPointing) and not self._flags:
            self._stride = _stride(pointing, sample)
            self._skim = pointing.skimmed(self._stride)

    def look(self, rows: Int64Array) -> tuple[Int32Array, Int64Array]:
        """Return the pixels of stretches (n, 3) of detector, start and stop, and how many each has."""
        if self._skim is None:
            found = [self._slowly(*row) for row in rows.tolist()]
            counts = np.array([len(pixels) for pixels in found], np.int64)
            return np.concatenate(found), counts
        assert isinstance(self._pointing, CompressedPointing)
        sample, skimming = self._sample, self._stride > 1
        seen = np.empty(int((rows[:, 2] - rows[:, 1]).sum()), np.int32)
        counts = np.empty(len(rows), np.int64)
        kernels.glimpse(
            self._pointing.kernel_arguments(), sample.pixelization.grid, sample.shift, sample.chosen,
            self._skim.kernel_arguments(), sample.skim_grid.grid if skimming else sample.pixelization.grid,
            sample.near if skimming else None, self._stride, rows, seen, counts,
        )  # fmt: skip
        return seen[: counts.sum()].copy(), counts

    def _slowly(self, detector: int, start: int, stop: int) -> Int32Array:
        """Expand every sample, flags and all."""
        pixels, flags = np.empty(stop - start, np.int32), np.zeros(stop - start, np.uint8)
        gains = np.empty(stop - start, np.float32) if self._pointing.has_gains else None
        self._pointing.expand(self._sample.pixelization, detector, start, stop, pixels, None, gains)
        for source in self._flags:
            source.or_flags(detector, start, stop, flags)
        seen = distinct(pixels[(flags == 0) & (pixels >= 0)])
        region = self._sample.chosen[seen >> self._sample.shift]
        within = seen & ((1 << self._sample.shift) - 1)
        numbers: Int32Array = ((region << self._sample.shift) + within)[region >= 0]
        return numbers


def _stride(pointing: CompressedPointing, sample: SkySample) -> int:
    """Return how many samples there may be between two looks; 1 where all are to be looked at."""
    if sample.fraction >= 1 or not sample.side:
        return 1
    knots = pointing.boresight.knots
    turned = np.abs(np.sum(knots[1:] * knots[:-1], axis=1)).min(initial=1.0)
    speed = _SLACK * 2 * math.acos(min(1.0, float(turned))) / pointing.boresight.spacing
    return max(1, int(min(2 * sample.reach / max(speed, 1e-12), _BATCH)))
