"""A collective as data: who sends what to whom, in rounds.

A `Schedule` is a promise of rounds: they are made one after the other when somebody asks for them, as NumPy
arrays with a row for each message, so that 16,384 ranks never lie in memory. It is written once and read four
ways: checked (`check`), executed (`petacomm.mpi`), timed (`flat`), drawn (`drawing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.base.typing import BoolArray, Int32Array, Int64Array

Collective: TypeAlias = Literal["broadcast", "reduce", "allreduce", "alltoall", "barrier"]
Network: TypeAlias = Literal["torus", "tree", "interrupt"]

# Ranks are numbered with 32 bits, as MPI does.
MOST_RANKS = 2**31 - 1


class ScheduleError(ConfigError):
    """What a schedule was asked for cannot be, or a schedule does not do what its collective promises."""


@dataclass(frozen=True)
class Round:
    """What happens in one round, a row a message. All arrays have the same length.

    A rank reads all that it sends in a round before anything that it receives in that round is written.
    Values that arrive to be reduced are combined with the rank's own in the order of the ranks, its own in
    its place: so all ranks that combine the same values get the same bits.

    Attributes
    ----------
    source, destination : int32 (n,)
        Ranks. A row from a rank to itself is a copy, or a sum, in its memory.
    begin, destination_begin, length : int64 (n,)
        Elements, counted in the work space of the source and of the destination.
    reduce : bool (n,)
        Whether what arrives is combined with what is there; else it takes its place.
    heading : int8 (n,)
        The port by which the message leaves, 2 x dimension, or one more for downwards; it goes straight on
        until it is there. -1: any route.
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

    @classmethod
    def of(
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
        """Make a round of arrays and scalars; elements keep their place unless `destination_begin` is
        given."""
        there = begin if destination_begin is None else destination_begin
        columns = (source, destination, begin, there, length, reduce, heading, line)
        whole = np.broadcast_arrays(*map(np.atleast_1d, columns))
        return cls(*(column.astype(kind) for column, kind in zip(whole, _KINDS, strict=True)))

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: Any) -> Round:
        """Return some of the rows: of a slice, of indices or of flags."""
        return Round(*(getattr(self, name)[rows] for name in _COLUMNS))

    def of_rank(self, rank: int) -> Round:
        """Return what a rank sends, receives, copies and reduces."""
        return self.take(np.flatnonzero((self.source == rank) | (self.destination == rank)))

    @property
    def moves(self) -> BoolArray:
        """Whether a row goes over a wire, bool (n,): not from a rank to itself, and not empty."""
        return np.asarray((self.source != self.destination) & (self.length > 0))


_KINDS = (np.int32, np.int32, np.int64, np.int64, np.int64, np.bool_, np.int8, np.int32)
_COLUMNS = ("source", "destination", "begin", "destination_begin", "length", "reduce", "heading", "line")


def joined(rounds: list[Round]) -> Round:
    """Return one round of the rows of several; lines keep apart."""
    if not rounds:
        return Round.of([], [], [], [])
    columns = {name: np.concatenate([getattr(part, name) for part in rounds]) for name in _COLUMNS}
    used = np.cumsum([0, *(int(part.line.max(initial=-1)) + 1 for part in rounds)])
    shift = np.repeat(used[:-1], [len(part) for part in rounds])
    line = columns["line"]
    columns["line"] = np.where(line >= 0, line + shift, -1).astype(np.int32)
    return Round(**columns)


def numbered_lines(begins: BoolArray) -> Int64Array:
    """Number lines, from flags of the rows that begin one: -1 for those of one row, which leave no copies."""
    number = np.cumsum(begins) - 1
    longer = np.bincount(number) > 1 if len(number) else np.zeros(0, np.bool_)
    return np.where(longer[number], (np.cumsum(longer) - 1)[number], -1)


@dataclass(frozen=True)
class Blocks:
    """What an all-to-all exchanges, and where it lies: what is sent, then what is received, then scratch.

    Blocks lie in the order of the ranks they go to or come from, without gaps.

    Attributes
    ----------
    n_ranks : int
    count : int
        Elements from each rank to each, where all are equal.
    counts : int64 (n_ranks, n_ranks), optional
        Elements from rank (row) to rank (column), where they are not.
    """

    n_ranks: int
    count: int = 0
    counts: Int64Array | None = None
    _sent: Int64Array = field(init=False, repr=False)
    _received: Int64Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        counts = np.zeros((0, 0), np.int64) if self.counts is None else self.counts
        object.__setattr__(self, "_sent", np.cumsum(counts, axis=1) - counts)
        object.__setattr__(self, "_received", np.cumsum(counts, axis=0) - counts)

    def length(self, source: npt.ArrayLike, destination: npt.ArrayLike) -> Int64Array:
        """Return the elements from ranks to ranks, int64."""
        if self.counts is None:
            shape = np.broadcast_shapes(np.shape(source), np.shape(destination))
            return np.full(shape, self.count, np.int64)
        return np.asarray(self.counts[np.asarray(source), np.asarray(destination)], np.int64)

    def send_begin(self, source: npt.ArrayLike, destination: npt.ArrayLike) -> Int64Array:
        """Return where blocks begin in the work space of their sources, int64."""
        if self.counts is None:
            return np.asarray(
                np.asarray(destination, np.int64) * self.count + np.zeros_like(source, np.int64)
            )
        return np.asarray(self._sent[np.asarray(source), np.asarray(destination)])

    def receive_begin(self, source: npt.ArrayLike, destination: npt.ArrayLike) -> Int64Array:
        """Return where blocks begin in the work space of their destinations, int64."""
        if self.counts is None:
            within = np.asarray(source, np.int64) * self.count + np.zeros_like(destination, np.int64)
        else:
            within = self._received[np.asarray(source), np.asarray(destination)]
        return np.asarray(self.send_size + within)

    @property
    def send_size(self) -> int:
        """Elements of the part of the work space that is sent: those of the rank that sends most."""
        if self.counts is None:
            return self.n_ranks * self.count
        return int(self.counts.sum(axis=1).max(initial=0))

    @property
    def receive_size(self) -> int:
        """Elements of the part that is received: those of the rank that receives most."""
        if self.counts is None:
            return self.n_ranks * self.count
        return int(self.counts.sum(axis=0).max(initial=0))


