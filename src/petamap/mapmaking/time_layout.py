"""The time domain divided into streams and blocks, and their distribution over ranks.

A *stream* is one detector in one stationary interval; a *block* is the output range of one overlap-save
convolution in it. Both follow from the data alone, never from the number of ranks or threads, and so do the
lengths of the transforms: that is what makes a map the same to the bit on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import overload

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.errors import ConfigError
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petamap.data.observation import Observation, noise_in_common
from petamap.mapmaking.dealing import BlockRows, Dealing
from petamap.mapmaking.distribution import RegularUnits
from petamap.mapmaking.stream_table import StreamTable

# Without correlations a block is only a unit of work.
_WHITE_BLOCK = 1 << 16
# Of a stream, before other streams have their turn: as many as a run of blocks has where maps are larger than
# caches (block_order.h).
_BLOCKS_IN_TURN = 2
_SHORTEST_TRANSFORM = 1 << 10
# Offsets of samples that a rank holds are multiples of this: whole bytes of flag bits, and of the longest gap
# that counts as one unknown.
ALIGNMENT = 64


def run_bounds(streams: Int64Array, within: Int64Array) -> Int64Array:
    """Return the bounds of runs of consecutive blocks of one stream among blocks; (1,) of none."""
    breaks = (streams[1:] != streams[:-1]) | (within[1:] != within[:-1] + 1)
    return distinct(np.concatenate([[0], np.flatnonzero(breaks) + 1, [len(streams)]]).astype(np.int64))


def transform_length(n_lag: int) -> int:
    """Return the length of the transforms for a band of `n_lag` lags.

    Eight times the band: a quarter of each transform is halo, and at the usual 4096 lags its two real blocks
    fill half a megabyte, which is what a core's second cache holds. Measured optimum at 4096 lags.
    """
    return max(_SHORTEST_TRANSFORM, 1 << max(8 * n_lag - 1, 1).bit_length())


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


class SegmentTable(Sequence[Segment]):
    """Segments of a rank, of which one is an object where somebody asks for it.

    Attributes
    ----------
    stream, start, stop, offset : (n,) int64
        As in `Segment`.
    """

    def __init__(self, stream: Int64Array, start: Int64Array, stop: Int64Array, offset: Int64Array) -> None:
        self.stream, self.start, self.stop, self.offset = stream, start, stop, offset

    def __len__(self) -> int:
        return len(self.stream)

    @overload
    def __getitem__(self, number: int) -> Segment: ...

    @overload
    def __getitem__(self, number: slice) -> list[Segment]: ...

    def __getitem__(self, number: int | slice) -> Segment | list[Segment]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        columns = self.stream[number], self.start[number], self.stop[number], self.offset[number]
        return Segment(*map(int, columns))


@dataclass(frozen=True)
class LocalBlocks:
    """Segments and blocks of one rank.

    Attributes
    ----------
    segments : SegmentTable
    blocks : (n_block, 6) int64
        first input among the held samples, inputs, inputs before the first output, outputs, kernel, segment:
        the kernels' ``Block``. The kernel is filled in later.
    n_held : int
        Samples held, padding included.
    n_out : int
        Samples that are outputs of this rank's blocks: every sample of the run is one on exactly one rank.
    """

    segments: SegmentTable
    blocks: Int64Array
    n_held: int
    n_out: int

    def numbers_of(self, blocks: Int64Array) -> Int64Array:
        """Return the numbers of blocks, (n, 6), that are among these."""
        return np.searchsorted(self._first_outputs, blocks[:, 0] + blocks[:, 2])

    @cached_property
    def _first_outputs(self) -> Int64Array:
        return self.blocks[:, 0] + self.blocks[:, 2]


class TimeLayout:
    """Streams and blocks of a run, the same on all ranks: rules and a row for each interval.

    Parameters
    ----------
    observations : sequence of Observation
    n_lag : int
        Band of the inverse noise.
    margin : int
        Unknown samples before and after each stationary interval.
    block : int, optional
        Outputs of a block without correlations, a multiple of 64.

    Attributes
    ----------
    streams : StreamTable
    n_samp : int
        Number of samples of all streams, without margins.
    """

    def __init__(
        self, observations: Sequence[Observation], n_lag: int, margin: int = 0, block: int = _WHITE_BLOCK
    ) -> None:
        self.n_lag = n_lag
        self.margin = margin
        self.transform = transform_length(n_lag) if n_lag else 0
        self.block = 2 * (self.transform - 2 * n_lag) if n_lag else block
        self.streams = StreamTable(observations, margin)
        if len(self.streams) == 0:
            raise ConfigError("there are no samples to map", mend="check the sources and their intervals")
        self.n_samp = self.streams.n_keys - 2 * margin * len(self.streams)
        lengths = self.streams.stop - self.streams.start
        full = np.full_like(lengths, self.block + 2 * n_lag)
        last = (lengths - 1) % self.block + 1 + 2 * n_lag
        joint = _joint_rows(observations, self.streams) if n_lag else np.zeros(len(lengths), np.bool_)
        self._rows = BlockRows(self.streams.n_det, -(-lengths // self.block), full, last, joint)
        self._dealing = lru_cache(1)(partial(Dealing, self._rows))

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(self._rows.first[-1])

    def is_joint(self, streams: Int64Array) -> BoolArray:
        """Return whether streams share noise with others, and correlations are not left out."""
        return np.asarray(self._rows.joint[self.streams.rows(streams)], np.bool_)

    def first_blocks(self, streams: Int64Array) -> Int64Array:
        """Return the number of the first block of streams; of all blocks for the number of streams."""
        rows = np.minimum(self.streams.rows(streams), self.streams.n_rows - 1)
        before = (streams - self.streams.first[rows]) * self._rows.n_blocks[rows]
        return np.asarray(self._rows.first[rows] + before, np.int64)

    def costs(self, blocks: Int64Array) -> FloatArray:
        """Return the cost of blocks, in samples: its outputs and its halos."""
        streams, within = self.locate(blocks)
        rows = self.streams.rows(streams)
        last = within == self._rows.n_blocks[rows] - 1
        return np.where(last, self._rows.last[rows], self._rows.full[rows]).astype(np.float64)

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
        dealing: Dealing = self._dealing(groups)
        return dealing.order(0, int(dealing.distribute(1)[-1]))

    def rank_blocks(self, groups: int | None, size: int, rank: int) -> Int64Array:
        """Return the blocks of a rank, increasing: a contiguous run of `order`, of nearly equal cost.

        Blocks of detectors that share noise, of one range of time, stay together.

        Parameters
        ----------
        groups : int, optional
            As in `order`.
        size : int
            Number of ranks.
        rank : int
        """
        return self._dealt(groups, self._dealing(groups).distribute(size)[rank : rank + 2])[0]

    def blocks_of_ranks(self, groups: int | None, size: int) -> list[Int64Array]:
        """Return the blocks of each rank, as `rank_blocks` does."""
        return self._dealt(groups, self._dealing(groups).distribute(size))

    def blocks_of_whole_streams(self, size: int, intervals: bool = False) -> list[Int64Array]:
        """Return the blocks of ranks that have whole streams, as `rank_streams` deals them."""
        firsts = self.first_blocks(self.rank_streams(size, intervals))
        return [np.arange(*pair) for pair in pairwise(firsts.tolist())]

    def _dealt(self, groups: int | None, bounds: Int64Array) -> list[Int64Array]:
        """Return the blocks of ranks, increasing, whose boundaries among the units are these."""
        dealing: Dealing = self._dealing(groups)
        return [np.sort(dealing.order(*pair)) for pair in pairwise(bounds.tolist())]

    def rank_streams(self, size: int, intervals: bool = False) -> Int64Array:
        """Return the first of the whole streams that each rank may have, and their number: (size + 1,).

        Streams that share noise stay together, and with `intervals` all detectors of an interval.
        """
        streams, ones = self.streams, np.ones(self.streams.n_rows, np.int64)
        together = self._rows.joint | intervals
        n_units, members = np.where(together, 1, streams.n_det), np.where(together, streams.n_det, 1)
        lengths = streams.stop - streams.start
        units = RegularUnits(ones, 0 * ones, ones, n_units, lengths * members)
        bounds = units.distribute(size)
        rows = np.minimum(np.searchsorted(units.begins, bounds, side="right") - 1, streams.n_rows - 1)
        firsts = streams.first[rows] + (bounds - units.begins[rows]) * members[rows]
        return np.asarray(firsts, np.int64)

    def locate(self, blocks: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the stream of each block, and the number of the block in it."""
        rows = np.searchsorted(self._rows.first, blocks, side="right") - 1
        in_row, each = blocks - self._rows.first[rows], self._rows.n_blocks[rows]
        return self.streams.first[rows] + in_row // each, in_row % each

    def local_blocks(self, blocks: Int64Array) -> LocalBlocks:
        """Return segments and blocks of a rank that has these blocks, (n,), in increasing order."""
        streams, within = self.locate(blocks)
        edges = run_bounds(streams, within)
        firsts, lasts = edges[:-1], edges[1:] - 1
        begin, end = self.held(streams[firsts], within[firsts], within[lasts] + 1)
        starts = self.streams.columns(streams[firsts]).start
        padded = -(-(end - begin) // ALIGNMENT) * ALIGNMENT
        offsets = np.cumsum(padded) - padded
        segments = SegmentTable(streams[firsts], starts + begin, starts + end, offsets)
        numbers = np.repeat(np.arange(len(firsts)), np.diff(edges))
        table = self._blocks(segments, within, numbers)
        return LocalBlocks(segments, table, int(padded.sum()), int(table[:, 3].sum()))

    def observations_of(self, local: LocalBlocks) -> list[int]:
        """Return the numbers of the observations of which a rank holds samples, increasing."""
        found: list[int] = distinct(self.streams.columns(local.segments.stream).observation).tolist()
        return found

    def turns(self, local: LocalBlocks) -> Int64Array:
        """Return when each block of a rank is visited, (n_block,): one range of time after the other.

        Pixels that detectors see in one range of time stay in cache from one of them to the next.
        """
        segments, numbers = local.segments, local.blocks[:, 5]
        observations = self.streams.columns(segments.stream).observation[numbers]
        shifts = (segments.start - segments.offset)[numbers]
        starts = local.blocks[:, 0] + local.blocks[:, 2] + shifts
        ranges = np.stack([observations, starts // (_BLOCKS_IN_TURN * self.block)], axis=1)
        turns: Int64Array = np.unique(ranges, axis=0, return_inverse=True)[1].astype(np.int64)
        return turns.reshape(-1)

    def held(self, streams: Int64Array, first: Int64Array, last: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the range of samples that blocks [first, last) need, counted from the starts of streams."""
        begin = np.maximum(0, first * self.block - self.n_lag) // ALIGNMENT * ALIGNMENT
        return begin, np.minimum(self.streams.lengths(streams), last * self.block + self.n_lag)

    def _blocks(self, segments: SegmentTable, within: Int64Array, numbers: Int64Array) -> Int64Array:
        """Return the table of blocks, their numbers in their streams and their segments given."""
        streams = self.streams.columns(segments.stream[numbers])
        out = streams.start + within * self.block
        out_end = np.minimum(out + self.block, streams.stop)
        begin = np.maximum(out - self.n_lag, streams.start)
        end = np.minimum(out_end + self.n_lag, streams.stop)
        first = segments.offset[numbers] + begin - segments.start[numbers]
        columns = first, end - begin, out - begin, out_end - out, np.zeros_like(first), numbers
        return np.stack(columns, axis=1)


def _joint_rows(observations: Sequence[Observation], streams: StreamTable) -> BoolArray:
    """Return whether the detectors of each interval share noise."""
    joint = np.zeros(streams.n_rows, np.bool_)
    sharing = np.array([bool(one.common_noise) for one in observations], np.bool_)
    for row in np.flatnonzero(sharing[streams.observation]).tolist():
        observation = observations[int(streams.observation[row])]
        joint[row] = bool(noise_in_common(observation, int(streams.interval[row])))
    return joint
