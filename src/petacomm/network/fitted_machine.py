"""The machine that this run is on, as far as timings of earlier runs have told."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from petacomm.base.cache import recall, remember
from petacomm.base.errors import UserError
from petacomm.mpi.autotuner import digest
from petacomm.network.communication_load import Phase
from petacomm.network.fit import Timing, fit_machine
from petacomm.topology import Machine, load_machine

# The newest are kept; fewer than the least say too little of six constants.
_MOST = 200
_LEAST = 8


def known_timings(where: dict[str, Any]) -> list[Timing]:
    """Return the timings remembered for a place; not collective."""
    raw = recall(_file(where))
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
    """Remember more timings of a place; not collective."""
    every = [*known_timings(where), *timings][-_MOST:]
    remember(_file(where), [dataclasses.asdict(timing) for timing in every])


def this_machine(where: dict[str, Any]) -> Machine:
    """Return a machine fitted to the timings of a place, or "one-node" with its cores while they are few.

    Not collective.
    """
    guess = dataclasses.replace(
        load_machine("one-node"), cores_per_socket=where["cores"], nodes=where["nodes"]
    )
    timings = known_timings(where)
    if len(timings) < _LEAST:
        return guess
    name = f"{where['host']}, {where['ranks']} ranks"
    try:
        return fit_machine(timings, guess, name, f"fitted to {len(timings)} timings, {where['mpi']}")
    except UserError as error:
        warnings.warn(f"the timings in {_file(where)} of the cache are ignored: {error}", stacklevel=2)
        return guess


def _file(where: dict[str, Any]) -> str:
    return f"machines/{digest(sorted(where.items()))}.json"


def _timing(entry: dict[str, Any]) -> Timing:
    load = tuple(Phase(**{key: float(value) for key, value in phase.items()}) for phase in entry["load"])
    ranks_per_node, k, itemsize = (int(entry[key]) for key in ("ranks_per_node", "k", "itemsize"))
    return Timing(load, ranks_per_node, k, itemsize, float(entry["seconds"]))
