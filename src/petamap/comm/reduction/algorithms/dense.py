"""The plain way: an all-reduce over every key that exists, buffer by buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from petamap.base.typing import AnyArray, BoolArray, Int32Array, Int64Array
from petamap.comm._comm import pack, unpack
from petamap.comm.mpi.communicator import Operation
from petamap.comm.network import Share
from petamap.comm.reduction.algorithms.base import Algorithm, register
from petamap.comm.reduction.exchange import Buffer, Steps, finish
from petamap.comm.reduction.loads import dense_shares


@register("dense")
class Dense(Algorithm):
    """All-reduce over every key that exists, by buffers of `buffer_keys` keys.

    Keys are numbered by their owners, rank after rank; a buffer holds consecutive numbers, filled with the
    identity of the operation where this rank holds no value.
    """

    def _prepare(self) -> None:
        owned = self.graph.owner == self.comm.rank
        n_owned = int(np.count_nonzero(owned))
        numbers = np.zeros((len(self.keys), 1), np.int64)
        numbers[owned, 0] = self.comm.exscan(n_owned) + np.arange(n_owned)
        finish(self._owners.broadcast(numbers))
        order = np.argsort(numbers[:, 0])
        numbers = numbers[order, 0]
        self._buffer, self._moved = Buffer(), Buffer()
        self._positions = order.astype(np.int32)
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
        everywhere = np.ones(len(self.keys), np.bool_)
        return self._run(values, op, _identity(values.dtype, op), everywhere, everywhere)

    def reduce(self, values: AnyArray, op: Operation) -> Steps:
        owned = self.graph.owner == self.comm.rank
        return self._run(values, op, _identity(values.dtype, op), np.ones(len(self.keys), np.bool_), owned)

    def broadcast(self, values: AnyArray) -> Steps:
        # The bits of the owner, or-ed with zeros: also right for -0.0 and NaN.
        owned = self.graph.owner == self.comm.rank
        bits = values.view(np.uint8)
        return self._run(bits, "or", _identity(bits.dtype, "or"), owned, ~owned)

    def _run(
        self, values: AnyArray, op: Operation, identity: AnyArray, give: BoolArray, take: BoolArray
    ) -> Steps:
        """Reduce buffer by buffer the values at positions that `give`, into those that `take`."""
        if self.comm.size == 1:
            return
        for i, begin in enumerate(self._begins):
            n_rows = min(self.options.buffer_keys, self.graph.n_global - int(begin))
            buffer = self._buffer.rows(n_rows, values)
            buffer[...] = identity
            part = slice(self._bounds[i], self._bounds[i + 1])
            self._move(values, buffer, part, give, into_buffer=True)
            yield
            self.comm.allreduce(buffer, op)
            self._move(values, buffer, part, take, into_buffer=False)

    def _move(
        self, values: AnyArray, buffer: AnyArray, part: slice, chosen: BoolArray, *, into_buffer: bool
    ) -> None:
        positions, slots = self._positions[part], self._slots[part]
        keep = chosen[positions]
        positions, slots = positions[keep], slots[keep]
        source, at, target, to = (
            (values, positions, buffer, slots) if into_buffer else (buffer, slots, values, positions)
        )
        rows = self._moved.rows(len(at), values)
        pack(source, at, rows, self.options.n_threads)
        unpack(rows, to, target, self.options.n_threads)


def _identity(dtype: np.dtype[Any], op: Operation) -> AnyArray:
    """The value that changes nothing under `op`."""
    if op in ("sum", "or"):
        return np.zeros((), dtype)
    sign = -1 if op == "max" else 1
    if dtype.kind == "f":
        return np.array(sign * np.inf, dtype)
    limits = np.iinfo(dtype)
    return np.array(limits.min if op == "max" else limits.max, dtype)
