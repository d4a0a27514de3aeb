"""Machine parameters of the running system, fitted to cached timings of earlier runs."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from petacomm.base.cache import load_cached, save_cached
from petacomm.base.errors import STOPS, UserError
from petacomm.mpi.autotuner import short_hash
from petacomm.network.communication_load import LoadPhase
from petacomm.network.fit import Timing, fit_constants, with_constants
from petacomm.topology import Machine, load_machine

# The newest timings are kept; fewer than the minimum do not determine the constants.
_MAX_TIMINGS = 200
_MIN_TIMINGS = 8


def load_timings(where: dict[str, Any]) -> list[Timing]:
    """Return the cached timings of a system; not collective.

    Parameters
    ----------
    where : dict
        Description of the system: host, MPI library, number of ranks, ...
    """
    raw = load_cached(_file(where))
    if raw is None:
        return []
    try:
        return [_timing(entry) for entry in raw]
    except (TypeError, KeyError, ValueError, AttributeError):
        warnings.warn(
            f"the timings in {_file(where)} of the cache are ignored: not what was written", stacklevel=2
        )
        return []


def add_timings(where: dict[str, Any], timings: list[Timing]) -> None:
    """Add timings of a system to the cache; not collective."""
    kept = [*load_timings(where), *timings][-_MAX_TIMINGS:]
    save_cached(_file(where), [dataclasses.asdict(timing) for timing in kept])


def fitted_machine(where: dict[str, Any]) -> Machine:
    """Return the machine fitted to the cached timings of a system; not collective.

    With too few timings it is the machine "one-node" with the system's nodes and cores.
    """
    guess = dataclasses.replace(
        load_machine("one-node"), cores_per_socket=where["cores"], nodes=where["nodes"]
    )
    timings = load_timings(where)
    if len(timings) < _MIN_TIMINGS:
        return guess
    name = f"{where['host']}, {where['ranks']} ranks"
    source = f"fitted to {len(timings)} timings, {where['mpi']}"
    try:
        return with_constants(_constants(where, timings, guess, source), guess, name, source)
    except STOPS:
        raise
    except UserError as error:
        warnings.warn(f"the timings in {_file(where)} of the cache are ignored: {error}", stacklevel=2)
        return guess


def _constants(where: dict[str, Any], timings: list[Timing], like: Machine, source: str) -> dict[str, float]:
    """Return what is fitted to timings, cached: a fit loads the optimizers of SciPy, which takes 0.3 s."""
    file, of = _file(where, "-fit"), short_hash((timings, like))
    known = load_cached(file)
    if isinstance(known, list) and len(known) == 2 and known[1] == short_hash((of, known[0])):
        return dict(known[0])
    fitted = [list(one) for one in fit_constants(timings, like, source).items()]
    save_cached(file, [fitted, short_hash((of, fitted))])
    return dict(fitted)  # type: ignore[arg-type]


def _file(where: dict[str, Any], what: str = "") -> str:
    return f"machines/{short_hash(sorted(where.items()))}{what}.json"


def _timing(entry: dict[str, Any]) -> Timing:
    load = tuple(LoadPhase(**{key: float(value) for key, value in phase.items()}) for phase in entry["load"])
    ranks_per_node, k, itemsize = (int(entry[key]) for key in ("ranks_per_node", "k", "itemsize"))
    return Timing(load, ranks_per_node, k, itemsize, float(entry["seconds"]))
