"""Samples that make no map: how many, and detectors that have no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from petamap.data.checks import flag_warnings
from petamap.data.observation import Observation
from petamap.mapmaking.system import MapmakingSystem


def count_unused(system: MapmakingSystem, observations: Sequence[Observation]) -> tuple[int, list[str]]:
    """Return the number of samples that are not used, and warn of detectors without others. Collective."""
    unused = _by_stream(system)
    n_good = _good(system, observations, unused)
    if system.binned_sums is None:
        return sum(unused.values()), flag_warnings(observations, n_good)
    # Which streams have the samples of pixels that are cut only another pass can tell: it is made where they
    # may be all that a detector has.
    statistics = system.statistics
    n_cut = system.comm.sum(int(statistics.hits[statistics.dead].sum()))
    if any(0 < n <= n_cut for counts in n_good for n in counts):
        dead = system.shared.pixels.scatter_fwd(statistics.dead.view(np.uint8))
        system.projection.drop_pixels(dead.view(np.bool_))
        n_good = _good(system, observations, _by_stream(system))
    return sum(unused.values()) + n_cut, flag_warnings(observations, n_good)


def _by_stream(system: MapmakingSystem) -> Counter[int]:
    """Return the number of gaps of each stream of the run. Collective."""
    parts = system.comm.allgather(system.projection.gaps.by_stream())
    return sum((Counter(part) for part in parts), Counter())


def _good(
    system: MapmakingSystem, observations: Sequence[Observation], unused: Counter[int]
) -> list[list[int]]:
    """Return the number of samples of each observation and detector that are used."""
    n_good = [[0] * observation.n_det for observation in observations]
    for number, stream in enumerate(system.layout.streams):
        recorded = stream.stop - stream.start - 2 * stream.margin
        n_good[stream.observation][stream.detector] += recorded - unused[number]
    return n_good
