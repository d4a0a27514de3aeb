"""Schedules of collectives: messages in rounds.

The rounds of a `Schedule` are generated one after the other on demand, as NumPy arrays with one row per
message, so that the schedule of 16,384 ranks is never in memory as a whole. A schedule is checked by
`check_schedule`, executed by `petacomm.collectives`, converted for simulators by `flat_messages` and
tabulated by `schedule_timeline`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from petacomm.base.display import Displayed
from petacomm.base.errors import ConfigError
from petacomm.base.typing import BoolArray, Int32Array, Int64Array
from petacomm.topology.torus import Torus

Collective: TypeAlias = Literal["broadcast", "reduce", "allreduce", "alltoall", "barrier"]
NetworkKind: TypeAlias = Literal["torus", "tree", "interrupt"]

# Ranks are 32-bit integers, as in MPI.
MAX_RANKS = 2**31 - 1


class ScheduleError(ConfigError):
    """A schedule cannot be made for a call, or does not do what its collective requires."""


@dataclass(frozen=True, repr=False)
class Round(Displayed):
    """The messages of one round, one row each. All arrays have the same length.

    A rank reads all that it sends in a round before it writes what it receives in that round. Received values
    that are reduced are combined with the rank's own in the order of the ranks, including its own: all ranks
    that combine the same values get bit-identical results.

    Attributes
    ----------
    source, destination : int32 (n,)
        Ranks. A row from a rank to itself is a copy, or a reduction, in its memory.
    begin, destination_begin, length : int64 (n,)
        First element in the work space of the source and of the destination, and number of elements.
    reduce : bool (n,)
        Whether received values are combined with those of the destination; else they replace them.
    heading : int8 (n,)
        Port by which the message leaves, 2 x dimension + (1 if downwards); it continues in this direction to
        its destination. -1: any route.
    line : int32 (n,)
        Rows with the same non-negative number are one message with the deposit bit, which leaves a copy on
        each rank it passes: they have the same source, heading and elements, nearest rank first. -1: none.
    """

    source: Int32Array
    destination: Int32Array
    begin: Int64Array
    destination_begin: Int64Array
    length: Int64Array
    reduce: BoolArray
    heading: npt.NDArray[np.int8]
    line: Int32Array

    def _facts(self) -> dict[str, object]:
        sent = self.is_message
        return {
            "messages": int(sent.sum()),
            "elements": int(self.length[sent].sum()),
            "reducing": int((sent & self.reduce).sum()) or None,
            "copies_in_memory": int((~sent).sum()) or None,
        }

    @classmethod
    def from_columns(
        cls,
        source: npt.ArrayLike,
        destination: npt.ArrayLike,
        begin: npt.ArrayLike,
        length: npt.ArrayLike,
        *,
        destination_begin: npt.ArrayLike | None = None,
        reduce: npt.ArrayLike = False,
        heading: npt.ArrayLike = -1,
        line: npt.ArrayLike = -1,
    ) -> Round:
        """Return a round of arrays and scalars, which are broadcast; elements keep their index by default."""
        target = begin if destination_begin is None else destination_begin
        columns = np.broadcast_arrays(
            *map(np.atleast_1d, (source, destination, begin, target, length, reduce, heading, line))
        )
        return cls(*(column.astype(dtype) for column, dtype in zip(columns, _DTYPES, strict=True)))

    def __len__(self) -> int:
        return len(self.source)

    def with_elements(self, begin: int, length: int) -> Round:
        """Return the round with one range of elements, at the same index on both sides, in all messages."""
        n = np.ones(len(self), np.int64)
        return replace(self, begin=begin * n, destination_begin=begin * n, length=length * n)

    def take(self, rows: Any) -> Round:
        """Return the rows selected by a slice, indices or a mask."""
        return Round(*(getattr(self, name)[rows] for name in _COLUMNS))

    def for_rank(self, rank: int) -> Round:
        """Return the rows of which a rank is the source or the destination."""
        return self.take(np.flatnonzero((self.source == rank) | (self.destination == rank)))

    @property
    def is_message(self) -> BoolArray:
        """Whether each row is sent over the network, bool (n,): between two ranks, and not empty."""
        return np.asarray((self.source != self.destination) & (self.length > 0))

    @property
    def is_passed(self) -> BoolArray:
        """Whether each row is a copy that a message leaves on its line before the end, bool (n,)."""
        passed = np.zeros(len(self), np.bool_)
        passed[:-1] = (self.line[:-1] == self.line[1:]) & (self.line[1:] >= 0)
        return passed


_DTYPES = (np.int32, np.int32, np.int64, np.int64, np.int64, np.bool_, np.int8, np.int32)
_COLUMNS = ("source", "destination", "begin", "destination_begin", "length", "reduce", "heading", "line")


def merge_rounds(rounds: list[Round]) -> Round:
    """Return one round with the rows of several; lines stay distinct."""
    if not rounds:
        return Round.from_columns([], [], [], [])
    columns = {name: np.concatenate([getattr(part, name) for part in rounds]) for name in _COLUMNS}
    n_lines = np.cumsum([0, *(int(part.line.max(initial=-1)) + 1 for part in rounds)])
    shift = np.repeat(n_lines[:-1], [len(part) for part in rounds])
    line = columns["line"]
    columns["line"] = np.where(line >= 0, line + shift, -1).astype(np.int32)
    return Round(**columns)


def number_lines(begins: BoolArray) -> Int64Array:
    """Return the line of each row, from flags of the rows that begin one; -1 for lines of one row."""
    number = np.cumsum(begins) - 1
    longer = np.bincount(number) > 1 if len(number) else np.zeros(0, np.bool_)
    return np.where(longer[number], (np.cumsum(longer) - 1)[number], -1)


@dataclass(frozen=True)
class AlltoallBlocks:
    """Sizes of the blocks of an all-to-all, and their layout in the work space.

    The work space has the blocks to be sent, then the received ones, then scratch. Blocks are ordered by
    their destination or source, without gaps.

    Attributes
    ----------
    n_ranks : int
    count : int
        Elements from each rank to each, if all blocks are equal.
    counts : int64 (n_ranks, n_ranks), optional
        Elements from rank (row) to rank (column), if they differ.
    """

    n_ranks: int
    count: int = 0
    counts: Int64Array | None = None
    _send_displacements: Int64Array = field(init=False, repr=False)
    _receive_displacements: Int64Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        counts = np.zeros((0, 0), np.int64) if self.counts is None else self.counts
        object.__setattr__(self, "_send_displacements", np.cumsum(counts, axis=1) - counts)
        object.__setattr__(self, "_receive_displacements", np.cumsum(counts, axis=0) - counts)

    def length(self, source: npt.ArrayLike, destination: npt.ArrayLike) -> Int64Array:
        """Return the number of elements of the blocks from sources to destinations: int64."""
        if self.counts is None:
            shape = np.broadcast_shapes(np.shape(source), np.shape(destination))
            return np.full(shape, self.count, np.int64)
        return np.asarray(self.counts[np.asarray(source), np.asarray(destination)], np.int64)

    def send_begin(self, source: npt.ArrayLike, destination: npt.ArrayLike) -> Int64Array:
        """Return the first element of blocks in the work space of their sources: int64."""
        if self.counts is None:
            return np.asarray(
                np.asarray(destination, np.int64) * self.count + np.zeros_like(source, np.int64)
            )
        return np.asarray(self._send_displacements[np.asarray(source), np.asarray(destination)])

    def receive_begin(self, source: npt.ArrayLike, destination: npt.ArrayLike) -> Int64Array:
        """Return the first element of blocks in the work space of their destinations: int64."""
        if self.counts is None:
            within = np.asarray(source, np.int64) * self.count + np.zeros_like(destination, np.int64)
        else:
            within = self._receive_displacements[np.asarray(source), np.asarray(destination)]
        return np.asarray(self.send_size + within)

    @property
    def send_size(self) -> int:
        """Elements of the send part of the work space: the largest number that any rank sends."""
        if self.counts is None:
            return self.n_ranks * self.count
        return int(self.counts.sum(axis=1).max(initial=0))

    @property
    def receive_size(self) -> int:
        """Elements of the receive part of the work space: the largest number that any rank receives."""
        if self.counts is None:
            return self.n_ranks * self.count
        return int(self.counts.sum(axis=0).max(initial=0))


@dataclass(frozen=True, repr=False)
class Schedule(Displayed):
    """The communication of one collective call on all ranks.

    Attributes
    ----------
    collective : str
        ``broadcast``, ``reduce``, ``allreduce``, ``alltoall`` or ``barrier``.
    algorithm : str
    n_ranks : int
    n_elements : int
        Elements of each rank's work space: the vector, or the `blocks` with scratch.
    n_rounds : int
    rounds : callable
        Returns a new iterator over the rounds.
    root : int
        Root of a broadcast or a reduce.
    blocks : AlltoallBlocks, optional
        Blocks of an all-to-all.
    pipelined : bool
        Whether all messages of a stream carry the same elements, so that streams can be cut into segments
        that follow each other.
    window : int, optional
        A rank waits for the messages of a round before it sends those of `window` rounds later. None: it
        waits only for the data that it sends.
    network : str
        Network of the machine that is used: ``torus`` (or any point-to-point network), ``tree`` or
        ``interrupt``.
    combine_positions : int64 (n_ranks,), optional
        Position of each rank in the order in which values are combined. By default its number.
    """

    collective: Collective
    algorithm: str
    n_ranks: int
    n_elements: int
    n_rounds: int
    rounds: Callable[[], Iterator[Round]] = field(repr=False)
    root: int = 0
    blocks: AlltoallBlocks | None = None
    pipelined: bool = False
    window: int | None = None
    network: NetworkKind = "torus"
    combine_positions: Int64Array | None = field(default=None, repr=False)

    def _facts(self) -> dict[str, object]:
        return {
            "collective": self.collective,
            "algorithm": self.algorithm,
            "n_ranks": self.n_ranks,
            "n_elements": self.n_elements,
            "n_rounds": self.n_rounds,
            "root": self.root if self.collective in ("broadcast", "reduce") else None,
            "pipelined": self.pipelined or None,
            "network": self.network,
        }

    def __post_init__(self) -> None:
        check_n_ranks(self.n_ranks)
        if not 0 <= self.root < self.n_ranks:
            raise ScheduleError(
                f"there is no rank {self.root} among {self.n_ranks}", mend="the root is one of the ranks"
            )

    def combine_position(self, rank: int) -> int:
        """Return the position of a rank in the order in which values are combined."""
        return rank if self.combine_positions is None else int(self.combine_positions[rank])

    def rounds_of_rank(self, rank: int) -> Iterator[tuple[int, Round]]:
        """Iterate over the rounds in which a rank takes part: their numbers and its rows."""
        for number, part in enumerate(self.rounds()):
            rows = part.for_rank(rank)
            if len(rows):
                yield number, rows


def check_root(grid: Torus, root: int) -> None:
    """Raise a ScheduleError unless a schedule can have the nodes of a grid as ranks, and this root."""
    check_n_ranks(grid.n_nodes)
    if not 0 <= root < grid.n_nodes:
        raise ScheduleError(f"there is no rank {root} in {grid}", mend="the root is one of its nodes")


def check_n_ranks(n_ranks: int) -> None:
    """Raise a ScheduleError unless a schedule can have so many ranks."""
    if not 1 <= n_ranks <= MAX_RANKS:
        raise ScheduleError(
            f"a schedule cannot have {n_ranks} ranks", mend=f"from 1 to {MAX_RANKS}: ranks have 32 bits"
        )


def segmented(schedule: Schedule, segment: int) -> Schedule:
    """Return a schedule whose streams are cut into segments, sent one round after the other.

    Segment s of a message of round k is sent in round k + s, so that all ranks of a stream work at the same
    time: R rounds of one message become R + S - 1 rounds of S segments.

    Parameters
    ----------
    schedule : Schedule
    segment : int
        Maximum number of elements of a segment.

    Raises
    ------
    ScheduleError
        If the segment is not positive, or the schedule is not pipelined.
    """
    if segment < 1:
        raise ScheduleError(f"a segment of {segment} elements holds nothing", mend="1 or more")
    if not schedule.pipelined:
        raise ScheduleError(
            f"'{schedule.algorithm}' cannot be cut into segments: its messages depend on each other's parts",
            mend="use one whose streams are pipelined",
        )
    # A pipelined schedule is small: each rank has one or two messages of each stream.
    unsegmented = list(schedule.rounds())
    messages = merge_rounds(unsegmented)
    first = np.cumsum([0, *map(len, unsegmented)])
    round_number = np.repeat(np.arange(len(unsegmented)), np.diff(first))
    n_segments = max(1, -(-int(messages.length.max(initial=0)) // segment))
    n_rounds = len(unsegmented) + n_segments - 1

    def rounds() -> Iterator[Round]:
        for time in range(n_rounds):
            rows = slice(first[max(0, time - n_segments + 1)], first[min(time + 1, len(unsegmented))])
            yield _cut_segment(messages.take(rows), (time - round_number[rows]) * segment, segment)

    return replace(schedule, rounds=rounds, n_rounds=n_rounds)


def _cut_segment(part: Round, offset: Int64Array, segment: int) -> Round:
    """Return one segment of each message, beginning at `offset`, without messages that end before."""
    remaining = part.length > offset
    part, offset = part.take(remaining), offset[remaining]
    return replace(
        part,
        begin=part.begin + offset,
        destination_begin=part.destination_begin + offset,
        length=np.minimum(part.length - offset, segment),
    )


def permute_ranks(schedule: Schedule, ranks: Int64Array) -> Schedule:
    """Return a schedule with its ranks renumbered, for ranks that are not in the order of its grid.

    Parameters
    ----------
    schedule : Schedule
        Not of an all-to-all, whose blocks are ordered by rank.
    ranks : int (n_ranks,)
        New number of each rank of the schedule.

    Raises
    ------
    ScheduleError
        If `ranks` is not a permutation.
    """
    ranks = np.asarray(ranks, np.int64)
    if not np.array_equal(np.sort(ranks), np.arange(schedule.n_ranks)):
        raise ScheduleError(f"the ranks that take places are not each of 0 to {schedule.n_ranks - 1} once")
    if schedule.blocks is not None:
        raise ScheduleError(
            "the ranks of an all-to-all cannot change places", mend="order the blocks instead"
        )

    def rounds() -> Iterator[Round]:
        for part in schedule.rounds():
            source, destination = (ranks[old].astype(np.int32) for old in (part.source, part.destination))
            yield replace(part, source=source, destination=destination)

    positions = np.argsort(ranks)
    return replace(schedule, rounds=rounds, root=int(ranks[schedule.root]), combine_positions=positions)


def split_evenly(n_elements: int, n_parts: int) -> tuple[Int64Array, Int64Array]:
    """Return the begins and lengths of near-equal parts of a vector: int64 (n_parts,) each."""
    edges = np.arange(n_parts + 1, dtype=np.int64) * n_elements // n_parts
    return edges[:-1], np.diff(edges)
