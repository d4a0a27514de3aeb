"""Bands of the inverse noise of a run's streams, in lags, by interval and detector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.typing import Int64Array
from petamap.mapmaking.stream_table import StreamTable


@dataclass(frozen=True)
class StreamLags:
    """Lags of the streams of a run, which are the same in many intervals.

    Attributes
    ----------
    streams : StreamTable
    class_of : int64 (n_row,)
        Of each interval of the table.
    by_detector : tuple of int64 (n_det,)
        Of each class, the lags of its detectors; one number is that of all.
    """

    streams: StreamTable
    class_of: Int64Array
    by_detector: tuple[Int64Array, ...]

    @staticmethod
    def of_rows(streams: StreamTable, lags: Int64Array) -> StreamLags:
        """Return lags that all detectors of an interval have, (n_row,)."""
        found, class_of = np.unique(lags, return_inverse=True)
        return StreamLags(streams, class_of, tuple(found[:, None]))

    def of(self, streams: Int64Array) -> Int64Array:
        """Return the lags of streams."""
        rows = self.streams.rows(streams)
        classes, detectors = self.class_of[rows], streams - self.streams.first[rows]
        lags = np.empty(len(streams), np.int64)
        for number in distinct(classes.copy()).tolist():
            own, known = classes == number, self.by_detector[number]
            lags[own] = known[detectors[own]] if len(known) > 1 else known
        return lags

    @property
    def longest(self) -> int:
        """The most lags of a stream; 0 of none."""
        return max((int(lags.max()) for lags in self.by_detector), default=0)

    @property
    def shortest(self) -> int:
        """The fewest lags of a stream; 0 of none."""
        return min((int(lags.min()) for lags in self.by_detector), default=0)
