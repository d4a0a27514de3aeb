"""The plain way: an all-reduce over every key that exists, buffer by buffer."""

from __future__ import annotations

import numpy as np

from petamap.base.typing import AnyArray, BoolArray, Int32Array, Int64Array
from petamap.comm._comm import pack, unpack
from petamap.comm.mpi.communicator import Operation
from petamap.comm.network import Share
from petamap.comm.reduction.algorithms.base import Algorithm, register
from petamap.comm.reduction.exchange import Buffer, Steps, rows_at
from petamap.comm.reduction.lanes import identity, numbered
from petamap.comm.reduction.loads import dense_shares


@register("dense")
class Dense(Algorithm):
    """All-reduce over every key that exists, by buffers of `buffer_keys` keys.

    Keys are numbered by their owners, rank after rank; a buffer holds consecutive numbers, filled with the
    identity of the operation where this rank holds no value.
    """

    def _prepare(self) -> None:
        owned = self.graph.owner == self.comm.rank
        numbers, _ = numbered(self.comm, self.keys, self.graph.owner, self.options)
        order = np.argsort(numbers)
        numbers = numbers[order]
        self._buffer, self._moved = Buffer(), Buffer()
        self._owned = owned[order]
        self._positions = rows_at(self.positions, order)
        self._slots = (numbers % self.options.buffer_keys).astype(np.int32)
        self._begins = np.arange(0, self.graph.n_global, self.options.buffer_keys)
        self._bounds = np.searchsorted(numbers, np.append(self._begins, self.graph.n_global))

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
        return self._run(values, op)

    def reduce(self, values: AnyArray, op: Operation) -> Steps:
        return self._run(values, op, take=self._owned)

    def broadcast(self, values: AnyArray) -> Steps:
        # The bits of the owner, or-ed with zeros: also right for -0.0 and NaN.
        return self._run(values.view(np.uint8), "or", give=self._owned, take=~self._owned)

    def _run(
        self,
        values: AnyArray,
        op: Operation,
        give: BoolArray | None = None,
        take: BoolArray | None = None,
    ) -> Steps:
        """Reduce buffer by buffer the values of keys that `give`, into those that `take`; None is all."""
        if self.comm.size == 1:
            return
        nothing = identity(values.dtype, op)
        for i, begin in enumerate(self._begins):
            n_rows = min(self.options.buffer_keys, self.graph.n_global - int(begin))
            buffer = self._buffer.rows(n_rows, values)
            buffer[...] = nothing
            part = slice(self._bounds[i], self._bounds[i + 1])
            positions, slots = self._chosen(part, give)
            self._move(values, positions, buffer, slots)
            yield
            self.comm.allreduce(buffer, op)
            positions, slots = self._chosen(part, take)
            self._move(buffer, slots, values, positions)

    def _chosen(self, part: slice, mask: BoolArray | None) -> tuple[Int32Array, Int32Array]:
        """Return where the keys of a buffer stand in the values and in the buffer."""
        positions, slots = self._positions[part], self._slots[part]
        return (positions, slots) if mask is None else (positions[mask[part]], slots[mask[part]])

    def _move(self, source: AnyArray, at: Int32Array, target: AnyArray, to: Int32Array) -> None:
        rows = self._moved.rows(len(at), source)
        pack(source, at, rows, self.options.n_threads)
        unpack(rows, to, target, self.options.n_threads)
