"""The ways to reduce values on shared keys, by name.

``dense`` is the plain way: an all-reduce over every key that exists, buffer by buffer. ``pairwise`` is the
published improvement: one all-to-all in which each pair of ranks exchanges only the keys they share.
``owner`` reduces on the one owner of each key and sends the result back: more steps, but a key that m ranks
hold moves 2 (m - 1) times instead of m (m - 1).
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np

from petamap.base.typing import AnyArray, BoolArray, Int64Array
from petamap.comm._comm import pack, unpack
from petamap.comm.mpi.communicator import Communicator, Operation
from petamap.comm.reduction.exchange import Buffer, Exchange, OwnerExchange, Reducer
from petamap.comm.reduction.graph import SharingGraph, ranks_of

ALGORITHMS: dict[str, type[Algorithm]] = {}

_A = TypeVar("_A", bound="type[Algorithm]")


def register(name: str) -> Callable[[_A], _A]:
    """Make a class of `Algorithm` known by `name`."""

    def keep(algorithm: _A) -> _A:
        ALGORITHMS[name] = algorithm
        return algorithm

    return keep


class Algorithm(abc.ABC):
    """What executes the verbs of a plan: here through owners; subclasses have their own all-reduce.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_keys,)
    graph : SharingGraph
        With overlaps if the class `needs_overlaps`.
    buffer_keys : int
        Keys reduced at once, where an algorithm works buffer by buffer.
    n_threads : int
        Threads that pack, unpack and reduce.
    """

    needs_overlaps: ClassVar[bool] = False

    def __init__(
        self, comm: Communicator, keys: Int64Array, graph: SharingGraph, buffer_keys: int, n_threads: int
    ) -> None:
        self.comm = comm
        self.keys = keys
        self.graph = graph
        self.buffer_keys = buffer_keys
        self.n_threads = n_threads
        self._prepare()

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Build what all calls share. Collective."""

    @functools.cached_property
    def _owners(self) -> OwnerExchange:
        # Built in the first call that needs it, which is collective as well.
        return OwnerExchange(self.comm, self.keys, self.graph.owner, self.n_threads)

    @property
    @abc.abstractmethod
    def partners(self) -> Int64Array:
        """Ranks that this one exchanges messages with in an all-reduce."""

    @abc.abstractmethod
    def bytes_per_call(self, k: int, itemsize: int) -> int:
        """Bytes that this rank sends in an all-reduce of rows of `k` values."""

    def allreduce(self, values: AnyArray, op: Operation) -> None:
        """Reduce the values of all holders, onto all of them."""
        self.reduce(values, op)
        self.broadcast(values)

    def reduce(self, values: AnyArray, op: Operation) -> None:
        """Reduce the values of all holders onto the owners; ghosts keep theirs."""
        self._owners.reduce(values, op)

    def broadcast(self, values: AnyArray) -> None:
        """Overwrite ghosts with the values of their owners."""
        self._owners.broadcast(values)


@register("owner")
class Owner(Algorithm):
    """Reduce onto owners, then broadcast: two all-to-alls of few bytes."""

    def _prepare(self) -> None:
        _ = self._owners

    @property
    def partners(self) -> Int64Array:
        return np.flatnonzero(self._owners.ghost_counts + self._owners.asked_counts)

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        return int(self._owners.ghost_counts.sum() + self._owners.asked_counts.sum()) * k * itemsize


@register("pairwise")
class Pairwise(Algorithm):
    """Exchange the shared keys of each pair of ranks in one all-to-all, then reduce locally."""

    needs_overlaps = True

    def _prepare(self) -> None:
        positions, overlaps = self.graph.shared_positions, self.graph.overlaps
        assert positions is not None and overlaps is not None
        self._exchange = Exchange(self.comm, positions, overlaps, overlaps, self.n_threads)
        self._reducer = Reducer(positions, ranks_of(overlaps), self.comm.rank, self.n_threads)

    @property
    def partners(self) -> Int64Array:
        return np.flatnonzero(self._exchange.send_counts)

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        return len(self._exchange.positions) * k * itemsize

    def allreduce(self, values: AnyArray, op: Operation) -> None:
        self._reducer.run(self._exchange.run(values), op, values)


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
        self._owners.broadcast(numbers)
        order = np.argsort(numbers[:, 0])
        numbers = numbers[order, 0]
        self._buffer, self._moved = Buffer(), Buffer()
        self._positions = order.astype(np.int32)
        self._slots = (numbers % self.buffer_keys).astype(np.int32)
        self._begins = np.arange(0, self.graph.n_global, self.buffer_keys)
        self._bounds = np.searchsorted(numbers, np.append(self._begins, self.graph.n_global))

    @property
    def partners(self) -> Int64Array:
        return np.delete(np.arange(self.comm.size), self.comm.rank)

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        """Bytes of Rabenseifner's algorithm, which MPIs use for large vectors."""
        return 2 * self.graph.n_global * k * itemsize * (self.comm.size - 1) // self.comm.size

    def allreduce(self, values: AnyArray, op: Operation) -> None:
        everywhere = np.ones(len(self.keys), np.bool_)
        self._run(values, op, _identity(values.dtype, op), everywhere, everywhere)

    def reduce(self, values: AnyArray, op: Operation) -> None:
        owned = self.graph.owner == self.comm.rank
        self._run(values, op, _identity(values.dtype, op), np.ones(len(self.keys), np.bool_), owned)

    def broadcast(self, values: AnyArray) -> None:
        # The bits of the owner, or-ed with zeros: also right for -0.0 and NaN.
        owned = self.graph.owner == self.comm.rank
        bits = values.view(np.uint8)
        self._run(bits, "or", _identity(bits.dtype, "or"), owned, ~owned)

    def _run(
        self, values: AnyArray, op: Operation, identity: AnyArray, give: BoolArray, take: BoolArray
    ) -> None:
        """Reduce buffer by buffer the values at positions that `give`, into those that `take`."""
        if self.comm.size == 1:
            return
        for i, begin in enumerate(self._begins):
            n_rows = min(self.buffer_keys, self.graph.n_global - int(begin))
            buffer = self._buffer.rows(n_rows, values)
            buffer[...] = identity
            part = slice(self._bounds[i], self._bounds[i + 1])
            self._move(values, buffer, part, give, into_buffer=True)
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
        pack(source, at, rows, self.n_threads)
        unpack(rows, to, target, self.n_threads)


def _identity(dtype: np.dtype[Any], op: Operation) -> AnyArray:
    """The value that changes nothing under `op`."""
    if op in ("sum", "or"):
        return np.zeros((), dtype)
    sign = -1 if op == "max" else 1
    if dtype.kind == "f":
        return np.array(sign * np.inf, dtype)
    limits = np.iinfo(dtype)
    return np.array(limits.min if op == "max" else limits.max, dtype)
