"""The plain way: an all-reduce over every key that exists, buffer by buffer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import dense_shares
from petacomm.mpi.communicator import Operation
from petacomm.network import Share
from petacomm.redistribution.row_lists import RowLists
from petacomm.reduction.algorithms.base import Algorithm, register
from petacomm.reduction.row_exchange import Buffer, Steps
from petacomm.reduction.striped_allreduce import identity, numbered


@register("dense")
class Dense(Algorithm):
    """All-reduce over every key that exists, by buffers of `buffer_keys` keys.

    Keys are numbered by their owners, rank after rank; a buffer holds consecutive numbers, filled with the
    identity of the operation where this rank holds no value. What a rank owns lies together, so that its
    halves are the two halves of an all-reduce: a reduction that leaves each rank its part, and a gathering of
    all parts.
    """

    def _prepare(self) -> None:
        # Numbers stand in the order of the keys, wherever the values do.
        numbers, self._firsts = numbered(self.comm, self.keys, self.graph.owner, self.options)
        order = np.argsort(numbers)
        numbers = numbers[order]
        owned = (numbers >= self._firsts[self.comm.rank]) & (numbers < self._firsts[self.comm.rank + 1])
        self._buffer, self._part = Buffer(), Buffer()
        begins = np.arange(0, self.graph.n_global, self.options.buffer_keys)
        self._bounds = np.append(begins, self.graph.n_global)
        rows = order.astype(np.int32)
        self._rows = self._by_buffer(rows, numbers)
        self._slots = self._by_buffer((numbers % self.options.buffer_keys).astype(np.int32), numbers)
        self._owned = self._by_buffer(rows[owned], numbers[owned])

    def _by_buffer(self, rows: Int32Array, numbers: Int64Array) -> RowLists:
        return RowLists.of(rows, np.diff(np.searchsorted(numbers, self._bounds)))

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
        """Bytes of Rabenseifner's algorithm, which MPIs use for large vectors."""
        return 2 * self.graph.n_global * k * itemsize * (self.comm.size - 1) // self.comm.size

    def shares(self, node_of: Int32Array) -> tuple[Share, ...]:
        return dense_shares(
            len(self.keys), self.graph.n_global, self.options.buffer_keys, node_of, self.comm.rank
        )

    def allreduce(self, values: AnyArray, op: Operation) -> Steps:
        for i, buffer in self._filled(values, op):
            yield
            self.comm.allreduce(buffer, op)
            self._slots.part(i).move(buffer, values, self._rows.part(i), self.options.n_threads)

    def reduce(self, values: AnyArray, op: Operation) -> Steps:
        for i, buffer in self._filled(values, op):
            counts = self._counts(i)
            yield
            part = self._part.rows(int(counts[self.comm.rank]), values)
            self.comm.reduce_scatter(buffer, counts, part, op)
            self._owned.part(i).put(part, values, self.options.n_threads)

    def broadcast(self, values: AnyArray) -> Steps:
        for i, buffer in self._buffers(values):
            counts = self._counts(i)
            part = self._part.rows(int(counts[self.comm.rank]), values)
            self._owned.part(i).take(values, part, self.options.n_threads)
            yield
            self.comm.gather_parts(part, counts, buffer)
            self._slots.part(i).move(buffer, values, self._rows.part(i), self.options.n_threads)

    def _buffers(self, values: AnyArray) -> Iterator[tuple[int, AnyArray]]:
        """Yield the number of each buffer, and its memory; one process alone needs none."""
        if self.comm.size > 1:
            for i, n_rows in enumerate(np.diff(self._bounds)):
                yield i, self._buffer.rows(int(n_rows), values)

    def _filled(self, values: AnyArray, op: Operation) -> Iterator[tuple[int, AnyArray]]:
        for i, buffer in self._buffers(values):
            buffer[...] = identity(values.dtype, op)
            self._rows.part(i).move(values, buffer, self._slots.part(i), self.options.n_threads)
            yield i, buffer

    def _counts(self, i: int) -> Int64Array:
        """Return how many rows of a buffer each rank owns."""
        ends = np.clip(self._firsts, self._bounds[i], self._bounds[i + 1])
        counts: Int64Array = ends[1:] - ends[:-1]
        return counts
