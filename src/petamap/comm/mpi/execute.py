"""Schedules on real buffers, over MPI: what is checked and timed is what is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from petamap.base.typing import AnyArray
from petamap.comm.mpi import messages
from petamap.comm.mpi.communicator import Communicator, MpiCommunicator, Operation
from petamap.comm.schedule import Round, Schedule, ScheduleError, combine

_TAG = 21

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
    """Execute a schedule. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
        With as many ranks as the schedule.
    schedule : Schedule
        The same on all ranks.
    spaces : sequence of array
        This rank's work space: flat contiguous arrays of one dtype, one after the other. No message may lie
        in two of them.
    op : str
        What combines values where they are reduced.

    Returns
    -------
    Moved

    Raises
    ------
    ScheduleError
        If ranks or arrays do not fit the schedule.
    """
    if comm.size != schedule.n_ranks:
        raise ScheduleError(
            f"a schedule of {schedule.n_ranks} ranks and {comm.size} processes", mend="make it for as many"
        )
    if sum(space.size for space in spaces) != schedule.n_elements:
        raise ScheduleError(
            f"{sum(space.size for space in spaces)} elements, and a schedule of {schedule.n_elements}",
            mend="make it for as many",
        )
    execution = _Execution(comm, schedule, spaces, OPERATIONS[op])
    for _, part in schedule.of_rank(comm.rank):
        execution.begin(part)
    execution.finish_all()
    return execution.moved


@dataclass
class _Arrival:
    """What comes from one rank in one round: its rows, and a buffer if it is not received in its place."""

    rows: Round
    buffer: AnyArray | None


class _Execution:
    """The rounds of one rank: begun in turn, and finished when there are more than may be under way."""

    def __init__(
        self,
        comm: Communicator,
        schedule: Schedule,
        spaces: Sequence[AnyArray],
        operation: Callable[..., Any],
    ) -> None:
        self.comm = comm
        self.mpi_comm: Any = comm.mpi_comm if isinstance(comm, MpiCommunicator) else None
        self.schedule = schedule
        self.spaces = spaces
        self.begins = np.cumsum([0, *(space.size for space in spaces)])
        self.operation = operation
        self.moved = Moved()
        # Only what is never sent on may arrive while later rounds are under way.
        blocks = schedule.blocks
        direct = blocks is not None and schedule.n_elements == blocks.send_size + blocks.receive_size
        self.window = schedule.window or 1 if direct else 1
        self.under_way: deque[tuple[list[Any], list[Any], list[_Arrival]]] = deque()

    def begin(self, part: Round) -> None:
        """Post the receives and sends of a round, and make its copies in memory."""
        part = part.take(part.length > 0)
        rank = self.comm.rank
        incoming = part.take((part.destination == rank) & part.moves)
        outgoing = part.take((part.source == rank) & part.moves)
        own = part.take(part.source == part.destination)
        read = [(row.begin, row.begin + row.length) for row in (outgoing, own)]
        receives: list[Any] = []
        sends: list[Any] = []
        arrivals = []
        for peer in np.unique(incoming.source):
            rows = incoming.take(incoming.source == peer)
            arrivals.append(self._receive(int(peer), rows, read, receives))
        for peer in np.unique(outgoing.destination):
            self._send(int(peer), outgoing.take(outgoing.destination == peer), sends)
        self._count_copies(outgoing)
        if len(own):
            arrivals.append(_Arrival(own, self._packed(own, copy=True)))
        self.under_way.append((receives, sends, arrivals))
        while len(self.under_way) >= self.window:
            self._finish()

    def finish_all(self) -> None:
        """Wait for all that is under way."""
        while self.under_way:
            self._finish()

    def _count_copies(self, outgoing: Round) -> None:
        """Count the rows of lines that end farther on."""
        line = outgoing.line
        passed = np.flatnonzero((line[:-1] == line[1:]) & (line[1:] >= 0))
        self.moved.emulated_messages += len(passed)
        self.moved.emulated_bytes += int(outgoing.length[passed].sum()) * self.spaces[0].itemsize

    def _view(self, begin: int, length: int) -> AnyArray:
        """Return elements of the work space."""
        space = int(np.searchsorted(self.begins, begin, "right")) - 1
        offset = begin - int(self.begins[space])
        return self.spaces[space][offset : offset + length]

    def _packed(self, rows: Round, copy: bool = False) -> AnyArray:
        """Return the elements of rows, one after the other: where they lie, if it is one row."""
        views = [self._view(int(b), int(n)) for b, n in zip(rows.begin, rows.length, strict=True)]
        return np.concatenate(views) if copy or len(views) > 1 else views[0]

    def _receive(
        self, peer: int, rows: Round, read: list[tuple[AnyArray, AnyArray]], requests: list[Any]
    ) -> _Arrival:
        begin, end = int(rows.destination_begin[0]), int(rows.destination_begin[0] + rows.length[0])
        clashes = any(np.any((first < end) & (last > begin)) for first, last in read)
        if len(rows) == 1 and not rows.reduce[0] and not clashes:
            arrival = _Arrival(rows, None)
            buffer = self._view(begin, end - begin)
        else:
            buffer = np.empty(int(rows.length.sum()), self.spaces[0].dtype)
            arrival = _Arrival(rows, buffer)
        for piece in _pieces(buffer):
            requests.append(self.mpi_comm.Irecv(piece, peer, _TAG))
        return arrival

    def _send(self, peer: int, rows: Round, requests: list[Any]) -> None:
        for piece in _pieces(self._packed(rows)):
            requests.append(self.mpi_comm.Isend(piece, peer, _TAG))
            self.moved.bytes += piece.nbytes
        self.moved.messages += 1

    def _finish(self) -> None:
        """Wait for the oldest round, and write what came."""
        receives, sends, arrivals = self.under_way.popleft()
        if receives or sends:
            self._wait(receives, sends)
        reduced: dict[tuple[int, int], list[tuple[int, AnyArray]]] = {}
        for arrival in arrivals:
            if arrival.buffer is not None:
                self._put(arrival.rows, arrival.buffer, reduced)
        place = self.schedule.place(self.comm.rank)
        for (begin, length), values in reduced.items():
            combine(self._view(begin, length), place, values, self.operation)

    def _wait(self, receives: list[Any], sends: list[Any]) -> None:
        assert isinstance(self.comm, MpiCommunicator)
        statuses = [self.comm.mpi.Status() for _ in receives]
        self.comm.mpi.Request.Waitall(receives, statuses)
        self.moved.received += sum(status.Get_count(self.comm.mpi.BYTE) for status in statuses)
        self.comm.mpi.Request.Waitall(sends)

    def _put(
        self, rows: Round, buffer: AnyArray, reduced: dict[tuple[int, int], list[tuple[int, AnyArray]]]
    ) -> None:
        """Write what is not reduced, and note what is, by its place."""
        ends = np.cumsum(rows.length)
        places = zip(rows.source, rows.destination_begin, rows.length, ends, rows.reduce, strict=True)
        for source, begin, length, end, reduce in places:
            values = buffer[end - length : end]
            if reduce:
                arrived = (self.schedule.place(int(source)), values)
                reduced.setdefault((int(begin), int(length)), []).append(arrived)
            else:
                self._view(int(begin), int(length))[...] = values


def _pieces(buffer: AnyArray) -> list[AnyArray]:
    """Cut a buffer into messages that no MPI finds too long, as bytes."""
    flat, most = buffer.view(np.uint8), messages.MESSAGE_BYTES
    return [flat[begin : begin + most] for begin in range(0, flat.size, most)]
