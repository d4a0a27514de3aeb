"""The keys that the first rank shares with each other: Figure 2 of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.progress import Progress
from petacomm.base.typing import Int64Array
from petacomm.costs.occupancy import Occupancy
from petamap.data.config import RunConfig
from petamap.mapmaking.target import target_pixelization
from petamap.planning.node_samples import keys_of_rank
from petamap.planning.pixel_coverage import look
from petamap.planning.plan import lay_out
from petamap.planning.rank_samples import dealt
from petamap.planning.sky_regions import SkySample, whole_sky


@dataclass(frozen=True, eq=False)
class Overlaps:
    """What rank 0 shares.

    Attributes
    ----------
    counts : int64 (size,)
        Keys that it shares with each rank; its own are all of its keys.
    near : int64 (size,)
        Keys that it shares with any of ranks 1 to r.
    """

    counts: Int64Array
    near: Int64Array

    @property
    def size(self) -> int:
        """Ranks."""
        return len(self.counts)

    def shared_part(self, last: int) -> float:
        """Return the part of its keys that it shares with any of ranks 1 to `last`."""
        return float(self.near[min(last, self.size - 1)]) / float(self.counts[0])

    def few_part(self, few: int) -> float:
        """Return with which part of the other ranks it shares fewer than `few` keys, of one value a pixel."""
        return float(np.mean(self.counts[1:] < few))

    @property
    def sum_over_keys(self) -> float:
        """All overlaps over its keys."""
        return float(self.counts[1:].sum()) / float(self.counts[0])


def of_first(occupancy: Occupancy) -> Overlaps:
    """Return what rank 0 shares, from an occupancy that has all its keys."""
    first = occupancy.offsets[:-1]
    mine = occupancy.holders[first] == 0
    counts = np.bincount(occupancy.holders[mine[occupancy.key_of]], minlength=occupancy.size)
    # holders are increasing: the next one is the nearest
    shared = mine & (occupancy.multiplicity > 1)
    nearest = np.bincount(occupancy.holders[first[shared] + 1], minlength=occupancy.size)
    return Overlaps(counts.astype(np.int64), np.cumsum(nearest))


def overlaps_of_first(
    config: RunConfig, sizes: Sequence[int], groups: int | None, n_threads: int, progress: Progress
) -> list[Overlaps]:
    """Return what rank 0 of each of several numbers of ranks shares, exactly.

    The sky is looked at where rank 0 of the fewest ranks looks: of more ranks it has some of these pixels.

    Parameters
    ----------
    config : RunConfig
    sizes : sequence of int
        Ranks, increasing.
    groups : int or None
        As in `Layout.order`.
    n_threads : int
    progress : Progress
    """
    observations, layout = lay_out(config)
    grid = target_pixelization(config.map, observations)
    dealings = [dealt(layout, groups, size) for size in sizes]
    whole = whole_sky(grid)
    keys = keys_of_rank(observations, layout, grid, dealings[0], 0)
    regions = distinct(keys >> whole.shift)
    sample = SkySample(grid, regions, np.append(regions, whole.stretches[-1]))
    looks = look(observations, layout, sample, dealings, n_threads, progress)
    return [of_first(looks.occupancy(dealing)) for dealing in dealings]
