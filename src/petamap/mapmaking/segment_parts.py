"""Parts of the data, each with pixels of its own, for the segments that a rank holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import BoolArray
from petamap.data.parts import NO_PART, Parts
from petamap.mapmaking.time_layout import LocalBlocks, TimeLayout


def segment_parts(
    parts: Parts, layout: TimeLayout, local: LocalBlocks, n_pix: int
) -> tuple[_mapmaking.PartTable, BoolArray]:
    """Return the parts of each segment, and (n_segment,) whether it has samples in any.

    All streams that share noise with one that is used are used: their samples in no part are gaps.

    Parameters
    ----------
    parts : Parts
    layout : TimeLayout
    local : LocalBlocks
    n_pix : int
        Pixels of a map.
    """
    streams = [layout.streams[segment.stream] for segment in local.segments]
    runs = [parts.of(stream.observation, stream.detector) for stream in streams]
    tables = [np.stack([one.starts, one.parts], axis=1) for one in runs]
    firsts = np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(np.int64)
    table = np.concatenate([np.zeros((0, 2), np.int64), *tables])
    used = np.ones(len(streams), np.bool_)
    for number, (stream, one) in enumerate(zip(streams, runs, strict=True)):
        found = one.among(*stream.recorded_range(stream.start, stream.stop))
        used[number] = bool((found != NO_PART).any())
    for numbers in _sharing_noise(layout, local):
        used[numbers] = used[numbers].any()
    return _mapmaking.PartTable(firsts, table, parts.n, n_pix), used


def _sharing_noise(layout: TimeLayout, local: LocalBlocks) -> Sequence[list[int]]:
    """Return the groups of segments that share noise."""
    groups: dict[tuple[int, int], list[int]] = {}
    joint = layout.is_joint(local.segments.stream)
    for number, segment in enumerate(local.segments):
        if joint[number]:
            stream = layout.streams[segment.stream]
            groups.setdefault((stream.observation, stream.interval), []).append(number)
    return list(groups.values())
