"""A scan too large to be looked at, thinned out: fewer detectors and samples on coarser pixels.

Ranks of such a run hit each of their pixels many times, so that few of their samples tell what area of the
sky they see. How many of the pixels of this area a rank sees is counted on some ranks, at all their samples
or at as many as can be afforded, from which the number is extrapolated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import overload

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.progress import Progress
from petacomm.base.threads import map_threads
from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.partner_estimates import RankSample
from petamap.data.config import RunConfig, open_sources
from petamap.data.observation import Observation
from petamap.mapmaking import _mapmaking
from petamap.mapmaking.distribution import Distribution
from petamap.mapmaking.target import prepare_observations
from petamap.mapmaking.time_layout import TimeLayout
from petamap.planning.node_samples import select_pairs, select_ranks
from petamap.planning.pixel_coverage import compute_pixel_coverage
from petamap.planning.rank_samples import HeldSamples, SampleDistribution, distribute_samples
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.sky_regions import SkySample, full_sky_sample
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.scan_strategies import Sweep
from petamap.simulation.virtual_scans import (
    GroundOptions,
    RasterOptions,
    SatelliteOptions,
    ScanOptions,
    SweepOptions,
)
from petamap.sky.healpix import Healpix

# Lines of sight of a thinned scan, at most and at least; its samples, about, and those of a block: ranks
# are dealt whole blocks.
_N_SIGHTS, _FEWEST, _N_SAMPLES, _BLOCK = 32, 8, 6e7, 64
# A satellite is looked at so many times a turn at least: knots of its boresight must be near each other.
_SAMPLES_A_TURN = 4
_GOLDEN = (math.sqrt(5) - 1) / 2
# Samples that hit a coarse pixel of a rank, the mean, and most pairs of a coarse pixel and a rank.
_HITS, _MOST_PAIRS, _COARSEST = 6, 1e7, 8
# Ranks whose pixels are counted, and samples of each.
_N_COUNTED, _COUNTED_SAMPLES, _CHUNK = 5, 1e7, 1 << 18
# Parts for jackknife errors: a prime, so that each has some of every n-th coarse pixel.
_N_PARTS = 23
# Samples by which edges of the map are found, and by how many factors of two their pixels are finer.
_EDGE_SAMPLES, _FINER = 1e7, 3
# Ranks among which partners are counted; at least those of three nodes.
_N_PARTNERS = 512


@dataclass(frozen=True)
class Thinning:
    """What a thinned scan has of a run.

    Attributes
    ----------
    sights, of_sights : int
        Lines of sight, thinned and in the run, where there are most.
    samples : float
        Samples of a detector of the run for each that is left.
    n_side : int
        Of the coarse pixels.
    """

    sights: int
    of_sights: int
    samples: float
    n_side: int

    def describe(self) -> str:
        """Return a line for the user."""
        return (
            f"looked at: {self.sights} of {self.of_sights:,} lines of sight, one sample of "
            f"{self.samples:,.0f}, on pixels of n_side {self.n_side}"
        )


class ThinnedScan:
    """Thinned scan of a run whose scans are simulated and whose map is HEALPix.

    Parameters
    ----------
    config : RunConfig
    run : ScannedRun
    size : int
        Number of ranks.
    distributions : sequence of Distribution
    n_samples : float
        Samples that are looked at, about.

    Attributes
    ----------
    samples : list of SampleDistribution
        Samples of the thinned scan that ranks have, by distribution.
    """

    def __init__(
        self,
        config: RunConfig,
        run: ScannedRun,
        size: int,
        distributions: Sequence[Distribution],
        n_samples: float = _N_SAMPLES,
    ) -> None:
        self._config, self._run, self._size = config, run, size
        self._of_sights = -(-max(one.n_det for one in run.observations) // 2)
        scans = [one.options for one in config.sources if isinstance(one.options, ScanOptions)]
        least = sum(-(-one.n_det // 2) * one.duration * _lowest_rate(one) for one in scans)
        fewest = min(_FEWEST / self._of_sights, 1.0)
        self._sights = max(fewest, min(1.0, _N_SIGHTS / self._of_sights, n_samples / max(least, 1.0)))
        self._rate = min(1.0, n_samples / (self._sights * run.layout.n_samp / 2))
        self._observations = self._scan(self._rate)
        self._layout = TimeLayout(self._observations, 0, block=_BLOCK)
        self.samples = [distribute_samples(self._layout, one.groups, size) for one in distributions]

    @staticmethod
    def possible(config: RunConfig, run: ScannedRun) -> bool:
        """Return whether a run can be thinned: hexagons of detectors on simulated scans, HEALPix pixels."""
        scans = [one.options for one in config.sources if isinstance(one.options, ScanOptions)]
        simple = all(not (one.focalplane or one.detectors or one.observations) for one in scans)
        number = sum(one.n_observations for one in scans)
        healpix = isinstance(run.pixelization, Healpix) and run.pixelization.nest
        return bool(healpix and simple and number == len(run.observations))

    def _scan(self, rate: float) -> Sequence[Observation]:
        """Return the observations with fewer lines of sight and a part of the samples."""
        error = 0.1 * math.sqrt(self._run.pixelization.pixel_area)
        scans = [
            dataclasses.replace(one, options=_thinned(one.options, self._sights, rate, error))
            for one in self._config.sources
            if isinstance(one.options, ScanOptions)
        ]
        config = dataclasses.replace(self._config, sources=tuple(scans))
        return prepare_observations(config, open_sources(config))

    @cached_property
    def _counted(self) -> Sequence[Observation]:
        """Observations at as many samples as can be counted of a rank."""
        of_a_rank = self._sights * self._run.layout.n_samp / 2 / self._size
        rate = min(1.0, max(self._rate, _COUNTED_SAMPLES / of_a_rank))
        return self._observations if rate == self._rate else self._scan(rate)

    def occupancies(self, n_threads: int, progress: Progress, seed: int) -> tuple[SkySample, list[Occupancy]]:
        """Return the occupancy of a sample of pixels by the ranks of each distribution.

        The sample has one pixel of each coarse pixel, which stands for all in it. It is left out with the
        probability that no rank sees it, and the holders of what is left with that of not seeing it.
        """
        counts = self._count(n_threads, progress)
        shift = self._coarsening([few for found in counts for few, _ in found])
        grid = self._run.pixelization
        coarse = Healpix(_n_side(grid.n_pix) >> shift, nest=True)
        scan = dataclasses.replace(
            self._run, observations=_Forgotten(self._observations), layout=self._layout, pixelization=coarse
        )
        found = compute_pixel_coverage(
            scan, full_sky_sample(coarse), self.samples, n_threads, progress, quick=True
        )
        edges = np.arange(coarse.n_pix + 1, dtype=np.int64) << 2 * shift
        found = dataclasses.replace(
            found, sample=SkySample(grid, edges[:-1], edges, shift=0, n_parts=_N_PARTS)
        )
        seen = self._seen_parts(coarse)
        kept = np.random.default_rng(seed).random(coarse.n_pix) < seen
        occupancies = []
        progress.begin("ranks that see pixels", float(len(self.samples)), "distributions")
        for samples, ranks in zip(self.samples, counts, strict=True):
            occupancy = found.occupancy(samples)
            occupancy = occupancy.select(np.flatnonzero(kept[occupancy.keys >> 2 * shift]).astype(np.int32))
            occupancies.append(thin_occupancy(occupancy, _filling(ranks, shift, seen), seed))
            progress.advance(1.0)
        progress.end()
        return found.sample, occupancies

    def _seen_parts(self, coarse: Healpix) -> FloatArray:
        """Return what part of each coarse pixel is seen at all: 1 unless it lies at an edge of the map."""
        finer = min(_FINER, (_n_side(self._run.pixelization.n_pix) // coarse.n_side).bit_length() - 1)
        grid = Healpix(coarse.n_side << finer, nest=True)
        stride = max(1, round(self._layout.n_samp / _EDGE_SAMPLES))
        hits = np.zeros(grid.n_pix, np.bool_)
        n_samples = 0
        for one in _Forgotten(self._observations):
            assert one.pointing is not None
            for detector in range(one.n_det):
                start = detector * one.n_samp // one.n_det
                n = max(1, one.n_samp // stride)
                pixels = np.empty(min(n, one.n_samp - start), np.int32)
                one.pointing.expand(grid, detector, start, start + len(pixels), pixels, None)
                hits[pixels], n_samples = True, n_samples + len(pixels)
        while finer and n_samples < _HITS * np.count_nonzero(hits):
            finer, hits = finer - 1, np.asarray(hits.reshape(-1, 4).any(axis=1), np.bool_)
        return np.asarray(hits.reshape(coarse.n_pix, -1).mean(axis=1), np.float64)

    def thinning(self, sample: SkySample) -> Thinning:
        """Return what was looked at."""
        rates = zip(self._run.observations, self._observations, strict=True)
        return Thinning(
            max(one.n_det for one in self._observations), self._of_sights,
            max(one.sample_rate / thin.sample_rate for one, thin in rates),
            _n_side(len(sample.regions)),
        )  # fmt: skip

    def _count(self, n_threads: int, progress: Progress) -> list[list[tuple[Int64Array, float]]]:
        """Return, by distribution, the pixels of thinned samples of some ranks, and how many these see."""
        ranks = np.unique(((np.arange(_N_COUNTED) + 0.5) * self._size / _N_COUNTED).astype(np.int64))
        work = [(samples, rank) for samples in self.samples for rank in ranks.tolist()]
        progress.begin("pixels of some ranks", float(len(work)), "ranks")

        def count(one: tuple[SampleDistribution, int]) -> tuple[Int64Array, float]:
            few = many = _RankPixels(self._run.pixelization.n_pix)
            few.look(self._run, self._layout, *one, self._observations, self._observations)
            if self._counted is not self._observations:
                many = _RankPixels(self._run.pixelization.n_pix)
                many.look(self._run, self._layout, *one, self._observations, self._counted)
            progress.advance(1.0)
            return few.keys(), self._extrapolated(many)

        found = map_threads(count, work, n_threads)
        progress.end()
        return [found[i : i + len(ranks)] for i in range(0, len(found), len(ranks))]

    def _extrapolated(self, seen: _RankPixels) -> float:
        """Return how many pixels a rank sees at all its samples, of those that were looked at."""
        n, by_sight, by_sample = seen.counts()
        rates = zip(self._run.observations, self._counted, strict=True)
        left_out = max(one.sample_rate / counted.sample_rate for one, counted in rates)
        sights, samples = growth(by_sight, n, 1 / self._sights), growth(by_sample, n, left_out)
        return n * sights * samples

    def _coarsening(self, ranks: Sequence[Int64Array]) -> int:
        """Return by how many factors of two pixels are coarser, for ranks to hit each often enough."""
        shift, finest = 0, _n_side(self._run.pixelization.n_pix)
        n_samples = self._layout.n_samp / self._size
        while finest >> (shift + 1) >= _COARSEST:
            n = np.mean([len(distinct(few >> 2 * shift)) for few in ranks])
            if n_samples >= _HITS * n and n * self._size <= _MOST_PAIRS:
                break
            shift += 1
        return shift

    def rank_sample(self, occupancy: Occupancy, ranks_per_node: int, n_coarse: int) -> RankSample:
        """Return the ranks of some nodes, with all coarse pixels that they hold."""
        n_nodes = -(-self._size // ranks_per_node)
        number = min(n_nodes, max(3, _N_PARTNERS // ranks_per_node))
        nodes = ((np.arange(number) + 0.5) * n_nodes / number).astype(np.int64)
        ranks = (nodes[:, None] * ranks_per_node + np.arange(ranks_per_node)).ravel()
        sampled = select_ranks(occupancy, ranks[ranks < self._size])
        each = max(1.0, self._run.pixelization.n_pix / (64 * n_coarse))
        weights = np.full(len(sampled.keys), each)
        return RankSample(sampled, number, ranks_per_node, self._size, weights)

    def held(self, samples: SampleDistribution, threads: int) -> list[HeldSamples]:
        """Return what each rank of the run holds, of `threads` of these ranks each, about."""
        layout, streams = self._run.layout, self._layout.streams
        more = layout.n_samp / self._layout.n_samp
        weight = len(layout.streams) / len(streams)
        keys, lengths = streams.keys(samples.streams), samples.end - samples.begin
        ends = (samples.begin == keys).astype(np.int64)
        ends += samples.end == keys + streams.lengths(samples.streams)
        found = []
        for own in samples.of_ranks(threads):
            segments = weight * (own.stop - own.start)
            n = more * int(lengths[own].sum()) + 2 * layout.n_lag * segments
            in_margins = weight * layout.margin * int(ends[own].sum())
            alike = self._alike(distinct(samples.streams[own].copy()))
            found.append(HeldSamples(round(n), round(in_margins), alike, weight))
        return found

    def _alike(self, streams: Int64Array) -> Int64Array:
        """Return streams of the run that thinned streams stand for, one for each."""
        few, all_streams = self._layout.streams, self._run.layout.streams
        rows = few.rows(streams)
        detectors, like = streams - few.first[rows], rows * all_streams.n_rows // few.n_rows
        return all_streams.first[like] + detectors * all_streams.n_det[like] // few.n_det[rows]


class _Forgotten(Sequence[Observation]):
    """Observations whose knots are in memory only as long as who asked for one has it."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._observations = observations

    def __len__(self) -> int:
        return len(self._observations)

    @overload
    def __getitem__(self, number: int) -> Observation: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Observation]: ...

    def __getitem__(self, number: int | slice) -> Observation | Sequence[Observation]:
        if isinstance(number, slice):
            return _Forgotten(self._observations[number])
        one = self._observations[number]
        assert isinstance(one.pointing, CompressedPointing)
        return dataclasses.replace(one, pointing=one.pointing.anew())


