"""The time domain divided into streams and blocks, and their distribution over ranks.

A *stream* is one detector in one stationary interval; a *block* is the output range of one overlap-save
convolution in it. Both follow from the data alone, never from the number of ranks or threads, and so do the
lengths of the transforms: that is what makes a map the same to the bit on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array
from petamap.data.observation import Observation, noise_in_common
from petamap.mapmaking.distribution import distribute

# Without correlations a block is only a unit of work.
_WHITE_BLOCK = 1 << 16
# Of a stream, before other streams have their turn: as many as a run of blocks has (block_order.h).
_BLOCKS_IN_TURN = 2
_SHORTEST_TRANSFORM = 1 << 10
# Offsets of samples that a rank holds are multiples of this: whole bytes of flag bits, and of the longest gap
# that counts as one unknown.
ALIGNMENT = 64


def run_bounds(streams: Int64Array, within: Int64Array) -> list[int]:
    """Return the bounds of runs of consecutive blocks of one stream among blocks."""
    n = len(streams)
    if n == 0:
        return []
    breaks = (streams[1:] != streams[:-1]) | (within[1:] != within[:-1] + 1)
    return [0, *(np.flatnonzero(breaks) + 1).tolist(), n]


def transform_length(n_lag: int) -> int:
    """Return the length of the transforms for a band of `n_lag` lags.

    Eight times the band: a quarter of each transform is halo, and at the usual 4096 lags its two real blocks
    fill half a megabyte, which is what a core's second cache holds. Measured optimum at 4096 lags.
    """
    return max(_SHORTEST_TRANSFORM, 1 << max(8 * n_lag - 1, 1).bit_length())


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


def time_streams(observations: Sequence[Observation], margin: int = 0) -> list[TimeStream]:
    """Return the streams of a run in the order of their numbers."""
    return [
        TimeStream(number, index, detector, start - margin, stop + margin, margin)
        for number, observation in enumerate(observations)
        for index, (start, stop) in enumerate(observation.intervals)
        for detector in range(observation.n_det)
        if stop > start
    ]


def _shares_noise(observations: Sequence[Observation], stream: TimeStream) -> bool:
    return bool(noise_in_common(observations[stream.observation], stream.interval))


@dataclass(frozen=True)
class Segment:
    """Consecutive samples of a stream that a rank holds: the samples of its blocks and their halos.

    Attributes
    ----------
    stream : int
        Number of the stream in the run.
    start, stop : int
        Samples of the observation.
    offset : int
        Position of the first one among all samples that the rank holds.
    """

    stream: int
    start: int
    stop: int
    offset: int


@dataclass(frozen=True)
class LocalBlocks:
    """Segments and blocks of one rank.

    Attributes
    ----------
    segments : tuple of Segment
    blocks : (n_block, 6) int64
        first input among the held samples, inputs, inputs before the first output, outputs, kernel, segment:
        the kernels' ``Block``. The kernel is filled in later.
    n_held : int
        Samples held, padding included.
    n_out : int
        Samples that are outputs of this rank's blocks: every sample of the run is one on exactly one rank.
    """

    segments: tuple[Segment, ...]
    blocks: Int64Array
    n_held: int
    n_out: int


class TimeLayout:
    """Streams and blocks of a run, the same on all ranks.

    Parameters
    ----------
    observations : sequence of Observation
    n_lag : int
        Band of the inverse noise.
    margin : int
        Unknown samples before and after each stationary interval.
    """

    def __init__(self, observations: Sequence[Observation], n_lag: int, margin: int = 0) -> None:
        self.n_lag = n_lag
        self.margin = margin
        self.transform = transform_length(n_lag) if n_lag else 0
        self.block = 2 * (self.transform - 2 * n_lag) if n_lag else _WHITE_BLOCK
        self.streams = time_streams(observations, margin)
        lengths = np.array([s.stop - s.start for s in self.streams], np.int64)
        if len(lengths) == 0:
            raise ConfigError("there are no samples to map", mend="check the sources and their intervals")
        self.n_samp = int(lengths.sum()) - 2 * margin * len(lengths)
        self.sample_keys = np.concatenate([[0], np.cumsum(lengths)])
        self.first_blocks = np.concatenate([[0], np.cumsum(-(-lengths // self.block))])
        self.joint = np.array([n_lag > 0 and _shares_noise(observations, s) for s in self.streams], np.bool_)
        intervals = np.array([(s.observation, s.interval) for s in self.streams], np.int64)
        begins = np.any(np.diff(intervals, axis=0, prepend=-1) != 0, axis=1)
        self._intervals = np.flatnonzero(begins)
        self._units = np.flatnonzero(begins | ~self.joint)  # the first of streams that stay together

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(self.first_blocks[-1])

    def costs(self) -> FloatArray:
        """Return the cost of each block, in samples: its outputs and its halos."""
        costs = np.full(self.n_blocks, float(self.block + 2 * self.n_lag))
        lengths = np.diff(self.sample_keys)
        costs[self.first_blocks[1:] - 1] += (lengths - 1) % self.block + 1 - self.block
        return costs

    def order(self, groups: int | None = None) -> Int64Array:
        """Return the numbers of all blocks, (n_blocks,), in the order in which they are distributed to ranks.

        Parameters
        ----------
        groups : int, optional
            Groups of neighbouring detectors; a rank gets a time range of the detectors of a group. With
            1 group ranks have all detectors for a short time (time-major), with as many groups as detectors
            one detector for a long time (detector-major). By default block by block of stream by stream.
            Where detectors share noise, there is 1 group.
        """
        if self.joint.any():
            groups = 1
        if groups is None:
            return np.arange(self.n_blocks)
        streams, within = self.locate(np.arange(self.n_blocks))
        table = np.array([(s.observation, s.interval, s.detector) for s in self.streams], np.int64)
        observation, interval, detector = table.T
        n_det = 1 + np.zeros(observation.max() + 1, np.int64)
        np.maximum.at(n_det, observation, detector + 1)
        group = detector * np.minimum(groups, n_det[observation]) // n_det[observation]
        return np.lexsort(
            (detector[streams], within, interval[streams], observation[streams], group[streams])
        )

    def rank_blocks(self, groups: int | None, size: int) -> list[Int64Array]:
        """Return the blocks of each rank, increasing: contiguous runs of `order` of nearly equal cost.

        Blocks of detectors that share noise, of one range of time, stay together.

        Parameters
        ----------
        groups : int, optional
            As in `order`.
        size : int
            Number of ranks.
        """
        order = self.order(groups)
        streams, within = self.locate(order)
        units = np.searchsorted(self._units, streams, side="right")
        begins = np.ones(len(order), np.bool_)
        begins[1:] = ~self.joint[streams[1:]] | (units[1:] != units[:-1]) | (within[1:] != within[:-1])
        firsts = np.flatnonzero(begins)
        bounds = np.append(firsts, len(order))[distribute(np.add.reduceat(self.costs()[order], firsts), size)]
        return [np.sort(order[begin:end]) for begin, end in pairwise(bounds)]

    def rank_streams(self, size: int, intervals: bool = False) -> Int64Array:
        """Return the first of the whole streams that each rank may have, and their number: (size + 1,).

        Streams that share noise stay together, and with `intervals` all detectors of an interval.
        """
        units = self._intervals if intervals else self._units
        lengths = np.diff(self.sample_keys).astype(np.float64)
        bounds = distribute(np.add.reduceat(lengths, units), size)
        return np.append(units, len(self.streams)).astype(np.int64)[bounds]

    def locate(self, blocks: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the stream of each block, and the number of the block in it."""
        streams: Int64Array = np.searchsorted(self.first_blocks, blocks, side="right") - 1
        return streams, blocks - self.first_blocks[streams]

    def local_blocks(self, blocks: Int64Array) -> LocalBlocks:
        """Return segments and blocks of a rank that has these blocks, (n,), in increasing order."""
        segments: list[Segment] = []
        tables: list[Int64Array] = [np.zeros((0, 6), np.int64)]
        offset = 0
        streams, within = self.locate(blocks)
        for begin, end in pairwise(run_bounds(streams, within)):
            own = within[begin:end]
            segment = self._segment(int(streams[begin]), int(own[0]), int(own[-1]) + 1, offset)
            tables.append(self._blocks(segment, own, len(segments)))
            segments.append(segment)
            offset += -(-(segment.stop - segment.start) // ALIGNMENT) * ALIGNMENT
        table = np.concatenate(tables)
        return LocalBlocks(tuple(segments), table, offset, int(table[:, 3].sum()))

    def turns(self, local: LocalBlocks) -> Int64Array:
        """Return when each block of a rank is visited, (n_block,): one range of time after the other.

        Pixels that detectors see in one range of time stay in cache from one of them to the next.
        """
        segments = [(self.streams[s.stream].observation, s.start - s.offset) for s in local.segments]
        observations, shifts = np.array(segments, np.int64).reshape(-1, 2)[local.blocks[:, 5]].T
        starts = local.blocks[:, 0] + local.blocks[:, 2] + shifts
        ranges = np.stack([observations, starts // (_BLOCKS_IN_TURN * self.block)], axis=1)
        turns: Int64Array = np.unique(ranges, axis=0, return_inverse=True)[1].astype(np.int64)
        return turns.reshape(-1)

    def held(self, streams: Int64Array, first: Int64Array, last: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the range of samples that blocks [first, last) need, counted from the starts of streams."""
        begin = np.maximum(0, first * self.block - self.n_lag) // ALIGNMENT * ALIGNMENT
        lengths = self.sample_keys[streams + 1] - self.sample_keys[streams]
        return begin, np.minimum(lengths, last * self.block + self.n_lag)

    def _segment(self, number: int, first: int, last: int, offset: int) -> Segment:
        begin, end = self.held(*np.array([[number], [first], [last]]))
        start = self.streams[number].start
        return Segment(number, start + int(begin[0]), start + int(end[0]), offset)

    def _blocks(self, segment: Segment, own: Int64Array, number: int) -> Int64Array:
        stream = self.streams[segment.stream]
        out = stream.start + own * self.block
        out_end = np.minimum(out + self.block, stream.stop)
        begin = np.maximum(out - self.n_lag, stream.start)
        end = np.minimum(out_end + self.n_lag, stream.stop)
        first = segment.offset + begin - segment.start
        columns = first, end - begin, out - begin, out_end - out, 0, number
        return np.stack(np.broadcast_arrays(*columns), axis=1)
