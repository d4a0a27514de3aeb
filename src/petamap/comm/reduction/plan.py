"""The reduction plan: set up once for a set of keys, called as often as needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from petamap.base.errors import ConfigError, PetamapError, did_you_mean
from petamap.base.timers import Timers
from petamap.base.typing import AnyArray, BoolArray, Int32Array, Int64Array
from petamap.comm.mpi.channel import Transport
from petamap.comm.mpi.communicator import Communicator, Operation
from petamap.comm.mpi.errors import agree
from petamap.comm.network import Load, Share, busiest
from petamap.comm.reduction.algorithms import ALGORITHMS
from petamap.comm.reduction.exchange import Options, Steps, finish
from petamap.comm.reduction.graph import SharingGraph
from petamap.comm.reduction.index_map import IndexMap, ReductionError
from petamap.comm.reduction.setup import SETUPS

Verb: TypeAlias = Literal["allreduce", "reduce", "broadcast"]
DTYPES = (np.int64, np.float64, np.float32, np.uint8)


@dataclass
class _Flight:
    """A call that has begun and not ended."""

    verb: Verb
    values: AnyArray
    steps: Steps


class ReductionPlan:
    """Reductions of values on keys that several ranks hold. All methods are collective.

    Each verb takes values of shape (n_keys,) or (n_keys, k), C-contiguous, of dtype int64, float64, float32
    or uint8, the same k and dtype on all ranks, and works in place:

    - ``allreduce``: every holder of a key gets the reduction over all its holders, all of them the same bits;
    - ``reduce``: only the key's owner gets it, the others (ghosts) keep their values;
    - ``broadcast``: ghosts get the value of their owner.

    Each is also there in two halves, ``allreduce_begin`` and ``allreduce_end`` and so on: messages travel
    while the caller computes. A plan has one call in flight.

    Integer sums wrap around; they do not depend on the algorithm or on the order of the ranks. NaNs are not
    ordered, so "max" and "min" are for values without them.

    Parameters
    ----------
    index_map : IndexMap
        This rank's keys.
    algorithm : str
        One of `ALGORITHMS`: "pairwise", "owner", "butterfly", "dense" or "hybrid".
    setup : str
        One of `SETUPS`: "rendezvous" or "gather-sift".
    buffer_keys : int
        Keys handled at once by "dense" and "gather-sift", which trade memory for messages.
    n_threads : int
        Threads of the local work.
    transport : str
        One of `TRANSPORTS`, which carry the messages of all algorithms but "dense": "alltoallv",
        "neighbour" or "persistent".
    radix : int
        Parts that "butterfly" cuts a group of ranks into, 2 or more.
    theta, mu : float, int
        "hybrid" handles keys that at least a share theta of the ranks hold as "dense" does, and others that
        at most mu ranks hold as "pairwise" does.

    Attributes
    ----------
    owned : bool (n_keys,)
        Whether this rank owns the key; exactly one holder of each key does.
    multiplicity : int32 (n_keys,)
        How many ranks hold the key.
    n_global : int
        Distinct keys on all ranks.
    partners : int64 (n,)
        Ranks that this one exchanges messages with in an all-reduce.
    setup_times : dict of str to float
        Seconds of each phase of the set-up.

    Raises
    ------
    ConfigError
        If there is no such algorithm, set-up or transport, on all ranks.
    ReductionError
        If ranks ask for different plans, or later, if values do not fit the plan.
    """

    def __init__(
        self,
        index_map: IndexMap,
        *,
        algorithm: str = "pairwise",
        setup: str = "rendezvous",
        buffer_keys: int = 1 << 20,
        n_threads: int = 1,
        transport: Transport = "alltoallv",
        radix: int = 4,
        theta: float = 0.9,
        mu: int = 2,
    ) -> None:
        self.index_map = index_map
        self.comm: Communicator = index_map.comm
        self.algorithm = algorithm
        self.setup = setup
        options = Options(buffer_keys, n_threads, transport, radix, theta, mu)
        agree(self.comm, _unknown(algorithm, setup, options))
        _same_on_all(self.comm, f"{algorithm}, {setup}, {replace(options, n_threads=1)}")
        kind = ALGORITHMS[algorithm]
        timers = Timers()
        self.graph = (
            SharingGraph.alone(index_map.n_keys)
            if self.comm.size == 1
            else SETUPS[setup](self.comm, index_map.keys, kind.needs_overlaps, buffer_keys, timers)
        )
        with timers.phase("initialise"):
            self._executor = kind(self.comm, index_map.keys, self.graph, options)
        self.setup_times = {name: phase.seconds for name, phase in timers.phases.items()}
        self._agreed: set[tuple[Any, ...]] = set()
        self._flight: _Flight | None = None

    @property
    def owned(self) -> BoolArray:
        owned: BoolArray = self.graph.owner == self.comm.rank
        return owned

    @property
    def multiplicity(self) -> Int32Array:
        return self.graph.multiplicity

    @property
    def n_global(self) -> int:
        return self.graph.n_global

    @property
    def partners(self) -> Int64Array:
        return self._executor.partners

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        """Return the bytes that this rank sends in one all-reduce of k values a key. Not collective."""
        return self._executor.bytes_per_call(k, itemsize)

    def load(self) -> Load:
        """Return what an all-reduce asks of the busiest rank and the busiest node, phase by phase."""
        # consecutive ranks of a node, as launchers place them unless told otherwise
        node_of = (np.arange(self.comm.size) // self.comm.node_size()).astype(np.int32)
        shares = np.array(self._executor.shares(node_of), np.float64).reshape(-1, len(Share._fields))
        every, _ = self.comm.allgather_rows(shares[np.newaxis])
        return busiest([Share(*counts) for counts in every.transpose(1, 2, 0)], node_of)

    def allreduce(self, values: AnyArray, op: Operation = "sum") -> AnyArray:
        """Reduce the values of all holders of each key, onto all of them; return `values`."""
        self._begin("allreduce", values, op)
        return self._end("allreduce")

    def allreduce_begin(self, values: AnyArray, op: Operation = "sum") -> None:
        """Start an all-reduce; `values` must be left alone until `allreduce_end`."""
        self._begin("allreduce", values, op)

    def allreduce_end(self) -> AnyArray:
        """Finish the all-reduce that was begun, and return its values."""
        return self._end("allreduce")

    def reduce(self, values: AnyArray, op: Operation = "sum") -> AnyArray:
        """Reduce the values of all holders of each key onto its owner; return `values`."""
        self._begin("reduce", values, op)
        return self._end("reduce")

    def reduce_begin(self, values: AnyArray, op: Operation = "sum") -> None:
        """Start a reduction onto owners; `values` must be left alone until `reduce_end`."""
        self._begin("reduce", values, op)

    def reduce_end(self) -> AnyArray:
        """Finish the reduction that was begun, and return its values."""
        return self._end("reduce")

    def broadcast(self, values: AnyArray) -> AnyArray:
        """Overwrite the values of ghosts with those of their owners; return `values`."""
        self._begin("broadcast", values, "or")
        return self._end("broadcast")

    def broadcast_begin(self, values: AnyArray) -> None:
        """Start a broadcast; `values` must be left alone until `broadcast_end`."""
        self._begin("broadcast", values, "or")

    def broadcast_end(self) -> AnyArray:
        """Finish the broadcast that was begun, and return its values."""
        return self._end("broadcast")

    def _begin(self, verb: Verb, values: AnyArray, op: Operation) -> None:
        if self._flight is not None:
            raise ReductionError(
                f"{verb} begins before {self._flight.verb} has ended", mend="a plan makes one call at a time"
            )
        steps = self._steps(verb, self._rows(verb, values, op), op)
        next(steps, None)
        self._flight = _Flight(verb, values, steps)

    def _steps(self, verb: Verb, rows: AnyArray, op: Operation) -> Steps:
        if verb == "broadcast":
            return self._executor.broadcast(rows)
        run = self._executor.allreduce if verb == "allreduce" else self._executor.reduce
        return run(rows, op)

    def _end(self, verb: Verb) -> AnyArray:
        flight, self._flight = self._flight, None
        if flight is None or flight.verb != verb:
            self._flight = flight
            raise ReductionError(f"{verb} ends, but has not begun", mend=f"call {verb}_begin before")
        finish(flight.steps)
        return flight.values

    def _rows(self, verb: str, values: AnyArray, op: Operation) -> AnyArray:
        """Check values and return them as (n_keys, k); ranks compare what they do when they first do it."""
        call = (verb, op, values.dtype.str, values.shape[1:])
        if call not in self._agreed:
            agree(self.comm, _fault(self, verb, values, op))
            shape = "x".join(map(str, values.shape[1:])) or "one"
            _same_on_all(self.comm, f"{verb} ({op}) of {values.dtype} values, {shape} a key")
            self._agreed.add(call)
        elif (fault := _fault(self, verb, values, op)) is not None:
            raise fault
        return values.reshape(len(values), int(np.prod(values.shape[1:], dtype=np.int64)))


def _fault(plan: ReductionPlan, verb: str, values: AnyArray, op: str) -> ReductionError | None:
    where = f"{verb} on rank {plan.comm.rank}"
    if values.ndim < 1 or len(values) != plan.index_map.n_keys:
        return ReductionError(
            f"values of shape {values.shape} for {plan.index_map.n_keys} keys",
            where=where,
            mend="give one row for each key of the plan's index map",
        )
    if values.dtype not in DTYPES:
        known = ", ".join(np.dtype(dtype).name for dtype in DTYPES)
        return ReductionError(f"values of dtype {values.dtype}", where=where, mend=f"known: {known}")
    if not (values.flags.c_contiguous and values.flags.writeable):
        return ReductionError("values must be C-contiguous and writeable", where=where)
    if op not in ("sum", "max", "min", "or"):
        return ReductionError(f"no operation '{op}'", where=where, mend="known: sum, max, min, or")
    if op == "or" and verb != "broadcast" and values.dtype.kind == "f":
        return ReductionError("'or' needs integers", where=where)
    return None


def _unknown(algorithm: str, setup: str, options: Options) -> PetamapError | None:
    if algorithm not in ALGORITHMS:
        return ConfigError(f"no reduction '{algorithm}'", mend=did_you_mean(algorithm, list(ALGORITHMS)))
    if setup not in SETUPS:
        return ConfigError(f"no reduction set-up '{setup}'", mend=did_you_mean(setup, list(SETUPS)))
    return options.fault()


def _same_on_all(comm: Communicator, what: str) -> None:
    """Raise on all ranks unless all of them say the same. Collective."""
    first = comm.bcast(what)
    error = None
    if what != first:
        error = ReductionError(
            f"ranks differ: rank 0 asks for {first}, rank {comm.rank} for {what}",
            mend="ask for the same on all",
        )
    agree(comm, error)
