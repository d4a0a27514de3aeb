"""The choice between ways that do the same: by the clock, once for a layout, an MPI and a machine.

All ways are timed in turns, and the largest time over ranks counts, so that all ranks choose alike. Packing,
the first of them, is left only for what is clearly quicker, twice.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from petamap.base.cache import recall, remember
from petamap.comm.mpi.communicator import Communicator
from petamap.comm.network.measured import digest, place

# Calls of each way that are timed, after one that is not; short ones are timed again and again for so long. A
# way that takes so many times longer than the best is timed once.
_CALLS = 5
_MOST_CALLS = 60
_ENOUGH_S = 0.05
_SLOW = 2.0
# Below this gain on packing, the clock cannot tell.
_CLEAR = 0.95
# The cache outlives versions of the ways: a change in them that moves times counts this up.
_VERSION = 2


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    Attributes
    ----------
    way : str
    reason : str
    seconds : mapping of str to float
        The least time of each way that was timed, on its slowest rank.
    """

    way: str
    reason: str
    seconds: Mapping[str, float]


def choose(comm: Communicator, what: object, ways: Mapping[str, Callable[[], object]]) -> Choice:
    """Return the quickest way. Collective.

    Parameters
    ----------
    comm : Communicator
    what : object
        What distinguishes this from other choices on the same ranks, machine and MPI: by its ``repr``.
    ways : mapping of str to callable
        Packing first; each does the whole exchange once, and all leave the same result.
    """
    names = list(ways)
    if comm.size == 1:
        return Choice(names[0], "one rank", {})
    name = f"datatypes/{digest((_VERSION, sorted(place(comm).items()), what, names))}.json"
    known: Choice | None = comm.bcast(_recalled(name, names) if comm.rank == 0 else None)
    if known is not None:
        return known
    seconds = timed(comm, ways, _CALLS, _ENOUGH_S)
    packed, best = names[0], min(names, key=lambda way: (seconds[way], names.index(way)))
    if best != packed and seconds[best] <= _CLEAR * seconds[packed]:
        # Once more, those two alone: what else runs on the machine comes and goes.
        seconds |= timed(comm, {way: ways[way] for way in (packed, best)}, _CALLS, _ENOUGH_S)
    if seconds[best] > _CLEAR * seconds[packed]:
        best = packed
    choice = Choice(best, f"the quickest of {len(names)} that were timed", seconds)
    if comm.rank == 0:
        remember(name, asdict(choice))
    return choice


def timed(
    comm: Communicator, ways: Mapping[str, Callable[[], object]], calls: int, enough: float = 0.0
) -> dict[str, float]:
    """Return the least seconds of each way, of its slowest rank, equal on all ranks. Collective.

    Parameters
    ----------
    comm : Communicator
    ways : mapping of str to callable
        They take turns.
    calls : int
        Timed calls of each, but of slow ones.
    enough : float
        Seconds: where all together take less, there are more calls.
    """
    first = {name: _seconds(comm, call) for name, call in ways.items()}  # makes what is kept
    seconds, spent = dict.fromkeys(ways, math.inf), 0.0
    for turn in range(max(calls, _MOST_CALLS)):
        if turn >= calls and spent >= enough:
            break
        for name, call in ways.items():
            if turn == 0 or seconds[name] <= _SLOW * min(seconds.values()):
                taken = _seconds(comm, call)
                seconds[name], spent = min(seconds[name], taken), spent + taken
    return {name: min(taken, first[name]) for name, taken in seconds.items()}


def _seconds(comm: Communicator, call: Callable[[], object]) -> float:
    comm.barrier()
    begin = time.perf_counter()
    call()
    # The largest over ranks: all take the same turns, and choose the same.
    return comm.max(time.perf_counter() - begin)


def _recalled(name: str, names: list[str]) -> Choice | None:
    raw = recall(name)
    if raw is None:
        return None
    try:
        seconds = {str(way): float(taken) for way, taken in raw["seconds"].items()}
        if raw["way"] in names and set(seconds) == set(names) and all(map(math.isfinite, seconds.values())):
            return Choice(raw["way"], "the quickest in an earlier run", seconds)
    except (TypeError, KeyError, AttributeError, ValueError):
        pass
    warnings.warn(f"{name} of the cache is ignored: not a choice", stacklevel=2)
    return None
