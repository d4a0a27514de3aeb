"""Choice of the fastest of several implementations that give the same result, kept in the user's cache.

This module measures; callers that have a model of the times predict first (`petacomm.reduction.tuner`). The
time of a call is that of its slowest rank, so that all ranks choose the same. Only rank 0 reads and writes
the cache. Results never depend on the choice.
"""

from __future__ import annotations

import hashlib
import math
import platform
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from petacomm.base.cache import load_cached, save_cached
from petacomm.base.threads import node_processors
from petacomm.mpi.communicator import Communicator

# Timed calls of each candidate after one that makes its buffers; at most so many while all timed calls take
# less than so many seconds. A candidate slower than the best by this factor is timed once.
_CALLS = 5
_MOST_CALLS = 60
_ENOUGH_S = 0.05
_SLOW = 2.0
# A candidate replaces the default if it takes less than this part of its time: smaller gains are noise.
_CLEAR = 0.95
# Version of the cached choices: to be increased with changes of candidates that affect their times.
_VERSION = 3

_EARLIER = "in an earlier run"
AUTO = "auto"


@dataclass(frozen=True)
class Candidate:
    """Predicted and measured time of a candidate.

    Attributes
    ----------
    predicted : float or None
        Predicted seconds of a call; None without a prediction.
    measured : float or None
        Measured seconds of a call on the slowest rank; None if it was not timed.
    """

    predicted: float | None = None
    measured: float | None = None


@dataclass(frozen=True)
class Choice:
    """The chosen candidate and the reason for it.

    Attributes
    ----------
    name : str
        Name of the chosen candidate.
    reason : str
        Reason in words.
    candidates : mapping of str to Candidate
        Candidates that were predicted or timed.
    subject : str
        Description of the values that the choice was made for.
    machine : str
        Title of the machine model of the predictions.
    """

    name: str
    reason: str
    candidates: Mapping[str, Candidate] = field(default_factory=dict)
    subject: str = ""
    machine: str = ""


class MethodChoice:
    """Method of a plan: the one that the caller names, or "auto", which chooses in the first call.

    Attributes
    ----------
    method : str
        Name given by the caller.
    choice : Choice or None
        Choice of "auto"; None before.
    """

    method: str
    choice: Choice | None = None

    @property
    def chosen(self) -> str | None:
        """Name of the method in use; None before "auto" has chosen."""
        if self.choice is not None:
            return self.choice.name
        return None if self.method == AUTO else self.method


def tuning_environment(comm: Communicator) -> dict[str, Any]:
    """Return what timings depend on: host, cores for its ranks, MPI library, ranks and nodes. Collective.

    Host, cores and library are those of rank 0.
    """
    n_nodes = int(comm.node_of.max()) + 1
    environment = {
        "host": platform.node(),
        "cores": node_processors(),
        "mpi": comm.mpi_library or "none",
        "ranks": comm.size,
        "nodes": n_nodes,
    }
    result: dict[str, Any] = comm.bcast(environment)
    return result


def short_hash(value: object) -> str:
    """Return a short hash of the ``repr`` of a value, the same in every run."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def load_choice(comm: Communicator, file: str, names: Collection[str]) -> Choice | None:
    """Return the choice in a file of the cache; None unless it is one of `names`. Collective."""
    choice: Choice | None = comm.bcast(_read_choice(file, names) if comm.rank == 0 else None)
    return choice


def save_choice(comm: Communicator, file: str, choice: Choice) -> None:
    """Write a choice to a file of the cache. Collective."""
    if comm.rank == 0:
        save_cached(file, asdict(choice))


def choose_fastest(comm: Communicator, subject: object, calls: Mapping[str, Callable[[], object]]) -> Choice:
    """Return the cached choice, or time all candidates and return and cache the fastest. Collective.

    The first candidate is the default; another one is chosen only if it is clearly faster in two timings.

    Parameters
    ----------
    comm : Communicator
    subject : object
        Its ``repr`` distinguishes this choice from others of the same ranks, machine and MPI library.
    calls : mapping of str to callable
        The default first. Each does the complete work once, and all give the same result.
    """
    names = list(calls)
    if comm.size == 1:
        return Choice(names[0], "one rank")
    file = f"choices/{short_hash((_VERSION, sorted(tuning_environment(comm).items()), subject, names))}.json"
    cached = load_choice(comm, file, names)
    if cached is not None:
        return cached
    seconds = time_interleaved(comm, calls, _CALLS, _ENOUGH_S)
    default, best = names[0], min(names, key=lambda name: (seconds[name], names.index(name)))
    if best != default and seconds[best] <= _CLEAR * seconds[default]:
        # Time these two again, since other load on the machine varies.
        seconds |= time_interleaved(comm, {name: calls[name] for name in (default, best)}, _CALLS, _ENOUGH_S)
    if seconds[best] > _CLEAR * seconds[default]:
        best = default
    candidates = {name: Candidate(measured=taken) for name, taken in seconds.items()}
    choice = Choice(best, f"the fastest of {len(names)} that were timed", candidates)
    save_choice(comm, file, choice)
    return choice


def time_interleaved(
    comm: Communicator, calls: Mapping[str, Callable[[], object]], n_calls: int, enough: float = 0.0
) -> dict[str, float]:
    """Return the least seconds of each candidate on its slowest rank, the same on all ranks. Collective.

    Parameters
    ----------
    comm : Communicator
    calls : mapping of str to callable
        Called in turns, so that other load on the machine affects all alike.
    n_calls : int
        Timed calls of each candidate that is not slow.
    enough : float
        Seconds: while all timed calls took less, there are more of them.
    """
    first = {name: call_seconds(comm, call) for name, call in calls.items()}  # makes buffers
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
    # The largest over ranks, so that all ranks make the same calls and the same choice.
    return comm.max(time.perf_counter() - begin)


def _read_choice(file: str, names: Collection[str]) -> Choice | None:
    raw = load_cached(file)
    if raw is None:
        return None
    try:
        candidates = {str(name): Candidate(**times) for name, times in raw.pop("candidates").items()}
        seconds = [
            t for candidate in candidates.values() for t in asdict(candidate).values() if t is not None
        ]
        reason = raw.pop("reason")
        reason = reason if reason.endswith(_EARLIER) else f"{reason} {_EARLIER}"
        choice = Choice(candidates=candidates, reason=reason, **raw)
        if choice.name in names and all(map(math.isfinite, seconds)):
            return choice
    except (TypeError, KeyError, AttributeError, ValueError):
        pass
    warnings.warn(f"{file} of the cache is ignored: not a choice", stacklevel=2)
    return None
