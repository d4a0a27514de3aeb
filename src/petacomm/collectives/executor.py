"""Schedules on real buffers, over MPI: what is checked and timed is what is done."""

from __future__ import annotations

import bisect
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.mpi import message_size as messages
from petacomm.mpi.communicator import Communicator, MpiCommunicator, Operation
from petacomm.schedule import Round, Schedule, ScheduleError, combine

_TAG = 21

# Rounds that a rank has under way where none waits for another: their requests take memory.
_MOST_UNDER_WAY = 64

OPERATIONS: dict[Operation, Callable[..., Any]] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "or": np.bitwise_or,
}


@dataclass
class Moved:
    """What a rank sent to other ranks.

    Attributes
    ----------
    messages, bytes : int
        Sent. Rows of a round to the same rank are one message.
    received : int
        Bytes that came, as MPI says.
    emulated_messages, emulated_bytes : int
        Copies among what was sent that a deposit bit would have left on the way.
    """

    messages: int = 0
    bytes: int = 0
    received: int = 0
    emulated_messages: int = 0
    emulated_bytes: int = 0


def execute(
    comm: Communicator, schedule: Schedule, spaces: Sequence[AnyArray], op: Operation = "sum"
) -> Moved:
    """Execute a schedule once, as `Prepared` does. Collective on `comm`."""
    return Prepared(comm, schedule, keep=False).run(spaces, op)


class Prepared:
    """A schedule ready to be executed again and again. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
        With as many ranks as the schedule.
    schedule : Schedule
        The same on all ranks.
    keep : bool
        Whether to keep this rank's part of the schedule, some hundred bytes a message.

    Raises
    ------
    ScheduleError
        If there are more or fewer ranks than in the schedule.
    """

    def __init__(self, comm: Communicator, schedule: Schedule, keep: bool = True) -> None:
        if comm.size != schedule.n_ranks:
            raise ScheduleError(
                f"a schedule of {schedule.n_ranks} ranks and {comm.size} processes",
                mend="make it for as many",
            )
        self.comm = comm
        self.schedule = schedule
        # Only what is never sent on may arrive while later rounds are under way.
        blocks = schedule.blocks
        direct = blocks is not None and schedule.n_elements == blocks.send_size + blocks.receive_size
        self.window = min(schedule.window or 1, _MOST_UNDER_WAY) if direct else 1
        self._steps = list(self._prepare()) if keep else None

    def run(self, spaces: Sequence[AnyArray], op: Operation = "sum") -> Moved:
        """Execute it. Collective on `comm`.

        Parameters
        ----------
        spaces : sequence of array
            This rank's work space: flat contiguous arrays of one dtype, one after the other. No message may
            lie in two of them.
        op : str
            What combines values where they are reduced.

        Returns
        -------
        Moved

        Raises
        ------
        ScheduleError
            If the arrays do not fit the schedule.
        """
        n_elements = sum(space.size for space in spaces)
        if n_elements != self.schedule.n_elements:
            raise ScheduleError(
                f"{n_elements} elements, and a schedule of {self.schedule.n_elements}",
                mend="make it for as many",
            )
        execution = _Execution(self.comm, spaces, OPERATIONS[op], self.schedule.place(self.comm.rank))
        for step in self._prepare() if self._steps is None else self._steps:
            execution.begin(step)
            while len(execution.under_way) >= self.window:
                execution.finish()
        while execution.under_way:
            execution.finish()
        return execution.moved

    def _prepare(self) -> Iterator[Step]:
        for _, part in self.schedule.of_rank(self.comm.rank):
            yield _step(self.schedule, part, self.comm.rank)


@dataclass(frozen=True)
class Part:
    """Elements that come from one rank: where they go, and the place of the rank if they are reduced."""

    begin: int
    length: int
    place: int | None


@dataclass(frozen=True)
class Step:
    """What a rank does in one round, in plain numbers.

    Attributes
    ----------
    receives : list of (int, list of Part, bool)
        The rank that sends, its parts, and whether they are received where they belong.
    sends : list of (int, list of (int, int))
        The rank that receives, and the begin and length of its parts.
    copies : list of (int, int, Part)
        In this rank's memory: begin, length, and where to.
    n_emulated, emulated : int
        Rows that a deposit bit would spare, and their elements.
    """

    receives: list[tuple[int, list[Part], bool]]
    sends: list[tuple[int, list[tuple[int, int]]]]
    copies: list[tuple[int, int, Part]]
    n_emulated: int
    emulated: int


