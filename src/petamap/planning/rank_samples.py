"""Distribution of the map-maker's blocks of time samples over any number of ranks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.typing import Int64Array
from petamap.mapmaking.time_layout import TimeLayout, run_bounds


@dataclass(frozen=True)
class HeldSamples:
    """Samples that a rank holds.

    Attributes
    ----------
    n : int
    in_margins : int
        Of these, samples beyond the ends of stationary intervals.
    streams : int64 (n_streams,)
        Streams that they are of.
    weight : float
        Streams of the run that each of these stands for.
    """

    n: int
    in_margins: int
    streams: Int64Array
    weight: float = 1.0


@dataclass(frozen=True)
class SampleDistribution:
    """Segments of time samples held by all ranks, sorted by rank.

    Attributes
    ----------
    size : int
        Number of ranks.
    ranks, streams : int64 (n_segments,)
        Rank and stream of each segment.
    begin, end : int64 (n_segments,)
        Samples held, including halos, counted over all streams as in ``StreamTable.keys``.
    """

    size: int
    ranks: Int64Array
    streams: Int64Array
    begin: Int64Array
    end: Int64Array

    def of_ranks(self, threads: int) -> list[slice]:
        """Return the segments of each rank that has any, of `threads` of these ranks each."""
        edges = np.searchsorted(self.ranks, np.arange(0, self.size + threads, threads))
        return [slice(a, b) for a, b in itertools.pairwise(edges.tolist()) if b > a]

    def held(self, layout: TimeLayout, threads: int) -> list[HeldSamples]:
        """Return what each rank holds, of `threads` of these ranks each."""
        lengths = self.end - self.begin
        return [
            HeldSamples(
                int(lengths[own].sum()), self._in_margins(own, layout), distinct(self.streams[own].copy())
            )
            for own in self.of_ranks(threads)
        ]

    def _in_margins(self, own: slice, layout: TimeLayout) -> int:
        """Return how many samples of some segments are beyond the ends of stationary intervals."""
        streams = self.streams[own]
        keys, lengths = layout.streams.keys(streams), layout.streams.lengths(streams)
        begin, end = self.begin[own] - keys, self.end[own] - keys
        before = np.minimum(end, layout.margin) - begin
        after = end - np.maximum(begin, lengths - layout.margin)
        return int(np.maximum(before, 0).sum() + np.maximum(after, 0).sum())

    @property
    def n_held(self) -> Int64Array:
        """Number of samples held by each rank: int64 (size,)."""
        held = np.zeros(self.size, np.int64)
        np.add.at(held, self.ranks, self.end - self.begin)
        return held


def distribute_samples(layout: TimeLayout, groups: int | None, size: int) -> SampleDistribution:
    """Return the distribution of the blocks of a layout over `size` ranks.

    Parameters
    ----------
    layout : TimeLayout
    groups : int or None
        Groups of detectors, as in `TimeLayout.order`.
    size : int
        Number of ranks.
    """
    return _samples_of_blocks(layout, layout.blocks_of_ranks(groups, size))


def distribute_streams(layout: TimeLayout, size: int, intervals: bool = False) -> SampleDistribution:
    """Return the distribution of whole streams, or of whole `intervals` of all detectors, over ranks."""
    return _samples_of_blocks(layout, layout.blocks_of_whole_streams(size, intervals))


def _samples_of_blocks(layout: TimeLayout, blocks: list[Int64Array]) -> SampleDistribution:
    """Return what ranks that have these blocks hold."""
    size = len(blocks)
    rank_of_block = np.empty(layout.n_blocks, np.int64)
    rank_of_block[np.concatenate(blocks)] = np.repeat(np.arange(size), [len(own) for own in blocks])
    streams, within = layout.locate(np.arange(layout.n_blocks))
    edges = run_bounds(streams + layout.n_blocks * rank_of_block, within)
    firsts, lasts = edges[:-1], edges[1:] - 1
    begin, end = layout.held(streams[firsts], within[firsts], within[lasts] + 1)
    base = layout.streams.keys(streams[firsts])
    by_rank = np.argsort(rank_of_block[firsts], kind="stable")
    columns = (rank_of_block[firsts], streams[firsts], base + begin, base + end)
    return SampleDistribution(size, *(column[by_rank] for column in columns))
