"""One all-to-all of chosen rows, and the two patterns made of it."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

import numpy as np

from petamap.base.typing import AnyArray, Int32Array, Int64Array
from petamap.comm._comm import Operation as KernelOperation
from petamap.comm._comm import combine, pack, unpack
from petamap.comm.mpi.communicator import Communicator, Operation
from petamap.comm.reduction.graph import rank_ordered, ranks_of
from petamap.comm.reduction.index_map import find

_OPERATIONS = {
    "sum": KernelOperation.sum,
    "max": KernelOperation.max,
    "min": KernelOperation.min,
    "or": KernelOperation.bit_or,
}

_T = TypeVar("_T")

# Work that yields wherever it would wait for messages.
Steps: TypeAlias = Generator[None, None, None]


def finish(steps: Generator[None, None, _T]) -> _T:
    """Run steps to their end, waiting wherever they wait, and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result


class Buffer:
    """Memory that is kept between calls, and grows where a call needs more."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def rows(self, n: int, like: AnyArray) -> AnyArray:
        """Return `n` uninitialised rows as those of `like` (any, k)."""
        n_bytes = n * like.shape[1] * like.itemsize
        if len(self._bytes) < n_bytes:
            self._bytes = np.empty(n_bytes, np.uint8)
        return self._bytes[:n_bytes].view(like.dtype).reshape(n, like.shape[1])


class Exchange:
    """Send chosen rows of a vector to other ranks, and receive theirs. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    positions : int32 (sum of send_counts,)
        Rows to send, in the order of the ranks they go to.
    send_counts, receive_counts : int64 (size,)
        Rows for each rank and from each rank.
    n_threads : int
        Threads that pack.
    """

    def __init__(
        self,
        comm: Communicator,
        positions: Int32Array,
        send_counts: Int64Array,
        receive_counts: Int64Array,
        n_threads: int,
    ) -> None:
        self.comm = comm
        self.positions = positions
        self.send_counts = send_counts
        self.receive_counts = receive_counts
        self.n_threads = n_threads
        self.n_received = int(receive_counts.sum())
        self.largest = int(comm.max(max(len(positions), self.n_received)))
        self._send, self._receive = Buffer(), Buffer()

    def run(self, values: AnyArray) -> Generator[None, None, AnyArray]:
        """Exchange rows of `values` (n, k); the rows received are valid until the next call."""
        k = values.shape[1]
        send = self._send.rows(len(self.positions), values)
        receive = self._receive.rows(self.n_received, values)
        pack(values, self.positions, send, self.n_threads)
        yield
        self.comm.exchange(
            send.reshape(-1),
            self.send_counts * k,
            receive.reshape(-1),
            self.receive_counts * k,
            self.largest * k,
        )
        return receive


class Reducer:
    """Reduce received rows into a vector, in rank order.

    Parameters
    ----------
    positions, ranks : int32 (n,)
        For each received row, the position it belongs to and the rank it came from.
    rank : int
        This rank, whose own values take part.
    """

    def __init__(self, positions: Int32Array, ranks: Int32Array, rank: int, n_threads: int) -> None:
        self.shared, self.offsets, _, self.sources = rank_ordered(positions, ranks, rank)
        self.n_threads = n_threads

    def run(self, received: AnyArray, op: Operation, values: AnyArray) -> None:
        """Reduce `received` (n, k) into `values` (n_keys, k)."""
        combine(received, self.shared, self.offsets, self.sources, _OPERATIONS[op], values, self.n_threads)


class OwnerExchange:
    """Rows from ghosts to their owners and back; a ghost is a key that another rank owns. Collective.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_keys,)
    owner : int32 (n_keys,)
        The rank that owns each key.
    n_threads : int
    """

    def __init__(self, comm: Communicator, keys: Int64Array, owner: Int32Array, n_threads: int) -> None:
        ghosts = np.flatnonzero(owner != comm.rank)
        self.ghosts = ghosts[np.argsort(owner[ghosts], kind="stable")].astype(np.int32)
        self.ghost_counts = np.bincount(owner[ghosts], minlength=comm.size).astype(np.int64)
        asked, self.asked_counts = comm.alltoallv(keys[self.ghosts], self.ghost_counts)
        asked_positions = find(keys, asked)
        self.n_threads = n_threads
        self.to_owners = Exchange(comm, self.ghosts, self.ghost_counts, self.asked_counts, n_threads)
        self.to_ghosts = Exchange(comm, asked_positions, self.asked_counts, self.ghost_counts, n_threads)
        self.reducer = Reducer(asked_positions, ranks_of(self.asked_counts), comm.rank, n_threads)

    def reduce(self, values: AnyArray, op: Operation) -> Steps:
        """Reduce the values of all holders onto the owners; ghosts keep theirs."""
        received = yield from self.to_owners.run(values)
        self.reducer.run(received, op, values)

    def broadcast(self, values: AnyArray) -> Steps:
        """Overwrite ghosts with the values of their owners."""
        received = yield from self.to_ghosts.run(values)
        unpack(received, self.ghosts, values, self.n_threads)
