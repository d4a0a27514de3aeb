"""All-to-alls between fixed buffers, which are started again and again.

Three transports carry the same bytes: ``alltoallv`` is one collective call, ``neighbour`` a collective on the
graph of those ranks that exchange anything, ``persistent`` point-to-point messages whose requests are made
once. The last two do no work for ranks without a message. Ranks start their channels in the same order.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mpi import message_size as messages

if TYPE_CHECKING:
    from petacomm.mpi.communicator import MpiCommunicator

Transport: TypeAlias = Literal["alltoallv", "neighbour", "persistent"]

_TAG = 11
# Buffers of channels that were dropped while messages were on their way: MPI may still write to them.
_dropped: list[Any] = []


class Channel(Protocol):
    """An all-to-all between two buffers that stay where they are. `start` and `wait` are collective."""

    def start(self) -> None:
        """Start to send what the send buffer holds now; it must not change before `wait` returns."""
        ...

    def wait(self) -> None:
        """Wait until the receive buffer is filled and the send buffer is free again."""
        ...

    def free(self) -> None:
        """Give back what MPI keeps for this channel, which must not be started again. Not collective."""
        ...


class SerialChannel:
    """The channel of a single process."""

    def __init__(self, send: AnyArray, receive: AnyArray) -> None:
        self._send, self._receive = send, receive

    def start(self) -> None:
        self._receive[...] = self._send

    def wait(self) -> None:
        pass

    def free(self) -> None:
        pass


class MpiChannel(abc.ABC):
    """What the transports have in common.

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
        self._flying = False
        if not self._idle:
            self._open(send_counts, receive_counts, largest * send.itemsize)

    @abc.abstractmethod
    def _open(self, send_counts: Int64Array, receive_counts: Int64Array, n_bytes: int) -> None:
        """Make what all calls share. Collective."""

    @abc.abstractmethod
    def _begin(self) -> None:
        """Start the requests."""

    def _close(self) -> None:  # noqa: B027
        """Give back what `_open` took: nothing, unless a transport says otherwise."""

    def start(self) -> None:
        if self._idle:
            return
        self._comm.count(self.name, self._n_bytes)
        self._flying = True
        self._begin()

    def wait(self) -> None:
        if self._flying:
            self._comm.mpi.Request.Waitall(self._requests)
            self._flying = False

    def free(self) -> None:
        if self._idle or self._comm.mpi.Is_finalized():
            return
        self._idle = True
        if self._flying and not self._comm.mpi.Request.Testall(self._requests):
            _dropped.append((self._send, self._receive, self._requests))
            return
        self._close()

    def __del__(self) -> None:
        # A plan that is dropped gives back its requests; one that failed while it was made has none.
        if not getattr(self, "_idle", True):
            self.free()


class AlltoallvChannel(MpiChannel):
    """One non-blocking all-to-all, or several where messages would be too large."""

    name = "alltoallv"

    def _open(self, send_counts: Int64Array, receive_counts: Int64Array, n_bytes: int) -> None:
        send_begins, receive_begins = _begins(send_counts), _begins(receive_counts)
        self._calls = [
            ((self._send, (sent, send_begins + at)), (self._receive, (got, receive_begins + got_at)))
            for (sent, at), (got, got_at) in zip(
                messages.rounds(send_counts, n_bytes), messages.rounds(receive_counts, n_bytes), strict=True
            )
        ]

    def _begin(self) -> None:
        self._requests = [self._comm.mpi_comm.Ialltoallv(send, receive) for send, receive in self._calls]


class NeighbourChannel(MpiChannel):
    """The same on the graph of ranks that exchange anything."""

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
                messages.rounds(send_counts, n_bytes), messages.rounds(receive_counts, n_bytes), strict=True
            )
        ]

    def _begin(self) -> None:
        self._requests = [self._graph.Ineighbor_alltoallv(send, receive) for send, receive in self._calls]

    def _close(self) -> None:
        self._graph.Free()


class PersistentChannel(MpiChannel):
    """Point-to-point messages; the rows that a rank sends to itself are copied."""

    name = "persistent"

    def _open(self, send_counts: Int64Array, receive_counts: Int64Array, n_bytes: int) -> None:
        comm, rank = self._comm.mpi_comm, self._comm.rank
        to, at = _own(send_counts, rank), _own(receive_counts, rank)
        self._mine, self._here = self._send[to], self._receive[at]
        # Receives first, so that no message arrives unexpected.
        self._requests = [
            comm.Recv_init(part, other, _TAG) for other, part in _parts(self._receive, receive_counts, rank)
        ]
        self._requests += [
            comm.Send_init(part, other, _TAG) for other, part in _parts(self._send, send_counts, rank)
        ]

    def _begin(self) -> None:
        self._here[...] = self._mine
        self._comm.mpi.Prequest.Startall(self._requests)

    def _close(self) -> None:
        for request in self._requests:
            request.Free()


CHANNELS: dict[str, type[MpiChannel]] = {
    kind.name: kind for kind in (AlltoallvChannel, NeighbourChannel, PersistentChannel)
}


def _begins(counts: Int64Array) -> Int64Array:
    return np.cumsum(counts) - counts


def _own(counts: Int64Array, rank: int) -> slice:
    begin = int(counts[:rank].sum())
    return slice(begin, begin + int(counts[rank]))


def _parts(buffer: AnyArray, counts: Int64Array, rank: int) -> Iterator[tuple[int, AnyArray]]:
    """Each other rank with its part of a buffer, in pieces that are not too large."""
    step = max(1, messages.MESSAGE_BYTES // buffer.itemsize)
    begins = _begins(counts)
    for other in np.flatnonzero(counts).tolist():
        if other != rank:
            end = int(begins[other] + counts[other])
            for begin in range(int(begins[other]), end, step):
                yield other, buffer[begin : min(begin + step, end)]
