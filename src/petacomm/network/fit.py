"""Fit of the constants of the alpha-beta model to timings, by least squares of the relative error."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError, require_known
from petacomm.base.files import require_file
from petacomm.base.typing import FloatArray
from petacomm.network.alpha_beta import (
    allreduce_seconds,
    core_work,
    pairwise_alltoallv_seconds,
    ring_allgather_seconds,
    synchronisation_steps,
    tree_allgather_seconds,
)
from petacomm.network.communication_load import Load
from petacomm.topology import Machine

# Finite values of constants whose fitted cost is zero.
_FREE_TIME = 1e-15
_FREE_BANDWIDTH = 1e18
# The cost of a run is fitted only if the mean lengths of runs differ by more than this factor.
_MIN_LENGTH_RATIO = 4.0

# Terms of a timing; those of bytes become bandwidths.
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

# Closed forms: seconds as a function of ranks, bytes, alpha and beta.
_COLLECTIVES: dict[str, Callable[[int, float, float, float], float]] = {
    "allreduce": allreduce_seconds,
    "ring-allgather": ring_allgather_seconds,
    "tree-allgather": tree_allgather_seconds,
    "alltoallv": lambda size, n_bytes, alpha, beta: pairwise_alltoallv_seconds(
        size - 1, n_bytes, alpha, beta
    ),
}


@dataclass(frozen=True)
class Timing:
    """Measured time of a communication load.

    Attributes
    ----------
    load : sequence of LoadPhase
    ranks_per_node, k, itemsize : int
        As in `predict_seconds`.
    seconds : float
    """

    load: Load
    ranks_per_node: int
    k: int
    itemsize: int
    seconds: float


def fit_machine(timings: Sequence[Timing], like: Machine, name: str, source: str) -> Machine:
    """Return a machine whose constants are fitted to timings of loads.

    Latencies, bandwidths, and the times of a row, of a run, of a byte in memory and of a synchronisation are
    fitted if the timings depend on them; the time of a run only if the lengths of runs differ much. The other
    constants, and the numbers of nodes and cores, are those of `like`.

    Parameters
    ----------
    timings : sequence of Timing
        Timings on one machine; best with several k, and loads of different kinds.
    like : Machine
    name, source : str
        Name of the new machine, and the source that it states for fitted numbers.

    Raises
    ------
    DataError
        If there is no timing, or one is not positive and finite.
    """
    return with_constants(fit_constants(timings, like, source), like, name, source)


def with_constants(constants: dict[str, float], like: Machine, name: str, source: str) -> Machine:
    """Return a machine with constants that `fit_constants` has found, as `fit_machine` does."""
    sources = {**like.sources, **dict.fromkeys(constants, source)}
    return dataclasses.replace(like, name=name, title=source, sources=sources, **constants)  # type: ignore[arg-type]


def fit_constants(timings: Sequence[Timing], like: Machine, source: str) -> dict[str, float]:
    """Return the constants of a machine that are fitted to timings, by name, as `fit_machine` does."""
    seconds = np.array([timing.seconds for timing in timings])
    if not len(seconds) or not np.all(np.isfinite(seconds) & (seconds > 0)):
        raise DataError("nothing to fit: timings must be positive and finite", where=source)
    rows = [_coefficients(timing, like) for timing in timings]
    names = [key for key in rows[0] if any(row[key] for row in rows)]
    if not _run_lengths_differ(rows):
        names = [key for key in names if key != "run_time"]
        runs = like.run_time * np.array([row["run_time"] for row in rows])
        seconds = np.maximum(seconds - runs, seconds / 2)
    costs = _least_squares(np.array([[row[key] for key in names] for row in rows]), seconds)
    return _constants(dict(zip(names, costs, strict=True)))


def _run_lengths_differ(rows: Sequence[dict[str, float]]) -> bool:
    """Return whether the lengths of runs differ, so that the costs of runs and rows can be separated."""
    lengths = [row["row_time"] / row["run_time"] for row in rows if row["run_time"]]
    return max(lengths, default=0.0) > _MIN_LENGTH_RATIO * min(lengths, default=0.0)


def _coefficients(timing: Timing, machine: Machine) -> dict[str, float]:
    """Return the coefficient of each constant in the model of `alpha_beta` for a timing."""
    row_bytes = timing.k * timing.itemsize
    total = dict.fromkeys(_COSTS, 0.0)
    for phase in timing.load:
        messages = core_work(phase.messages, phase.node_messages, machine.cores)
        moved = core_work(phase.moved, phase.node_moved, machine.cores)
        if phase.off_node_rows:
            total["latency"] += messages
            total["byte"] += row_bytes * max(phase.rows, phase.off_node_rows)
        else:
            total["local_latency"] += messages
            total["local_byte"] += row_bytes * core_work(phase.rows, phase.node_rows, machine.cores)
        total["row_time"] += moved
        total["run_time"] += core_work(phase.runs, phase.node_runs, machine.cores)
        total["core_byte"] += moved * 2 * row_bytes
        total["synchronisation"] += synchronisation_steps(phase, timing.ranks_per_node, machine.cores)
    return total


def _constants(costs: dict[str, float]) -> dict[str, float]:
    """Return the fields of a machine for the fitted costs, in seconds per unit."""
    bandwidths = {
        "byte": ("bandwidth", "node_bandwidth"),
        "local_byte": ("local_bandwidth",),
        # Measured with all cores busy, so that the node's memory bandwidth is no further limit.
        "core_byte": ("core_memory_bandwidth",),
    }
    fitted: dict[str, float] = {}
    for key, cost in costs.items():
        for field in bandwidths.get(key, ()):
            fitted[field] = float(1 / cost) if cost > 1 / _FREE_BANDWIDTH else _FREE_BANDWIDTH
        if key not in bandwidths:
            fitted[key] = max(float(cost), _FREE_TIME)
    if "core_memory_bandwidth" in fitted:
        fitted["memory_bandwidth"] = _FREE_BANDWIDTH
    return fitted


def _least_squares(coefficients: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return the non-negative costs that minimize the relative errors."""
    from scipy.optimize import nnls

    relative = coefficients / seconds[:, np.newaxis]
    scale = np.linalg.norm(relative, axis=0)
    costs, _ = nnls(relative / scale, np.ones(len(seconds)))
    return np.asarray(costs / scale, np.float64)


