"""Exchanges of selected rows between ranks, and between owners and ghosts."""

from __future__ import annotations

import functools
from collections.abc import Generator
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ResourceError
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.options import ReductionOptions
from petacomm.mpi.autotuner import choose_fastest
from petacomm.mpi.communicator import Communicator, MpiCommunicator, Operation
from petacomm.mpi.persistent import AlltoallvBuffers, PersistentExchange
from petacomm.redistribution.indexed_rows import IndexedRowExchange
from petacomm.redistribution.row_lists import RowLists
from petacomm.sharing.index_map import rows_of_keys
from petacomm.sharing.sharing_graph import counting_sort

# Positions in message buffers are int32.
_MOST_ROWS = 2**31 - 1

_T = TypeVar("_T")

# A call in steps: it yields where it would wait for messages.
CallSteps: TypeAlias = Generator[None, None, None]


def run_steps(steps: Generator[None, None, _T]) -> _T:
    """Run all steps of a call, and return the result of the last one."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result


class GrowingBuffer:
    """Memory that is kept between calls and grows if a call needs more."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes of the memory."""
        return self._bytes.nbytes

    def rows(self, n: int, like: AnyArray) -> AnyArray:
        """Return `n` uninitialised rows with the width and dtype of those of `like` (any, k)."""
        n_bytes = n * like.shape[1] * like.itemsize
        if len(self._bytes) < n_bytes:
            self._bytes = np.empty(n_bytes, np.uint8)
        return self._bytes[:n_bytes].view(like.dtype).reshape(n, like.shape[1])


class _RowBuffers(NamedTuple):
    """Buffers for rows of one width and dtype, and the exchange between them."""

    send: AnyArray
    receive: AnyArray
    exchange: PersistentExchange


class RowExchange:
    """Exchange of selected rows of a vector with other ranks. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    positions : int32 (sum of send_counts,)
        Rows to send, in the order of their destination ranks.
    send_counts, receive_counts : int64 (size,)
        Number of rows for each rank and from each rank.
    options : ReductionOptions

    Attributes
    ----------
    rows : RowLists
        Rows to send, a list for each rank.
    n_received : int
        Number of rows received.

    Raises
    ------
    ResourceError
        On all ranks, if any rank would send or receive 2^31 rows or more.
    """

    def __init__(
        self,
        comm: Communicator,
        positions: Int32Array,
        send_counts: Int64Array,
        receive_counts: Int64Array,
        options: ReductionOptions,
    ) -> None:
        self.comm = comm
        self.rows = RowLists.from_positions(positions, send_counts)
        self.send_counts = send_counts
        self.receive_counts = receive_counts
        self.options = options
        self.n_received = int(receive_counts.sum())
        self.largest = int(comm.max(max(len(positions), self.n_received)))
        if self.largest > _MOST_ROWS:
            raise ResourceError(
                f"a rank would exchange {self.largest} rows at once",
                mend="use more ranks, or another reduction",
            )
        self._send, self._receive = GrowingBuffer(), GrowingBuffer()
        self._buffers: dict[tuple[int, str], _RowBuffers] = {}
        self._row_bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the lists of rows."""
        return self.rows.nbytes + self.send_counts.nbytes + self.receive_counts.nbytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the message buffers."""
        return self._send.nbytes + self._receive.nbytes

    def run(self, values: AnyArray) -> Generator[None, None, AnyArray]:
        """Exchange rows of `values` (n, k); the received rows are valid until the next call."""
        buffers = self._buffers_for(values)
        self._start(buffers, values)
        yield
        buffers.exchange.wait()
        return buffers.receive

    def _start(self, buffers: _RowBuffers, values: AnyArray) -> None:
        if isinstance(buffers.exchange, IndexedRowExchange):
            buffers.exchange.bind(values)
        else:
            self.rows.take(values, buffers.send, self.options.n_threads)
        buffers.exchange.start()

    def _buffers_for(self, values: AnyArray) -> _RowBuffers:
        """Return the buffers for rows like those of `values`; collective for the first rows of a kind."""
        k = values.shape[1]
        kind = (k, values.dtype.str)
        if kind not in self._buffers:
            if k * values.itemsize > self._row_bytes:
                # All kinds share the memory of the widest rows; all ranks drop the old memory when it grows.
                self._row_bytes = k * values.itemsize
                self._buffers.clear()
            send = self._send.rows(self.rows.n_rows, values)
            receive = self._receive.rows(self.n_received, values)
            exchange = self.comm.persistent_exchange(
                self.options.transport,
                AlltoallvBuffers(
                    send.reshape(-1),
                    self.send_counts * k,
                    receive.reshape(-1),
                    self.receive_counts * k,
                    self.largest * k,
                ),
            )
            self._buffers[kind] = self._choose_packing(_RowBuffers(send, receive, exchange), values)
        return self._buffers[kind]

    def _choose_packing(self, packed: _RowBuffers, values: AnyArray) -> _RowBuffers:
        """Return buffers with an exchange that packs rows or not, by the options or by timing. Collective."""
        if self.options.packing == "packed" or not isinstance(self.comm, MpiCommunicator):
            return packed
        rows = self.rows
        indexed = packed._replace(
            exchange=IndexedRowExchange(
                self.comm, rows.starts, rows.lengths, rows.bounds, packed.receive, self.receive_counts
            )
        )
        if self.options.packing == "indexed":
            return indexed

        def call(buffers: _RowBuffers) -> None:
            self._start(buffers, values)
            buffers.exchange.wait()

        n_runs = self.comm.sum(len(rows.starts))
        subject = (
            "pixels",
            self.comm.sum(rows.n_rows),
            n_runs,
            self.largest,
            values.shape[1],
            values.dtype.str,
        )
        candidates = {"packed": packed, "indexed": indexed}
        calls = {name: functools.partial(call, buffers) for name, buffers in candidates.items()}
        return candidates[choose_fastest(self.comm, (*subject, self.options.transport), calls).name]


