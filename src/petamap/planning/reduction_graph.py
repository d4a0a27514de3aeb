"""Communication graph of the reductions of a run on any number of ranks."""

from __future__ import annotations

from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress, SilentProgress
from petacomm.base.threads import available_threads
from petacomm.mapping import CommunicationGraph
from petacomm.mapping.graph_sources import occupancy_graph
from petamap.data.config import RunConfig
from petamap.planning.pixel_coverage import compute_pixel_coverage
from petamap.planning.rank_samples import distribute_samples
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.sky_regions import count_regions
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
    run = ScannedRun.open(config)
    n_blocks = run.layout.n_blocks
    if n_blocks < n_ranks:
        raise ConfigError(f"{n_blocks} blocks of data for {n_ranks} ranks", mend="take fewer ranks")
    fraction = min(1.0, _N_REGIONS / count_regions(run.pixelization))
    sample = run.sky_sample(fraction, config.run.seed)
    distribution = distribute_samples(run.layout, groups, n_ranks)
    coverage = compute_pixel_coverage(
        run, sample, [distribution], available_threads(), progress or SilentProgress()
    )
    occupancy = coverage.occupancy(distribution)
    weights = sample.weights[sample.region_of(occupancy.keys)]
    return occupancy_graph(occupancy, weights, Stokes(config.map.stokes).n)
