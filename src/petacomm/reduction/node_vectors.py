"""Vectors of all ranks of a node, in memory that they share."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import AnyArray, BoolArray, Int64Array, UInt8Array
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution.row_lists import RowLists
from petacomm.reduction.node_union import NodeUnion
from petacomm.reduction.row_runs import NodeValues
from petacomm.sharing.sharing_graph import SharingGraph

# Number of a vector that is not in shared memory, of which a copy is used.
_COPY = 0


class _Vector(NamedTuple):
    """Vector made by `NodeVectors.empty`: its number, and the bytes of a row and of its memory."""

    number: int
    row_bytes: int
    n_bytes: int


class NodeVectors:
    """Access to the vectors of all ranks of a node during a call. Collective on `comm`.

    Vectors made by `empty` on all ranks are used in place. Shared rows of any other vectors are copied to
    shared memory before the call, and back after it. A call consists of `begin`, `gather` and `finish`.

    Parameters
    ----------
    comm : Communicator
    row_offsets : int64 (n_node + 1,)
        First row of each rank of the node, and the end.
    shared : RowLists
        Rows of keys that other ranks hold, too, as one list.
    owned : bool (n_keys,)
        Whether this rank owns each key.
    n_threads : int
        Threads of copies.
    """

    def __init__(
        self,
        comm: Communicator,
        row_offsets: Int64Array,
        shared: RowLists,
        owned: BoolArray,
        n_threads: int,
    ) -> None:
        node = comm.node()
        self.comm = comm
        self.shared = shared
        self.n_threads = n_threads
        # One additional row, so that no run continues from rows to message slots.
        self.n_rows = int(row_offsets[-1]) + 1
        self._own_rows = slice(int(row_offsets[node.rank]), int(row_offsets[node.rank + 1]))
        self._bases: weakref.WeakValueDictionary[int, UInt8Array] = weakref.WeakValueDictionary()
        self._vectors: dict[int, _Vector] = {}
        self._n_vectors = _COPY
        self._copies, self._copy_bytes = np.empty(0, np.uint8), 0
        self._flags = comm.shared_window(8)
        self._ticket, self._row_bytes = 0, 0
        self._in_place = False
        self._owned = self._memory(1)[: self.n_rows]
        self._owned[self._own_rows] = owned
        self._flags.barrier()

    @classmethod
    def from_union(
        cls, comm: Communicator, union: NodeUnion, graph: SharingGraph, n_threads: int
    ) -> NodeVectors:
        """Return the access to vectors on the keys of a union."""
        shared = RowLists.from_positions(np.flatnonzero(graph.multiplicity > 1).astype(np.int32))
        return cls(comm, union.row_offsets, shared, graph.owner == comm.rank, n_threads)

    @property
    def nbytes(self) -> int:
        """Bytes of the lists of rows of this rank."""
        return self.shared.nbytes + self._owned[self._own_rows].nbytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the copies of this rank's rows."""
        return (self._own_rows.stop - self._own_rows.start) * self._copy_bytes

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        """Return a vector (n_keys, ...) of zeros in shared memory, which calls do not copy. Collective."""
        row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * np.dtype(dtype).itemsize
        memory = self._memory(row_bytes)
        vector = memory[: self.n_rows * row_bytes].reshape(self.n_rows, row_bytes)[self._own_rows]
        self._n_vectors += 1
        # All views of the vector have the same base, which lives as long as any of them.
        base = vector.base
        assert base is not None
        self._bases[_address(vector)] = base
        self._vectors[_address(vector)] = _Vector(self._n_vectors, row_bytes, len(memory))
        return vector.reshape(-1).view(dtype).reshape(shape)

    def _memory(self, row_bytes: int) -> UInt8Array:
        n_bytes = self.n_rows * row_bytes
        return self.comm.shared_window(n_bytes if self.comm.node().rank == 0 else 0).bytes

    def begin(self, values: AnyArray) -> None:
        """Announce the values (n_keys, k) of this rank to the node, without waiting."""
        row_bytes = values.shape[1] * values.itemsize
        if row_bytes > self._copy_bytes:
            # On all ranks, whether they need copies or not; unused memory is not allocated by the system.
            self._copies, self._copy_bytes = self._memory(row_bytes), row_bytes
        if row_bytes != self._row_bytes:
            # Rows of another size overlap those of the last call, which others may still be reading.
            self._flags.barrier()
            self._row_bytes = row_bytes
        number = self._vector_number(values)
        if number == _COPY:
            self._copy_in(values)
        self._flags.local[:8].view(np.int64)[0] = number
        self._ticket = self._flags.arrive()

    def gather(self, values: AnyArray) -> NodeValues:
        """Wait for the other ranks of the node, and return the values of all of them."""
        self._flags.wait(self._ticket)
        numbers = self._flags.bytes.view(np.int64)[self._flags.offsets[:-1] // 8]
        number = int(numbers[self._flags.rank])
        self._in_place = number != _COPY and bool(np.all(numbers == number))
        if number != _COPY and not self._in_place:
            self._copy_in(values)
        if not self._in_place and bool(np.any(numbers != _COPY)):
            # Ranks with vectors in shared memory learn only now that they must copy.
            self._flags.barrier()
        memory = self._memory_of(values) if self._in_place else self._copies
        return NodeValues(self._as_rows(memory, values), self._owned)

    def barrier(self) -> None:
        """Wait until all ranks of the node have called this."""
        self._flags.barrier()

    def finish(self, values: AnyArray) -> None:
        """Wait until all ranks of the node are done; copy results to `values` unless in place."""
        self._flags.barrier()
        if not self._in_place:
            self.shared.move(self._copy_of(values), values, self.shared, self.n_threads)

    def _vector_number(self, values: AnyArray) -> int:
        """Return the number of a vector made by `empty`, _COPY for others."""
        address, row_bytes = _address(values), values.shape[1] * values.itemsize
        if address not in self._bases:
            self._vectors.pop(address, None)
            return _COPY
        vector = self._vectors[address]
        return vector.number if vector.row_bytes == row_bytes else _COPY

    def _memory_of(self, values: AnyArray) -> UInt8Array:
        address = _address(values)
        return self._bases[address][-self._vectors[address].n_bytes :]

    def _copy_in(self, values: AnyArray) -> None:
        self.shared.move(values, self._copy_of(values), self.shared, self.n_threads)

    def _copy_of(self, values: AnyArray) -> AnyArray:
        return self._as_rows(self._copies, values)[self._own_rows]

    def _as_rows(self, memory: UInt8Array, like: AnyArray) -> AnyArray:
        k = like.shape[1]
        return memory[: self.n_rows * k * like.itemsize].view(like.dtype).reshape(self.n_rows, k)


def _address(values: AnyArray) -> int:
    address: int = values.__array_interface__["data"][0]
    return address
