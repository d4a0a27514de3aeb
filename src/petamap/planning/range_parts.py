"""Parts of the data, each with pixels of its own, in ranges of time samples."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import Int64Array
from petamap.data.parts import Parts
from petamap.mapmaking.time_layout import TimeLayout


def part_edges(layout: TimeLayout, parts: Parts) -> Int64Array:
    """Return where the part changes within streams, counted over all streams as in ``StreamTable.keys``.

    Parameters
    ----------
    layout : TimeLayout
    parts : Parts
    """
    streams, edges = layout.streams, [np.zeros(0, np.int64)]
    for row in range(streams.n_rows):
        start, length = int(streams.start[row]), int(streams.stop[row] - streams.start[row])
        for detector in range(int(streams.n_det[row])):
            starts = parts.of(int(streams.observation[row]), detector).starts
            if len(starts) > 1:
                within = starts - start
                first = int(streams.first_key[row]) + detector * length
                edges.append(first + within[(within > 0) & (within < length)])
    return np.concatenate(edges)


def parts_of_ranges(layout: TimeLayout, parts: Parts, edges: Int64Array) -> Int64Array:
    """Return the part of each range, `NO_PART` for those in none: int64 (n_ranges,).

    Parameters
    ----------
    layout : TimeLayout
    parts : Parts
    edges : int64 (n_ranges + 1,)
        Bounds of the ranges, among them the first sample of each stream and the `part_edges`.
    """
    streams = layout.streams
    own = streams.holding(edges[:-1])
    columns = streams.columns(own)
    # what comes before the first sample that was recorded is never seen
    starts = np.maximum(edges[:-1] - streams.keys(own), streams.margin) + columns.start
    firsts = np.flatnonzero(np.diff(own, prepend=-1))
    found = np.empty(len(own), np.int64)
    for first, last in zip(firsts.tolist(), [*firsts[1:].tolist(), len(own)], strict=True):
        runs = parts.of(int(columns.observation[first]), int(columns.detector[first]))
        found[first:last] = runs.parts[np.searchsorted(runs.starts, starts[first:last], side="right") - 1]
    return found
