"""Reduction by MPI all-reduces over all keys, buffer by buffer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import dense_loads
from petacomm.mpi.communicator import Operation
from petacomm.network import RankLoad
from petacomm.redistribution.row_lists import RowLists
from petacomm.reduction.algorithms.base import ReductionAlgorithm, register_algorithm
from petacomm.reduction.row_exchange import CallSteps, GrowingBuffer
from petacomm.reduction.striped_allreduce import number_keys, operation_identity


@register_algorithm("dense")
class Dense(ReductionAlgorithm):
    """Algorithm that all-reduces all keys, in buffers of `buffer_keys` keys.

    Keys are numbered by their owners, rank after rank. A buffer has consecutive numbers, with the identity of
    the operation for keys that this rank does not hold. The keys that a rank owns are contiguous, so that a
    reduction is a reduce-scatter, and a broadcast an all-gather.
    """

    def _set_up(self) -> None:
        numbers, self._firsts = number_keys(self.comm, self.keys, self.graph.owner, self.options)
        order = np.argsort(numbers)
        numbers = numbers[order]
        owned = (numbers >= self._firsts[self.comm.rank]) & (numbers < self._firsts[self.comm.rank + 1])
        self._buffer, self._part = GrowingBuffer(), GrowingBuffer()
        begins = np.arange(0, self.graph.n_global, self.options.buffer_keys)
        self._bounds = np.append(begins, self.graph.n_global)
        rows = order.astype(np.int32)
        self._rows = self._by_buffer(rows, numbers)
        self._slots = self._by_buffer((numbers % self.options.buffer_keys).astype(np.int32), numbers)
        self._owned = self._by_buffer(rows[owned], numbers[owned])

    def _by_buffer(self, rows: Int32Array, numbers: Int64Array) -> RowLists:
        return RowLists.from_positions(rows, np.diff(np.searchsorted(numbers, self._bounds)))

    @property
    def nbytes(self) -> int:
        lists = self._rows, self._slots, self._owned, self._bounds, self._firsts
        return super().nbytes + sum(part.nbytes for part in lists)

    @property
    def buffer_bytes(self) -> int:
        return super().buffer_bytes + self._buffer.nbytes + self._part.nbytes

    @property
    def partners(self) -> Int64Array:
        return np.delete(np.arange(self.comm.size), self.comm.rank)

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        """Return the bytes of Rabenseifner's algorithm, which MPI libraries use for large vectors."""
        return 2 * self.graph.n_global * k * itemsize * (self.comm.size - 1) // self.comm.size

    def rank_loads(self, node_of: Int32Array) -> tuple[RankLoad, ...]:
        return dense_loads(
            len(self.keys), self.graph.n_global, self.options.buffer_keys, node_of, self.comm.rank
        )

    def allreduce(self, values: AnyArray, op: Operation) -> CallSteps:
        for i, buffer in self._filled(values, op):
            yield
            self.comm.allreduce(buffer, op)
            self._slots.part(i).move(buffer, values, self._rows.part(i), self.options.n_threads)

    def reduce(self, values: AnyArray, op: Operation) -> CallSteps:
        for i, buffer in self._filled(values, op):
            counts = self._counts(i)
            yield
            part = self._part.rows(int(counts[self.comm.rank]), values)
            self.comm.reduce_scatter(buffer, counts, part, op)
            self._owned.part(i).put(part, values, self.options.n_threads)

    def broadcast(self, values: AnyArray) -> CallSteps:
        for i, buffer in self._buffers(values):
            counts = self._counts(i)
            part = self._part.rows(int(counts[self.comm.rank]), values)
            self._owned.part(i).take(values, part, self.options.n_threads)
            yield
            self.comm.allgatherv(part, counts, buffer)
            self._slots.part(i).move(buffer, values, self._rows.part(i), self.options.n_threads)

    def _buffers(self, values: AnyArray) -> Iterator[tuple[int, AnyArray]]:
        """Yield the number of each buffer and its memory; a single process needs none."""
        if self.comm.size > 1:
            for i, n_rows in enumerate(np.diff(self._bounds)):
                yield i, self._buffer.rows(int(n_rows), values)

    def _filled(self, values: AnyArray, op: Operation) -> Iterator[tuple[int, AnyArray]]:
        """Yield the number of each buffer, and the buffer with the values of this rank."""
        for i, buffer in self._buffers(values):
            buffer[...] = operation_identity(values.dtype, op)
            self._rows.part(i).move(values, buffer, self._slots.part(i), self.options.n_threads)
            yield i, buffer

    def _counts(self, i: int) -> Int64Array:
        """Return the number of rows of a buffer that each rank owns."""
        ends = np.clip(self._firsts, self._bounds[i], self._bounds[i + 1])
        return ends[1:] - ends[:-1]
