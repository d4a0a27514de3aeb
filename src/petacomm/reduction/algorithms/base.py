"""What every way to reduce has in common."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.options import Options
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.network import Share
from petacomm.reduction.row_exchange import OwnerExchange, Steps
from petacomm.sharing.sharing_graph import SharingGraph

ALGORITHMS: dict[str, type[Algorithm]] = {}

_A = TypeVar("_A", bound="type[Algorithm]")


class Kept(Protocol):
    """What an algorithm keeps between calls."""

    @property
    def nbytes(self) -> int:
        """Bytes of lists."""
        ...

    @property
    def buffer_bytes(self) -> int:
        """Bytes for values on their way."""
        ...


def register(name: str) -> Callable[[_A], _A]:
    """Make a class of `Algorithm` known by `name`."""

    def keep(algorithm: _A) -> _A:
        ALGORITHMS[name] = algorithm
        return algorithm

    return keep


class Algorithm(abc.ABC):
    """What executes the verbs of a plan: here through owners; subclasses have their own all-reduce.

    Each verb is a generator: it starts messages, yields where it would wait for them, and goes on when it is
    resumed. It may yield any number of times; the values are the caller's again when it has ended.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_keys,)
    graph : SharingGraph
        With overlaps if the class `needs_overlaps`.
    options : Options
    """

    needs_overlaps: ClassVar[bool] = False

    def __init__(
        self,
        comm: Communicator,
        keys: Int64Array,
        graph: SharingGraph,
        options: Options,
    ) -> None:
        self.comm = comm
        self.keys = keys
        self.graph = graph
        self.options = options
        self._prepare()
        self.graph = graph.kept(comm.size)

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Build what all calls share. Collective."""

    @functools.cached_property
    def _owners(self) -> OwnerExchange:
        # Built in the first call that needs it, which is collective as well.
        return OwnerExchange(self.comm, self.keys, self.graph.owner, self.options)

    @property
    @abc.abstractmethod
    def partners(self) -> Int64Array:
        """Ranks that this one exchanges messages with in an all-reduce."""

    @abc.abstractmethod
    def bytes_per_call(self, k: int, itemsize: int) -> int:
        """Bytes that this rank sends in an all-reduce of rows of `k` values."""

    @property
    def nbytes(self) -> int:
        """Bytes of the lists that it keeps, beside keys and graph."""
        return sum(part.nbytes for part in self._kept())

    @property
    def buffer_bytes(self) -> int:
        """Bytes that it keeps for values on their way."""
        return sum(part.buffer_bytes for part in self._kept())

    def _kept(self) -> list[Kept]:
        """Return what takes memory between calls."""
        return [self._owners] if "_owners" in vars(self) else []

    @abc.abstractmethod
    def shares(self, node_of: Int32Array) -> tuple[Share, ...]:
        """Return what an all-reduce asks of this rank, phase by phase, where rank r is on ``node_of[r]``."""

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        """Return an uninitialised vector that this algorithm need not copy. Collective."""
        return np.empty(shape, dtype)

    def allreduce(self, values: AnyArray, op: Operation) -> Steps:
        """Reduce the values of all holders, onto all of them."""
        yield from self.reduce(values, op)
        yield from self.broadcast(values)

    def reduce(self, values: AnyArray, op: Operation) -> Steps:
        """Reduce the values of all holders onto the owners; ghosts keep theirs."""
        yield from self._owners.reduce(values, op)

    def broadcast(self, values: AnyArray) -> Steps:
        """Overwrite ghosts with the values of their owners."""
        yield from self._owners.broadcast(values)
