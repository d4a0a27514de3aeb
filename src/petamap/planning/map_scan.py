"""Pixels of the maps of a run, or of the parts of a split, that ranks hold in any distribution of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from petacomm.base.progress import Progress
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.partner_estimates import RankSample
from petamap.data.config import RunConfig
from petamap.mapmaking.split_parts import split_parts
from petamap.planning.cut_pixels import UnusedSamples, WeightSums
from petamap.planning.model_sizes import model_pixels
from petamap.planning.node_samples import FEWEST_NODES, nodes_of_sky_sample, sample_nodes
from petamap.planning.pixel_coverage import PixelCoverage, compute_pixel_coverage
from petamap.planning.rank_samples import HeldSamples, SampleDistribution
from petamap.planning.rank_traffic import ModelPixels
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.sky_regions import SkySample
from petamap.sky.stokes import Stokes

# Pairs of holders of a key, and time samples, below which nothing is sampled.
_MAX_PAIRS, MAX_SAMPLES = 3e8, 3e8


@dataclass(frozen=True)
class MapScan:
    """What is looked at of some maps.

    Attributes
    ----------
    run : ScannedRun
        With the parts that have maps.
    sample : SkySample
    coverage : PixelCoverage
    unused : UnusedSamples
    """

    run: ScannedRun
    sample: SkySample
    coverage: PixelCoverage
    unused: UnusedSamples

    def rank_sample(
        self, samples: SampleDistribution, occupancy: Occupancy, per_node: int, seed: int, n_threads: int,
        progress: Progress,
    ) -> RankSample | None:  # fmt: skip
        """Return some ranks with all their pixels, by which partners are estimated; None if all are known."""
        sky, size = self.sample, samples.size
        if sky.fraction == 1 and _pairs(occupancy) <= _MAX_PAIRS:
            return None
        if self.run.layout.n_samp > MAX_SAMPLES and size <= FEWEST_NODES * per_node:
            return nodes_of_sky_sample(occupancy, sky, per_node)
        n_keys = float(sky.weights[sky.region_of(occupancy.keys)] @ occupancy.multiplicity) / size
        return sample_nodes(self.run, samples, per_node, n_keys, seed, n_threads, progress)


class RankedMaps(NamedTuple):
    """Maps that were looked at, on the ranks of one distribution of their data.

    Attributes
    ----------
    scan : MapScan
    samples : SampleDistribution
    occupancy : Occupancy
    ranks : RankSample or None
        By which partners are estimated.
    modelled : Occupancy or None
        By ranks that have whole streams, where there is a model of them and all pixels are known.
    """

    scan: MapScan
    samples: SampleDistribution
    occupancy: Occupancy
    ranks: RankSample | None
    modelled: Occupancy | None = None

    def held(self, threads: int) -> list[HeldSamples]:
        """Return what each rank holds, of `threads` of these ranks each."""
        return self.samples.held(self.scan.run.layout, threads)

    def model_pixels(self, threads: int, per_node: int) -> ModelPixels | None:
        """Return the pixels of a model of whole streams, on ranks of so many threads, if all are known."""
        if self.modelled is None:
            return None
        return model_pixels(self.occupancy.merge_ranks(threads), self.modelled.merge_ranks(threads), per_node)


def scan_maps(
    config: RunConfig,
    run: ScannedRun,
    sample: SkySample,
    held: Sequence[SampleDistribution],
    n_threads: int,
    progress: Progress,
) -> MapScan:
    """Return the pixels of the maps of a run that ranks hold, and which of them will be cut.

    Parameters
    ----------
    config : RunConfig
    run : ScannedRun
    sample : SkySample
        Part of the sky that is looked at.
    held : sequence of SampleDistribution
    n_threads : int
    progress : Progress
    """
    sums, solver = WeightSums(sample, Stokes(config.map.stokes), run.n_maps), config.solver
    coverage = compute_pixel_coverage(run, sample, held, n_threads, progress, sums=sums)
    solved = solver.rcond_min if solver.binned_only else solver.rcond_solved
    return MapScan(run, sample, coverage, sums.unused(solver.rcond_min, solved))


def scan_splits(
    config: RunConfig,
    run: ScannedRun,
    sample: SkySample,
    held: Sequence[SampleDistribution],
    n_threads: int,
    progress: Progress,
) -> list[MapScan]:
    """Return the same of the maps of the parts of each split."""
    parts = (split_parts(one, run.observations) for one in config.splits)
    runs = [replace(run, parts=one) for one in parts]
    return [scan_maps(config, one, sample, held, n_threads, progress) for one in runs]


def _pairs(occupancy: Occupancy) -> float:
    return float(np.sum(occupancy.multiplicity.astype(np.float64) ** 2))
