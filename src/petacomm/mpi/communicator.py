"""The communicator: the collectives that petamap uses, and they over mpi4py.

Code above this room is written once, for any number of ranks: `world` returns a `SerialCommunicator`
unless a launcher has started several processes. Every method but `abort` is collective.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Protocol, TypeAlias

import numpy as np

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.mpi import message_size as messages
from petacomm.mpi import shared_memory as nodes
from petacomm.mpi.launch import load_mpi
from petacomm.mpi.persistent import CHANNELS, Channel, Transport
from petacomm.mpi.shared_memory import SharedWindow
from petacomm.mpi.sparse_alltoall import exchange_by_consensus

# Where telling everyone how much comes takes longer than what there is to send.
SPARSE_SIZE = 1000

Operation: TypeAlias = Literal["sum", "max", "min", "or"]


@dataclass
class Traffic:
    """Calls of one collective, and the bytes of the buffers that this rank handed to it."""

    calls: int = 0
    bytes: int = 0


class Communicator(Protocol):
    """A group of ranks that talk to each other.

    Attributes
    ----------
    rank, size : int
        This process, and how many there are.
    sparse_size : int
        The number of ranks from which `sparse_alltoallv` does without counts from everyone.
    mpi_library : str or None
        The MPI library, in its own words; None without MPI.
    traffic : dict of str to Traffic
        Calls and bytes by collective; what a rank sends to itself is not counted in an all-to-all.
    """

    rank: int
    size: int
    sparse_size: int
    mpi_library: str | None
    traffic: dict[str, Traffic]

    @property
    def bytes_sent(self) -> int:
        """Bytes of all buffers handed over so far."""
        ...

    def allreduce(self, array: AnyArray, op: Operation = "sum") -> AnyArray:
        """Reduce a contiguous array over all ranks, in place, and return it."""
        ...

    def reduce_scatter(self, array: AnyArray, counts: Int64Array, part: AnyArray, op: Operation) -> None:
        """Reduce `array` (sum of counts, k) over all ranks; rank r gets its `counts[r]` rows, in `part`."""
        ...

    def gather_parts(self, part: AnyArray, counts: Int64Array, array: AnyArray) -> None:
        """Fill `array` (sum of counts, k) with the `counts[r]` rows of every rank r, in rank order."""
        ...

    def sum(self, value: int) -> int:
        """Return the sum of one integer a rank."""
        ...

    def max(self, value: float) -> float:
        """Return the largest of one number a rank."""
        ...

    def bcast(self, value: Any, root: int = 0) -> Any:
        """Return the object of `root`."""
        ...

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        """Return one object a rank in rank order on `root`, None elsewhere."""
        ...

    def allgather(self, value: Any) -> list[Any]:
        """Return one object a rank in rank order."""
        ...

    def allgather_rows(self, rows: AnyArray) -> tuple[AnyArray, Int64Array]:
        """Return the rows of all ranks in rank order, and how many came from each."""
        ...

    def alltoallv(self, rows: AnyArray, counts: Int64Array) -> tuple[AnyArray, Int64Array]:
        """Send `counts[r]` rows to each rank r, in rank order.

        Parameters
        ----------
        rows : array (sum of counts, ...)
            Any dtype without Python objects; the same dtype and row shape on all ranks.
        counts : int64 (size,)
            Rows for each rank.

        Returns
        -------
        received : array (sum of received counts, ...)
            Rows in the order of the ranks that sent them.
        received_counts : int64 (size,)
            Rows from each rank.
        """
        ...

    def sparse_alltoallv(self, rows: AnyArray, counts: Int64Array) -> tuple[AnyArray, Int64Array]:
        """As `alltoallv`, for counts most of which are 0: from `sparse_size` ranks on, no work for those."""
        ...

    def exchange(
        self,
        send: AnyArray,
        send_counts: Int64Array,
        receive: AnyArray,
        receive_counts: Int64Array,
        largest: int,
    ) -> None:
        """All-to-all into a buffer made by the caller: `alltoallv` where both sides know the counts.

        Counts are in elements of the (flat, contiguous) buffers; `largest` is an upper bound, equal on
        all ranks, of the elements that any rank sends or receives.
        """
        ...

    def channel(
        self,
        kind: Transport,
        send: AnyArray,
        send_counts: Int64Array,
        receive: AnyArray,
        receive_counts: Int64Array,
        largest: int,
    ) -> Channel:
        """Return an `exchange` between fixed buffers that can be started again and again."""
        ...

    def gather_rows(self, rows: AnyArray, root: int = 0) -> AnyArray | None:
        """Return the rows of all ranks in rank order on `root`, None elsewhere; for arrays of any size."""
        ...

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        ...

    def node_size(self) -> int:
        """Return how many ranks share this rank's memory."""
        ...

    def node(self) -> Communicator:
        """Return the communicator of the ranks that share memory with this one, the same at each call.

        ``PETAMAP_RANKS_PER_NODE=n`` makes nodes of n consecutive ranks of each machine, to try what
        several nodes would do.
        """
        ...

    def peers(self) -> Communicator:
        """Return the communicator of the ranks with this one's number in their nodes, node after node.

        The same at each call; nodes that are too small for the number are not in it.
        """
        ...

    @property
    def node_of(self) -> Int32Array:
        """The node of each rank, int32 (size,); nodes are numbered by their lowest ranks."""
        ...

    def group(self, number: int) -> Communicator:
        """Return the communicator of all ranks that say the same number, in the order of their ranks."""
        ...

    def shared(self, n_bytes: int) -> SharedWindow:
        """Return memory shared by the ranks of each node, zero at first, to which this rank adds `n_bytes`.

        It goes back when the last rank has dropped all arrays on it; nobody waits for that.

        Raises
        ------
        ResourceError
            On all ranks, if any node has no room for it.
        """
        ...

    def abort(self, code: int) -> NoReturn:
        """End all ranks at once with exit code `code`. Not collective."""
        ...


