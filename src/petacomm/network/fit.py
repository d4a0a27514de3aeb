"""Constants of the model from timings, by least squares of the relative error."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError, DataError, did_you_mean
from petacomm.base.typing import FloatArray
from petacomm.network.alpha_beta import (
    allreduce,
    pairwise_alltoallv,
    ring_allgather,
    tree_allgather,
    turns,
    waits,
)
from petacomm.network.communication_load import Load
from petacomm.topology import Machine

# A constant that the timings do not show: it then costs nothing, and is finite in a file.
_FREE_TIME = 1e-15
_FREE_BANDWIDTH = 1e18
# Runs this many times longer than others tell what a run costs.
_LENGTHS = 4.0

# What a timing is made of; the bytes become bandwidths.
_COSTS = (
    "latency",
    "byte",
    "local_latency",
    "local_byte",
    "row_time",
    "run_time",
    "core_byte",
    "synchronisation",
)

# Ranks, bytes, alpha, beta -> seconds.
_COLLECTIVES: dict[str, Callable[[int, float, float, float], float]] = {
    "allreduce": allreduce,
    "ring-allgather": ring_allgather,
    "tree-allgather": tree_allgather,
    "alltoallv": lambda size, n_bytes, alpha, beta: pairwise_alltoallv(size - 1, n_bytes, alpha, beta),
}


@dataclass(frozen=True)
class Timing:
    """How long a load took.

    Attributes
    ----------
    load : sequence of Phase
    ranks_per_node, k, itemsize : int
        As in `predict`.
    seconds : float
    """

    load: Load
    ranks_per_node: int
    k: int
    itemsize: int
    seconds: float


def fit_machine(timings: Sequence[Timing], like: Machine, name: str, source: str) -> Machine:
    """Return a machine whose constants fit the timings of loads.

    Latencies, bandwidths, the times of a row, of a run, of a byte in memory and of a wait are fitted as far
    as the timings show them, that of a run only where runs are much longer in some than in others. What they
    do not show is that of `like`, and so are its nodes and cores.

    Parameters
    ----------
    timings : sequence of Timing
        On one machine; best with several k, and loads of different kinds.
    like : Machine
    name, source : str
        The name of the new machine, and what its sources say of fitted numbers.

    Raises
    ------
    DataError
        If there is no timing, or one is not positive and finite.
    """
    seconds = np.array([timing.seconds for timing in timings])
    if not len(seconds) or not np.all(np.isfinite(seconds) & (seconds > 0)):
        raise DataError("nothing to fit: timings must be positive and finite", where=source)
    rows = [_coefficients(timing, like) for timing in timings]
    names = [key for key in rows[0] if any(row[key] for row in rows)]
    if not _tell_runs(rows):
        names = [key for key in names if key != "run_time"]
        runs = like.run_time * np.array([row["run_time"] for row in rows])
        seconds = np.maximum(seconds - runs, seconds / 2)
    costs = _least_squares(np.array([[row[key] for key in names] for row in rows]), seconds)
    fitted = _constants(dict(zip(names, costs, strict=True)))
    sources = {**like.sources, **dict.fromkeys(fitted, source)}
    return dataclasses.replace(like, name=name, title=source, sources=sources, **fitted)


def _tell_runs(rows: Sequence[dict[str, float]]) -> bool:
    """Whether timings differ in the lengths of runs: else what runs cost cannot be told from what rows do."""
    lengths = [row["row_time"] / row["run_time"] for row in rows if row["run_time"]]
    return max(lengths, default=0.0) > _LENGTHS * min(lengths, default=0.0)


def _coefficients(timing: Timing, machine: Machine) -> dict[str, float]:
    """How often each constant counts in a timing: the model of `alpha_beta`, taken apart."""
    row_bytes = timing.k * timing.itemsize
    total = dict.fromkeys(_COSTS, 0.0)
    for phase in timing.load:
        messages = turns(phase.messages, phase.node_messages, machine.cores)
        moved = turns(phase.moved, phase.node_moved, machine.cores)
        if phase.off_node_rows:
            total["latency"] += messages
            total["byte"] += row_bytes * max(phase.rows, phase.off_node_rows)
        else:
            total["local_latency"] += messages
            total["local_byte"] += row_bytes * turns(phase.rows, phase.node_rows, machine.cores)
        total["row_time"] += moved
        total["run_time"] += turns(phase.runs, phase.node_runs, machine.cores)
        total["core_byte"] += moved * 2 * row_bytes
        total["synchronisation"] += waits(phase, timing.ranks_per_node, machine.cores)
    return total


def _constants(costs: dict[str, float]) -> dict[str, Any]:
    """Turn seconds a unit into the fields of a machine."""
    bandwidths = {
        "byte": ("bandwidth", "node_bandwidth"),
        "local_byte": ("local_bandwidth",),
        # What cores get when all are at it: the node sets no further limit.
        "core_byte": ("core_memory_bandwidth",),
    }
    fitted: dict[str, Any] = {}
    for key, cost in costs.items():
        for field in bandwidths.get(key, ()):
            fitted[field] = float(1 / cost) if cost > 1 / _FREE_BANDWIDTH else _FREE_BANDWIDTH
        if key not in bandwidths:
            fitted[key] = max(float(cost), _FREE_TIME)
    if "core_memory_bandwidth" in fitted:
        fitted["memory_bandwidth"] = _FREE_BANDWIDTH
    return fitted


def _least_squares(coefficients: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return the costs, none negative, that make the relative errors small."""
    from scipy.optimize import nnls

    relative = coefficients / seconds[:, np.newaxis]
    scale = np.linalg.norm(relative, axis=0)
    costs, _ = nnls(relative / scale, np.ones(len(seconds)))
    return np.asarray(costs / scale, np.float64)


