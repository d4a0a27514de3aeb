"""Execution of schedules over MPI."""

from __future__ import annotations

import bisect
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.collectives.operations import Combination, Reduction, combining_function
from petacomm.mpi import message_size as messages
from petacomm.mpi.communicator import Communicator, MpiCommunicator
from petacomm.schedule import Round, Schedule, ScheduleError, combine_in_rank_order

_TAG = 21

# Most pending rounds of a rank, where rounds do not depend on each other: their requests take memory.
_MOST_PENDING = 64


@dataclass
class ExecutionTraffic:
    """Messages of a rank to and from other ranks.

    Attributes
    ----------
    messages, bytes : int
        Messages and bytes sent. Rows of a round to the same rank are one message.
    received : int
        Bytes received, as reported by MPI.
    emulated_messages, emulated_bytes : int
        Messages and bytes sent that the deposit bit of the torus network would make unnecessary, since it
        leaves copies at the nodes that a packet passes.
    """

    messages: int = 0
    bytes: int = 0
    received: int = 0
    emulated_messages: int = 0
    emulated_bytes: int = 0


def execute_schedule(
    comm: Communicator, schedule: Schedule, spaces: Sequence[AnyArray], op: Reduction = "sum"
) -> ExecutionTraffic:
    """Execute a schedule once; parameters as in `PreparedSchedule`. Collective on `comm`."""
    return PreparedSchedule(comm, schedule, keep=False).run(spaces, op)


class PreparedSchedule:
    """Schedule that is executed any number of times. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
        Communicator with as many ranks as the schedule.
    schedule : Schedule
        Schedule, the same on all ranks.
    keep : bool
        Whether to keep this rank's steps of the schedule, some hundred bytes per message.
    tag : int
        Of its messages.

    Raises
    ------
    ScheduleError
        If the communicator has another number of ranks than the schedule.
    """

    def __init__(self, comm: Communicator, schedule: Schedule, keep: bool = True, tag: int = _TAG) -> None:
        if comm.size != schedule.n_ranks:
            raise ScheduleError(
                f"a schedule of {schedule.n_ranks} ranks and {comm.size} processes",
                mend="make it for as many",
            )
        self.comm, self.tag = comm, tag
        self.schedule = schedule
        # Rounds may overlap only if no received element is sent again.
        blocks = schedule.blocks
        direct = blocks is not None and schedule.n_elements == blocks.send_size + blocks.receive_size
        self.window = min(schedule.window or 1, _MOST_PENDING) if direct else 1
        self._steps = list(self._make_steps()) if keep else None

    def run(self, spaces: Sequence[AnyArray], op: Reduction = "sum") -> ExecutionTraffic:
        """Execute the schedule. Collective on `comm`.

        Parameters
        ----------
        spaces : sequence of array
            Work space of this rank: consecutive flat contiguous arrays of one dtype. No message may span two
            of them.
        op : str or callable
            Operation of reductions.

        Returns
        -------
        ExecutionTraffic
            Messages and bytes that this rank sent.

        Raises
        ------
        ScheduleError
            If the arrays do not fit the schedule.
        """
        execution = self.begin(spaces, op)
        execution.advance(wait=True)
        return execution.traffic

    def begin(self, spaces: Sequence[AnyArray], op: Reduction = "sum") -> Execution:
        """Begin an execution, which its `advance` goes on with; parameters and errors as for `run`.

        Ranks begin executions of one tag on a communicator in the same order.
        """
        moves = self.schedule.collective in ("broadcast", "alltoall")
        operation = None if moves else combining_function(op, spaces[0].dtype)
        n_elements = sum(space.size for space in spaces)
        if n_elements != self.schedule.n_elements:
            raise ScheduleError(
                f"{n_elements} elements, and a schedule of {self.schedule.n_elements}",
                mend="make it for as many",
            )
        steps = iter(self._make_steps() if self._steps is None else self._steps)
        position = self.schedule.combine_position(self.comm.rank)
        return Execution(self.comm, spaces, steps, self.window, operation, position, self.tag)

    def _make_steps(self) -> Iterator[_RankStep]:
        for _, part in self.schedule.rounds_of_rank(self.comm.rank):
            yield _step(self.schedule, part, self.comm.rank)


@dataclass(frozen=True)
class _Arrival:
    """Range of elements received from a rank, and the rank's position in the order of a reduction."""

    begin: int
    length: int
    position: int | None


@dataclass(frozen=True)
class _RankStep:
    """Messages and copies of a rank in one round.

    Attributes
    ----------
    receives : list of (int, list of _Arrival, bool)
        Source rank, elements, and whether these are received directly into the work space.
    sends : list of (int, list of (int, int))
        Destination rank, and begin and length of each of its parts.
    copies : list of (int, int, _Arrival)
        Begin and length of elements that are copied within the work space, and their destination.
    n_emulated, emulated : int
        Rows that a deposit bit would make unnecessary, and their elements.
    """

    receives: list[tuple[int, list[_Arrival], bool]]
    sends: list[tuple[int, list[tuple[int, int]]]]
    copies: list[tuple[int, int, _Arrival]]
    n_emulated: int
    emulated: int


def _step(schedule: Schedule, part: Round, rank: int) -> _RankStep:
    part = part.take(part.length > 0)
    receives: dict[int, list[_Arrival]] = {}
    sends: dict[int, list[tuple[int, int]]] = {}
    copies = []
    columns = (part.source, part.destination, part.begin, part.destination_begin, part.length, part.reduce)
    for source, destination, begin, target, length, reduce in zip(
        *(c.tolist() for c in columns), strict=True
    ):
        arriving = _Arrival(target, length, schedule.combine_position(source) if reduce else None)
        if source == destination:
            copies.append((begin, length, arriving))
        elif destination == rank:
            receives.setdefault(source, []).append(arriving)
        else:
            sends.setdefault(destination, []).append((begin, length))
    read = [span for spans in sends.values() for span in spans] + [(begin, n) for begin, n, _ in copies]
    passed = np.flatnonzero(part.is_passed & (part.source == rank))
    return _RankStep(
        [(peer, rows, _in_place(rows, read)) for peer, rows in sorted(receives.items())],
        sorted(sends.items()),
        copies,
        len(passed),
        int(part.length[passed].sum()),
    )


