"""The choice of an algorithm: by the model where that is clear, else the clock decides between the best.

A candidate is built and timed only if it may gain more, over the calls that a plan lives, than finding that
out costs. Only rank 0 reads the cache, the machine and the clocks of the others; what it decides, all do.
Results never depend on the choice.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.costs.algorithm_loads import Sharing, shares_by_counts
from petacomm.costs.options import Options
from petacomm.costs.sampled_loads import sketch
from petacomm.mpi.autotuner import (
    Candidate,
    Choice,
    call_seconds,
    digest,
    place,
    recall_choice,
    remember_choice,
)
from petacomm.mpi.communicator import Communicator
from petacomm.network import Load, Share, busiest, predict
from petacomm.network.fit import Timing
from petacomm.network.fitted_machine import add_timings, this_machine
from petacomm.reduction.algorithms import ALGORITHMS, Algorithm
from petacomm.reduction.row_exchange import finish
from petacomm.sharing.sharing_graph import SharingGraph
from petacomm.topology import Machine

# Of the candidates that the model cannot tell apart, so many are timed.
_TIMED = 2
# Predictions are to each other as the truth is within this factor: after a fit to this machine, and before.
_TRUST_FITTED = 1.5
_TRUST_GUESS = 2.5
# Calls that a plan is expected to make, and calls that it takes to build a candidate and to time it.
_LIFE = 50
_FINDING_OUT = 15
# A call that is predicted to be shorter is not worth timing.
_SHORT_S = 100e-6
# Calls of a candidate that are timed; one will do if it takes so many times longer than the best.
_CALLS = 3
_SLOW = 1.5
# The cache outlives versions of the algorithms: a change in them that moves times counts this up.
_VERSION = 6


class Tuner:
    """Chooses between algorithms for one plan. All methods are collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_keys,)
    graph : SharingGraph
    options : Options
    build : callable
        Makes the algorithm of a name. Collective.
    """

    def __init__(
        self,
        comm: Communicator,
        keys: Int64Array,
        graph: SharingGraph,
        options: Options,
        build: Callable[[str], Algorithm],
    ) -> None:
        self.comm = comm
        self.keys = keys
        self.graph = graph
        self.options = options
        self.build = build

    def choose(self, k: int, dtype: np.dtype[Any], in_halves: bool) -> tuple[Choice, Algorithm]:
        """Choose for rows of `k` values of `dtype`, and return the choice and its algorithm.

        Parameters
        ----------
        k : int
        dtype : dtype
        in_halves : bool
            Whether calls reduce onto owners and broadcast, instead of all at once.
        """
        self._in_halves = in_halves
        if self.comm.size == 1:
            return Choice("owner", "one rank", subject=_subject(k, dtype)), self.build("owner")
        self._where = place(self.comm)
        self._ranks_per_node = int(np.bincount(self.comm.node_of).max())
        every = self._every_share()
        kind = (_VERSION, sorted(self._where.items()), every.tobytes(), k, dtype.str, in_halves, self.options)
        file = f"reductions/{digest(kind)}.json"
        choice = recall_choice(self.comm, file, ALGORITHMS)
        if choice is None:
            return self._decide(every, k, dtype, file)
        return choice, self.build(choice.name)

    def _every_share(self) -> AnyArray:
        """Return the shares of all ranks in all algorithms that counts tell, (size, n_phases, n_counts)."""
        told = shares_by_counts(
            Sharing.of(self.comm, self.keys, self.graph),
            self.graph.n_global,
            self.options.buffer_keys,
            self.comm.node_of,
            self.comm.rank,
        )
        self._phases = {name: len(shares) for name, shares in told.items()}
        mine = np.array([share for shares in told.values() for share in shares], np.float64)
        return self.comm.allgather_rows(mine[np.newaxis])[0]

    def _decide(self, every: AnyArray, k: int, dtype: np.dtype[Any], file: str) -> tuple[Choice, Algorithm]:
        loads = self._loads(every)
        machine = this_machine(self._where) if self.comm.rank == 0 else None
        predicted = self._predict(loads, machine, k, dtype)
        if min(predicted.values()) >= _SHORT_S and self.comm.node_of.any():
            # On one node, where sums in place send nothing, the others would not do better.
            more = self._sketch()
            loads |= more
            predicted |= self._predict(more, machine, k, dtype)
        timed, title = self.comm.bcast(_to_build(predicted, machine) if machine else None)
        best: tuple[float, str, Algorithm] | None = None
        measured: dict[str, float] = {}
        for candidate in timed:
            algorithm = self.build(candidate)
            if len(timed) > 1:
                slow = math.inf if best is None else _SLOW * best[0]
                measured[candidate] = self._time(algorithm, k, dtype, slow)
                if candidate not in self._phases:
                    loads[candidate] = load_of(self.comm, algorithm)
            # Of two candidates, the slower one is let go before a third is built.
            if best is None or measured[candidate] < best[0]:
                best = measured.get(candidate, 0.0), candidate, algorithm
        assert best is not None
        reason = f"the fastest of {len(timed)} that were timed" if measured else "predicted to be the fastest"
        candidates = {
            each: Candidate(predicted.get(each), measured.get(each)) for each in {**predicted, **measured}
        }
        choice = Choice(best[1], reason, candidates, _subject(k, dtype), title)
        remember_choice(self.comm, file, choice)
        if self.comm.rank == 0:
            self._keep_timings(measured, loads, k, dtype)
        return choice, best[2]

    def _loads(self, every: AnyArray) -> dict[str, Load]:
        loads, at = {}, 0
        for name, n_phases in self._phases.items():
            phases = every[:, at : at + n_phases]
            loads[name] = busiest([Share(*counts) for counts in phases.transpose(1, 2, 0)], self.comm.node_of)
            at += n_phases
        if self._in_halves:
            # Pairs have no halves of their own: they go through owners.
            del loads["pairwise"]
        return loads

    def _sketch(self) -> dict[str, Load]:
        """Return about what the algorithms ask for that counts do not tell, on rank 0."""
        found = sketch(self.comm, self.keys, self.graph, self.options)
        # Halves of a hybrid are those of "hierarchical", of nested groups those of "owner".
        return {name: load for name, load in found.items() if not self._in_halves or name == "hierarchical"}

    def _predict(
        self, loads: dict[str, Load], machine: Machine | None, k: int, dtype: np.dtype[Any]
    ) -> dict[str, float]:
        """Return the seconds of an all-reduce by algorithm, as rank 0 predicts them."""
        predicted = machine and {
            name: predict(load, machine, self._ranks_per_node, k, dtype.itemsize)
            for name, load in loads.items()
        }
        result: dict[str, float] = self.comm.bcast(predicted)
        return result

    def _time(self, algorithm: Algorithm, k: int, dtype: np.dtype[Any], slow: float) -> float:
        """Return the median seconds of calls on values of our own, or of one that is slow.

        Rank 0's word is for all.
        """
        values = algorithm.empty((len(self.keys), k), dtype)
        values[...] = 0
        self._call(algorithm, values)
        seconds: list[float] = []
        while len(seconds) < _CALLS and max(seconds, default=0.0) <= slow:
            seconds.append(call_seconds(self.comm, functools.partial(self._call, algorithm, values)))
        return float(self.comm.bcast(float(np.median(seconds))))

    def _call(self, algorithm: Algorithm, values: AnyArray) -> None:
        if not self._in_halves:
            finish(algorithm.allreduce(values, "sum"))
            return
        finish(algorithm.reduce(values, "sum"))
        finish(algorithm.broadcast(values))

    def _keep_timings(
        self, measured: Mapping[str, float], loads: Mapping[str, Load], k: int, dtype: np.dtype[Any]
    ) -> None:
        """Remember timings beside their loads: the machine is fitted to them."""
        timings = [
            Timing(loads[name], self._ranks_per_node, k, dtype.itemsize, seconds)
            for name, seconds in measured.items()
        ]
        if timings:
            add_timings(self._where, timings)


def _subject(k: int, dtype: np.dtype[Any]) -> str:
    return f"{k} values of {dtype} a key"


def _to_build(predicted: Mapping[str, float], machine: Machine) -> tuple[list[str], str]:
    """Return the candidates to build, and the title of the machine."""
    trust = _TRUST_GUESS if machine.name == "one-node" else _TRUST_FITTED
    return candidates(predicted, trust), machine.title


def candidates(predicted: Mapping[str, float], trust: float) -> list[str]:
    """Return what is to be timed, or the one that needs no timing.

    Parameters
    ----------
    predicted : mapping of str to float
        Seconds by algorithm.
    trust : float
        Predictions are to each other as the truth is within this factor.
    """
    ranked = sorted(predicted, key=lambda name: (predicted[name], name))
    best = predicted[ranked[0]]
    if best < _SHORT_S:
        return ranked[:1]
    near = [name for name in ranked[1:] if worth_timing(predicted[name], best, trust)]
    return [ranked[0], *near][:_TIMED]


def worth_timing(predicted: float, best: float, trust: float) -> bool:
    """Whether the most that a candidate may gain on the best is more than finding out costs.

    ``_LIFE (best - predicted / trust) > _FINDING_OUT predicted``, in seconds.
    """
    return _LIFE * (best - predicted / trust) > _FINDING_OUT * predicted


def load_of(comm: Communicator, algorithm: Algorithm) -> Load:
    """Return the load of an algorithm that stands. Collective."""
    shares = np.array(algorithm.shares(comm.node_of), np.float64).reshape(-1, len(Share._fields))
    every, _ = comm.allgather_rows(shares[np.newaxis])
    return busiest([Share(*counts) for counts in every.transpose(1, 2, 0)], comm.node_of)


def table(choice: Choice) -> list[str]:
    """Return the lines that tell a choice: candidates with predicted and measured milliseconds, and why."""
    lines = [f"candidates for {choice.subject} (ms predicted, measured):"]
    for name, candidate in sorted(choice.candidates.items(), key=lambda item: item[1].measured or math.inf):
        lines.append(f"  {name:14}{_ms(candidate.predicted):>12}{_ms(candidate.measured):>12}")
    lines.append(f"predicted for: {choice.machine or 'none'}")
    lines.append(f"chosen: {choice.name}, {choice.reason}")
    return lines


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3f}"
