"""Choice of the algorithm of a plan: by predicted times if these are clear, else by timing the best ones.

A candidate is built and timed only if it may save more time, over the expected calls of a plan, than that
costs. Rank 0 reads the cache and the machine, and decides for all ranks. Results never depend on the choice.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.costs.algorithm_loads import SharingCounts, loads_from_counts
from petacomm.costs.options import ReductionOptions
from petacomm.costs.sampled_loads import estimate_loads
from petacomm.mpi.autotuner import (
    Candidate,
    Choice,
    call_seconds,
    load_choice,
    save_choice,
    short_hash,
    tuning_environment,
)
from petacomm.mpi.communicator import Communicator
from petacomm.network import Load, RankLoad, busiest_load, predict_seconds
from petacomm.network.fit import Timing
from petacomm.network.fitted_machine import add_timings, fitted_machine
from petacomm.reduction.algorithms import ALGORITHMS, ReductionAlgorithm
from petacomm.reduction.row_exchange import run_steps
from petacomm.sharing.sharing_graph import SharingGraph
from petacomm.topology import Machine

# Most candidates that are timed.
_MOST_TIMED = 2
# Factor within which ratios of predicted times are correct: after a fit to this machine, and before.
_TRUST_FITTED = 1.5
TRUST_GUESS = 2.5
# Expected number of calls of a plan, and cost of building and timing a candidate in calls.
_EXPECTED_CALLS = 50
_TRIAL_CALLS = 15
# Predicted seconds of a call below which timing is not worthwhile.
_SHORT_S = 100e-6
# Timed calls of a candidate; one call suffices if it is slower than the best by this factor.
_CALLS = 3
_SLOW = 1.5
# Version of the cached choices: to be increased with changes of algorithms that affect their times.
_VERSION = 7

Calls: TypeAlias = Literal["allreduce", "split", "owned_rows"]


class ReductionTuner:
    """Tuner that chooses the algorithm of a plan. All methods are collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_keys,)
        Keys of this rank.
    graph : SharingGraph
    options : ReductionOptions
    build : callable
        Returns the algorithm of a name. Collective.
    """

    def __init__(
        self,
        comm: Communicator,
        keys: Int64Array,
        graph: SharingGraph,
        options: ReductionOptions,
        build: Callable[[str], ReductionAlgorithm],
    ) -> None:
        self.comm = comm
        self.keys = keys
        self.graph = graph
        self.options = options
        self.build = build

    def choose(self, k: int, dtype: np.dtype[Any], calls: Calls) -> tuple[Choice, ReductionAlgorithm]:
        """Return the choice for rows of `k` values of `dtype`, and its algorithm.

        Parameters
        ----------
        k : int
        dtype : dtype
        calls : str
            Whether calls are all-reduces, pairs of a reduction and a broadcast, or those of owned rows: the
            latter, unless the algorithm is an all-reduce alone.
        """
        self._calls = calls
        if self.comm.size == 1:
            return Choice("owner", "one rank", subject=_subject(k, dtype)), self.build("owner")
        self._environment = tuning_environment(self.comm)
        self._ranks_per_node = int(np.bincount(self.comm.node_of).max())
        loads = self._all_rank_loads()
        key = (
            _VERSION,
            sorted(self._environment.items()),
            loads.tobytes(),
            k,
            dtype.str,
            calls,
            self.options,
        )
        file = f"reductions/{short_hash(key)}.json"
        choice = load_choice(self.comm, file, ALGORITHMS)
        if choice is None:
            return self._decide(loads, k, dtype, file)
        return choice, self.build(choice.name)

    def _all_rank_loads(self) -> AnyArray:
        """Return the loads of all ranks that follow from counts, float64 (size, n_phases, n_counts)."""
        own = loads_from_counts(
            SharingCounts.from_graph(self.comm, self.keys, self.graph),
            self.graph.n_global,
            self.options.buffer_keys,
            self.comm.node_of,
            self.comm.rank,
        )
        self._phases = {name: len(phases) for name, phases in own.items()}
        counts = np.array([load for phases in own.values() for load in phases], np.float64)
        return self.comm.allgather_rows(counts[np.newaxis])[0]

    def _decide(
        self, rank_loads: AnyArray, k: int, dtype: np.dtype[Any], file: str
    ) -> tuple[Choice, ReductionAlgorithm]:
        loads = self._loads(rank_loads)
        machine = fitted_machine(self._environment) if self.comm.rank == 0 else None
        predicted = self._predict(loads, machine, k, dtype)
        if min(predicted.values()) >= _SHORT_S and self.comm.node_of.any():
            # On one node "hierarchical" sends no messages, and the other algorithms are not faster.
            more = self._estimate_loads()
            loads |= more
            predicted |= self._predict(more, machine, k, dtype)
        timed, title = self.comm.bcast(_to_build(predicted, machine) if machine else None)
        best: tuple[float, str, ReductionAlgorithm] | None = None
        measured: dict[str, float] = {}
        for candidate in timed:
            algorithm = self.build(candidate)
            if len(timed) > 1:
                slow = math.inf if best is None else _SLOW * best[0]
                measured[candidate] = self._time(algorithm, k, dtype, slow)
                if candidate not in self._phases:
                    loads[candidate] = algorithm_load(self.comm, algorithm)
            # The slower of two candidates is dropped before a third is built.
            if best is None or measured[candidate] < best[0]:
                best = measured.get(candidate, 0.0), candidate, algorithm
        assert best is not None
        reason = f"the fastest of {len(timed)} that were timed" if measured else "predicted to be the fastest"
        timings = {
            each: Candidate(predicted.get(each), measured.get(each)) for each in {**predicted, **measured}
        }
        choice = Choice(best[1], reason, timings, _subject(k, dtype), title)
        save_choice(self.comm, file, choice)
        if self.comm.rank == 0:
            self._keep_timings(measured, loads, k, dtype)
        return choice, best[2]

    def _loads(self, rank_loads: AnyArray) -> dict[str, Load]:
        loads, at = {}, 0
        for name, n_phases in self._phases.items():
            phases = rank_loads[:, at : at + n_phases]
            loads[name] = busiest_load(
                [RankLoad(*counts) for counts in phases.transpose(1, 2, 0)], self.comm.node_of
            )
            at += n_phases
        if self._calls == "split":
            # "pairwise" reduces and broadcasts like "owner".
            del loads["pairwise"]
        return loads

    def _estimate_loads(self) -> dict[str, Load]:
        """Return estimated loads of the other algorithms, on rank 0."""
        loads = estimate_loads(self.comm, self.keys, self.graph, self.options)
        # "hybrid" reduces and broadcasts like "hierarchical", and "butterfly" like "owner".
        return {
            name: load for name, load in loads.items() if self._calls != "split" or name == "hierarchical"
        }

    def _predict(
        self, loads: dict[str, Load], machine: Machine | None, k: int, dtype: np.dtype[Any]
    ) -> dict[str, float]:
        """Return the seconds of a call by algorithm, as predicted by rank 0."""
        predicted = machine and {
            name: predict_seconds(load, machine, self._ranks_per_node, k, dtype.itemsize)
            for name, load in loads.items()
        }
        result: dict[str, float] = self.comm.bcast(predicted)
        return result

    def _time(self, algorithm: ReductionAlgorithm, k: int, dtype: np.dtype[Any], slow: float) -> float:
        """Return the median seconds of calls, or those of the first slow one, as measured by rank 0."""
        values = algorithm.empty((len(self.keys), k), dtype)
        values[...] = 0
        self._call(algorithm, values)
        seconds: list[float] = []
        while len(seconds) < _CALLS and max(seconds, default=0.0) <= slow:
            seconds.append(call_seconds(self.comm, functools.partial(self._call, algorithm, values)))
        return float(self.comm.bcast(float(np.median(seconds))))

    def _call(self, algorithm: ReductionAlgorithm, values: AnyArray) -> None:
        if self._calls == "allreduce" or (self._calls == "owned_rows" and algorithm.allreduce_only):
            run_steps(algorithm.allreduce(values, "sum"))
            return
        run_steps(algorithm.reduce(values, "sum"))
        run_steps(algorithm.broadcast(values))

    def _keep_timings(
        self, measured: Mapping[str, float], loads: Mapping[str, Load], k: int, dtype: np.dtype[Any]
    ) -> None:
        """Save timings with their loads, for fits of the machine model."""
        timings = [
            Timing(loads[name], self._ranks_per_node, k, dtype.itemsize, seconds)
            for name, seconds in measured.items()
        ]
        if timings:
            add_timings(self._environment, timings)


def _subject(k: int, dtype: np.dtype[Any]) -> str:
    return f"{k} values of {dtype} a key"


def _to_build(predicted: Mapping[str, float], machine: Machine) -> tuple[list[str], str]:
    """Return the candidates to build, and the title of the machine."""
    trust = TRUST_GUESS if machine.name == "one-node" else _TRUST_FITTED
    return candidates_to_time(predicted, trust), machine.title


def candidates_to_time(predicted: Mapping[str, float], trust: float) -> list[str]:
    """Return the algorithms to be timed; a single one needs no timing.

    Parameters
    ----------
    predicted : mapping of str to float
        Predicted seconds by algorithm.
    trust : float
        Factor within which ratios of predicted times are correct.
    """
    ranked = sorted(predicted, key=lambda name: (predicted[name], name))
    best = predicted[ranked[0]]
    if best < _SHORT_S:
        return ranked[:1]
    near = [name for name in ranked[1:] if worth_timing(predicted[name], best, trust)]
    return [ranked[0], *near][:_MOST_TIMED]


def worth_timing(predicted: float, best: float, trust: float) -> bool:
    """Return whether the most time that a candidate may save is more than building and timing it costs.

    ``_EXPECTED_CALLS (best - predicted / trust) > _TRIAL_CALLS predicted``, in seconds.
    """
    return _EXPECTED_CALLS * (best - predicted / trust) > _TRIAL_CALLS * predicted


def algorithm_load(comm: Communicator, algorithm: ReductionAlgorithm) -> Load:
    """Return the load of an algorithm on the busiest rank and node. Collective."""
    loads = np.array(algorithm.rank_loads(comm.node_of), np.float64).reshape(-1, len(RankLoad._fields))
    all_loads, _ = comm.allgather_rows(loads[np.newaxis])
    return busiest_load([RankLoad(*counts) for counts in all_loads.transpose(1, 2, 0)], comm.node_of)


def choice_table(choice: Choice) -> list[str]:
    """Return a choice as lines of text: predicted and measured milliseconds, and the reason."""
    lines = [f"candidates for {choice.subject} (ms predicted, measured):"]
    for name, candidate in sorted(choice.candidates.items(), key=lambda item: item[1].measured or math.inf):
        lines.append(f"  {name:14}{_ms(candidate.predicted):>12}{_ms(candidate.measured):>12}")
    lines.append(f"predicted for: {choice.machine or 'none'}")
    lines.append(f"chosen: {choice.name}, {choice.reason}")
    return lines


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3f}"
