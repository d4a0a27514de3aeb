"""Streams of a run as a table with a row for each stationary interval, of which streams follow by rule.

All detectors of an interval have streams of the same length, so what is known of 10^8 streams takes the
memory of their intervals; a stream is an object only where somebody asks for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np

from petacomm.base.typing import Int64Array
from petamap.data.observation import Observation


@dataclass(frozen=True)
class TimeStream:
    """One detector in one stationary interval of an observation, with its margins of unknown samples.

    Attributes
    ----------
    observation, interval, detector : int
    start, stop : int
        Samples, margins included: `start` may be negative, and `stop` beyond the last sample.
    margin : int
        Samples at each end that were never recorded.
    """

    observation: int
    interval: int
    detector: int
    start: int
    stop: int
    margin: int = 0

    def recorded_range(self, start: int, stop: int) -> tuple[int, int]:
        """Return the recorded part of samples [start, stop); stop <= start where there is none."""
        return max(start, self.start + self.margin), min(stop, self.stop - self.margin)


class StreamColumns(NamedTuple):
    """Attributes of some streams, (n,) int64 each, as in `TimeStream`."""

    observation: Int64Array
    interval: Int64Array
    detector: Int64Array
    start: Int64Array
    stop: Int64Array


class StreamTable(Sequence[TimeStream]):
    """Streams of a run in the order of their numbers: observation, interval, detector.

    Parameters
    ----------
    observations : sequence of Observation
    margin : int
        Unknown samples before and after each stationary interval.

    Attributes
    ----------
    observation, interval : (n_row,) int64
        Of each interval that has samples.
    start, stop : (n_row,) int64
        Its samples, margins included.
    n_det : (n_row,) int64
        Its streams.
    first : (n_row + 1,) int64
        Number of its first stream.
    first_key : (n_row + 1,) int64
        Position of the first sample of its first stream among all samples of all streams.
    """

    def __init__(self, observations: Sequence[Observation], margin: int = 0) -> None:
        tables = [np.zeros((0, 2), np.int64)]
        tables += [np.array(one.intervals, np.int64).reshape(-1, 2) for one in observations]
        start, stop = np.concatenate(tables).T
        numbers = np.repeat(np.arange(len(observations)), [len(table) for table in tables[1:]])
        intervals = np.concatenate([np.arange(len(table)) for table in tables])
        rows = np.flatnonzero(stop > start)
        self.margin = margin
        self.observation, self.interval = numbers[rows], intervals[rows]
        self.start, self.stop = start[rows] - margin, stop[rows] + margin
        self.n_det = np.array([one.n_det for one in observations], np.int64)[self.observation]
        self.first = np.concatenate([[0], np.cumsum(self.n_det)]).astype(np.int64)
        lengths = self.stop - self.start
        self.first_key = np.concatenate([[0], np.cumsum(lengths * self.n_det)]).astype(np.int64)
        self._latest: tuple[int, TimeStream | None] = -1, None

    def __len__(self) -> int:
        return int(self.first[-1])

    @overload
    def __getitem__(self, number: int) -> TimeStream: ...

    @overload
    def __getitem__(self, number: slice) -> list[TimeStream]: ...

    def __getitem__(self, number: int | slice) -> TimeStream | list[TimeStream]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        known, stream = self._latest  # of each piece of a stream it is asked for several times
        if stream is not None and known == number:
            return stream
        number = range(len(self))[number]
        row = int(np.searchsorted(self.first, number, side="right")) - 1
        values = (self.observation[row], self.interval[row], number - self.first[row])
        stream = TimeStream(*map(int, (*values, self.start[row], self.stop[row], self.margin)))
        self._latest = number, stream
        return stream

    @property
    def n_rows(self) -> int:
        """Number of intervals."""
        return len(self.observation)

    @property
    def n_keys(self) -> int:
        """Number of samples of all streams, margins included."""
        return int(self.first_key[-1])

    def rows(self, streams: Int64Array) -> Int64Array:
        """Return the row of each stream."""
        return np.asarray(np.searchsorted(self.first, streams, side="right") - 1, np.int64)

    def columns(self, streams: Int64Array) -> StreamColumns:
        """Return the attributes of streams."""
        rows = self.rows(streams)
        numbers = self.observation[rows], self.interval[rows], streams - self.first[rows]
        return StreamColumns(*numbers, self.start[rows], self.stop[rows])

    def lengths(self, streams: Int64Array) -> Int64Array:
        """Return the number of samples of streams, margins included."""
        rows = self.rows(streams)
        return np.asarray(self.stop[rows] - self.start[rows], np.int64)

    def keys(self, streams: Int64Array) -> Int64Array:
        """Return the positions of the first samples of streams among all samples of the run."""
        rows = self.rows(streams)
        before = (streams - self.first[rows]) * (self.stop[rows] - self.start[rows])
        return np.asarray(self.first_key[rows] + before, np.int64)

    def key(self, stream: int) -> int:
        """Return the position of the first sample of a stream among all samples of the run."""
        return int(self.keys(np.array([stream], np.int64))[0])

    def holding(self, keys: Int64Array) -> Int64Array:
        """Return the stream that has each position among all samples of the run."""
        rows = np.searchsorted(self.first_key, keys, side="right") - 1
        streams = self.first[rows] + (keys - self.first_key[rows]) // (self.stop[rows] - self.start[rows])
        return np.asarray(streams, np.int64)