class MpiCommunicator:
    """All ranks of an MPI communicator.

    Parameters
    ----------
    mpi_comm : mpi4py.MPI.Comm, optional
        By default MPI's world. It is duplicated, so that messages of others never meet ours.
    """

    def __init__(self, mpi_comm: Any = None) -> None:
        self.mpi = load_mpi()
        self.mpi_comm = (mpi_comm if mpi_comm is not None else self.mpi.COMM_WORLD).Dup()
        self.rank = int(self.mpi_comm.Get_rank())
        self.size = int(self.mpi_comm.Get_size())
        self.mpi_library: str | None = " ".join(self.mpi.Get_library_version().split("\n")[0].split()).strip(
            "\0"
        )
        self.sparse_size = SPARSE_SIZE
        self.traffic: dict[str, Traffic] = {}
        self._node_size: int | None = None
        self._operations = {
            "sum": self.mpi.SUM,
            "max": self.mpi.MAX,
            "min": self.mpi.MIN,
            "or": self.mpi.BOR,
        }

    @property
    def bytes_sent(self) -> int:
        return sum(traffic.bytes for traffic in self.traffic.values())

    def count(self, name: str, n_bytes: int) -> None:
        """Add a call to the traffic."""
        traffic = self.traffic.setdefault(name, Traffic())
        traffic.calls += 1
        traffic.bytes += n_bytes

    def allreduce(self, array: AnyArray, op: Operation = "sum") -> AnyArray:
        if not array.flags.c_contiguous:
            raise ValueError("allreduce works in place: the array must be contiguous")
        if array.dtype == np.uint8 and op == "sum":
            # Open MPI's vector code saturates at 255 where all others wrap around.
            array[...] = self.allreduce(array.astype(np.int64)).astype(np.uint8)
            return array
        flat = array.reshape(-1).view(np.uint8 if array.dtype == np.bool_ else array.dtype)
        step = max(1, messages.MESSAGE_BYTES // flat.itemsize)
        for begin in range(0, flat.size, step):
            part = flat[begin : begin + step]
            self.mpi_comm.Allreduce(self.mpi.IN_PLACE, part, self._operations[op])
            self.count("allreduce", part.nbytes)
        return array

    def reduce_scatter(self, array: AnyArray, counts: Int64Array, part: AnyArray, op: Operation) -> None:
        if array.dtype == np.uint8 and op == "sum":
            wide = np.empty(part.shape, np.int64)
            self.reduce_scatter(array.astype(np.int64), counts, wide, op)
            part[...] = wide.astype(np.uint8)
            return
        ends, flat, out = np.cumsum(counts) * array.shape[1], array.reshape(-1), part.reshape(-1)
        step, done = max(1, messages.MESSAGE_BYTES // array.itemsize), 0
        for begin in range(0, flat.size, step):
            few = flat[begin : begin + step]
            shares = np.diff(np.clip(ends, begin, begin + len(few)), prepend=begin)
            mine = out[done : done + int(shares[self.rank])]
            self.mpi_comm.Reduce_scatter(few, mine, shares, self._operations[op])
            self.count("reduce_scatter", few.nbytes)
            done += len(mine)

    def gather_parts(self, part: AnyArray, counts: Int64Array, array: AnyArray) -> None:
        width, begins = _width(array), np.cumsum(counts) - counts
        rows, out = _as_bytes(part), _as_bytes(array)
        for few, offsets in messages.rounds(counts, len(array) * width):
            self.mpi_comm.Allgatherv(
                rows[offsets[self.rank] * width :][: few[self.rank] * width],
                (out, (few * width, (begins + offsets) * width)),
            )
        self.count("allgather", part.nbytes)

    def sum(self, value: int) -> int:
        return int(self.allreduce(np.array([value], np.int64), "sum")[0])

    def max(self, value: float) -> float:
        return float(self.allreduce(np.array([value], np.float64), "max")[0])

    def bcast(self, value: Any, root: int = 0) -> Any:
        return self.mpi_comm.bcast(value, root)

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        result: list[Any] | None = self.mpi_comm.gather(value, root)
        return result

    def allgather(self, value: Any) -> list[Any]:
        result: list[Any] = self.mpi_comm.allgather(value)
        return result

    def allgather_rows(self, rows: AnyArray) -> tuple[AnyArray, Int64Array]:
        counts = np.empty(self.size, np.int64)
        self.mpi_comm.Allgather(np.array([len(rows)], np.int64), counts)
        received = np.empty((int(counts.sum()), *rows.shape[1:]), rows.dtype)
        self.gather_parts(rows, counts, received)
        return received, counts

    def alltoallv(self, rows: AnyArray, counts: Int64Array) -> tuple[AnyArray, Int64Array]:
        received_counts = np.empty_like(counts)
        self.mpi_comm.Alltoall(counts, received_counts)
        self.count("alltoall", counts.nbytes)
        received = np.empty((int(received_counts.sum()), *rows.shape[1:]), rows.dtype)
        width = _width(rows)
        largest = int(self.allreduce(np.array([max(len(rows), len(received))], np.int64), "max")[0])
        self.exchange(
            _as_bytes(rows), counts * width, _as_bytes(received), received_counts * width, largest * width
        )
        return received, received_counts

    def sparse_alltoallv(self, rows: AnyArray, counts: Int64Array) -> tuple[AnyArray, Int64Array]:
        if self.size < self.sparse_size:
            return self.alltoallv(rows, counts)
        width = _width(rows)
        turn = self.traffic.setdefault("consensus", Traffic()).calls
        received, received_counts = exchange_by_consensus(self, _as_bytes(rows), counts * width, turn)
        self.count("consensus", rows.nbytes - int(counts[self.rank]) * width)
        return received.view(rows.dtype).reshape(-1, *rows.shape[1:]), received_counts // width

    def exchange(
        self,
        send: AnyArray,
        send_counts: Int64Array,
        receive: AnyArray,
        receive_counts: Int64Array,
        largest: int,
    ) -> None:
        if not largest:
            return
        self.count("alltoallv", (send.size - int(send_counts[self.rank])) * send.itemsize)
        n_bytes = largest * send.itemsize
        if n_bytes <= messages.MESSAGE_BYTES:
            self.mpi_comm.Alltoallv((send, send_counts), (receive, receive_counts))
            return
        send_begins = np.concatenate([[0], np.cumsum(send_counts)[:-1]])
        receive_begins = np.concatenate([[0], np.cumsum(receive_counts)[:-1]])
        for (sent, send_at), (got, got_at) in zip(
            messages.rounds(send_counts, n_bytes), messages.rounds(receive_counts, n_bytes), strict=True
        ):
            self.mpi_comm.Alltoallv(
                (send, (sent, send_begins + send_at)), (receive, (got, receive_begins + got_at))
            )

    def channel(
        self,
        kind: Transport,
        send: AnyArray,
        send_counts: Int64Array,
        receive: AnyArray,
        receive_counts: Int64Array,
        largest: int,
    ) -> Channel:
        return CHANNELS[kind](self, send, send_counts, receive, receive_counts, largest)

    def gather_rows(self, rows: AnyArray, root: int = 0) -> AnyArray | None:
        counts = np.zeros(self.size, np.int64)
        counts[root] = len(rows)
        received, _ = self.alltoallv(rows, counts)
        return received if self.rank == root else None

    def barrier(self) -> None:
        self.mpi_comm.Barrier()

    def node_size(self) -> int:
        if self._node_size is None:
            node = self.mpi_comm.Split_type(self.mpi.COMM_TYPE_SHARED)
            self._node_size = int(node.Get_size())
            node.Free()
        return self._node_size

    def node(self) -> MpiCommunicator:
        return self._node.comm

    def peers(self) -> MpiCommunicator:
        return self._peers

    @property
    def node_of(self) -> Int32Array:
        return self._node.node_of

    def group(self, number: int) -> MpiCommunicator:
        split = self.mpi_comm.Split(number, self.rank)
        made = MpiCommunicator(split)
        split.Free()
        return made

    def shared(self, n_bytes: int) -> SharedWindow:
        return nodes.shared_window(self, self._node, n_bytes)

    @functools.cached_property
    def _node(self) -> nodes.Node:
        # Found in the first call that needs it, which is collective as well.
        return nodes.find_node(self)

    @functools.cached_property
    def _peers(self) -> MpiCommunicator:
        # As the node; what is sent there is sent by this communicator.
        split = self.mpi_comm.Split(self.node().rank, int(self.node_of[self.rank]))
        peers = MpiCommunicator(split)
        split.Free()
        peers.traffic = self.traffic
        return peers

    def abort(self, code: int) -> NoReturn:
        # MPI would add lines of its own to the message that has just been said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        self.mpi.COMM_WORLD.Abort(code)
        raise SystemExit(code)


def _width(rows: AnyArray) -> int:
    """Bytes of one row, also of an array without rows."""
    return rows.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))


def _as_bytes(rows: AnyArray) -> AnyArray:
    return np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
