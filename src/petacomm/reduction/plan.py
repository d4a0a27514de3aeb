"""The reduction plan: set up once for a set of keys, called as often as needed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError, UserError, did_you_mean
from petacomm.base.timers import Timers
from petacomm.base.typing import AnyArray, BoolArray, Int32Array, Int64Array
from petacomm.costs.options import Options
from petacomm.mpi.agreement import agree
from petacomm.mpi.autotuner import Choice
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.mpi.persistent import Transport
from petacomm.network import Load
from petacomm.reduction.algorithms import ALGORITHMS, Algorithm
from petacomm.reduction.call_checks import Call, Verb, agree_on, same_on_all
from petacomm.reduction.fixed_point import FixedPoint, largest_value
from petacomm.reduction.plan_report import report_lines
from petacomm.reduction.row_exchange import Steps, finish
from petacomm.reduction.tuner import Tuner, load_of
from petacomm.sharing.index_map import IndexMap, ReductionError
from petacomm.sharing.setup import SETUPS
from petacomm.sharing.sharing_graph import SharingGraph

# Changes rows of values (n_owned, ...) in place.
OwnerOperation: TypeAlias = Callable[[AnyArray], object]
Checks: TypeAlias = Literal["every", "first"]
AUTO = "auto"


@dataclass
class _Flight:
    """A call that has begun and not ended."""

    verb: Verb
    values: AnyArray
    steps: Steps


class ReductionPlan:
    """Reductions of values on keys that several ranks hold. All methods are collective.

    Each verb takes values of shape (n_keys, ...), C-contiguous, of dtype int64, float64, float32 or uint8,
    the same dtype and row shape on all ranks, and works in place. All axes but the first go in the same
    messages, e.g. k values of several right-hand sides, (n_keys, n_rhs, k).

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
        One of `ALGORITHMS`: "pairwise", "owner", "butterfly", "dense", "hierarchical" or
        "hybrid"; or "auto", which chooses in the first call, by the model and the clock, for the values of
        that call.
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
        "hybrid" sums on each node first. What at least a share theta of the nodes hold then crosses as by
        "dense", what at most mu nodes hold as by "pairwise", and the rest as by "hierarchical".
    packing : str
        What ranks send each other in "pairwise", "owner" and "butterfly" is "packed" into messages, or sent
        from where it lies by "indexed" datatypes; "auto" times both in the first call of a kind of values,
        and remembers which is quicker.
    checks : str
        "every" compares what ranks ask for in every call, by one small all-reduce: where they differ, or
        values do not fit, all raise the same error before any value moves. "first" does so in the first call
        of each kind (verb, operation, dtype and row shape) alone, for loops of one call: a fault in a later
        one is an error of its rank alone, and a new kind of call on some ranks waits for the others.
    comm : Communicator, optional
        The communicator that the caller works on; an index map of another one is an error.

    Attributes
    ----------
    owned : bool (n_keys,)
        Whether this rank owns the key; exactly one holder of each key does.
    multiplicity : int32 (n_keys,)
        How many ranks hold the key; made at each look.
    nbytes : int
        Bytes of all arrays that this rank keeps for the plan, its keys among them, but no values.
    buffer_bytes : int
        Bytes that it keeps for values on their way, which the calls so far needed.
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
        algorithm: str = AUTO,
        setup: str = "rendezvous",
        buffer_keys: int = 1 << 20,
        n_threads: int = 1,
        transport: Transport = "alltoallv",
        radix: int = 4,
        theta: float = 0.9,
        mu: int = 2,
        packing: str = "packed",
        checks: Checks = "every",
        comm: Communicator | None = None,
    ) -> None:
        self.index_map = index_map
        self.comm: Communicator = index_map.comm if comm is None else comm
        self.algorithm = algorithm
        self.setup = setup
        self.checks = checks
        self._options = options = Options(buffer_keys, n_threads, transport, radix, theta, mu, packing)
        agree(self.comm, self._fault())
        text = f"{algorithm}, {setup}, {replace(options, n_threads=1)}, checks of {checks} call"
        same_on_all(self.comm, text)
        self._timers = Timers()
        self.choice: Choice | None = None
        self._chosen: Algorithm | None = None
        self.graph = self._make_graph(algorithm != AUTO and ALGORITHMS[algorithm].needs_overlaps)
        if algorithm != AUTO:
            self._take(self._build(algorithm))
        self.graph = self.graph.kept(self.comm.size)
        self._agreed: set[Call] = set()
        self._flight: _Flight | None = None
        self._terms: AnyArray | None = None

    def _fault(self) -> UserError | None:
        """Return what is wrong with the choices of this rank, if anything."""
        for kind, name, known in [
            ("reduction", self.algorithm, [AUTO, *ALGORITHMS]),
            ("reduction set-up", self.setup, list(SETUPS)),
            ("checks", self.checks, ["every", "first"]),
        ]:
            if name not in known:
                return ConfigError(f"no {kind} '{name}'", mend=did_you_mean(name, known))
        if self.index_map.comm is not self.comm:
            return ReductionError(
                "the index map belongs to another communicator",
                where=f"rank {self.comm.rank}",
                mend="make an index map on the communicator of the plan",
            )
        return self._options.fault()

    def _make_graph(self, needs_overlaps: bool) -> SharingGraph:
        if self.comm.size == 1:
            return SharingGraph.alone(self.index_map.n_keys)
        setup, buffer_keys = SETUPS[self.setup], self._options.buffer_keys
        return setup(self.comm, self.index_map.keys, needs_overlaps, buffer_keys, self._timers)

    def _build(self, algorithm: str) -> Algorithm:
        kind = ALGORITHMS[algorithm]
        # A candidate's lists of pairs, which may be long, go when it goes.
        missing = kind.needs_overlaps and self.graph.overlaps is None
        graph = self._make_graph(True) if missing else self.graph
        with self._timers.phase("initialise"):
            return kind(self.comm, self.index_map.keys, graph, self._options)

    def _take(self, algorithm: Algorithm) -> None:
        self._chosen, self.graph = algorithm, algorithm.graph

    @property
    def _executor(self) -> Algorithm:
        if self._chosen is None:
            raise ReductionError(
                "no algorithm is chosen yet", mend="call `choose`, or reduce something before"
            )
        return self._chosen

    @property
    def setup_times(self) -> dict[str, float]:
        return {name: phase.seconds for name, phase in self._timers.phases.items()}

    def choose(self, k: int = 1, dtype: npt.DTypeLike = np.float64, *, in_halves: bool = False) -> str:
        """Return the algorithm of this plan; "auto" chooses it unless it has, otherwise in the first call.

        Parameters
        ----------
        k : int
            Values of a key.
        dtype : dtype
            Of the values; int64 for exact sums.
        in_halves : bool
            Whether the plan will be called to reduce and to broadcast, or with `owner_op`.
        """
        if self._chosen is None:
            tuner = Tuner(self.comm, self.index_map.keys, self.graph, self._options, self._build)
            self.choice, chosen = tuner.choose(k, np.dtype(dtype), in_halves)
            self._take(chosen)
        return str(self.chosen)

    def _choose_for(self, call: Call, values: AnyArray, in_halves: bool) -> None:
        dtype = np.dtype(np.int64) if call.fixed_point else values.dtype
        self.choose(_row_width(values.shape), dtype, in_halves=in_halves)

    @property
    def chosen(self) -> str | None:
        """The name of the algorithm that executes the plan; None while "auto" has not chosen."""
        return self.choice.name if self.choice is not None else (self.algorithm if self._chosen else None)

    def report(self) -> str:
        """Return a table of volumes, partners, multiplicities, set-up times, and why this algorithm."""
        return "\n".join(report_lines(self))

    @property
    def owned(self) -> BoolArray:
        owned: BoolArray = self.graph.owner == self.comm.rank
        return owned

    @property
    def multiplicity(self) -> Int32Array:
        return self.graph.multiplicity.astype(np.int32)

    @property
    def nbytes(self) -> int:
        lists = 0 if self._chosen is None else self._chosen.nbytes
        return self.index_map.keys.nbytes + self.graph.nbytes + lists

    @property
    def buffer_bytes(self) -> int:
        values = 0 if self._chosen is None else self._chosen.buffer_bytes
        return values + (0 if self._terms is None else self._terms.nbytes)

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
        return load_of(self.comm, self._executor)

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> AnyArray:
        """Return an uninitialised vector (n_keys, ...) that the algorithm reduces without copying it.

        Where "auto" has not chosen, it chooses for such vectors.
        """
        self.choose(_row_width(shape), dtype)
        return self._executor.empty(shape, dtype)

    def allreduce(
        self,
        values: AnyArray,
        op: Operation = "sum",
        *,
        owner_op: OwnerOperation | None = None,
        exact: bool = False,
    ) -> AnyArray:
        """Reduce the values of all holders of each key, onto all of them; return `values`.

        Parameters
        ----------
        values : array (n_keys, ...)
        op : str
            "sum", "max", "min" or, of integers, "or".
        owner_op : callable, optional
            Called once with the reduced rows of the keys that this rank owns, (n_owned, ...) in the order of
            its keys; what it writes there goes to all holders.
        exact : bool
            Sum floating-point values as integers (see `FixedPoint`, which states the rounding): the bits
            then depend neither on the algorithm nor on the order of the ranks.
        """
        self.allreduce_begin(values, op, owner_op=owner_op, exact=exact)
        return self.allreduce_end()

    def allreduce_begin(
        self,
        values: AnyArray,
        op: Operation = "sum",
        *,
        owner_op: OwnerOperation | None = None,
        exact: bool = False,
    ) -> None:
        """Start an all-reduce; `values` must be left alone until `allreduce_end`."""
        self._begin(Call.of("allreduce", values, op, exact, owner_op is not None), values, owner_op)

    def allreduce_end(self) -> AnyArray:
        """Finish the all-reduce that was begun, and return its values."""
        return self._end("allreduce")

    def reduce(self, values: AnyArray, op: Operation = "sum", *, exact: bool = False) -> AnyArray:
        """Reduce the values of all holders of each key onto its owner; return `values`."""
        self.reduce_begin(values, op, exact=exact)
        return self.reduce_end()

    def reduce_begin(self, values: AnyArray, op: Operation = "sum", *, exact: bool = False) -> None:
        """Start a reduction onto owners; `values` must be left alone until `reduce_end`."""
        self._begin(Call.of("reduce", values, op, exact), values)

    def reduce_end(self) -> AnyArray:
        """Finish the reduction that was begun, and return its values."""
        return self._end("reduce")

    def broadcast(self, values: AnyArray) -> AnyArray:
        """Overwrite the values of ghosts with those of their owners; return `values`."""
        self.broadcast_begin(values)
        return self.broadcast_end()

    def broadcast_begin(self, values: AnyArray) -> None:
        """Start a broadcast; `values` must be left alone until `broadcast_end`."""
        self._begin(Call.of("broadcast", values, "or"), values)

    def broadcast_end(self) -> AnyArray:
        """Finish the broadcast that was begun, and return its values."""
        return self._end("broadcast")

    def _begin(self, call: Call, values: AnyArray, owner_op: OwnerOperation | None = None) -> None:
        if self._flight is not None:
            raise ReductionError(
                f"{call.verb} begins before {self._flight.verb} has ended",
                mend="a plan makes one call at a time",
            )
        largest = self._agree_on(call, values)
        self._choose_for(call, values, in_halves=call.verb != "allreduce" or owner_op is not None)
        steps = self._steps(call, values, largest, owner_op)
        next(steps, None)
        self._flight = _Flight(call.verb, values, steps)

    def _end(self, verb: Verb) -> AnyArray:
        flight = self._flight
        if flight is None or flight.verb != verb:
            raise ReductionError(f"{verb} ends, but has not begun", mend=f"call {verb}_begin before")
        self._flight = None
        finish(flight.steps)
        return flight.values

    def _agree_on(self, call: Call, values: AnyArray) -> float:
        """Raise unless this is a call that all ranks make; return the largest value if it is needed."""
        fault = call.fault(values, self.index_map.n_keys, self.comm.rank)
        largest = 0.0
        if fault is None and call.fixed_point:
            largest = largest_value(_as_rows(values), self._options.n_threads)
        if self.checks == "every" or call not in self._agreed:
            largest = agree_on(self.comm, call, fault, largest)
            self._agreed.add(call)
        elif fault is not None:
            raise fault
        elif call.fixed_point:
            largest = self.comm.max(largest)
        if not math.isfinite(largest):
            where = f"{call.verb} on rank {self.comm.rank}"
            lost = None if np.isfinite(values).all() else ReductionError("a value is not finite", where=where)
            agree(self.comm, lost)
        return largest

    def _steps(self, call: Call, values: AnyArray, largest: float, owner_op: OwnerOperation | None) -> Steps:
        run, rows = self._executor, _as_rows(values)
        if call.verb == "broadcast":
            yield from run.broadcast(rows)
            return
        terms, fixed = rows, None
        if call.fixed_point:
            fixed = FixedPoint(largest, self._most_holders, self._options.n_threads)
            terms = self._terms_like(rows)
            fixed.to_words(rows, terms)
        if call.verb == "allreduce" and owner_op is None:
            yield from run.allreduce(terms, call.op)
            if fixed is not None:
                fixed.to_values(terms, rows)
            return
        yield from run.reduce(terms, call.op)
        owned = np.flatnonzero(self.owned)
        if fixed is not None:
            sums = np.empty((len(owned), rows.shape[1]), rows.dtype)
            fixed.to_values(terms[owned], sums)
            rows[owned] = sums
        if owner_op is not None:
            reduced = values[owned]
            owner_op(reduced)
            values[owned] = reduced
            yield from run.broadcast(rows)

    def _terms_like(self, rows: AnyArray) -> AnyArray:
        if self._terms is None or self._terms.shape != rows.shape:
            self._terms = self.empty(rows.shape, np.int64)
        return self._terms

    @functools.cached_property
    def _most_holders(self) -> int:
        """The most ranks that hold a key. Collective."""
        return int(self.comm.max(int(self.graph.multiplicity.max(initial=1))))


def _as_rows(values: AnyArray) -> AnyArray:
    return values.reshape(len(values), _row_width(values.shape))


def _row_width(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape[1:], dtype=np.int64))
