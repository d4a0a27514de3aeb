"""Exchanges that are set up once and started again and again, and the transports of all-to-alls.

Three transports send the same bytes: ``alltoallv`` is one collective call, ``neighbour`` a collective on the
graph of the ranks that exchange anything, ``persistent`` point-to-point messages whose requests are made
once. The last two do no work for pairs of ranks without a message.
"""

from __future__ import annotations

import abc
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from petacomm.base.communication_clock import communicates
from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mpi import message_size as messages

if TYPE_CHECKING:
    from petacomm.mpi.communicator import MpiCommunicator
    from petacomm.mpi.datatypes import Datatypes

Transport: TypeAlias = Literal["alltoallv", "neighbour", "persistent"]
Selection: TypeAlias = slice | Int64Array
# A buffer with the counts and the begins of its parts, as mpi4py takes it.
VectorBuffer: TypeAlias = tuple[AnyArray, tuple[Int64Array, Int64Array]]

_TAG = 11
# Requests and buffers of exchanges that were freed in flight: MPI may still write to these buffers.
_abandoned: list[Any] = []


@dataclass(frozen=True)
class AlltoallvBuffers:
    """Buffers of an all-to-all in which both sides know the counts.

    Attributes
    ----------
    send, receive : array (n,)
        Flat, contiguous, of one dtype.
    send_counts, receive_counts : int64 (size,)
        Elements for each rank and from each rank, in rank order.
    largest : int
        Upper bound, equal on all ranks, of the elements that any rank sends or receives.
    """

    send: AnyArray
    send_counts: Int64Array
    receive: AnyArray
    receive_counts: Int64Array
    largest: int

    def sent_to_others(self, rank: int) -> tuple[int, int]:
        """Return the bytes and the messages that this rank sends to others; `rank` is its number."""
        n_bytes = (self.send.size - int(self.send_counts[rank])) * self.send.itemsize
        return n_bytes, int(np.count_nonzero(self.send_counts) - (self.send_counts[rank] > 0))

    def rounds(
        self, targets: Selection = slice(None), sources: Selection = slice(None)
    ) -> list[tuple[VectorBuffer, VectorBuffer]]:
        """Return what is sent and received in each of the calls that keep messages below `MESSAGE_BYTES`.

        Parameters
        ----------
        targets, sources : slice or array of int
            Ranks whose counts and begins are given; by default all.
        """
        n_bytes = self.largest * self.send.itemsize
        sides = [
            [
                (buffer, (part[selected], (_begins(counts) + begin)[selected]))
                for part, begin in messages.split_counts(counts, n_bytes)
            ]
            for buffer, counts, selected in (
                (self.send, self.send_counts, targets),
                (self.receive, self.receive_counts, sources),
            )
        ]
        return list(zip(*sides, strict=True))


class PersistentExchange(abc.ABC):
    """Communication between fixed buffers that is set up once and started any number of times.

    `start` and `wait` are collective on the ranks that take part, which start their exchanges in the same
    order; `free` is not collective.
    """

    @abc.abstractmethod
    def start(self) -> None:
        """Start to send the send buffers, which must not change before `wait` returns."""

    @abc.abstractmethod
    def wait(self) -> None:
        """Wait until the receive buffers are filled and the send buffers may be overwritten."""

    @abc.abstractmethod
    def free(self) -> None:
        """Free the MPI objects of this exchange, which must not be started again."""

    def run(self) -> None:
        """Start the exchange and wait for it."""
        self.start()
        self.wait()


class EmptyExchange(PersistentExchange):
    """Exchange without messages."""

    def pin(self, *arrays: AnyArray) -> None:
        """Do nothing: no request of MPI uses the arrays."""

    def start(self) -> None:
        pass

    def wait(self) -> None:
        pass

    def free(self) -> None:
        pass


class SerialExchange(EmptyExchange):
    """All-to-all of a single process: a copy."""

    def __init__(self, send: AnyArray, receive: AnyArray) -> None:
        self._send, self._receive = send, receive

    def start(self) -> None:
        self._receive[...] = self._send


class RequestExchange(PersistentExchange):
    """Exchange by MPI requests; they are freed with it at the latest.

    Parameters
    ----------
    comm : MpiCommunicator
    requests : sequence of mpi4py.MPI.Prequest
        Persistent requests. Without any, a subclass fills the list `_requests` in `start`.
    types : Datatypes, optional
        Datatypes of the requests, which are freed after them.
    """

    def __init__(
        self, comm: MpiCommunicator, requests: Sequence[Any] = (), types: Datatypes | None = None
    ) -> None:
        self._mpi = comm.mpi
        self._types = types
        self._requests = list(requests)
        self._pinned: list[AnyArray] = []
        self._frees: list[Callable[[], object]] = [] if types is None else [types.free]
        self._finalizer = weakref.finalize(
            self, _free_requests, self._mpi, self._requests, self._pinned, self._frees
        )

    def pin(self, *arrays: AnyArray) -> None:
        """Keep arrays alive until `wait` returns: MPI knows the addresses of buffers only."""
        self._pinned.extend(arrays)

    @communicates
    def start(self) -> None:
        self._mpi.Prequest.Startall(self._requests)

    @communicates
    def wait(self) -> None:
        self._mpi.Request.Waitall(self._requests)
        self._pinned.clear()

    def free(self) -> None:
        self._finalizer()


def _free_requests(
    mpi: Any, requests: list[Any], pinned: list[AnyArray], frees: list[Callable[[], object]]
) -> None:
    if mpi.Is_finalized():
        return
    if pinned and not mpi.Request.Testall(requests):
        _abandoned.append((requests, list(pinned)))
        return
    for free in [*(request.Free for request in requests if request != mpi.REQUEST_NULL), *frees]:
        free()