class OwnerExchange:
    """Exchanges between owners and ghosts, the keys of a rank that another rank owns. Collective.

    Parameters
    ----------
    comm : Communicator
    ghost_rows : int32 (sum of to_owner_counts,)
        Rows of this rank's ghosts, in the order of their owners.
    to_owner_counts : int64 (size,)
        Ghosts that each rank owns; none for this rank.
    owned_rows : int32 (sum of to_ghost_counts,)
        Rows of which each rank has ghosts, increasing for each rank and in the order of its `ghost_rows`.
    to_ghost_counts : int64 (size,)
        Number of these rows for each rank.
    options : ReductionOptions

    Attributes
    ----------
    to_owner_counts, to_ghost_counts : int64 (size,)
        Number of rows sent to each rank as owner of ghosts, and as holder of ghosts.
    """

    def __init__(
        self,
        comm: Communicator,
        ghost_rows: Int32Array,
        to_owner_counts: Int64Array,
        owned_rows: Int32Array,
        to_ghost_counts: Int64Array,
        options: ReductionOptions,
    ) -> None:
        self.to_owner_counts, self.to_ghost_counts = to_owner_counts, to_ghost_counts
        self.rank, self.n_threads = comm.rank, options.n_threads
        self.to_owners = RowExchange(comm, ghost_rows, to_owner_counts, to_ghost_counts, options)
        self.to_ghosts = RowExchange(comm, owned_rows, to_ghost_counts, to_owner_counts, options)

    @classmethod
    def of_sorted_keys(
        cls,
        comm: Communicator,
        keys: Int64Array,
        owner: npt.NDArray[np.integer],
        options: ReductionOptions,
    ) -> OwnerExchange:
        """Return the exchanges of rows in the order of this rank's keys. Collective.

        Parameters
        ----------
        comm : Communicator
        keys : int64 (n_keys,)
            Keys of this rank, sorted.
        owner : integer (n_keys,)
            Rank that owns each key.
        options : ReductionOptions
        """
        ghosts = np.flatnonzero(owner != comm.rank)
        order, bounds = counting_sort(owner[ghosts].astype(np.int32), comm.size)
        ghosts = ghosts[order]
        to_owner_counts = np.diff(bounds)
        requested, to_ghost_counts = comm.alltoallv(keys[ghosts], to_owner_counts)
        owned_rows = rows_of_keys(keys, requested)
        return cls(comm, ghosts.astype(np.int32), to_owner_counts, owned_rows, to_ghost_counts, options)

    @property
    def nbytes(self) -> int:
        """Bytes of the lists of rows."""
        return self.to_owners.nbytes + self.to_ghosts.nbytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the message buffers."""
        return self.to_owners.buffer_bytes + self.to_ghosts.buffer_bytes

    def reduce(self, values: AnyArray, op: Operation) -> CallSteps:
        """Reduce the values of all holders onto the owners; values of ghosts do not change."""
        received = yield from self.to_owners.run(values)
        # The rows that are sent to ghosts are those that their values are added to.
        self.to_ghosts.rows.combine(received, self.rank, op, values, self.n_threads)

    def broadcast(self, values: AnyArray) -> CallSteps:
        """Overwrite the values of ghosts with those of their owners."""
        received = yield from self.to_ghosts.run(values)
        self.to_owners.rows.put(received, values, self.n_threads)