class _RankPixels:
    """Pixels that a rank sees: all, and halves of its lines of sight and of its samples."""

    def __init__(self, n_pix: int) -> None:
        self._all = _mapmaking.PixelIndex(n_pix)
        self._sights = [_mapmaking.PixelIndex(n_pix) for _ in range(2)]
        self._samples = [_mapmaking.PixelIndex(n_pix) for _ in range(2)]

    def look(
        self,
        run: ScannedRun,
        layout: TimeLayout,
        samples: SampleDistribution,
        rank: int,
        thinned: Sequence[Observation],
        observations: Sequence[Observation],
    ) -> None:
        """Mark the pixels of a rank; samples are those of thinned observations, of which others have more."""
        first, last = np.searchsorted(samples.ranks, [rank, rank + 1])
        streams = samples.streams[first:last]
        columns = layout.streams.columns(streams)
        shift = columns.start - layout.streams.keys(streams)
        starts, stops = samples.begin[first:last] + shift, samples.end[first:last] + shift
        rows = np.stack([columns.observation, columns.detector, starts, stops], axis=1).tolist()
        for number, of_one in groupby(rows, lambda row: int(row[0])):
            one = _Forgotten(observations)[number]
            more = one.n_samp / thinned[number].n_samp
            for _, detector, start, stop in of_one:
                self._mark(run, one, detector, round(more * start), min(round(more * stop), one.n_samp))

    def _mark(self, run: ScannedRun, observation: Observation, detector: int, start: int, stop: int) -> None:
        assert observation.pointing is not None
        for first in range(start, stop, _CHUNK):
            pixels: Int32Array = np.empty(min(_CHUNK, stop - first), np.int32)
            observation.pointing.expand(run.pixelization, detector, first, first + len(pixels), pixels, None)
            self._all.mark(pixels)
            self._sights[detector % 2].mark(pixels)
            for half, index in enumerate(self._samples):
                index.mark(np.ascontiguousarray(pixels[half::2]))

    def counts(self) -> tuple[int, float, float]:
        """Return the number of pixels, and those of half of the lines of sight and of half of the samples."""
        for index in (self._all, *self._sights, *self._samples):
            index.number()
        by_sight, by_sample = (
            0.5 * sum(index.n_local for index in pair) for pair in (self._sights, self._samples)
        )
        return self._all.n_local, by_sight, by_sample

    def keys(self) -> Int64Array:
        """Return the pixels, increasing: int64 (n,)."""
        self._all.number()
        keys = np.empty(self._all.n_local, np.int64)
        self._all.keys(keys)
        return keys