def fit_collective(
    collective: str, sizes: Iterable[int], n_bytes: Iterable[float], seconds: Iterable[float]
) -> tuple[float, float]:
    """Return alpha and beta that fit timings of one collective: the trend lines of Figure 5 of the source.

    Parameters
    ----------
    collective : str
        "allreduce", "ring-allgather", "tree-allgather" or "alltoallv", as in `alpha_beta`.
    sizes, n_bytes, seconds : iterables of one length
        Ranks, bytes as in the closed form, and seconds of each timing.

    Returns
    -------
    alpha, beta : float
        Seconds a message, and seconds a byte.

    Raises
    ------
    ConfigError
        If there is no such collective.
    """
    if collective not in _COLLECTIVES:
        known = list(_COLLECTIVES)
        raise ConfigError(f"no closed form of '{collective}'", mend=did_you_mean(collective, known))
    form = _COLLECTIVES[collective]
    pairs = list(zip(sizes, n_bytes, strict=True))
    columns = np.array([[form(p, n, 1.0, 0.0), form(p, n, 0.0, 1.0)] for p, n in pairs])
    alpha, beta = _least_squares(columns, np.fromiter(seconds, np.float64))
    return float(alpha), float(beta)


def fit_csv(path: str) -> dict[str, tuple[float, float]]:
    """Fit timings in a CSV file with the columns ``collective, ranks, bytes, seconds``.

    Returns
    -------
    dict of str to (float, float)
        Alpha and beta of each collective.

    Raises
    ------
    DataError
        If the file cannot be read or a line is wrong.
    """
    timings: dict[str, list[tuple[int, float, float]]] = {}
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            for line, row in enumerate(csv.DictReader(file), 2):
                collective, timing = _numbers(row, f"{path}:{line}")
                timings.setdefault(collective, []).append(timing)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=path) from None
    if not timings:
        raise DataError("no timings", where=path, mend="columns: collective, ranks, bytes, seconds")
    return {name: fit_collective(name, *zip(*rows, strict=True)) for name, rows in timings.items()}


def _numbers(row: dict[str, str], where: str) -> tuple[str, tuple[int, float, float]]:
    try:
        numbers = int(row["ranks"]), float(row["bytes"]), float(row["seconds"])
    except (KeyError, TypeError, ValueError):
        numbers = (0, 0.0, 0.0)
    collective = row.get("collective") or ""
    if numbers[0] < 2 or not all(np.isfinite(numbers)) or min(numbers) <= 0 or collective not in _COLLECTIVES:
        mend = f"columns: collective ({', '.join(_COLLECTIVES)}), ranks (2 or more), bytes, seconds"
        raise DataError("not a timing", where=where, mend=mend)
    return collective, numbers
