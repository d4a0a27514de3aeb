"""Detectors that look at the same places, sample by sample.

Plans look at the first alone; ranks that have two of them look their pixels up once for both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petacomm.base.typing import Int64Array
from petamap.data.observation import Observation
from petamap.mapmaking.time_layout import TimeLayout
from petamap.planning.rank_samples import SampleDistribution
from petamap.pointing.compressed import CompressedPointing

# What a sample of an iteration takes more where its rank has one detector of a pair on one line of sight
# alone: half as much again, in seconds 8.9 ns for 6.1 (Zen 5, AVX-512, four ranks in turns).
UNPAIRED_PART, UNPAIRED_SECONDS = 0.5, 3e-9


def first_alike(observation: Observation, *, with_flags: bool = True) -> Int64Array:
    """Return the first detector that has the pixels and flags of each one: int64 (n_det,).

    Parameters
    ----------
    observation : Observation
    with_flags : bool
        Whether flags count, which each detector has of its own.
    """
    pointing = observation.pointing
    if not isinstance(pointing, CompressedPointing) or (with_flags and observation.flags):
        return np.arange(observation.n_det)
    _, firsts, numbers = np.unique(pointing.sight_of, return_index=True, return_inverse=True)
    return np.asarray(firsts[numbers], np.int64)


def unpaired_samples(
    samples: SampleDistribution, layout: TimeLayout, observations: Sequence[Observation], threads: int = 1
) -> int:
    """Return the samples whose rank has one detector of a pair on one line of sight alone.

    They are those of the rank that has most.

    Parameters
    ----------
    samples : SampleDistribution
    layout : TimeLayout
    observations : sequence of Observation
        Of the layout. Pointing that is not compressed looks nothing up for two detectors.
    threads : int
        Ranks of `samples` that are one rank.
    """
    columns = layout.streams.columns(samples.streams)
    sights = _shared_sights(observations)
    firsts = np.cumsum([0, *(one.n_det for one in observations)])
    sight = sights[firsts[columns.observation] + columns.detector]
    pairs = np.flatnonzero(sight >= 0)
    groups = np.stack([samples.ranks // threads, layout.streams.rows(samples.streams), sight])[:, pairs]
    # in order of time, the number of detectors of a group is odd from each second edge to the next one
    starts = layout.streams.keys(samples.streams)
    edges = np.concatenate([samples.begin - starts, samples.end - starts]).reshape(2, -1)[:, pairs].ravel()
    order = np.lexsort((edges, *np.tile(groups, 2)[::-1]))
    lengths = edges[order[1::2]] - edges[order[::2]]
    unpaired = np.zeros(-(-samples.size // threads), np.int64)
    np.add.at(unpaired, groups[0][order[::2] % max(len(pairs), 1)], lengths)
    return int(unpaired.max())


def _shared_sights(observations: Sequence[Observation]) -> Int64Array:
    """Return the line of sight of each detector of each observation, by number; -1 where it has its own."""
    found, known = [np.zeros(0, np.int64)], dict[int, Int64Array]()
    for one in observations:
        pointing = one.pointing
        if not isinstance(pointing, CompressedPointing):
            found.append(np.full(one.n_det, -1))
            continue
        plane = id(pointing.detectors)  # which many observations have in common
        if plane not in known:
            sights = pointing.sight_of
            known[plane] = np.where(np.bincount(sights)[sights] > 1, sights, -1)
        found.append(known[plane])
    return np.concatenate(found)
