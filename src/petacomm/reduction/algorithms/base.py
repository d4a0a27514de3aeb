"""Base class and registry of reduction algorithms."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.options import ReductionOptions
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.network import RankLoad
from petacomm.reduction.row_exchange import CallSteps, OwnerExchange
from petacomm.sharing.sharing_graph import SharingGraph

ALGORITHMS: dict[str, type[ReductionAlgorithm]] = {}

_A = TypeVar("_A", bound="type[ReductionAlgorithm]")


class MemoryUser(Protocol):
    """Part of an algorithm that keeps memory between calls."""

    @property
    def nbytes(self) -> int:
        """Bytes of lists."""

    @property
    def buffer_bytes(self) -> int:
        """Bytes of buffers for values."""


def register_algorithm(name: str) -> Callable[[_A], _A]:
    """Return a decorator that registers a `ReductionAlgorithm` by name."""

    def keep(algorithm: _A) -> _A:
        ALGORITHMS[name] = algorithm
        return algorithm

    return keep


class ReductionAlgorithm(abc.ABC):
    """Implementation of the calls of a plan, by default by owners; subclasses have their own all-reduce.

    Each call is a generator: it starts messages, yields where it would wait for them, and continues when it
    is resumed. It may yield any number of times; values must not be accessed before it has ended.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_keys,)
        Keys of this rank.
    graph : SharingGraph
        With overlaps if the class `needs_overlaps`.
    options : ReductionOptions
    """

    needs_overlaps: ClassVar[bool] = False
    # Whether the algorithm is an all-reduce alone: its `reduce` and `broadcast` are those of another one.
    allreduce_only: ClassVar[bool] = False

    def __init__(
        self,
        comm: Communicator,
        keys: Int64Array,
        graph: SharingGraph,
        options: ReductionOptions,
    ) -> None:
        self.comm = comm
        self.keys = keys
        self.graph = graph
        self.options = options
        self._set_up()
        self.graph = graph.compact(comm.size)

    @abc.abstractmethod
    def _set_up(self) -> None:
        """Build the lists and exchanges of all calls. Collective."""

    @functools.cached_property
    def _owners(self) -> OwnerExchange:
        # Made in the first call that needs it, which is collective as well.
        return OwnerExchange.of_sorted_keys(self.comm, self.keys, self.graph.owner, self.options)

    @property
    @abc.abstractmethod
    def partners(self) -> Int64Array:
        """Ranks with which this rank exchanges messages in an all-reduce."""

    @abc.abstractmethod
    def bytes_per_call(self, k: int, itemsize: int) -> int:
        """Return the bytes that this rank sends in an all-reduce of rows of `k` values."""

    @property
    def nbytes(self) -> int:
        """Bytes of lists, without keys and graph."""
        return sum(part.nbytes for part in self._memory_users())

    @property
    def buffer_bytes(self) -> int:
        """Bytes of buffers for values that are kept between calls."""
        return sum(part.buffer_bytes for part in self._memory_users())

    def _memory_users(self) -> list[MemoryUser]:
        """Return the parts that keep memory between calls."""
        return [self._owners] if "_owners" in vars(self) else []

    @abc.abstractmethod
    def rank_loads(self, node_of: Int32Array) -> tuple[RankLoad, ...]:
        """Return the load of this rank in each phase of an all-reduce, with rank r on `node_of[r]`."""

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        """Return a vector that this algorithm does not copy in calls. Collective."""
        return np.empty(shape, dtype)

    def allreduce(self, values: AnyArray, op: Operation) -> CallSteps:
        """Reduce the values of all holders of each key, onto all of them."""
        yield from self.reduce(values, op)
        yield from self.broadcast(values)

    def reduce(self, values: AnyArray, op: Operation) -> CallSteps:
        """Reduce the values of all holders onto the owners; values of ghosts do not change."""
        yield from self._owners.reduce(values, op)

    def broadcast(self, values: AnyArray) -> CallSteps:
        """Overwrite the values of ghosts with those of their owners."""
        yield from self._owners.broadcast(values)
