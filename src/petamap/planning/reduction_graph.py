"""Who would send how much to whom in the reductions of a run, on any number of ranks."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress, Silent
from petacomm.base.threads import available_threads
from petacomm.mapping import CommunicationGraph
from petacomm.mapping.graph_sources import occupancy_graph
from petamap.data.config import RunConfig
from petamap.mapmaking.target import target_pixelization
from petamap.planning.pixel_coverage import look
from petamap.planning.plan import lay_out
from petamap.planning.rank_samples import dealt
from petamap.planning.sky_regions import crowds, draw, whole_sky
from petamap.sky.stokes import Stokes

# Regions of the sky that are looked at.
_N_REGIONS = 2000


def sharing_graph(
    config: RunConfig, n_ranks: int, *, groups: int | None = None, progress: Progress | None = None
) -> CommunicationGraph:
    """Return what ranks send to owners of pixels and get back in one reduction of a map.

    A sample of the sky is looked at; no signal is read or made.

    Parameters
    ----------
    config : RunConfig
    n_ranks : int
    groups : int, optional
        Groups of detectors, as in `Layout.order`; by default streams are dealt as they stand.
    progress : Progress, optional

    Raises
    ------
    ConfigError
        If the run has fewer blocks of data than ranks.
    """
    observations, layout = lay_out(config)
    if layout.n_blocks < n_ranks:
        raise ConfigError(f"{layout.n_blocks} blocks of data for {n_ranks} ranks", mend="take fewer ranks")
    pixelization = target_pixelization(config.map, observations)
    part = _N_REGIONS / len(whole_sky(pixelization).regions)
    sample = draw(pixelization, min(1.0, part), config.run.seed, crowds(observations, pixelization))
    dealing = dealt(layout, groups, n_ranks)
    looks = look(observations, layout, sample, [dealing], available_threads(), progress or Silent())
    occupancy = looks.occupancy(dealing)
    region = np.searchsorted(sample.regions, occupancy.keys >> sample.shift)
    return occupancy_graph(occupancy, sample.weights[region], Stokes(config.map.stokes).n)
