"""Keys that the first rank shares with each other rank: Figure 2 of Sudarsan et al. 2011."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.progress import Progress
from petacomm.base.typing import Int64Array
from petacomm.costs.occupancy import Occupancy
from petamap.data.config import RunConfig
from petamap.planning.node_samples import rank_pixels
from petamap.planning.pixel_coverage import compute_pixel_coverage
from petamap.planning.rank_samples import distribute_samples
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.sky_regions import SkySample, full_sky_sample


@dataclass(frozen=True, eq=False)
class RankOverlaps:
    """Numbers of keys that rank 0 shares with others.

    Attributes
    ----------
    counts : int64 (size,)
        Number of keys shared with each rank; ``counts[0]`` is the number of its keys.
    cumulative : int64 (size,)
        Number of keys shared with any of ranks 1 to r.
    """

    counts: Int64Array
    cumulative: Int64Array

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.counts)

    def shared_part(self, last: int) -> float:
        """Return the fraction of the keys of rank 0 that it shares with any of ranks 1 to `last`."""
        return float(self.cumulative[min(last, self.size - 1)]) / float(self.counts[0])

    def few_part(self, few: int) -> float:
        """Return the fraction of the other ranks with which rank 0 shares fewer than `few` keys."""
        return float(np.mean(self.counts[1:] < few))

    @property
    def sum_over_keys(self) -> float:
        """Sum of all overlaps, divided by the number of keys of rank 0."""
        return float(self.counts[1:].sum()) / float(self.counts[0])


def first_rank_overlaps(occupancy: Occupancy) -> RankOverlaps:
    """Return the overlaps of rank 0, from an occupancy with all its keys."""
    first = occupancy.offsets[:-1]
    own = occupancy.holders[first] == 0
    counts = np.bincount(occupancy.holders[own[occupancy.key_of]], minlength=occupancy.size)
    # Holders are increasing: the next one after rank 0 is the nearest.
    shared = own & (occupancy.multiplicity > 1)
    nearest = np.bincount(occupancy.holders[first[shared] + 1], minlength=occupancy.size)
    return RankOverlaps(counts.astype(np.int64), np.cumsum(nearest))


def compute_first_rank_overlaps(
    config: RunConfig, sizes: Sequence[int], groups: int | None, n_threads: int, progress: Progress
) -> list[RankOverlaps]:
    """Return the exact overlaps of rank 0 for several numbers of ranks.

    The sample of the sky consists of the regions that rank 0 observes with the fewest ranks; with more ranks
    it observes a part of them.

    Parameters
    ----------
    config : RunConfig
    sizes : sequence of int
        Numbers of ranks, increasing.
    groups : int or None
        Groups of detectors, as in `TimeLayout.order`.
    n_threads : int
    progress : Progress
    """
    run = ScannedRun.open(config)
    distributions = [distribute_samples(run.layout, groups, size) for size in sizes]
    full_sky = full_sky_sample(run.pixelization)
    keys = rank_pixels(run, distributions[0], 0)
    regions = distinct(keys >> full_sky.shift)
    sample = SkySample(run.pixelization, regions, np.append(regions, full_sky.stratum_edges[-1]))
    coverage = compute_pixel_coverage(run, sample, distributions, n_threads, progress)
    return [first_rank_overlaps(coverage.occupancy(distribution)) for distribution in distributions]
