"""Blocks of two detectors that look along one line of sight: passes look their pixels up once for both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petacomm.base.typing import Int64Array
from petamap.data.observation import Observation
from petamap.pointing.compressed import CompressedPointing


def sight_numbers(streams: Int64Array, observations: Sequence[Observation]) -> Int64Array:
    """Return a number of the line of sight of each stream, and of its observation; -1 where it is not known.

    Parameters
    ----------
    streams : int64 (n_stream, 6)
        As ``Projection.stream_table``, beginning with the numbers of an observation and of a detector.
    observations : sequence of Observation

    Returns
    -------
    int64 (n_stream,)
    """
    sights, n = np.full(len(streams), -1), 0
    for number, observation in enumerate(observations):
        pointing = observation.pointing
        if isinstance(pointing, CompressedPointing):
            own = streams[:, 0] == number
            sights[own] = n + pointing.sight_of[streams[own, 1]]
            n += pointing.n_det
    return sights


def partner_blocks(blocks: Int64Array, streams: Int64Array, sights: Int64Array) -> Int64Array:
    """Return for each block the number of the block that is visited with it, -1 where there is none.

    Parameters
    ----------
    blocks : int64 (n_block, 6)
        As ``LocalBlocks.blocks``.
    streams : int64 (n_stream, 6)
        As ``Projection.stream_table``.
    sights : int64 (n_stream,)
        As `sight_numbers` returns them.

    Returns
    -------
    int64 (n_block,)
        Blocks of one sight and the same samples are partners two by two, in the order of their detectors.
    """
    stream = blocks[:, 5]
    starts = blocks[:, 0] + streams[stream, 2]
    keys = np.stack([sights[stream], starts, *blocks[:, 1:4].T], axis=1)
    order = np.lexsort(keys.T[::-1])
    ordered = keys[order]
    begins = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))[: len(order)]
    place = np.arange(len(order)) - np.flatnonzero(begins)[np.cumsum(begins) - 1]
    second = np.flatnonzero((place % 2 == 1) & (ordered[:, 0] >= 0))
    partners = np.full(len(order), -1)
    partners[order[second]], partners[order[second - 1]] = order[second - 1], order[second]
    return partners