class TransportExchange(RequestExchange):
    """All-to-all of one of the transports.

    Parameters
    ----------
    comm : MpiCommunicator
    buffers : AlltoallvBuffers
    """

    name: Transport

    def __init__(self, comm: MpiCommunicator, buffers: AlltoallvBuffers) -> None:
        super().__init__(comm)
        self._comm, self._buffers = comm, buffers
        self._sent = buffers.sent_to_others(comm.rank)
        if buffers.largest:
            self._open()

    @abc.abstractmethod
    def _open(self) -> None:
        """Make the MPI objects that all calls share. Collective."""

    @abc.abstractmethod
    def _begin(self) -> None:
        """Start the requests."""

    @communicates
    def start(self) -> None:
        if self._buffers.largest:
            self._comm.count_traffic(self.name, *self._sent)
            self.pin(self._buffers.send, self._buffers.receive)
            self._begin()


class GatherExchange(RequestExchange):
    """One non-blocking gather of the rows of all ranks, or several where messages would be too large.

    Parameters
    ----------
    comm : MpiCommunicator
    part, counts, array
        As of `MpiCommunicator.allgatherv`.
    """

    def __init__(self, comm: MpiCommunicator, part: AnyArray, counts: Int64Array, array: AnyArray) -> None:
        super().__init__(comm)
        self._comm, self._n_bytes, self._array = comm, part.nbytes, array
        self._calls = gather_rounds(comm.rank, part, counts, array)

    @communicates
    def start(self) -> None:
        self._comm.count_traffic("allgather", self._n_bytes)
        self.pin(self._array, *(sent for sent, _ in self._calls))
        self._requests[:] = [self._comm.mpi_comm.Iallgatherv(*call) for call in self._calls]


def gather_rounds(
    rank: int, part: AnyArray, counts: Int64Array, array: AnyArray
) -> list[tuple[AnyArray, VectorBuffer]]:
    """Return what a rank sends and receives in each call that gathers rows, all below `MESSAGE_BYTES`."""
    width, begins = messages.row_bytes(array), np.cumsum(counts) - counts
    rows, out = messages.as_bytes(part), messages.as_bytes(array)
    return [
        (
            rows[offsets[rank] * width :][: round_counts[rank] * width],
            (out, (round_counts * width, (begins + offsets) * width)),
        )
        for round_counts, offsets in messages.split_counts(counts, len(array) * width)
    ]


class AlltoallvExchange(TransportExchange):
    """One non-blocking all-to-all, or several where messages would be too large."""

    name = "alltoallv"

    def _open(self) -> None:
        self._calls = self._buffers.rounds()

    def _begin(self) -> None:
        self._requests[:] = [self._comm.mpi_comm.Ialltoallv(*call) for call in self._calls]


class NeighborExchange(TransportExchange):
    """Non-blocking neighbourhood all-to-alls on the graph of the ranks that exchange anything."""

    name = "neighbour"

    def _open(self) -> None:
        sources = np.flatnonzero(self._buffers.receive_counts)
        targets = np.flatnonzero(self._buffers.send_counts)
        self._graph = self._comm.mpi_comm.Create_dist_graph_adjacent(
            sources.tolist(), targets.tolist(), reorder=False
        )
        self._frees.append(self._graph.Free)
        self._calls = self._buffers.rounds(targets, sources)

    def _begin(self) -> None:
        self._requests[:] = [self._graph.Ineighbor_alltoallv(*call) for call in self._calls]


class PointToPointExchange(TransportExchange):
    """Persistent point-to-point messages; elements that a rank sends to itself are copied."""

    name = "persistent"

    def _open(self) -> None:
        comm, rank, buffers = self._comm.mpi_comm, self._comm.rank, self._buffers
        self._own_send = buffers.send[_range_of(buffers.send_counts, rank)]
        self._own_receive = buffers.receive[_range_of(buffers.receive_counts, rank)]
        # Receives first, so that no message arrives unexpected.
        for make, buffer, counts in (
            (comm.Recv_init, buffers.receive, buffers.receive_counts),
            (comm.Send_init, buffers.send, buffers.send_counts),
        ):
            self._requests += [
                make(piece, other, _TAG) for other, piece in _message_pieces(buffer, counts, rank)
            ]

    def _begin(self) -> None:
        self._own_receive[...] = self._own_send
        self._mpi.Prequest.Startall(self._requests)


TRANSPORT_EXCHANGES: dict[str, type[TransportExchange]] = {
    exchange.name: exchange for exchange in (AlltoallvExchange, NeighborExchange, PointToPointExchange)
}


def _begins(counts: Int64Array) -> Int64Array:
    return np.cumsum(counts) - counts


def _range_of(counts: Int64Array, rank: int) -> slice:
    begin = int(counts[:rank].sum())
    return slice(begin, begin + int(counts[rank]))


def _message_pieces(buffer: AnyArray, counts: Int64Array, rank: int) -> Iterator[tuple[int, AnyArray]]:
    """Yield each other rank with its part of a buffer, in pieces of at most `MESSAGE_BYTES`."""
    step = max(1, messages.MESSAGE_BYTES // buffer.itemsize)
    begins = _begins(counts)
    for other in np.flatnonzero(counts).tolist():
        if other != rank:
            end = int(begins[other] + counts[other])
            for begin in range(int(begins[other]), end, step):
                yield other, buffer[begin : min(begin + step, end)]