@dataclass(frozen=True)
class Schedule:
    """The communication of one collective call on all ranks.

    Attributes
    ----------
    collective : str
        What is promised: ``broadcast``, ``reduce``, ``allreduce``, ``alltoall`` or ``barrier``.
    algorithm : str
    n_ranks : int
    n_elements : int
        Elements of each rank's work space: the vector, or what the `blocks` say, with scratch.
    n_rounds : int
    rounds : callable
        Makes the rounds anew, one after the other.
    root : int
        Of a broadcast or a reduce.
    blocks : Blocks, optional
        Of an all-to-all.
    pipelined : bool
        Whether the elements of each message are those of its stream, from end to end, so that streams can be
        cut into segments that follow each other.
    window : int, optional
        A rank waits for the messages of a round before those `window` rounds later. None: only for the data
        that it needs.
    network : str
        The wires it is meant for: ``torus`` (or any point-to-point network), ``tree`` or ``interrupt``.
    places : int64 (n_ranks,), optional
        The place of each rank in the order in which values are combined. By default its number.
    """

    collective: Collective
    algorithm: str
    n_ranks: int
    n_elements: int
    n_rounds: int
    rounds: Callable[[], Iterator[Round]] = field(repr=False)
    root: int = 0
    blocks: Blocks | None = None
    pipelined: bool = False
    window: int | None = None
    network: Network = "torus"
    places: Int64Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_ranks(self.n_ranks)
        if not 0 <= self.root < self.n_ranks:
            raise ScheduleError(
                f"there is no rank {self.root} among {self.n_ranks}", mend="the root is one of the ranks"
            )

    def place(self, rank: int) -> int:
        """Return the place of a rank in the order in which values are combined."""
        return rank if self.places is None else int(self.places[rank])

    def of_rank(self, rank: int) -> Iterator[tuple[int, Round]]:
        """Iterate over the rounds in which a rank does something, with their numbers."""
        for number, every in enumerate(self.rounds()):
            mine = every.of_rank(rank)
            if len(mine):
                yield number, mine


def check_ranks(n_ranks: int) -> None:
    """Raise a ScheduleError unless ranks can be numbered."""
    if not 1 <= n_ranks <= MOST_RANKS:
        raise ScheduleError(
            f"a schedule cannot have {n_ranks} ranks", mend=f"from 1 to {MOST_RANKS}: ranks have 32 bits"
        )


def in_segments(schedule: Schedule, segment: int) -> Schedule:
    """Return a schedule whose streams are cut into segments that follow each other, a round apart.

    Segment s of a message of round k travels in round k + s, so that all ranks of a stream are at work at
    once: R rounds of one message become R + S - 1 rounds of S segments.

    Parameters
    ----------
    schedule : Schedule
    segment : int
        Most elements of a segment.

    Raises
    ------
    ScheduleError
        If segments are not positive, or the schedule's messages are not those of streams.
    """
    if segment < 1:
        raise ScheduleError(f"a segment of {segment} elements holds nothing", mend="1 or more")
    if not schedule.pipelined:
        raise ScheduleError(
            f"'{schedule.algorithm}' cannot be cut into segments: its messages depend on each other's parts",
            mend="use one whose streams are pipelined",
        )
    # A pipelined schedule is small: each rank has a message or two of each stream.
    each = list(schedule.rounds())
    whole = joined(each)
    first = np.cumsum([0, *map(len, each)])
    round_of = np.repeat(np.arange(len(each)), np.diff(first))
    n_segments = max(1, -(-int(whole.length.max(initial=0)) // segment))
    n_rounds = len(each) + n_segments - 1

    def rounds() -> Iterator[Round]:
        for time in range(n_rounds):
            rows = slice(first[max(0, time - n_segments + 1)], first[min(time + 1, len(each))])
            yield _segments(whole.take(rows), (time - round_of[rows]) * segment, segment)

    return replace(schedule, rounds=rounds, n_rounds=n_rounds)


def _segments(part: Round, offset: Int64Array, segment: int) -> Round:
    """Return messages cut to one segment each, without those that have ended before."""
    here = part.length > offset
    part, offset = part.take(here), offset[here]
    return replace(
        part,
        begin=part.begin + offset,
        destination_begin=part.destination_begin + offset,
        length=np.minimum(part.length - offset, segment),
    )


def on_ranks(schedule: Schedule, ranks: Int64Array) -> Schedule:
    """Return a schedule for ranks that do not lie in the order of its grid.

    Parameters
    ----------
    schedule : Schedule
        Not of an all-to-all: its blocks have ranks of their own.
    ranks : int (n_ranks,)
        The rank that takes the place of each rank of the schedule.

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
            source, destination = (ranks[of].astype(np.int32) for of in (part.source, part.destination))
            yield replace(part, source=source, destination=destination)

    return replace(schedule, rounds=rounds, root=int(ranks[schedule.root]), places=np.argsort(ranks))


def parts(n_elements: int, n_parts: int) -> tuple[Int64Array, Int64Array]:
    """Cut a vector into near-equal parts; return where they begin and their lengths, int64 (n_parts,)."""
    edges = np.arange(n_parts + 1, dtype=np.int64) * n_elements // n_parts
    return edges[:-1], np.diff(edges)
