"""Pixels observed in ranges of time samples, in a sample of the sky, for any distribution over ranks.

The segment boundaries of all distributions divide the streams into sample ranges, whose pixels are computed
once. The pixels of a rank, in any of the distributions, are those of its ranges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

import petamap.planning._planning as kernels
from petacomm.base.distinct import distinct
from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress
from petacomm.base.threads import map_threads
from petacomm.base.typing import Int32Array, Int64Array
from petacomm.costs.occupancy import Occupancy
from petacomm.mpi import Communicator, SerialCommunicator, agree_on_errors
from petacomm.sharing.sharing_graph import expand_groups, offsets_from_counts
from petamap.data.observation import Observation
from petamap.data.parts import NO_PART
from petamap.mapmaking.distribution import distribute
from petamap.planning.cut_pixels import WeightSums
from petamap.planning.detectors_alike import first_alike
from petamap.planning.range_parts import part_edges, parts_of_ranges
from petamap.planning.rank_samples import SampleDistribution
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.sky_regions import SkySample
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.protocol import Pointing

# Time samples per batch.
_BATCH = 1 << 22
# Batches of a rank where several share the work.
_BATCHES_A_RANK = 4
# Ratio of the largest speed of the pointing, interpolated by cubics, to its mean between two knots.
_SPEED_MARGIN = 1.2


@dataclass(frozen=True)
class LookedAtRanges:
    """Ranges of samples that were looked at, each once, and how many pixels they had.

    Attributes
    ----------
    observation : int64 (n_looked,)
    lengths : int64 (n_looked,)
        Samples of each range.
    n_pixels : int64 (n_looked,)
        Distinct pixels of each range.
    """

    observation: Int64Array
    lengths: Int64Array
    n_pixels: Int64Array

    def bytes_of_ranks(self, size: int) -> Int64Array:
        """Return what each of so many ranks gathers, which share the work: int64 (size,).

        8 bytes a range and 4 a pixel.
        """
        batches = _batches(self.observation, self.lengths, size)
        ends = np.append(0, np.cumsum(8 + 4 * self.n_pixels))
        edges = np.append(np.array([first for first, _ in batches], np.int64), len(self.lengths))
        of_ranks: Int64Array = np.diff(ends[edges[distribute(len(batches), size)]])
        return of_ranks


@dataclass(frozen=True)
class PixelCoverage:
    """Pixels of a sky sample that are observed in ranges of time samples.

    Attributes
    ----------
    sample : SkySample
    edges : int64 (n_ranges + 1,)
        Bounds of the ranges, counted over all streams as in ``StreamTable.keys``.
    offsets : int64 (n_ranges + 1,)
        The pixels of range i are ``pixels[offsets[i]:offsets[i + 1]]``.
    pixels : int32 (offsets[-1],)
        Distinct pixels of each range, as numbers within the sample: ``k n_sampled + i`` of those of map k.
    looked_at : LookedAtRanges
        Those that were looked at: of streams that look alike, of one.
    """

    sample: SkySample
    edges: Int64Array
    offsets: Int64Array
    pixels: Int32Array
    looked_at: LookedAtRanges

    def occupancy(self, distribution: SampleDistribution) -> Occupancy:
        """Return the occupancy of the sample's pixels by the ranks of a distribution.

        Keys are those of `ScannedRun.parts`.
        """
        begins = self.offsets[np.searchsorted(self.edges, distribution.begin)]
        ends = self.offsets[np.searchsorted(self.edges, distribution.end)]
        seen, pixels = self._seen
        runs = (pixels, distribution.ranks, begins, ends)
        counts = np.zeros(len(seen), np.int64)
        kernels.count_holders(*runs, counts)
        offsets = offsets_from_counts(counts)
        holders = np.empty(offsets[-1], np.int32)
        kernels.fill_holders(*runs, offsets[:-1].copy(), holders)
        held = np.flatnonzero(counts)
        return Occupancy(
            self.sample.keys(seen[held]), np.append(offsets[held], offsets[-1]), holders, distribution.size
        )

    @cached_property
    def _seen(self) -> tuple[Int64Array, Int32Array]:
        """Numbers of the pixels that are seen at all, or of all where most are, and `pixels` by their places.

        A small field of a large map has a thousandth of its pixels.
        """
        n = int(self.pixels.max(initial=-1)) + 1
        if n <= 2 * len(self.pixels):
            return np.arange(n), self.pixels
        seen = distinct(self.pixels.copy())
        return seen.astype(np.int64), np.searchsorted(seen, self.pixels).astype(np.int32)


def compute_pixel_coverage(
    run: ScannedRun,
    sample: SkySample,
    distributions: Sequence[SampleDistribution],
    n_threads: int,
    progress: Progress,
    comm: Communicator | None = None,
    quick: bool = False,
    sums: WeightSums | None = None,
) -> PixelCoverage:
    """Return the pixels of a sky sample that are observed in each range of time samples of a run.

    Where parts of the data have pixels of their own, a range is of one part.

    Parameters
    ----------
    run : ScannedRun
    sample : SkySample
    distributions : sequence of SampleDistribution
        Distributions whose segments must be unions of ranges.
    n_threads : int
    progress : Progress
    comm : Communicator, optional
        Ranks that share the work; all get the result.
    quick : bool
        Leave out flags, and on pixels without square regions take samples half a pixel apart.
    sums : WeightSums, optional
        To which samples that are not flagged are added, those of this rank and not of quick looks.

    Raises
    ------
    ConfigError
        If an observation has no pointing.
    """
    found = _sample_ranges(run, distributions, quick)
    ranges, source, lengths = found.rows, found.source, found.lengths
    progress.begin("pixel coverage", float(lengths.sum()), "samples")

    @lru_cache(2 * n_threads)
    def expander(number: int) -> _PixelExpander:
        return _PixelExpander(run.observations[number], sample, quick, sums, alike=run.parts is None)

    def cover(batch: tuple[int, int]) -> tuple[Int32Array, Int64Array]:
        rows = np.ascontiguousarray(ranges[slice(*batch)])
        pixels = expander(int(found.observation[batch[0]])).pixels(rows)
        progress.advance(float((rows[:, 2] - rows[:, 1]).sum()))
        return pixels

    comm = comm or SerialCommunicator()
    batches = _batches(found.observation, lengths, comm.size)
    dealt = slice(*distribute(len(batches), comm.size)[comm.rank : comm.rank + 2])
    with agree_on_errors(comm):
        results = map_threads(cover, batches[dealt], n_threads)
    progress.end()
    counts = np.concatenate([np.zeros(0, np.int64), *(counts for _, counts in results)])
    pixels = np.concatenate([np.zeros(0, np.int32), *(pixels for pixels, _ in results)])
    counts, pixels = (comm.allgather_rows(rows)[0] for rows in (counts, pixels))
    looked_at = LookedAtRanges(found.observation, lengths, counts)
    if len(lengths) < len(source):
        numbers = np.searchsorted(found.own, source)
        pixels = pixels[expand_groups(numbers.astype(np.int32), np.append(0, np.cumsum(counts)))]
        counts = counts[numbers]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return PixelCoverage(sample, found.edges, offsets, pixels, looked_at)


def most_looked_at(
    run: ScannedRun, sample: SkySample, distributions: Sequence[SampleDistribution]
) -> LookedAtRanges:
    """Return the ranges that a quick look looks at, each with as many pixels as it may have at most.

    Those are all that are in the sample of the sky, or as many as it has samples: none is looked at.

    Parameters
    ----------
    run, sample, distributions
        As in `compute_pixel_coverage`.
    """
    found = _sample_ranges(run, distributions, quick=True)
    return LookedAtRanges(found.observation, found.lengths, np.minimum(found.lengths, sample.n_sampled))


class _SampleRanges(NamedTuple):
    """Ranges of samples, and those of them that are looked at.

    Attributes
    ----------
    edges : int64 (n_ranges + 1,)
    source : int64 (n_ranges,)
        The first range like each one.
    own : int64 (n_looked,)
        Ranges that are looked at: those that are their own source.
    observation : int64 (n_looked,)
    rows : int64 (n_looked, 4)
        Detector, first sample and end, and map of each of these.
    """

    edges: Int64Array
    source: Int64Array
    own: Int64Array
    observation: Int64Array
    rows: Int64Array

    @property
    def lengths(self) -> Int64Array:
        """Samples of each range that is looked at."""
        found: Int64Array = self.rows[:, 2] - self.rows[:, 1]
        return found


def _sample_ranges(
    run: ScannedRun, distributions: Sequence[SampleDistribution], quick: bool
) -> _SampleRanges:
    """Return the ranges of which the segments of distributions are unions."""
    every = run.layout.streams
    keys = every.keys(np.arange(len(every)))
    cuts = np.zeros(0, np.int64) if run.parts is None else part_edges(run.layout, run.parts)
    edges = distinct(
        np.concatenate([keys, [every.n_keys], cuts, *(x for d in distributions for x in (d.begin, d.end))])
    )
    edges, source = _shared_ranges(run, edges, quick)
    own = np.flatnonzero(source == np.arange(len(source)))
    streams = every.holding(edges[:-1][own])
    scanned = every.columns(streams)
    shift = scanned.start - every.keys(streams)
    first, last = scanned.start + every.margin, scanned.stop - every.margin
    # what a rank holds may end in the margin
    start = np.clip(edges[:-1][own] + shift, first, last)
    stop = np.clip(edges[1:][own] + shift, start, last)
    maps = np.zeros(len(start), np.int64)
    if run.parts is not None:
        maps = parts_of_ranges(run.layout, run.parts, edges)[own]
        stop = np.where(maps == NO_PART, start, stop)
    rows = np.stack([scanned.detector, start, stop, maps], axis=1)
    return _SampleRanges(edges, source, own, scanned.observation, rows)


def _shared_ranges(run: ScannedRun, edges: Int64Array, quick: bool) -> tuple[Int64Array, Int64Array]:
    """Return edges that streams which look alike have in common, and the first range like each one.

    Two detectors of a pair see the same pixels, which are looked at once, unless they have flags of their
    own or are parts of the data.

    Returns
    -------
    edges : int64 (n_ranges + 1,)
    source : int64 (n_ranges,)
    """
    every = run.layout.streams
    if run.parts is not None:
        return edges, np.arange(len(edges) - 1)
    firsts = {
        number: first_alike(run.observations[number], with_flags=not quick)
        for number in np.unique(every.observation).tolist()
    }
    rows = zip(every.first[:-1].tolist(), every.observation.tolist(), strict=True)
    first = np.concatenate([begin + firsts[number] for begin, number in rows])
    if np.array_equal(first, np.arange(len(first))):
        return edges, np.arange(len(edges) - 1)
    own = every.holding(edges[:-1])
    common = np.unique(np.stack([first[own], edges[:-1] - every.keys(own)], axis=1), axis=0)
    ends = np.searchsorted(common[:, 0], np.arange(len(first) + 1))
    counts = np.diff(ends)[first]
    within = common[expand_groups(first.astype(np.int32), ends), 1]
    shared = np.append(np.repeat(every.keys(np.arange(len(first))), counts) + within, edges[-1])
    before = np.cumsum(counts) - counts
    place = np.arange(len(within)) - np.repeat(before, counts)
    return shared, np.repeat(before[first], counts) + place


def _batches(observation: Int64Array, lengths: Int64Array, n_ranks: int) -> list[tuple[int, int]]:
    """Return batches of sample ranges of one observation each, small enough for all ranks to have some."""
    ends = np.cumsum(lengths)
    most = min(_BATCH, max(1, int(ends[-1]) // (_BATCHES_A_RANK * n_ranks))) if n_ranks > 1 else _BATCH
    breaks = np.diff(observation, prepend=-1) != 0
    breaks |= np.diff(ends // most, prepend=-1) != 0
    edges = [*np.flatnonzero(breaks).tolist(), len(lengths)]
    return list(pairwise(edges))


class _PixelExpander:
    """Computation of the sampled pixels of one observation, of one map or of several.

    With compressed pointing and no flags, a kernel tests sparse samples first and expands only ranges near
    the regions of the sample.

    Parameters
    ----------
    observation : Observation
    sample : SkySample
    quick : bool
        As in `compute_pixel_coverage`; of compressed pointing.
    sums : WeightSums, optional
        To which samples are added.
    alike : bool
        A detector stands for all that look alike, whose samples are added as well, where a kernel does it.
    """

    def __init__(
        self,
        observation: Observation,
        sample: SkySample,
        quick: bool = False,
        sums: WeightSums | None = None,
        *,
        alike: bool = False,
    ) -> None:
        pointing = observation.pointing
        if pointing is None:
            raise ConfigError(
                "no source says where the detectors look", where=f"observation {observation.name}"
            )
        self._pointing: Pointing = pointing
        self._flags = () if quick else observation.flags
        self._sample = sample
        self._sums, self._alike = sums, alike
        self._sparse: CompressedPointing | None = None
        self._step = 1
        if quick and isinstance(pointing, CompressedPointing) and not sample.side:
            self._step = _samples_within(pointing, 0.5 * math.sqrt(sample.pixelization.pixel_area))
            self._pointing = pointing = pointing.decimated(self._step)
        if isinstance(pointing, CompressedPointing) and not self._flags:
            self._stride = _stride(pointing, sample)
            self._sparse = pointing.decimated(self._stride)

    def pixels(self, rows: Int64Array) -> tuple[Int32Array, Int64Array]:
        """Return the distinct pixels of ranges (n, 4) of detector, start, stop and map, and their counts.

        Those of map k are numbered from ``k n_sampled`` on.
        """
        if self._step > 1:
            rows = rows.copy()
            rows[:, 1:3] = -(-rows[:, 1:3] // self._step)
        if self._sparse is None:
            parts = [self._expand_all(*row) for row in rows.tolist()]
            counts = np.array([len(pixels) for pixels in parts], np.int64)
            return np.concatenate(parts), counts
        order = np.argsort(rows[:, 3], kind="stable")
        firsts = np.flatnonzero(np.diff(rows[order, 3], prepend=-2))
        found = [
            self._expand_near(np.ascontiguousarray(rows[own, :3]), max(int(rows[own[0], 3]), 0))
            for own in np.split(order, firsts[1:])
        ]
        pixels, counts = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return (pixels, counts) if len(found) == 1 else _in_order(pixels, counts, order)

    def _expand_near(self, rows: Int64Array, number: int) -> tuple[Int32Array, Int64Array]:
        """Return the distinct pixels of ranges (n, 3) of detector, start and stop, all of one map."""
        assert isinstance(self._pointing, CompressedPointing) and self._sparse is not None
        sample, sparse = self._sample, self._stride > 1
        sums = self._sums
        lengths = rows[:, 2] - rows[:, 1]
        n_looked = int(lengths.sum())
        seen, counts = np.empty(n_looked, np.int32), np.empty(len(rows), np.int64)
        n_outside = kernels.cover_pixels(
            self._pointing.kernel_arguments(), sample.pixelization.grid, sample.shift, sample.sample_index,
            self._sparse.kernel_arguments(), sample.coarse_grid.grid if sparse else sample.pixelization.grid,
            sample.near_mask if sparse else None, self._stride, rows, seen, counts,
            self._alike, *(sums.kernel_arguments(number) if sums else ()),
        )  # fmt: skip
        if sums:
            sights = self._pointing.sight_of
            n_alike = np.bincount(sights)[sights[rows[:, 0]]] if self._alike else 1
            sums.count(int((lengths * n_alike).sum()), n_outside)
        pixels = seen[: counts.sum()].copy()
        pixels += np.int32(number * sample.n_sampled)
        return pixels, counts

    def _expand_all(self, detector: int, start: int, stop: int, number: int) -> Int32Array:
        """Return the distinct pixels of a range by expanding all its samples, with flags."""
        pixels, flags = np.empty(stop - start, np.int32), np.zeros(stop - start, np.uint8)
        gains = np.empty(stop - start, np.float32) if self._pointing.has_gains else None
        angles = np.empty(stop - start, np.uint32) if self._sums and self._sums.polarized else None
        self._pointing.expand(self._sample.pixelization, detector, start, stop, pixels, angles, gains)
        for source in self._flags:
            source.or_flags(detector, start, stop, flags)
        used = (flags == 0) & (pixels >= 0)
        pixels = pixels[used]
        if self._sums:
            self._sums.count(len(used), len(used) - len(pixels))
            self._sums.add(
                pixels, None if angles is None else angles[used], self._pointing.efficiency(detector), number
            )
        seen = distinct(pixels)
        region = self._sample.sample_index[seen >> self._sample.shift]
        within = seen & ((1 << self._sample.shift) - 1)
        numbers: Int32Array = ((region << self._sample.shift) + within)[region >= 0]
        return numbers + np.int32(number * self._sample.n_sampled)


def _in_order(pixels: Int32Array, counts: Int64Array, order: Int64Array) -> tuple[Int32Array, Int64Array]:
    """Return the pixels of ranges that were looked at in another order, and their counts."""
    pieces = np.split(pixels, np.cumsum(counts)[:-1])
    back = np.argsort(order)
    return np.concatenate([pieces[place] for place in back]), counts[back]


def _stride(pointing: CompressedPointing, sample: SkySample) -> int:
    """Return the stride of the sparse samples such that no region is missed; 1 to expand all samples."""
    if sample.fraction >= 1 or not sample.side:
        return 1
    return _samples_within(pointing, 2 * sample.margin)


def _samples_within(pointing: CompressedPointing, angle: float) -> int:
    """Return the number of samples in which the pointing moves by at most an angle, at least 1."""
    speed = _SPEED_MARGIN * max(_speed(piece) for piece in pointing.boresight.pieces)
    return max(1, int(min(angle / max(speed, 1e-12), _BATCH)))


def _speed(boresight: Boresight) -> float:
    """Return the largest mean speed between knots, radians a sample."""
    knots = boresight.knots
    half_cosine = np.abs(np.sum(knots[1:] * knots[:-1], axis=1)).min(initial=1.0)
    return 2 * math.acos(min(1.0, float(half_cosine))) / boresight.spacing
