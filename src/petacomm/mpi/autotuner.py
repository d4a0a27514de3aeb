"""The autotuner: choose between implementations that give the same result, remember the choice, recall it.

Whoever has a model predicts first (`petacomm.reduction.tuner`); this module measures. The time of a call is
that of its slowest rank, so that all ranks choose alike. Only rank 0 reads and writes the cache. Results
never depend on the choice.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from petacomm.base.cache import recall, remember
from petacomm.mpi.communicator import Communicator

# Calls of each candidate that are timed, after one that is not; short ones are timed again and again for so
# long. A candidate that takes so many times longer than the best is timed once.
_CALLS = 5
_MOST_CALLS = 60
_ENOUGH_S = 0.05
_SLOW = 2.0
# Below this gain on the default, the clock cannot tell.
_CLEAR = 0.95
# The cache outlives versions of the candidates: a change in them that moves times counts this up.
_VERSION = 3

_EARLIER = "in an earlier run"


@dataclass(frozen=True)
class Candidate:
    """Predicted and measured time of one candidate.

    Attributes
    ----------
    predicted : float or None
        Seconds of a call by a model; None where it was not predicted.
    measured : float or None
        Seconds of a call of the slowest rank; None where it was not timed.
    """

    predicted: float | None = None
    measured: float | None = None


@dataclass(frozen=True)
class Choice:
    """A chosen candidate, and why.

    Attributes
    ----------
    name : str
        The chosen candidate.
    reason : str
    candidates : mapping of str to Candidate
        All that were predicted or timed.
    subject : str
        What the choice was made for.
    machine : str
        What the predictions were made with.
    """

    name: str
    reason: str
    candidates: Mapping[str, Candidate] = field(default_factory=dict)
    subject: str = ""
    machine: str = ""


def place(comm: Communicator) -> dict[str, Any]:
    """Return what timings depend on: host, cores, MPI, ranks and nodes. Collective."""
    n_nodes = int(comm.node_of.max()) + 1
    here = {
        "host": platform.node(),
        "cores": os.cpu_count() or 1,
        "mpi": comm.mpi_library or "none",
        "ranks": comm.size,
        "nodes": n_nodes,
    }
    found: dict[str, Any] = comm.bcast(here)
    return found


def digest(value: object) -> str:
    """Return a short name for a value, the same in every run."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def recall_choice(comm: Communicator, file: str, names: Collection[str]) -> Choice | None:
    """Return the choice that was remembered in a file of the cache, if it is one of `names`. Collective."""
    found: Choice | None = comm.bcast(_recalled(file, names) if comm.rank == 0 else None)
    return found


def remember_choice(comm: Communicator, file: str, choice: Choice) -> None:
    """Keep a choice in a file of the cache. Collective."""
    if comm.rank == 0:
        remember(file, asdict(choice))


def choose_fastest(comm: Communicator, subject: object, calls: Mapping[str, Callable[[], object]]) -> Choice:
    """Time all candidates and return the fastest, or recall it. Collective.

    The first candidate is the default, left only for what is clearly faster, twice.

    Parameters
    ----------
    comm : Communicator
    subject : object
        What distinguishes this from other choices on the same ranks, machine and MPI: by its ``repr``.
    calls : mapping of str to callable
        The default first; each does the whole work once, and all leave the same result.
    """
    names = list(calls)
    if comm.size == 1:
        return Choice(names[0], "one rank")
    file = f"choices/{digest((_VERSION, sorted(place(comm).items()), subject, names))}.json"
    known = recall_choice(comm, file, names)
    if known is not None:
        return known
    seconds = time_in_turns(comm, calls, _CALLS, _ENOUGH_S)
    default, best = names[0], min(names, key=lambda name: (seconds[name], names.index(name)))
    if best != default and seconds[best] <= _CLEAR * seconds[default]:
        # Once more, those two alone: what else runs on the machine comes and goes.
        seconds |= time_in_turns(comm, {name: calls[name] for name in (default, best)}, _CALLS, _ENOUGH_S)
    if seconds[best] > _CLEAR * seconds[default]:
        best = default
    candidates = {name: Candidate(measured=taken) for name, taken in seconds.items()}
    choice = Choice(best, f"the fastest of {len(names)} that were timed", candidates)
    remember_choice(comm, file, choice)
    return choice


def time_in_turns(
    comm: Communicator, calls: Mapping[str, Callable[[], object]], n_calls: int, enough: float = 0.0
) -> dict[str, float]:
    """Return the least seconds of each candidate, of its slowest rank, equal on all ranks. Collective.

    Parameters
    ----------
    comm : Communicator
    calls : mapping of str to callable
        They take turns.
    n_calls : int
        Timed calls of each, but of slow ones.
    enough : float
        Seconds: where all together take less, there are more calls.
    """
    first = {name: call_seconds(comm, call) for name, call in calls.items()}  # makes what is kept
    seconds, spent = dict.fromkeys(calls, math.inf), 0.0
    for turn in range(max(n_calls, _MOST_CALLS)):
        if turn >= n_calls and spent >= enough:
            break
        for name, call in calls.items():
            if turn == 0 or seconds[name] <= _SLOW * min(seconds.values()):
                taken = call_seconds(comm, call)
                seconds[name], spent = min(seconds[name], taken), spent + taken
    return {name: min(taken, first[name]) for name, taken in seconds.items()}


def call_seconds(comm: Communicator, call: Callable[[], object]) -> float:
    """Return the seconds of a call on its slowest rank. Collective."""
    comm.barrier()
    begin = time.perf_counter()
    call()
    # The largest over ranks: all take the same turns, and choose the same.
    return comm.max(time.perf_counter() - begin)


def _recalled(file: str, names: Collection[str]) -> Choice | None:
    raw = recall(file)
    if raw is None:
        return None
    try:
        candidates = {str(name): Candidate(**each) for name, each in raw.pop("candidates").items()}
        times = [t for each in candidates.values() for t in asdict(each).values() if t is not None]
        reason = raw.pop("reason")
        reason = reason if reason.endswith(_EARLIER) else f"{reason} {_EARLIER}"
        choice = Choice(candidates=candidates, reason=reason, **raw)
        if choice.name in names and all(map(math.isfinite, times)):
            return choice
    except (TypeError, KeyError, AttributeError, ValueError):
        pass
    warnings.warn(f"{file} of the cache is ignored: not a choice", stacklevel=2)
    return None