def _step(schedule: Schedule, part: Round, rank: int) -> Step:
    part = part.take(part.length > 0)
    receives: dict[int, list[Part]] = {}
    sends: dict[int, list[tuple[int, int]]] = {}
    copies = []
    columns = (part.source, part.destination, part.begin, part.destination_begin, part.length, part.reduce)
    for source, to, begin, there, length, reduce in zip(*(c.tolist() for c in columns), strict=True):
        arriving = Part(there, length, schedule.place(source) if reduce else None)
        if source == to:
            copies.append((begin, length, arriving))
        elif to == rank:
            receives.setdefault(source, []).append(arriving)
        else:
            sends.setdefault(to, []).append((begin, length))
    read = [span for spans in sends.values() for span in spans] + [(begin, n) for begin, n, _ in copies]
    passed = np.flatnonzero(
        (part.line[:-1] == part.line[1:]) & (part.line[1:] >= 0) & (part.source[1:] == rank)
    )
    return Step(
        [(peer, rows, _in_place(rows, read)) for peer, rows in sorted(receives.items())],
        sorted(sends.items()),
        copies,
        len(passed),
        int(part.length[passed].sum()),
    )


def _in_place(rows: list[Part], read: list[tuple[int, int]]) -> bool:
    """Whether what comes may be received where it belongs: alone, not reduced, over nothing to be read."""
    (first, *more) = rows
    if more or first.place is not None:
        return False
    end = first.begin + first.length
    return not any(begin < end and begin + length > first.begin for begin, length in read)


class _Execution:
    """The rounds of one rank that are under way, on its work space."""

    def __init__(
        self, comm: Communicator, spaces: Sequence[AnyArray], operation: Callable[..., Any], place: int
    ) -> None:
        self.mpi_comm: Any = comm.mpi_comm if isinstance(comm, MpiCommunicator) else None
        self.mpi: Any = comm.mpi if isinstance(comm, MpiCommunicator) else None
        self.spaces = spaces
        self.dtype = spaces[0].dtype
        self.ends = list(itertools.accumulate(space.size for space in spaces))
        self.operation = operation
        self.place = place
        self.moved = Moved()
        self.under_way: deque[tuple[list[Any], list[Any], list[tuple[list[Part], AnyArray]]]] = deque()

    def begin(self, step: Step) -> None:
        """Post the receives and sends of a round, and read what it copies."""
        receives: list[Any] = []
        sends: list[Any] = []
        arrivals = []
        for peer, rows, in_place in step.receives:
            if in_place:
                buffer = self._view(rows[0].begin, rows[0].length)
            else:
                buffer = np.empty(sum(row.length for row in rows), self.dtype)
                arrivals.append((rows, buffer))
            receives += [self.mpi_comm.Irecv(piece, peer, _TAG) for piece in _pieces(buffer)]
        for peer, spans in step.sends:
            views = [self._view(begin, length) for begin, length in spans]
            pieces = _pieces(views[0] if len(views) == 1 else np.concatenate(views))
            sends += [self.mpi_comm.Isend(piece, peer, _TAG) for piece in pieces]
            self.moved.bytes += sum(piece.nbytes for piece in pieces)
        arrivals += [([to], self._view(begin, length).copy()) for begin, length, to in step.copies]
        self.moved.messages += len(step.sends)
        self.moved.emulated_messages += step.n_emulated
        self.moved.emulated_bytes += step.emulated * self.dtype.itemsize
        self.under_way.append((receives, sends, arrivals))

    def finish(self) -> None:
        """Wait for the oldest round, and write what came."""
        receives, sends, arrivals = self.under_way.popleft()
        if receives:
            statuses = [self.mpi.Status() for _ in receives]
            self.mpi.Request.Waitall(receives, statuses)
            self.moved.received += sum(status.Get_count(self.mpi.BYTE) for status in statuses)
        if sends:
            self.mpi.Request.Waitall(sends)
        reduced: dict[tuple[int, int], list[tuple[int, AnyArray]]] = {}
        for rows, buffer in arrivals:
            self._put(rows, buffer, reduced)
        for (begin, length), values in reduced.items():
            combine(self._view(begin, length), self.place, values, self.operation)

    def _view(self, begin: int, length: int) -> AnyArray:
        """Return elements of the work space."""
        space = bisect.bisect_right(self.ends, begin)
        offset = begin - self.ends[space] + self.spaces[space].size
        return self.spaces[space][offset : offset + length]

    def _put(
        self, rows: list[Part], buffer: AnyArray, reduced: dict[tuple[int, int], list[tuple[int, AnyArray]]]
    ) -> None:
        """Write what is not reduced, and note what is, by its place."""
        offset = 0
        for row in rows:
            values = buffer[offset : offset + row.length]
            offset += row.length
            if row.place is None:
                self._view(row.begin, row.length)[...] = values
            else:
                reduced.setdefault((row.begin, row.length), []).append((row.place, values))


def _pieces(buffer: AnyArray) -> list[AnyArray]:
    """Cut a buffer into messages that no MPI finds too long, as bytes."""
    flat, most = buffer.view(np.uint8), messages.MESSAGE_BYTES
    return [flat[begin : begin + most] for begin in range(0, flat.size, most)]
