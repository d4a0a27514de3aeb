"""Which rank would hold which samples: the map-maker's blocks dealt to any number of ranks, at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int64Array
from petamap.mapmaking.distribution import deal
from petamap.mapmaking.time_layout import Layout, runs


@dataclass(frozen=True)
class Dealing:
    """The segments that all ranks hold, sorted by rank.

    Attributes
    ----------
    size : int
        Ranks.
    ranks, streams : int64 (n_segments,)
    begin, end : int64 (n_segments,)
        Samples held, halos included, counted over all streams as in ``Layout.sample_keys``.
    """

    size: int
    ranks: Int64Array
    streams: Int64Array
    begin: Int64Array
    end: Int64Array

    @property
    def n_held(self) -> Int64Array:
        """Samples that each rank holds, (size,)."""
        held = np.zeros(self.size, np.int64)
        np.add.at(held, self.ranks, self.end - self.begin)
        return held


def dealt(layout: Layout, groups: int | None, size: int) -> Dealing:
    """Deal the blocks of a layout, in its order for `groups` groups of detectors, to `size` ranks."""
    order = layout.order(groups)
    bounds = deal(layout.costs()[order], size)
    rank_of = np.empty(layout.n_blocks, np.int64)
    rank_of[order] = np.repeat(np.arange(size), np.diff(bounds))
    streams, within = layout.places(np.arange(layout.n_blocks))
    edges = np.array(runs(streams + layout.n_blocks * rank_of, within))
    firsts, lasts = edges[:-1], edges[1:] - 1
    begin, end = layout.held(streams[firsts], within[firsts], within[lasts] + 1)
    base = layout.sample_keys[streams[firsts]]
    by_rank = np.argsort(rank_of[firsts], kind="stable")
    columns = (rank_of[firsts], streams[firsts], base + begin, base + end)
    return Dealing(size, *(column[by_rank] for column in columns))
