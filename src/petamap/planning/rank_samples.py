"""Distribution of the map-maker's blocks of time samples over any number of ranks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int64Array
from petamap.mapmaking.time_layout import TimeLayout, run_bounds


@dataclass(frozen=True)
class HeldSamples:
    """Samples that a rank holds: their number, their streams, and their segments [first, stop)."""

    n: int
    streams: Int64Array
    first: int
    stop: int


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

    def merged(self, size: int, threads: int) -> list[HeldSamples]:
        """Return what each rank holds, of `threads` of these ranks each."""
        edges = np.searchsorted(self.ranks, np.arange(0, size + threads, threads))
        return [
            HeldSamples(int((self.end[a:b] - self.begin[a:b]).sum()), np.unique(self.streams[a:b]), a, b)
            for a, b in itertools.pairwise(edges.tolist())
            if b > a
        ]

    def in_margins(self, held: HeldSamples, layout: TimeLayout) -> int:
        """Return how many of the samples that a rank holds are beyond the ends of stationary intervals."""
        own = slice(held.first, held.stop)
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
    blocks = [layout.rank_blocks(groups, size, rank) for rank in range(size)]
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
