"""Communication graph of the reductions of a run on any number of ranks."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress, SilentProgress
from petacomm.base.threads import available_threads
from petacomm.mapping import CommunicationGraph
from petacomm.mapping.graph_sources import occupancy_graph
from petamap.data.config import RunConfig
from petamap.mapmaking.target import target_pixelization
from petamap.planning.pixel_coverage import compute_pixel_coverage
from petamap.planning.plan import observations_and_layout
from petamap.planning.rank_samples import distribute_samples
from petamap.planning.sky_regions import coarse_hit_counts, draw_sky_sample, full_sky_sample
from petamap.sky.stokes import Stokes

# Number of regions of the sky sample.
_N_REGIONS = 2000


def run_reduction_graph(
    config: RunConfig, n_ranks: int, *, groups: int | None = None, progress: Progress | None = None
) -> CommunicationGraph:
    """Return the communication graph of one reduction of a map, between holders of pixels and their owners.

    It is estimated from a sample of the sky; no signal is read or simulated.

    Parameters
    ----------
    config : RunConfig
    n_ranks : int
    groups : int, optional
        Groups of detectors, as in `TimeLayout.order`; by default streams are distributed in their order.
    progress : Progress, optional

    Raises
    ------
    ConfigError
        If the run has fewer blocks of data than ranks.
    """
    observations, layout = observations_and_layout(config)
    if layout.n_blocks < n_ranks:
        raise ConfigError(f"{layout.n_blocks} blocks of data for {n_ranks} ranks", mend="take fewer ranks")
    pixelization = target_pixelization(config.map, observations)
    fraction = min(1.0, _N_REGIONS / len(full_sky_sample(pixelization).regions))
    hits = coarse_hit_counts(observations, pixelization)
    sample = draw_sky_sample(pixelization, fraction, config.run.seed, hits)
    distribution = distribute_samples(layout, groups, n_ranks)
    coverage = compute_pixel_coverage(
        observations, layout, sample, [distribution], available_threads(), progress or SilentProgress()
    )
    occupancy = coverage.occupancy(distribution)
    region = np.searchsorted(sample.regions, occupancy.keys >> sample.shift)
    return occupancy_graph(occupancy, sample.weights[region], Stokes(config.map.stokes).n)
