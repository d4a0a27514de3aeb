"""Exchanges that are set up once and started again and again, and the transports of all-to-alls.

Three transports send the same bytes: ``alltoallv`` is one collective call, ``neighbour`` a collective on the
graph of the ranks that exchange anything, ``persistent`` point-to-point messages whose requests are made
once. The last two do no work for pairs of ranks without a message.
"""

from __future__ import annotations

import abc
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mpi import message_size as messages

if TYPE_CHECKING:
    from petacomm.mpi.communicator import MpiCommunicator

Transport: TypeAlias = Literal["alltoallv", "neighbour", "persistent"]

_TAG = 11
# Requests and buffers of exchanges that were freed in flight: MPI may still write to these buffers.
_abandoned: list[Any] = []


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


class SerialExchange(PersistentExchange):
    """All-to-all of a single process: a copy."""

    def __init__(self, send: AnyArray, receive: AnyArray) -> None:
        self._send, self._receive = send, receive

    def start(self) -> None:
        self._receive[...] = self._send

    def wait(self) -> None:
        pass

    def free(self) -> None:
        pass


class RequestExchange(PersistentExchange):
    """Exchange by MPI requests; they are freed with it at the latest.

    Parameters
    ----------
    comm : MpiCommunicator
    requests : sequence of mpi4py.MPI.Prequest
        Persistent requests. Without any, a subclass fills the list `_requests` in `start`.
    """

    def __init__(self, comm: MpiCommunicator, requests: Sequence[Any]) -> None:
        self._mpi = comm.mpi
        self._requests = list(requests)
        self._pinned: list[AnyArray] = []
        self._finalizer = weakref.finalize(self, _free_requests, self._mpi, self._requests, self._pinned)

    def pin(self, *arrays: AnyArray) -> None:
        """Keep arrays alive until `wait` returns: MPI knows the addresses of buffers only."""
        self._pinned.extend(arrays)

    def start(self) -> None:
        self._mpi.Prequest.Startall(self._requests)

    def wait(self) -> None:
        self._mpi.Request.Waitall(self._requests)
        self._pinned.clear()

    def free(self) -> None:
        self._finalizer()


def _free_requests(mpi: Any, requests: list[Any], pinned: list[AnyArray]) -> None:
    if mpi.Is_finalized() or not requests:
        return
    if pinned and not mpi.Request.Testall(requests):
        _abandoned.append((requests, list(pinned)))
        return
    for request in requests:
        if request != mpi.REQUEST_NULL:
            request.Free()


class TransportExchange(PersistentExchange):
    """All-to-all of one of the transports.

    Parameters
    ----------
    comm : MpiCommunicator
    send, receive : array (n,)
        Flat, contiguous, of one dtype.
    send_counts, receive_counts : int64 (size,)
        Elements for each rank and from each rank, in rank order.
    largest : int
        Upper bound, equal on all ranks, of the elements that any rank sends or receives.
    """

    name: Transport

    def __init__(
        self,
        comm: MpiCommunicator,
        send: AnyArray,
        send_counts: Int64Array,
        receive: AnyArray,
        receive_counts: Int64Array,
        largest: int,
    ) -> None:
        self._comm = comm
        self._send, self._receive = send, receive
        self._n_bytes = (send.size - int(send_counts[comm.rank])) * send.itemsize
        self._requests: list[Any] = []
        self._idle = largest == 0
        self._pending = False
        if not self._idle:
            self._open(send_counts, receive_counts, largest * send.itemsize)

    @abc.abstractmethod
    def _open(self, send_counts: Int64Array, receive_counts: Int64Array, n_bytes: int) -> None:
        """Make the MPI objects that all calls share. Collective."""

    @abc.abstractmethod
    def _begin(self) -> None:
        """Start the requests."""

    def _close(self) -> None:
        """Free the MPI objects made by `_open`; by default there are none."""

    def start(self) -> None:
        if self._idle:
            return
        self._comm.count_traffic(self.name, self._n_bytes)
        self._pending = True
        self._begin()

    def wait(self) -> None:
        if self._pending:
            self._comm.mpi.Request.Waitall(self._requests)
            self._pending = False

    def free(self) -> None:
        if self._idle or self._comm.mpi.Is_finalized():
            return
        self._idle = True
        if self._pending and not self._comm.mpi.Request.Testall(self._requests):
            _abandoned.append((self._send, self._receive, self._requests))
            return
        self._close()

    def __del__(self) -> None:
        # An exchange whose constructor failed has no attribute `_idle`.
        if not getattr(self, "_idle", True):
            self.free()


class AlltoallvExchange(TransportExchange):
    """One non-blocking all-to-all, or several where messages would be too large."""

    name = "alltoallv"

    def _open(self, send_counts: Int64Array, receive_counts: Int64Array, n_bytes: int) -> None:
        send_begins, receive_begins = _begins(send_counts), _begins(receive_counts)
        self._calls = [
            ((self._send, (sent, send_begins + at)), (self._receive, (got, receive_begins + got_at)))
            for (sent, at), (got, got_at) in zip(
                messages.split_counts(send_counts, n_bytes),
                messages.split_counts(receive_counts, n_bytes),
                strict=True,
            )
        ]

    def _begin(self) -> None:
        self._requests = [self._comm.mpi_comm.Ialltoallv(send, receive) for send, receive in self._calls]


class NeighborExchange(TransportExchange):
    """Non-blocking neighbourhood all-to-alls on the graph of the ranks that exchange anything."""

    name = "neighbour"

    def _open(self, send_counts: Int64Array, receive_counts: Int64Array, n_bytes: int) -> None:
        sources, targets = np.flatnonzero(receive_counts), np.flatnonzero(send_counts)
        self._graph = self._comm.mpi_comm.Create_dist_graph_adjacent(
            sources.tolist(), targets.tolist(), reorder=False
        )
        send_begins, receive_begins = _begins(send_counts), _begins(receive_counts)
        self._calls = [
            (
                (self._send, (sent[targets], (send_begins + at)[targets])),
                (self._receive, (got[sources], (receive_begins + got_at)[sources])),
            )
            for (sent, at), (got, got_at) in zip(
                messages.split_counts(send_counts, n_bytes),
                messages.split_counts(receive_counts, n_bytes),
                strict=True,
            )
        ]

    def _begin(self) -> None:
        self._requests = [self._graph.Ineighbor_alltoallv(send, receive) for send, receive in self._calls]

    def _close(self) -> None:
        self._graph.Free()


class PointToPointExchange(TransportExchange):
    """Persistent point-to-point messages; elements that a rank sends to itself are copied."""

    name = "persistent"

    def _open(self, send_counts: Int64Array, receive_counts: Int64Array, n_bytes: int) -> None:
        comm, rank = self._comm.mpi_comm, self._comm.rank
        self._own_send = self._send[_range_of(send_counts, rank)]
        self._own_receive = self._receive[_range_of(receive_counts, rank)]
        # Receives first, so that no message arrives unexpected.
        self._requests = [
            comm.Recv_init(piece, other, _TAG)
            for other, piece in _message_pieces(self._receive, receive_counts, rank)
        ]
        self._requests += [
            comm.Send_init(piece, other, _TAG)
            for other, piece in _message_pieces(self._send, send_counts, rank)
        ]

    def _begin(self) -> None:
        self._own_receive[...] = self._own_send
        self._comm.mpi.Prequest.Startall(self._requests)

    def _close(self) -> None:
        for request in self._requests:
            request.Free()


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
