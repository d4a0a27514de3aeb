"""The choice of an algorithm: by the model where that is clear, else the clock decides between the best.

A candidate is built and timed only if it may gain more, over the calls that a plan lives, than finding that
out costs. Only rank 0 reads the cache, the machine and the clocks of the others; what it decides, all do.
Results never depend on the choice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from petamap.base.cache import recall, remember
from petamap.base.typing import AnyArray, Int64Array
from petamap.comm.mpi.communicator import Communicator
from petamap.comm.network import Load, Share, busiest, predict
from petamap.comm.network.fit import Timing
from petamap.comm.network.measured import add_timings, digest, place, this_machine
from petamap.comm.reduction.algorithms import ALGORITHMS, Algorithm
from petamap.comm.reduction.exchange import Options, finish
from petamap.comm.reduction.graph import SharingGraph
from petamap.comm.reduction.loads import Sharing, shares_by_counts
from petamap.comm.reduction.sketch import sketch
from petamap.comm.topology import Machine

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
_VERSION = 5


@dataclass(frozen=True)
class Candidate:
    """A way to reduce that was thought of.

    Attributes
    ----------
    predicted : float or None
        Seconds of an all-reduce; None where it was not predicted.
    measured : float or None
        Median seconds of the slowest rank; None where it was not timed.
    """

    predicted: float | None = None
    measured: float | None = None


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    Attributes
    ----------
    algorithm : str
    reason : str
    k : int
        Values of a key in the call that the choice was made for.
    dtype : str
    machine : str
        What the predictions were made with.
    candidates : mapping of str to Candidate
    """

    algorithm: str
    reason: str
    k: int
    dtype: str
    machine: str
    candidates: Mapping[str, Candidate]


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
            choice = Choice("owner", "one rank", k, dtype.str, "none", {})
            return choice, self.build("owner")
        self._where = place(self.comm)
        self._ranks_per_node = int(np.bincount(self.comm.node_of).max())
        every = self._every_share()
        name = digest(
            (_VERSION, sorted(self._where.items()), every.tobytes(), k, dtype.str, in_halves, self.options)
        )
        choice = self.comm.bcast(_recalled(name) if self.comm.rank == 0 else None)
        if choice is None:
            return self._decide(every, k, dtype, name)
        return choice, self.build(choice.algorithm)

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

    def _decide(self, every: AnyArray, k: int, dtype: np.dtype[Any], name: str) -> tuple[Choice, Algorithm]:
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
        choice = Choice(best[1], reason, k, dtype.str, title, candidates)
        if self.comm.rank == 0:
            self._keep(name, choice, loads)
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
            self.comm.barrier()
            begin = time.perf_counter()
            self._call(algorithm, values)
            # The largest over ranks, so that all stop after the same number of calls.
            seconds.append(self.comm.max(time.perf_counter() - begin))
        return float(self.comm.bcast(float(np.median(seconds))))

    def _call(self, algorithm: Algorithm, values: AnyArray) -> None:
        if not self._in_halves:
            finish(algorithm.allreduce(values, "sum"))
            return
        finish(algorithm.reduce(values, "sum"))
        finish(algorithm.broadcast(values))

    def _keep(self, name: str, choice: Choice, loads: dict[str, Load]) -> None:
        remember(_file(name), asdict(choice))
        itemsize = np.dtype(choice.dtype).itemsize
        timings = [
            Timing(loads[each], self._ranks_per_node, choice.k, itemsize, candidate.measured)
            for each, candidate in choice.candidates.items()
            if candidate.measured is not None
        ]
        if timings:
            add_timings(self._where, timings)


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


def _file(name: str) -> str:
    return f"reductions/{name}.json"


def _recalled(name: str) -> Choice | None:
    import warnings

    raw = recall(_file(name))
    if raw is None:
        return None
    try:
        known = {each: Candidate(**candidate) for each, candidate in raw["candidates"].items()}
        numbers = [value for each in known.values() for value in asdict(each).values() if value is not None]
        if raw["algorithm"] in ALGORITHMS and all(math.isfinite(value) for value in numbers):
            return Choice(
                raw["algorithm"], _again(raw["reason"]), raw["k"], raw["dtype"], raw["machine"], known
            )
    except (TypeError, KeyError, AttributeError):
        pass
    warnings.warn(f"{_file(name)} of the cache is ignored: not a choice", stacklevel=2)
    return None


def _again(reason: str) -> str:
    return reason if reason.endswith("in an earlier run") else f"{reason} in an earlier run"


def table(choice: Choice) -> list[str]:
    """Return the lines that tell a choice: candidates with predicted and measured milliseconds, and why."""
    lines = [f"candidates for {choice.k} values of {np.dtype(choice.dtype)} a key (ms predicted, measured):"]
    for name, candidate in sorted(choice.candidates.items(), key=lambda item: item[1].measured or math.inf):
        lines.append(f"  {name:14}{_ms(candidate.predicted):>12}{_ms(candidate.measured):>12}")
    lines.append(f"predicted for: {choice.machine}")
    lines.append(f"chosen: {choice.algorithm}, {choice.reason}")
    return lines


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3f}"
