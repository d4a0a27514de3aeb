"""The interface of communicators, and its implementation over mpi4py.

Code above this room is written once, for any number of ranks: `world` returns a `SerialCommunicator`
unless a launcher has started several processes. All methods but `abort` are collective.
"""

from __future__ import annotations

import functools
import math
import os
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, cast

import numpy as np

from petacomm.base.communication_clock import communicates
from petacomm.base.control_groups import processor_quota
from petacomm.base.errors import ConfigError
from petacomm.base.phases import clear_note
from petacomm.base.threads import allowed_processors, asked_threads
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.mpi import message_size as messages
from petacomm.mpi import shared_memory
from petacomm.mpi.launch import load_mpi, load_mpi_of_program
from petacomm.mpi.persistent import (
    TRANSPORT_EXCHANGES,
    AlltoallvBuffers,
    GatherExchange,
    PersistentExchange,
    Transport,
    gather_rounds,
)
from petacomm.mpi.shared_memory import SharedWindow
from petacomm.mpi.sparse_alltoall import exchange_by_consensus

# Ranks from which the exchange of counts between all ranks takes longer than a sparse exchange itself.
SPARSE_SIZE = 1000

Operation: TypeAlias = Literal["sum", "max", "min", "or"]


@dataclass
class CollectiveTraffic:
    """Number of calls of one collective, and bytes of the buffers or objects that this rank passed to it.

    Messages are those to single ranks, in exchanges of known counts. In all other calls MPI sends as it
    pleases: these have no messages here, and are counted as collectives.
    """

    calls: int = 0
    bytes: int = 0
    messages: int = 0


# Names in `traffic` of exchanges whose messages are known.
_EXCHANGES = frozenset({"alltoallv", "neighbour", "persistent", "indexed", "consensus"})


class Communicator(Protocol):
    """Group of ranks that communicate with each other.

    Attributes
    ----------
    rank, size : int
        Number of this process, and of all processes.
    sparse_size : int
        Number of ranks from which `sparse_alltoallv` does not exchange counts between all ranks.
    mpi_library : str or None
        Version string of the MPI library; None without MPI.
    traffic : dict of str to CollectiveTraffic
        Calls and bytes by collective; bytes that a rank sends to itself in an all-to-all do not count.
    """

    rank: int
    size: int
    sparse_size: int
    mpi_library: str | None
    traffic: dict[str, CollectiveTraffic]

    @property
    def bytes_sent(self) -> int:
        """Bytes of all buffers passed to collectives so far."""

    @property
    def messages_sent(self) -> int:
        """Messages from this rank to single others so far."""

    @property
    def collectives_called(self) -> int:
        """Calls so far of collectives in which MPI sends as it pleases."""

    def allreduce(self, array: AnyArray, op: Operation = "sum") -> AnyArray:
        """Reduce a contiguous array over all ranks, in place, and return it."""

    def reduce_scatter(self, array: AnyArray, counts: Int64Array, part: AnyArray, op: Operation) -> None:
        """Reduce `array` (sum of counts, k) over all ranks; rank r gets its `counts[r]` rows in `part`."""

    def allgatherv(self, part: AnyArray, counts: Int64Array, array: AnyArray) -> None:
        """Fill `array` (sum of counts, k) with the `counts[r]` rows of every rank r, in rank order."""

    def gather_exchange(self, part: AnyArray, counts: Int64Array, array: AnyArray) -> PersistentExchange:
        """Return an exchange that does as `allgatherv`, beside which this rank can do other work."""

    def sum(self, value: int) -> int:
        """Return the sum over ranks of an integer."""

    def max(self, value: float) -> float:
        """Return the maximum over ranks of a number."""

    def bcast(self, value: Any, root: int = 0) -> Any:
        """Return the object that `root` passed."""

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        """Return the objects of all ranks in rank order on `root`, None elsewhere."""

    def allgather(self, value: Any) -> list[Any]:
        """Return the objects of all ranks in rank order."""

    def allgather_rows(self, rows: AnyArray) -> tuple[AnyArray, Int64Array]:
        """Return the rows of all ranks in rank order, and the number of rows of each."""

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

    def sparse_alltoallv(self, rows: AnyArray, counts: Int64Array) -> tuple[AnyArray, Int64Array]:
        """Do as `alltoallv`; from `sparse_size` ranks on, counts of 0 cost nothing."""

    def alltoallv_into(self, buffers: AlltoallvBuffers) -> None:
        """Do an all-to-all between buffers of the caller."""

    def persistent_exchange(self, transport: Transport, buffers: AlltoallvBuffers) -> PersistentExchange:
        """Return an exchange between fixed buffers that can be started any number of times."""

    def gather_rows(self, rows: AnyArray, root: int = 0) -> AnyArray | None:
        """Return the rows of all ranks in rank order on `root`, None elsewhere; arrays may be of any size."""

    def barrier(self) -> None:
        """Wait until all ranks have called this."""

    def node_size(self) -> int:
        """Return the number of ranks that share memory with this one, itself included."""

    def threads(self) -> int:
        """Return the number of threads that keep this rank's part of the processors of its node busy.

        Each processor is divided among the ranks that may use it: ranks that the launcher has bound to
        processors of their own have all of these, others share. ``OMP_NUM_THREADS`` may make it less.
        """

    def node(self) -> Communicator:
        """Return the communicator of the ranks that share memory with this one, the same at each call.

        ``PETAMAP_RANKS_PER_NODE=n`` makes nodes of n consecutive ranks of each machine, to emulate several
        nodes.
        """

    def peers(self) -> Communicator:
        """Return the communicator of the ranks with the same rank in their nodes as this one, by node.

        It is the same at each call. Nodes with fewer ranks are not in it.
        """

    @property
    def node_of(self) -> Int32Array:
        """Node of each rank, int32 (size,); nodes are numbered in the order of their lowest ranks."""

    def split(self, color: int) -> Communicator:
        """Return the communicator of all ranks that pass the same color, in the order of their ranks."""

    def shared_window(self, n_bytes: int) -> SharedWindow:
        """Return zeroed memory that the ranks of each node share, `n_bytes` of them contributed by this rank.

        It is freed when the last rank has dropped all arrays in it, without synchronisation.

        Raises
        ------
        ResourceError
            On all ranks, if any node has no room for it.
        """

    def abort(self, code: int) -> NoReturn:
        """End all ranks at once with exit code `code`. Not collective."""