def _in_place(rows: list[_Arrival], read: list[tuple[int, int]]) -> bool:
    """Return whether a message may be received directly into the work space.

    It must be one range that is not reduced, and must not overwrite elements that the round reads.
    """
    (first, *more) = rows
    if more or first.position is not None:
        return False
    end = first.begin + first.length
    return not any(begin < end and begin + length > first.begin for begin, length in read)


@dataclass
class _PendingRound:
    """Requests of a round, receives first, and what they bring that is not received in place."""

    requests: list[Any]
    n_receives: int
    arrivals: list[tuple[list[_Arrival], AnyArray]]


class Execution:
    """Execution of a schedule by one rank, as far as it has gone.

    Attributes
    ----------
    traffic : ExecutionTraffic
        So far.
    """

    def __init__(
        self,
        comm: Communicator,
        spaces: Sequence[AnyArray],
        steps: Iterator[_RankStep],
        window: int,
        operation: Combination | None,
        position: int,
        tag: int,
    ) -> None:
        self.mpi_comm: Any = comm.mpi_comm if isinstance(comm, MpiCommunicator) else None
        self.mpi: Any = comm.mpi if isinstance(comm, MpiCommunicator) else None
        self.spaces = spaces
        self.dtype = spaces[0].dtype
        self.ends = list(itertools.accumulate(space.size for space in spaces))
        self.steps, self.window = steps, window
        self.operation = operation
        self.position, self.tag = position, tag
        self.traffic = ExecutionTraffic()
        self.pending: deque[_PendingRound] = deque()

    def advance(self, *, wait: bool) -> bool:
        """Go on to the end or, without `wait`, as far as messages have come; return whether it is the end."""
        while True:
            while len(self.pending) < self.window and (step := next(self.steps, None)) is not None:
                self._begin(step)
            if not self.pending:
                return True
            if not self._arrived(self.pending[0], wait):
                return False
            self._finish(self.pending.popleft())

    def _begin(self, step: _RankStep) -> None:
        """Post the receives and sends of a round, and copy the elements that it moves locally."""
        requests: list[Any] = []
        arrivals = []
        for peer, rows, in_place in step.receives:
            if in_place:
                buffer = self._view(rows[0].begin, rows[0].length)
            else:
                buffer = np.empty(sum(row.length for row in rows), self.dtype)
                arrivals.append((rows, buffer))
            requests += [self.mpi_comm.Irecv(piece, peer, self.tag) for piece in _pieces(buffer)]
        n_receives = len(requests)
        for peer, spans in step.sends:
            views = [self._view(begin, length) for begin, length in spans]
            pieces = _pieces(views[0] if len(views) == 1 else np.concatenate(views))
            requests += [self.mpi_comm.Isend(piece, peer, self.tag) for piece in pieces]
            self.traffic.bytes += sum(piece.nbytes for piece in pieces)
        arrivals += [([to], self._view(begin, length).copy()) for begin, length, to in step.copies]
        self.traffic.messages += len(step.sends)
        self.traffic.emulated_messages += step.n_emulated
        self.traffic.emulated_bytes += step.emulated * self.dtype.itemsize
        self.pending.append(_PendingRound(requests, n_receives, arrivals))

    def _arrived(self, pending: _PendingRound, wait: bool) -> bool:
        """Return whether the messages of a round have come and gone."""
        if not pending.requests:
            return True
        statuses = [self.mpi.Status() for _ in pending.requests]
        if wait:
            self.mpi.Request.Waitall(pending.requests, statuses)
        elif not self.mpi.Request.Testall(pending.requests, statuses):
            return False
        received = statuses[: pending.n_receives]
        self.traffic.received += sum(status.Get_count(self.mpi.BYTE) for status in received)
        return True

    def _finish(self, pending: _PendingRound) -> None:
        """Write the received elements of a round."""
        reduced: dict[tuple[int, int], list[tuple[int, AnyArray]]] = {}
        for rows, buffer in pending.arrivals:
            self._put(rows, buffer, reduced)
        for (begin, length), values in reduced.items():
            assert self.operation is not None
            combine_in_rank_order(self._view(begin, length), self.position, values, self.operation)

    def _view(self, begin: int, length: int) -> AnyArray:
        """Return a range of elements of the work space."""
        space = bisect.bisect_right(self.ends, begin)
        offset = begin - self.ends[space] + self.spaces[space].size
        return self.spaces[space][offset : offset + length]

    def _put(
        self,
        rows: list[_Arrival],
        buffer: AnyArray,
        reduced: dict[tuple[int, int], list[tuple[int, AnyArray]]],
    ) -> None:
        """Write elements that are not reduced, and collect those that are in `reduced`."""
        offset = 0
        for row in rows:
            values = buffer[offset : offset + row.length]
            offset += row.length
            if row.position is None:
                self._view(row.begin, row.length)[...] = values
            else:
                reduced.setdefault((row.begin, row.length), []).append((row.position, values))


def _pieces(buffer: AnyArray) -> list[AnyArray]:
    """Return a buffer as byte messages of at most `MESSAGE_BYTES`."""
    flat, most = buffer.view(np.uint8), messages.MESSAGE_BYTES
    return [flat[begin : begin + most] for begin in range(0, flat.size, most)]