def growth(half: float, n: float, more: float) -> float:
    """Return by what factor pixels that were seen grow with `more` times as many looks at random.

    Parameters
    ----------
    half, n : float
        Pixels seen at half of the looks, and at all.
    more : float
        Looks for each that there was, at least 1.

    Returns
    -------
    float
        1 where half of the looks saw as many; `more` at most. Of N pixels, looks at random that hit each l
        times in the mean see N (1 - exp(-l)).
    """
    ratio = n / half - 1 if half else 1.0
    if ratio <= 0 or more <= 1:
        return 1.0
    if ratio >= 1:
        return more
    hits = -2 * math.log(ratio)
    return math.expm1(-hits * more) / math.expm1(-hits)


def thin_occupancy(occupancy: Occupancy, part: float, seed: int) -> Occupancy:
    """Return an occupancy in which each holder of a key is left with a probability, by itself."""
    if part >= 1:
        return occupancy
    kept = np.random.default_rng(seed).random(len(occupancy.holders), np.float32) < part
    return select_pairs(occupancy, kept, occupancy.holders[kept], occupancy.size)


def _filling(ranks: Sequence[tuple[Int64Array, float]], shift: int, seen: FloatArray) -> float:
    """Return the part that ranks see of the pixels in their coarse pixels that any rank sees."""
    area = sum(float(seen[distinct(few >> 2 * shift)].sum()) for few, _ in ranks) * 4.0**shift
    return min(1.0, sum(n for _, n in ranks) / area)