def fit_collective(
    collective: str, sizes: Iterable[int], n_bytes: Iterable[float], seconds: Iterable[float]
) -> tuple[float, float]:
    """Return alpha and beta fitted to timings of one collective, as in Figure 5 of Sudarsan et al. 2011.

    Parameters
    ----------
    collective : str
        "allreduce", "ring-allgather", "tree-allgather" or "alltoallv", as in `alpha_beta`.
    sizes, n_bytes, seconds : iterables of one length
        Ranks, bytes as in the closed form, and seconds of each timing.

    Returns
    -------
    alpha, beta : float
        Seconds per message and per byte.

    Raises
    ------
    ConfigError
        If there is no such collective.
    """
    require_known("no closed form of", collective, _COLLECTIVES)
    form = _COLLECTIVES[collective]
    pairs = list(zip(sizes, n_bytes, strict=True))
    columns = np.array([[form(p, n, 1.0, 0.0), form(p, n, 0.0, 1.0)] for p, n in pairs])
    alpha, beta = _least_squares(columns, np.fromiter(seconds, np.float64))
    return float(alpha), float(beta)


def fit_csv(path: str) -> dict[str, tuple[float, float]]:
    """Return the fits to the timings in a CSV file with the columns ``collective, ranks, bytes, seconds``.

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
        with require_file(path).open(newline="", encoding="utf-8") as file:
            for line, row in enumerate(csv.DictReader(file), 2):
                collective, timing = _parse_row(row, f"{path}:{line}")
                timings.setdefault(collective, []).append(timing)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=path) from None
    except (UnicodeDecodeError, csv.Error):
        raise DataError("is no CSV in UTF-8", where=path) from None
    if not timings:
        raise DataError("no timings", where=path, mend="columns: collective, ranks, bytes, seconds")
    return {name: fit_collective(name, *zip(*rows, strict=True)) for name, rows in timings.items()}


def _parse_row(row: dict[str, str], where: str) -> tuple[str, tuple[int, float, float]]:
    try:
        numbers = int(row["ranks"]), float(row["bytes"]), float(row["seconds"])
    except (KeyError, TypeError, ValueError):
        numbers = (0, 0.0, 0.0)
    collective = row.get("collective") or ""
    if numbers[0] < 2 or not all(np.isfinite(numbers)) or min(numbers) <= 0 or collective not in _COLLECTIVES:
        mend = f"columns: collective ({', '.join(_COLLECTIVES)}), ranks (2 or more), bytes, seconds"
        raise DataError("not a timing", where=where, mend=mend)
    return collective, numbers
