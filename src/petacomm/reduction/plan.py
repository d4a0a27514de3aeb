"""Reduction plans: set up once for the keys of all ranks, called any number of times."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_dtype, require_instance, whole_numbers
from petacomm.base.display import Displayed
from petacomm.base.errors import ConfigError, UserError, did_you_mean, is_known
from petacomm.base.timers import Timers
from petacomm.base.typing import AnyArray, BoolArray, Int32Array, Int64Array
from petacomm.costs.options import ReductionOptions
from petacomm.mpi.agreement import agree, require_same_text
from petacomm.mpi.autotuner import Choice
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.mpi.persistent import Transport
from petacomm.network import Load
from petacomm.reduction.algorithms import ALGORITHMS, ReductionAlgorithm
from petacomm.reduction.call_checks import ReductionCall, Verb, as_rows, check_call, row_width
from petacomm.reduction.call_steps import OwnerOperation, PendingCall, call_steps
from petacomm.reduction.fixed_point import FixedPoint
from petacomm.reduction.plan_report import plan_report_lines
from petacomm.reduction.row_exchange import run_steps
from petacomm.reduction.tuner import Calls, ReductionTuner, algorithm_load
from petacomm.sharing.index_map import IndexMap, ReductionError, communicator_error
from petacomm.sharing.setup import SETUPS
from petacomm.sharing.sharing_graph import SharingGraph

Checks: TypeAlias = Literal["every", "first"]
AUTO = "auto"


class ReductionPlan(Displayed):
    """Plan of reductions of values on keys that several ranks hold. All methods are collective.

    Each call takes values of shape (n_keys, ...), C-contiguous, of dtype int64, float64, float32 or uint8,
    with the same dtype and row shape on all ranks, and works in place. All axes but the first are sent in the
    same messages, e.g. k values of several right-hand sides, (n_keys, n_rhs, k).

    - ``allreduce``: all holders of a key get the reduction over its holders, with the same bits;
    - ``reduce``: only the owner of a key gets it; the values of ghosts do not change (reverse scatter, ghosts
      reduced onto owners);
    - ``broadcast``: ghosts get the values of their owners (forward scatter, owners to ghosts).

    Each call also exists in two halves, ``allreduce_begin`` and ``allreduce_end`` and so on, between which
    messages are sent while the caller computes. A plan has at most one pending call.

    Parameters
    ----------
    index_map : IndexMap
        Keys of this rank.
    algorithm : str
        One of `ALGORITHMS`: "pairwise", "owner", "butterfly", "dense", "hierarchical" or "hybrid"; or "auto",
        which chooses in the first call, by predicted and measured times for the values of that call.
    setup : str
        One of `SETUPS`: "rendezvous" or "gather-sift".
    buffer_keys : int
        Keys of a buffer of "dense" and "gather-sift", for which memory is traded for messages.
    n_threads : int
        Threads of the local work.
    transport : str
        One of `TRANSPORTS`, for the messages of all algorithms but "dense": "alltoallv", "neighbour" or
        "persistent".
    radix : int
        Parts into which "butterfly" splits a group of ranks, 2 or more.
    theta, mu : float, int
        "hybrid" first sums on each node. Keys that at least a fraction theta of the nodes hold are then
        reduced as by "dense", keys of at most mu nodes as by "pairwise", and others as by "hierarchical".
    packing : str
        Rows that "pairwise", "owner" and "butterfly" send are "packed" into messages, or sent by "indexed"
        datatypes; "auto" times both in the first call of a kind of values, and caches which is faster.
    checks : str
        "every" compares the arguments of ranks in each call, by one small all-reduce: if they differ, or
        values do not fit, all ranks raise the same error before any value is sent. "first" does so only in
        the first call of each kind (verb, operation, dtype and row shape): an error in a later call is raised
        on its rank only, and a new kind of call on some ranks is a deadlock.
    comm : Communicator, optional
        Communicator of the caller; an index map of another one is an error.

    Attributes
    ----------
    index_map : IndexMap
    comm : Communicator
    graph : SharingGraph
        Owners and multiplicities of the keys.
    choice : Choice or None
        Choice of "auto"; None before the first call.

    Raises
    ------
    ConfigError
        On all ranks, if there is no such algorithm, set-up or transport.
    ReductionError
        If arguments differ between ranks; in calls, if values do not fit the plan.

    Notes
    -----
    Integer sums wrap around; they do not depend on the algorithm or on the order of the ranks. NaNs are not
    ordered, so "max" and "min" are defined for values without NaNs.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> keys = petacomm.IndexMap(petacomm.world(), np.array([2, 3, 5]))
    >>> plan = petacomm.ReductionPlan(keys, algorithm="owner")
    >>> values = np.array([0.5, 1.0, 2.0])
    >>> plan.allreduce(values)  # a single process is the only holder of its keys
    array([0.5, 1. , 2. ])
    >>> plan.multiplicity
    array([1, 1, 1], dtype=int32)
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
        require_instance(index_map, "index_map", IndexMap, "give IndexMap(comm, keys)")
        self.index_map, self.comm = index_map, index_map.comm if comm is None else comm
        self.algorithm = algorithm
        self.setup = setup
        self.checks = checks
        self._options = options = ReductionOptions(
            buffer_keys, n_threads, transport, radix, theta, mu, packing
        )
        agree(self.comm, self._argument_error())
        text = f"{algorithm}, {setup}, {replace(options, n_threads=1)}, checks of {checks} call"
        require_same_text(self.comm, text, ReductionError)
        self._timers = Timers()
        self.choice: Choice | None = None
        self._chosen: ReductionAlgorithm | None = None
        self.graph = self._make_graph(algorithm != AUTO and ALGORITHMS[algorithm].needs_overlaps)
        if algorithm != AUTO:
            self._use(self._build(algorithm))
        self.graph = self.graph.compact(self.comm.size)
        self._agreed: set[ReductionCall] = set()
        self._pending: PendingCall | None = None
        self._words: Int64Array | None = None

    def _facts(self) -> dict[str, object]:
        own = {"n_global": self.n_global, "algorithm": self.chosen or self.algorithm}
        return self.index_map._facts() | own

    def _argument_error(self) -> UserError | None:
        """Return the error of the arguments of this rank; None if they are valid."""
        for kind, name, known in [
            ("reduction", self.algorithm, [AUTO, *ALGORITHMS]),
            ("reduction set-up", self.setup, list(SETUPS)),
            ("checks", self.checks, ["every", "first"]),
        ]:
            if not is_known(name, known):
                return ConfigError(f"no {kind} '{name}'", mend=did_you_mean(name, known))
        return communicator_error(self.index_map, self.comm) or self._options.error()

    def _make_graph(self, needs_overlaps: bool) -> SharingGraph:
        if self.comm.size == 1:
            return SharingGraph.single_rank(self.index_map.n_keys)
        setup, buffer_keys = SETUPS[self.setup], self._options.buffer_keys
        return setup(self.comm, self.index_map.keys, needs_overlaps, buffer_keys, self._timers)

    def _build(self, algorithm: str) -> ReductionAlgorithm:
        kind = ALGORITHMS[algorithm]
        # The overlaps, which may be large, belong to the algorithm: they are freed with a rejected candidate.
        missing = kind.needs_overlaps and self.graph.overlaps is None
        graph = self._make_graph(True) if missing else self.graph
        with self._timers.phase("initialise"):
            return kind(self.comm, self.index_map.keys, graph, self._options)

    def _use(self, algorithm: ReductionAlgorithm) -> None:
        self._chosen, self.graph = algorithm, algorithm.graph

    @property
    def _executor(self) -> ReductionAlgorithm:
        if self._chosen is None:
            raise ReductionError(
                "no algorithm is chosen yet", mend="call `choose`, or reduce something before"
            )
        return self._chosen

    @property
    def setup_times(self) -> dict[str, float]:
        """Seconds of each phase of the set-up."""
        return {name: phase.seconds for name, phase in self._timers.phases.items()}

    def choose(self, k: int = 1, dtype: npt.DTypeLike = np.float64, *, calls: Calls = "allreduce") -> str:
        """Return the name of the algorithm, which "auto" chooses now if it has not before.

        Parameters
        ----------
        k : int
            Number of values of a key.
        dtype : dtype
            Dtype of the values; int64 for exact sums.
        calls : str
            What calls will be: "allreduce"; "split", `reduce` and `broadcast`, or with an `owner_op`; or
            "owned_rows", those of `OwnedRows` that keep ghosts: split unless `allreduce_only`.

        Returns
        -------
        str
        """
        if self._chosen is None:
            tuner = ReductionTuner(self.comm, self.index_map.keys, self.graph, self._options, self._build)
            self.choice, chosen = tuner.choose(k, np.dtype(dtype), calls)
            self._use(chosen)
        return str(self.chosen)

    @property
    def chosen(self) -> str | None:
        """Name of the algorithm; None before "auto" has chosen."""
        return self.choice.name if self.choice is not None else (self.algorithm if self._chosen else None)

    @property
    def allreduce_only(self) -> bool:
        """Whether `reduce` and `broadcast` are those of another algorithm than the chosen one."""
        return self._chosen is not None and self._chosen.allreduce_only

    def report(self) -> str:
        """Return a table of volumes, multiplicities, memory, set-up times, and the choice of the algorithm.

        Returns
        -------
        str
        """
        return "\n".join(plan_report_lines(self))

    @property
    def owned(self) -> BoolArray:
        """Whether this rank owns each key, bool (n_keys,); exactly one holder of a key does."""
        return np.asarray(self.graph.owner == self.comm.rank)

    @property
    def multiplicity(self) -> Int32Array:
        """Number of ranks that hold each key, int32 (n_keys,); a new array at each access."""
        return self.graph.multiplicity.astype(np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that this rank keeps for the plan, its keys included, without values."""
        lists = 0 if self._chosen is None else self._chosen.nbytes
        return self.index_map.keys.nbytes + self.graph.nbytes + lists

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the buffers for values that the calls so far needed."""
        words = 0 if self._words is None else self._words.nbytes
        return words if self._chosen is None else words + self._chosen.buffer_bytes

    @property
    def n_global(self) -> int:
        """Number of distinct keys on all ranks."""
        return self.graph.n_global

    @property
    def partners(self) -> Int64Array:
        """Ranks with which this rank exchanges messages in an all-reduce, int64 (n,)."""
        return self._executor.partners

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        """Return the bytes that this rank sends in one all-reduce. Not collective.

        Parameters
        ----------
        k, itemsize : int
            Number of values of a key, and bytes of a value.

        Returns
        -------
        int
        """
        return self._executor.bytes_per_call(k, itemsize)

    def load(self) -> Load:
        """Return the load of an all-reduce on the busiest rank and the busiest node, phase by phase.

        Returns
        -------
        tuple of LoadPhase
        """
        return algorithm_load(self.comm, self._executor)

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> AnyArray:
        """Return a vector that the algorithm reduces in place; "auto" chooses now if it has not before.

        Parameters
        ----------
        shape : tuple of int
            (n_keys, ...).
        dtype : dtype

        Returns
        -------
        array
            Uninitialised.
        """
        self.choose(row_width(whole_numbers(shape, "shape")), require_dtype(dtype))
        return self._executor.empty(shape, dtype)

    def allreduce(
        self,
        values: AnyArray,
        op: Operation = "sum",
        *,
        owner_op: OwnerOperation | None = None,
        exact: bool = False,
    ) -> AnyArray:
        """Reduce the values of all holders of each key, onto all of them.

        Parameters
        ----------
        values : array (n_keys, ...)
            Values of the keys, reduced in place.
        op : str
            "sum", "max", "min" or, of integers, "or".
        owner_op : callable, optional
            Called once with the reduced rows of the keys that this rank owns, (n_owned, ...) in the order of
            its keys, which it changes in place before they are sent to all holders.
        exact : bool
            Sum floating-point values as integers (see `FixedPoint` for the rounding error): the bits then
            depend neither on the algorithm nor on the order of the ranks.

        Returns
        -------
        array (n_keys, ...)
            `values`.
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
        """Start an `allreduce`; `values` must not be accessed before `allreduce_end`.

        Parameters
        ----------
        values : array (n_keys, ...)
            Values of the keys, reduced in place.
        op : str
            "sum", "max", "min" or, of integers, "or".
        owner_op : callable, optional
            Changes the reduced rows of owned keys in place.
        exact : bool
            Sum floating-point values as integers, as in `allreduce`.
        """
        self._begin(
            ReductionCall.on_values("allreduce", values, op, exact, owner_op is not None), values, owner_op
        )

    def allreduce_end(self) -> AnyArray:
        """Finish the pending all-reduce.

        Returns
        -------
        array (n_keys, ...)
            The values of `allreduce_begin`.
        """
        return self._end("allreduce")

    def reduce(self, values: AnyArray, op: Operation = "sum", *, exact: bool = False) -> AnyArray:
        """Reduce the values of all holders of each key onto its owner; those of ghosts do not change.

        Parameters
        ----------
        values : array (n_keys, ...)
            Values of the keys, reduced in place.
        op : str
            "sum", "max", "min" or, of integers, "or".
        exact : bool
            Sum floating-point values as integers, as in `allreduce`.

        Returns
        -------
        array (n_keys, ...)
            `values`.
        """
        self.reduce_begin(values, op, exact=exact)
        return self.reduce_end()

    def reduce_begin(self, values: AnyArray, op: Operation = "sum", *, exact: bool = False) -> None:
        """Start a `reduce`; `values` must not be accessed before `reduce_end`.

        Parameters
        ----------
        values : array (n_keys, ...)
            Values of the keys, reduced in place.
        op : str
            "sum", "max", "min" or, of integers, "or".
        exact : bool
            Sum floating-point values as integers, as in `allreduce`.
        """
        self._begin(ReductionCall.on_values("reduce", values, op, exact), values)

    def reduce_end(self) -> AnyArray:
        """Finish the pending reduction.

        Returns
        -------
        array (n_keys, ...)
            The values of `reduce_begin`.
        """
        return self._end("reduce")

    def broadcast(self, values: AnyArray) -> AnyArray:
        """Overwrite the values of ghosts with those of their owners.

        Parameters
        ----------
        values : array (n_keys, ...)
            Values of the keys, changed in place.

        Returns
        -------
        array (n_keys, ...)
            `values`.
        """
        self.broadcast_begin(values)
        return self.broadcast_end()

    def broadcast_begin(self, values: AnyArray) -> None:
        """Start a `broadcast`; `values` must not be accessed before `broadcast_end`.

        Parameters
        ----------
        values : array (n_keys, ...)
            Values of the keys, changed in place.
        """
        self._begin(ReductionCall.on_values("broadcast", values, "or"), values)

    def broadcast_end(self) -> AnyArray:
        """Finish the pending broadcast.

        Returns
        -------
        array (n_keys, ...)
            The values of `broadcast_begin`.
        """
        return self._end("broadcast")

    def _begin(self, call: ReductionCall, values: AnyArray, owner_op: OwnerOperation | None = None) -> None:
        if self._pending is not None:
            raise ReductionError(
                f"{call.verb} begins before {self._pending.verb} has ended",
                mend="a plan makes one call at a time",
            )
        agreed = self._agreed if self.checks == "first" else set()
        n_threads = self._options.n_threads
        largest = check_call(self.comm, call, values, self.index_map.n_keys, agreed, n_threads)
        dtype, is_split = np.int64 if call.fixed_point else values.dtype, call.verb != "allreduce"
        calls: Calls = "split" if is_split or owner_op is not None else "allreduce"
        self.choose(row_width(values.shape), dtype, calls=calls)
        fixed, words = None, None
        if call.fixed_point:
            fixed = FixedPoint(largest, self._most_holders, n_threads)
            words = self._words_like(as_rows(values))
        steps = call_steps(self._executor, call, values, owner_op, fixed, words)
        next(steps, None)
        self._pending = PendingCall(call.verb, values, steps)

    def _end(self, verb: Verb) -> AnyArray:
        pending = self._pending
        if pending is None or pending.verb != verb:
            raise ReductionError(f"{verb} ends, but has not begun", mend=f"call {verb}_begin before")
        self._pending = None
        run_steps(pending.steps)
        return pending.values

    def _words_like(self, rows: AnyArray) -> Int64Array:
        """Return int64 memory of the shape of rows, the same in each call."""
        if self._words is None or self._words.shape != rows.shape:
            self._words = self.empty(rows.shape, np.int64)
        return self._words

    @functools.cached_property
    def _most_holders(self) -> int:
        """Largest multiplicity of a key. Collective."""
        return int(self.comm.max(int(self.graph.multiplicity.max(initial=1))))