def _n_side(n_pix: int) -> int:
    return math.isqrt(n_pix // 12)


def _thinned(options: ScanOptions, sights: float, rate: float, error: float) -> ScanOptions:
    """Return a scan of fewer detectors on the same field of view, one of each pair, and of fewer samples."""
    of_sights = -(-options.n_det // 2)
    n_sights = max(1, round(sights * of_sights))
    changed = dataclasses.replace(
        options,
        n_det=2 * n_sights,
        detectors=("*A",),
        spacing=options.spacing * math.sqrt(of_sights / n_sights),
        sample_rate=_thinned_rate(options, rate * options.sample_rate),
        pointing_error=max(options.pointing_error, error),
    )
    if isinstance(changed, SweepOptions):
        return dataclasses.replace(changed, turnarounds="keep")
    if isinstance(changed, SatelliteOptions):
        return dataclasses.replace(changed, repointings="keep")
    return changed


def _thinned_rate(options: ScanOptions, rate: float) -> float:
    """Return a sample rate that is about as asked for, or what a satellite needs, and fits no period."""
    rate = max(rate, _lowest_rate(options))
    if isinstance(options, SatelliteOptions):
        period = options.spin_period
    elif isinstance(options, GroundOptions):
        sweep = Sweep(options.azimuth_max - options.azimuth_min, options.speed, options.acceleration)
        period = 2 * (sweep.leg + sweep.turn)
    elif isinstance(options, RasterOptions):
        sweep = Sweep(options.width, options.speed, options.acceleration)
        period = 2 * (sweep.leg + sweep.turn)
    else:
        return min(rate, options.sample_rate)
    return min(unlike_period(rate, period), options.sample_rate)


def _lowest_rate(options: ScanOptions) -> float:
    return _SAMPLES_A_TURN / options.spin_period if isinstance(options, SatelliteOptions) else 0.0


def unlike_period(rate: float, period: float) -> float:
    """Return a rate at which samples do not have the same few phases of a period again and again.

    The golden ratio is farthest from all simple ones.

    Parameters
    ----------
    rate : float
        Hz, about which.
    period : float
        Seconds.
    """
    turns = rate * period
    if turns >= 1:
        return (math.floor(turns) + _GOLDEN) / period
    return 1 / ((math.floor(1 / turns) + _GOLDEN) * period)
