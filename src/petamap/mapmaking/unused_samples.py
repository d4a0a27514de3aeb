"""Samples that make no map: how many, and detectors that have no others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petacomm.base.typing import Int64Array
from petamap.data.checks import unused_warnings
from petamap.data.observation import Observation
from petamap.mapmaking.key_owners import KeyOwners
from petamap.mapmaking.system import MapmakingSystem


def count_unused(system: MapmakingSystem, observations: Sequence[Observation]) -> tuple[int, list[str]]:
    """Return the number of samples that are not used, and warn of detectors without others. Collective."""
    n_unused, keys, n_good = _good(system, observations)
    if system.binned_sums is None:
        return n_unused, _warnings(system, observations, keys[n_good == 0])
    # Which streams have the samples of pixels that are not solved for only another pass can tell: it is made
    # where they may be all that a detector has.
    statistics, comm = system.statistics, system.comm
    n_cut = comm.sum(int(statistics.hits[statistics.unsolved].sum()))
    if comm.max(float(((n_good > 0) & (n_good <= n_cut)).any())):
        unsolved = system.shared.pixels.scatter_fwd(statistics.unsolved.view(np.uint8))
        system.projection.drop_pixels(unsolved.view(np.bool_))
        _, keys, n_good = _good(system, observations)
    return n_unused + n_cut, _warnings(system, observations, keys[n_good == 0])


def _good(system: MapmakingSystem, observations: Sequence[Observation]) -> tuple[int, Int64Array, Int64Array]:
    """Return how many samples are gaps, and keys and used samples of the detectors that this rank counts."""
    firsts, comm = _first_keys(observations), system.comm
    projection, counts = system.projection, system.projection.gaps.by_segment()
    segments = projection.local.segments
    streams = system.layout.streams.columns(segments.stream)
    keys, rows = np.unique(firsts[streams.observation] + streams.detector, return_inverse=True)
    n_good = np.zeros(len(keys), np.int64)
    # streams in no part of the data are left out, and nobody has looked at them
    recorded = np.where(projection.used, counts[:, 0], segments.stop - segments.start)
    np.add.at(n_good, rows, recorded - counts[:, 1])
    owners = KeyOwners(comm, keys, int(firsts[-1]))
    return int(comm.sum(int(counts[:, 1].sum()))), owners.owned, owners.sum(n_good)


def _first_keys(observations: Sequence[Observation]) -> Int64Array:
    """Return the key of the first detector of each observation, and the number of keys."""
    return np.concatenate([[0], np.cumsum([one.n_det for one in observations])]).astype(np.int64)


def _warnings(system: MapmakingSystem, observations: Sequence[Observation], lost: Int64Array) -> list[str]:
    """Return what is said of the detectors of all ranks that have no good samples. Collective."""
    firsts, idle = _first_keys(observations), np.ones(len(observations), np.bool_)
    idle[system.layout.streams.observation] = False
    without = [np.arange(*firsts[number : number + 2]) for number in np.flatnonzero(idle).tolist()]
    keys = np.concatenate([system.comm.allgather_rows(lost)[0], *without])
    numbers = np.searchsorted(firsts, keys, side="right") - 1
    lost_of: dict[int, list[int]] = {}
    for number, detector in sorted(zip(numbers.tolist(), (keys - firsts[numbers]).tolist(), strict=True)):
        lost_of.setdefault(number, []).append(detector)
    return unused_warnings(observations, lost_of)
