"""One all-to-all of chosen rows, and the two patterns made of it."""

from __future__ import annotations

import functools
from collections.abc import Generator
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ResourceError
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.options import Options
from petacomm.mpi.autotuner import choose_fastest
from petacomm.mpi.communicator import Communicator, MpiCommunicator, Operation
from petacomm.mpi.persistent import Channel
from petacomm.redistribution.indexed_rows import IndexedRows
from petacomm.redistribution.row_lists import RowLists
from petacomm.sharing.index_map import find
from petacomm.sharing.sharing_graph import counting_order

# Positions in message buffers are int32.
_MOST_ROWS = 2**31 - 1

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

    @property
    def nbytes(self) -> int:
        """Bytes that it has."""
        return self._bytes.nbytes

    def rows(self, n: int, like: AnyArray) -> AnyArray:
        """Return `n` uninitialised rows as those of `like` (any, k)."""
        n_bytes = n * like.shape[1] * like.itemsize
        if len(self._bytes) < n_bytes:
            self._bytes = np.empty(n_bytes, np.uint8)
        return self._bytes[:n_bytes].view(like.dtype).reshape(n, like.shape[1])


class _Lane(NamedTuple):
    """The buffers of an exchange for rows of one kind, and the channel between them."""

    send: AnyArray
    receive: AnyArray
    channel: Channel
    typed: IndexedRows | None


class Exchange:
    """Send chosen rows of a vector to other ranks, and receive theirs. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    positions : int32 (sum of send_counts,)
        Rows to send, in the order of the ranks they go to.
    send_counts, receive_counts : int64 (size,)
        Rows for each rank and from each rank.
    options : Options

    Attributes
    ----------
    rows : RowLists
        Those to send, a list for each rank.
    n_received : int

    Raises
    ------
    ResourceError
        If a rank would send or receive 2^31 rows or more; on all ranks.
    """

    def __init__(
        self,
        comm: Communicator,
        positions: Int32Array,
        send_counts: Int64Array,
        receive_counts: Int64Array,
        options: Options,
    ) -> None:
        self.comm = comm
        self.rows = RowLists.of(positions, send_counts)
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
        self._send, self._receive = Buffer(), Buffer()
        self._lanes: dict[tuple[int, str], _Lane] = {}
        self._row_bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the lists that it keeps."""
        return self.rows.nbytes + self.send_counts.nbytes + self.receive_counts.nbytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of its message buffers."""
        return self._send.nbytes + self._receive.nbytes

    def run(self, values: AnyArray) -> Generator[None, None, AnyArray]:
        """Exchange rows of `values` (n, k); the rows received are valid until the next call."""
        lane = self._lane(values)
        self._start(lane, values)
        yield
        (lane.typed or lane.channel).wait()
        return lane.receive

    def _start(self, lane: _Lane, values: AnyArray) -> None:
        if lane.typed is not None:
            lane.typed.start(values)
        else:
            self.rows.take(values, lane.send, self.options.n_threads)
            lane.channel.start()

    def _lane(self, values: AnyArray) -> _Lane:
        """Return what moves rows like those of `values`; collective when they are the first of their kind."""
        k = values.shape[1]
        kind = (k, values.dtype.str)
        if kind not in self._lanes:
            if k * values.itemsize > self._row_bytes:
                # All kinds share the memory of the largest; where it grows, ranks let go of the old one.
                self._row_bytes = k * values.itemsize
                self._lanes.clear()
            send = self._send.rows(self.rows.n_rows, values)
            receive = self._receive.rows(self.n_received, values)
            channel = self.comm.channel(
                self.options.transport,
                send.reshape(-1),
                self.send_counts * k,
                receive.reshape(-1),
                self.receive_counts * k,
                self.largest * k,
            )
            self._lanes[kind] = self._tuned(_Lane(send, receive, channel, None), values)
        return self._lanes[kind]

    def _tuned(self, packed: _Lane, values: AnyArray) -> _Lane:
        """Return a lane that packs, or one that does not: as told, or as the clock says. Collective."""
        if self.options.packing == "packed" or not isinstance(self.comm, MpiCommunicator):
            return packed
        rows = self.rows
        typed = packed._replace(
            typed=IndexedRows(
                self.comm, rows.starts, rows.lengths, rows.bounds, packed.receive, self.receive_counts
            )
        )
        if self.options.packing == "indexed":
            return typed

        def call(lane: _Lane) -> None:
            self._start(lane, values)
            (lane.typed or lane.channel).wait()

        n_runs = self.comm.sum(len(rows.starts))
        what = ("pixels", self.comm.sum(rows.n_rows), n_runs, self.largest, values.shape[1], values.dtype.str)
        lanes = {"packed": packed, "indexed": typed}
        ways = {name: functools.partial(call, lane) for name, lane in lanes.items()}
        return lanes[choose_fastest(self.comm, (*what, self.options.transport), ways).name]


class OwnerExchange:
    """Rows from ghosts to their owners and back; a ghost is a key that another rank owns. Collective.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_keys,)
    owner : integer (n_keys,)
        The rank that owns each key.
    options : Options
    """

    def __init__(
        self,
        comm: Communicator,
        keys: Int64Array,
        owner: npt.NDArray[np.integer],
        options: Options,
    ) -> None:
        ghosts = np.flatnonzero(owner != comm.rank)
        order, bounds = counting_order(owner[ghosts].astype(np.int32), comm.size)
        ghosts = ghosts[order]
        self.ghost_counts = np.diff(bounds)
        asked, self.asked_counts = comm.alltoallv(keys[ghosts], self.ghost_counts)
        asked_rows = find(keys, asked)
        self.rank, self.n_threads = comm.rank, options.n_threads
        ghost_rows = ghosts.astype(np.int32)
        self.to_owners = Exchange(comm, ghost_rows, self.ghost_counts, self.asked_counts, options)
        self.to_ghosts = Exchange(comm, asked_rows, self.asked_counts, self.ghost_counts, options)

    @property
    def nbytes(self) -> int:
        """Bytes of the lists that it keeps."""
        return self.to_owners.nbytes + self.to_ghosts.nbytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of its message buffers."""
        return self.to_owners.buffer_bytes + self.to_ghosts.buffer_bytes

    def reduce(self, values: AnyArray, op: Operation) -> Steps:
        """Reduce the values of all holders onto the owners; ghosts keep theirs."""
        received = yield from self.to_owners.run(values)
        # What others ask for is where their values go.
        self.to_ghosts.rows.combine(received, self.rank, op, values, self.n_threads)

    def broadcast(self, values: AnyArray) -> Steps:
        """Overwrite ghosts with the values of their owners."""
        received = yield from self.to_ghosts.run(values)
        self.to_owners.rows.put(received, values, self.n_threads)