class MpiCommunicator:
    """Communicator over mpi4py.

    Parameters
    ----------
    mpi_comm : mpi4py.MPI.Comm, optional
        By default MPI_COMM_WORLD. It is duplicated, so that messages of other libraries cannot interfere.
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
        self.traffic: dict[str, CollectiveTraffic] = {}
        self._n_sparse = 0  # exchanges by consensus so far
        self._node_size: int | None = None
        self._operations = {
            "sum": self.mpi.SUM,
            "max": self.mpi.MAX,
            "min": self.mpi.MIN,
            "or": self.mpi.BOR,
        }

    @classmethod
    def of_handle(cls, handle: int) -> MpiCommunicator:
        """Return the communicator over that of a program in C or Fortran, the same in each call. Collective.

        Parameters
        ----------
        handle : int
            Of Fortran (``MPI_Comm_c2f``), which does not depend on how mpi4py was compiled.

        Raises
        ------
        ConfigError
            If it is an inter-communicator, on all of its ranks, or none.
        """
        mpi = load_mpi_of_program()
        theirs = mpi.Comm.f2py(handle)
        if theirs == mpi.COMM_NULL:
            raise ConfigError("MPI_COMM_NULL is no communicator", mend="call on ranks that have one")
        if theirs.Is_inter():
            raise ConfigError("an inter-communicator", mend="give one of all ranks: MPI_Intercomm_merge")
        key = _attribute(mpi)
        found = theirs.Get_attr(key)
        if found is None:
            found = cls(theirs)
            theirs.Set_attr(key, found)
        return cast(MpiCommunicator, found)

    @property
    def handle(self) -> int:
        """Fortran's handle of the communicator."""
        return int(self.mpi_comm.py2f())

    @property
    def bytes_sent(self) -> int:
        return sum(traffic.bytes for traffic in self.traffic.values())

    @property
    def messages_sent(self) -> int:
        return sum(traffic.messages for traffic in self.traffic.values())

    @property
    def collectives_called(self) -> int:
        return sum(traffic.calls for name, traffic in self.traffic.items() if name not in _EXCHANGES)

    def count_traffic(self, name: str, n_bytes: int, n_messages: int = 0) -> None:
        """Add a call of a collective to the traffic."""
        traffic = self.traffic.setdefault(name, CollectiveTraffic())
        traffic.calls += 1
        traffic.bytes += n_bytes
        traffic.messages += n_messages

    @communicates
    def allreduce(self, array: AnyArray, op: Operation = "sum") -> AnyArray:
        if not array.flags.c_contiguous:
            raise ValueError("allreduce works in place: the array must be contiguous")
        if array.dtype == np.uint8 and op == "sum":
            # Open MPI's vector code saturates at 255, where all other code wraps around.
            array[...] = self.allreduce(array.astype(np.int64)).astype(np.uint8)
            return array
        flat = array.reshape(-1).view(np.uint8 if array.dtype == np.bool_ else array.dtype)
        step = max(1, messages.MESSAGE_BYTES // flat.itemsize)
        for begin in range(0, flat.size, step):
            part = flat[begin : begin + step]
            self.mpi_comm.Allreduce(self.mpi.IN_PLACE, part, self._operations[op])
            self.count_traffic("allreduce", part.nbytes)
        return array

    @communicates
    def reduce_scatter(self, array: AnyArray, counts: Int64Array, part: AnyArray, op: Operation) -> None:
        if array.dtype == np.uint8 and op == "sum":
            wide = np.empty(part.shape, np.int64)
            self.reduce_scatter(array.astype(np.int64), counts, wide, op)
            part[...] = wide.astype(np.uint8)
            return
        ends, flat, out = np.cumsum(counts) * array.shape[1], array.reshape(-1), part.reshape(-1)
        step, done = max(1, messages.MESSAGE_BYTES // array.itemsize), 0
        for begin in range(0, flat.size, step):
            piece = flat[begin : begin + step]
            counts_of_piece = np.diff(np.clip(ends, begin, begin + len(piece)), prepend=begin)
            own = out[done : done + int(counts_of_piece[self.rank])]
            self.mpi_comm.Reduce_scatter(piece, own, counts_of_piece, self._operations[op])
            self.count_traffic("reduce_scatter", piece.nbytes)
            done += len(own)

    @communicates
    def allgatherv(self, part: AnyArray, counts: Int64Array, array: AnyArray) -> None:
        for call in gather_rounds(self.rank, part, counts, array):
            self.mpi_comm.Allgatherv(*call)
        self.count_traffic("allgather", part.nbytes)

    def gather_exchange(self, part: AnyArray, counts: Int64Array, array: AnyArray) -> PersistentExchange:
        return GatherExchange(self, part, counts, array)

    def sum(self, value: int) -> int:
        return int(self.allreduce(np.array([value], np.int64), "sum")[0])

    def max(self, value: float) -> float:
        return float(self.allreduce(np.array([value], np.float64), "max")[0])

    @communicates
    def bcast(self, value: Any, root: int = 0) -> Any:
        content = np.empty(0, np.uint8)
        if self.rank == root:  # bytes are sent as they are: mpi4py would pickle them once more
            content = np.frombuffer(self.mpi.pickle.dumps(value), np.uint8)
        length = np.array([len(content)], np.int64)
        self.mpi_comm.Bcast(length, root)
        self.count_traffic("bcast", len(content))
        if self.rank != root:
            content = np.empty(length[0], np.uint8)
        for begin in range(0, len(content), messages.MESSAGE_BYTES):
            self.mpi_comm.Bcast(content[begin : begin + messages.MESSAGE_BYTES], root)
        return self.mpi.pickle.loads(content)

    @communicates
    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        content, here = self.mpi.pickle.dumps(value), self.rank == root
        counts = np.zeros(self.size, np.int64)
        self.mpi_comm.Gather(np.array([len(content)], np.int64), counts, root)
        self.count_traffic("gather", len(content))
        lengths, byte = counts.tolist(), self.mpi.BYTE
        received = bytearray(sum(lengths))
        self.mpi_comm.Gatherv([content, byte], [received, lengths, byte] if here else None, root)
        return self._unpickled(received, lengths) if here else None

    @communicates
    def allgather(self, value: Any) -> list[Any]:
        content, counts = self.mpi.pickle.dumps(value), np.empty(self.size, np.int64)
        self.mpi_comm.Allgather(np.array([len(content)], np.int64), counts)
        lengths, byte = counts.tolist(), self.mpi.BYTE
        received = bytearray(sum(lengths))
        if len(received) <= messages.MESSAGE_BYTES:
            # As bytes and lists, which take mpi4py a third of the time of arrays.
            self.mpi_comm.Allgatherv([content, byte], [received, lengths, byte])
            self.count_traffic("allgather", len(content))
        else:
            self.allgatherv(np.frombuffer(content, np.uint8), counts, np.frombuffer(received, np.uint8))
        return self._unpickled(received, lengths)

    def _unpickled(self, content: bytearray, lengths: list[int]) -> list[Any]:
        """Return the objects of all ranks, of so many bytes each."""
        view, ends = memoryview(content), accumulate(lengths)
        return [self.mpi.pickle.loads(view[begin:end]) for begin, end in pairwise([0, *ends])]

    @communicates
    def allgather_rows(self, rows: AnyArray) -> tuple[AnyArray, Int64Array]:
        counts = np.empty(self.size, np.int64)
        self.mpi_comm.Allgather(np.array([len(rows)], np.int64), counts)
        self.count_traffic("allgather", 8)
        received = np.empty((int(counts.sum()), *rows.shape[1:]), rows.dtype)
        self.allgatherv(rows, counts, received)
        return received, counts

    @communicates
    def alltoallv(self, rows: AnyArray, counts: Int64Array) -> tuple[AnyArray, Int64Array]:
        received_counts = np.empty_like(counts)
        self.mpi_comm.Alltoall(counts, received_counts)
        self.count_traffic("alltoall", counts.nbytes)
        received = np.empty((int(received_counts.sum()), *rows.shape[1:]), rows.dtype)
        width = messages.row_bytes(rows)
        largest = int(self.allreduce(np.array([max(len(rows), len(received))], np.int64), "max")[0])
        send, receive = messages.as_bytes(rows), messages.as_bytes(received)
        self.alltoallv_into(
            AlltoallvBuffers(send, counts * width, receive, received_counts * width, largest * width)
        )
        return received, received_counts

    @communicates
    def sparse_alltoallv(self, rows: AnyArray, counts: Int64Array) -> tuple[AnyArray, Int64Array]:
        width = messages.row_bytes(rows)
        if self.size < self.sparse_size or not width:
            return self.alltoallv(rows, counts)
        # Not of `traffic`, which communicators may share: those of this one alone follow each other.
        self._n_sparse += 1
        received, received_counts = exchange_by_consensus(
            self, messages.as_bytes(rows), counts * width, self._n_sparse
        )
        n_others = int(np.count_nonzero(counts) - (counts[self.rank] > 0))
        self.count_traffic("consensus", rows.nbytes - int(counts[self.rank]) * width, n_others)
        return received.view(rows.dtype).reshape(-1, *rows.shape[1:]), received_counts // width

    @communicates
    def alltoallv_into(self, buffers: AlltoallvBuffers) -> None:
        if buffers.largest:
            self.count_traffic("alltoallv", *buffers.sent_to_others(self.rank))
            for send, receive in buffers.rounds():
                self.mpi_comm.Alltoallv(send, receive)

    def persistent_exchange(self, transport: Transport, buffers: AlltoallvBuffers) -> PersistentExchange:
        return TRANSPORT_EXCHANGES[transport](self, buffers)

    def gather_rows(self, rows: AnyArray, root: int = 0) -> AnyArray | None:
        counts = np.zeros(self.size, np.int64)
        counts[root] = len(rows)
        received, _ = self.alltoallv(rows, counts)
        return received if self.rank == root else None

    @communicates
    def barrier(self) -> None:
        self.mpi_comm.Barrier()
        self.count_traffic("barrier", 0)

    def node_size(self) -> int:
        if self._node_size is None:
            node = self.mpi_comm.Split_type(self.mpi.COMM_TYPE_SHARED)
            self._node_size = int(node.Get_size())
            node.Free()
        return self._node_size

    def threads(self) -> int:
        node, own = self.mpi_comm.Split_type(self.mpi.COMM_TYPE_SHARED), allowed_processors()
        n_users = np.zeros(node.allreduce(own[-1] + 1, self.mpi.MAX), np.int64)
        n_users[own] = 1
        node.Allreduce(self.mpi.IN_PLACE, n_users, self.mpi.SUM)
        quota = (processor_quota() or math.inf) / int(node.Get_size())
        node.Free()
        part = float(np.sum(1 / n_users[own]))
        return max(1, math.floor(min(part, quota, asked_threads()) + 1e-9))

    def node(self) -> MpiCommunicator:
        return self._node.comm

    def peers(self) -> MpiCommunicator:
        return self._peers

    @property
    def node_of(self) -> Int32Array:
        return self._node.node_of

    def split(self, color: int) -> MpiCommunicator:
        return self._duplicate(self.mpi_comm.Split(color, self.rank))

    def shared_window(self, n_bytes: int) -> SharedWindow:
        return shared_memory.shared_window(self, self._node, n_bytes)

    @functools.cached_property
    def _node(self) -> shared_memory.Node:
        # Made in the first call that needs it, which is collective as well.
        return shared_memory.find_node(self)

    @functools.cached_property
    def _peers(self) -> MpiCommunicator:
        # Made in the first call, like the node. Its traffic counts as that of this communicator.
        peers = self._duplicate(self.mpi_comm.Split(self.node().rank, int(self.node_of[self.rank])))
        peers.traffic = self.traffic
        return peers

    @staticmethod
    def _duplicate(mpi_comm: Any) -> MpiCommunicator:
        made = MpiCommunicator(mpi_comm)
        mpi_comm.Free()
        return made

    def abort(self, code: int) -> NoReturn:
        clear_note()
        # MPI would add lines of its own to the error message that has just been printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        self.mpi.COMM_WORLD.Abort(code)
        raise SystemExit(code)


@functools.cache
def _attribute(mpi: Any) -> int:
    """Return the key under which a program's communicator keeps the one over it: handles are used again."""
    return int(mpi.Comm.Create_keyval())
