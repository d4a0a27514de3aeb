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
from petacomm.reduction.row_runs import Values
from petacomm.sharing.sharing_graph import SharingGraph

# What a rank says that works on a copy of its vector.
_COPY = 0


class _Vector(NamedTuple):
    """A vector made by `NodeRows.empty`: its number, and the bytes of a row and of the memory it is in."""

    number: int
    row_bytes: int
    n_bytes: int


class NodeRows:
    """Brings the vectors of a node's ranks together for a call. Collective on `comm`.

    A vector made by `empty` is worked on where it lies. Any other is copied in before and out after; only
    rows that somebody else holds too are.

    Parameters
    ----------
    comm : Communicator
    row_offsets : int64 (n_node + 1,)
        The first row of each rank of the node.
    shared : RowLists
        Rows of keys that others hold too, as one list.
    owned : bool (n_keys,)
        Whether this rank owns it.
    n_threads : int
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
        # One row more than there are, so that no row continues as a slot.
        self.n_rows = int(row_offsets[-1]) + 1
        self._mine = slice(int(row_offsets[node.rank]), int(row_offsets[node.rank + 1]))
        self._bases: weakref.WeakValueDictionary[int, UInt8Array] = weakref.WeakValueDictionary()
        self._vectors: dict[int, _Vector] = {}
        self._n_vectors = _COPY
        self._copies, self._copy_bytes = np.empty(0, np.uint8), 0
        self._says = comm.shared(8)
        self._ticket, self._row_bytes = 0, 0
        self._in_place = False
        self._owned = self._memory(1)[: self.n_rows]
        self._owned[self._mine] = owned
        self._says.barrier()

    @classmethod
    def of(cls, comm: Communicator, union: NodeUnion, graph: SharingGraph, n_threads: int) -> NodeRows:
        """Return the rows of the keys that make this union."""
        shared = RowLists.of(np.flatnonzero(graph.multiplicity > 1).astype(np.int32))
        return cls(comm, union.row_offsets, shared, graph.owner == comm.rank, n_threads)

    @property
    def nbytes(self) -> int:
        """Bytes of what this rank keeps of all rows."""
        return self.shared.nbytes + self._owned[self._mine].nbytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes for copies of this rank's rows."""
        return (self._mine.stop - self._mine.start) * self._copy_bytes

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        """Return a vector (n_keys, ...) of zeros that calls need not copy."""
        row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * np.dtype(dtype).itemsize
        memory = self._memory(row_bytes)
        vector = memory[: self.n_rows * row_bytes].reshape(self.n_rows, row_bytes)[self._mine]
        self._n_vectors += 1
        # All views of the vector have the same base: it lives as long as any of them does.
        base = vector.base
        assert base is not None
        self._bases[_address(vector)] = base
        self._vectors[_address(vector)] = _Vector(self._n_vectors, row_bytes, len(memory))
        return vector.reshape(-1).view(dtype).reshape(shape)

    def _memory(self, row_bytes: int) -> UInt8Array:
        n_bytes = self.n_rows * row_bytes
        return self.comm.shared(n_bytes if self.comm.node().rank == 0 else 0).bytes

    def arrive(self, values: AnyArray) -> None:
        """Say that `values` (n_keys, k) are ready."""
        row_bytes = values.shape[1] * values.itemsize
        if row_bytes > self._copy_bytes:
            # On all ranks, whether they need it or not: memory that nobody touches costs nothing.
            self._copies, self._copy_bytes = self._memory(row_bytes), row_bytes
        if row_bytes != self._row_bytes:
            # Rows of another size lie elsewhere, where others may still be reading those of the last call.
            self._says.barrier()
            self._row_bytes = row_bytes
        number = self._number(values)
        if number == _COPY:
            self._copy_in(values)
        self._says.mine[:8].view(np.int64)[0] = number
        self._ticket = self._says.arrive()

    def together(self, values: AnyArray) -> Values:
        """Wait for the other ranks, and return the values of all of them."""
        self._says.wait(self._ticket)
        said = self._says.bytes.view(np.int64)[self._says.offsets[:-1] // 8]
        number = int(said[self._says.rank])
        self._in_place = number != _COPY and bool(np.all(said == number))
        if number != _COPY and not self._in_place:
            self._copy_in(values)
        if not self._in_place and bool(np.any(said != _COPY)):
            # Some had to learn from the others that they must copy.
            self._says.barrier()
        memory = self._memory_of(values) if self._in_place else self._copies
        return Values(self._as_rows(memory, values), self._owned)

    def barrier(self) -> None:
        """Wait until all ranks of the node are here."""
        self._says.barrier()

    def leave(self, values: AnyArray) -> None:
        """Wait until all ranks are done, and bring the results to `values`."""
        self._says.barrier()
        if not self._in_place:
            self.shared.move(self._copy_of(values), values, self.shared, self.n_threads)

    def _number(self, values: AnyArray) -> int:
        """Return the number of a vector made by `empty`, else _COPY."""
        address, row_bytes = _address(values), values.shape[1] * values.itemsize
        if address not in self._bases:
            self._vectors.pop(address, None)
            return _COPY
        vector = self._vectors[address]
        return vector.number if vector.row_bytes == row_bytes else _COPY

    def _memory_of(self, values: AnyArray) -> UInt8Array:
        address = _address(values)
        memory: UInt8Array = self._bases[address][-self._vectors[address].n_bytes :]
        return memory

    def _copy_in(self, values: AnyArray) -> None:
        self.shared.move(values, self._copy_of(values), self.shared, self.n_threads)

    def _copy_of(self, values: AnyArray) -> AnyArray:
        copy: AnyArray = self._as_rows(self._copies, values)[self._mine]
        return copy

    def _as_rows(self, memory: UInt8Array, like: AnyArray) -> AnyArray:
        k = like.shape[1]
        return memory[: self.n_rows * k * like.itemsize].view(like.dtype).reshape(self.n_rows, k)


def _address(values: AnyArray) -> int:
    address: int = values.__array_interface__["data"][0]
    return address
