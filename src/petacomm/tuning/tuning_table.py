"""Text of a tuning: rows by collective and size, variables, and savings of a recorded job."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from petacomm.base.text import format_bytes, format_seconds, table_lines
from petacomm.tuning.cells import Cell, size_bands, sizes_measured
from petacomm.tuning.choice import DEFAULT
from petacomm.tuning.prediction import predicted_seconds, prediction_ratios
from petacomm.tuning.tuning_job import Tuning

if TYPE_CHECKING:
    from petacomm.recording import Recording


def tuning_table(tuning: Tuning) -> str:
    """Return a tuning as a text table."""
    rows = [["collective", "ranks", "size", "default", "chosen", "time", "gain", "95 % of gain", "in jobs"]]
    rows += [_row(tuning, cell) for cell in tuning.times]
    for cell in tuning.too_dear:
        seconds = tuning.default_seconds(cell)
        about = "" if seconds is None else f"about {format_seconds(seconds, 2)}"
        rows.append([*_name(cell), about, "default", "", "", "too dear to measure", ""])
    lines = [f"{tuning.ranks} ranks, {tuning.library}", "", *table_lines(rows), ""]
    lines.append(
        f"geometric mean of the gains in jobs, over all {len(tuning.times)} rows: {tuning.mean_gain():.2f}"
    )
    if tuning.commutative:
        lines.append("for programs all of whose operations commute: with others, results would be wrong")
    if tuning.wrong:
        lines.append(f"wrong results, never chosen: {', '.join(tuning.wrong)}")
    return "\n".join(lines)


def _name(cell: Cell) -> list[str]:
    return [cell.collective, str(cell.ranks), format_bytes(cell.size) if cell.size else ""]


def _row(tuning: Tuning, cell: Cell) -> list[str]:
    choice, times = tuning.choices[cell], tuning.times[cell]
    row = [*_name(cell), format_seconds(float(np.median(times[DEFAULT])), 3)]
    if choice.name == DEFAULT:
        return [*row, "default", "", "", "withdrawn" if tuning.is_withdrawn(cell) else "", ""]
    taken = format_seconds(float(np.median(times[choice.name])), 3)
    bounds = f"{choice.low:.2f} to {choice.high:.2f}"
    return [*row, choice.name, taken, f"{choice.gain:.2f}", bounds, f"{tuning.checked_gain(cell):.2f}"]


def environment_text(tuning: Tuning, variables: Mapping[str, str]) -> str:
    """Return lines of a shell that make MPI read the rules, with the settings of the measurement."""
    both = dict(variables) | dict(tuning.settings)
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(both.items()))


def job_savings(tuning: Tuning, recording: Recording) -> dict[str, Any]:
    """Return what the rules save of the collectives of a recorded job, by the times that were measured here.

    Calls on communicators of other numbers of ranks, or of sizes beyond those measured, keep the library's
    own choice; their time is predicted where that can be.

    Returns
    -------
    dict
        A row for each cell that was measured (``cells``), with seconds of all its calls by the library's own
        choice and by the rules; a row for each collective and number of ranks with the predicted seconds of
        others (``predicted``), and by what factor those measured are predicted wrongly from each other
        (``prediction_ratios``); sums over both (``all``); and calls of which nothing is known
        (``not_measured``).
    """
    times = tuning.measured_defaults()
    measured: dict[Cell, _Calls] = {}
    predicted: dict[tuple[str, int], _Calls] = {}
    other = 0
    for call, calls in _recorded_calls(recording):
        cell = _measured_cell(tuning, call)
        seconds = predicted_seconds(times, cell or call)
        if seconds is None:
            other += calls
        elif cell is None:
            predicted.setdefault((call.collective, call.ranks), _Calls()).add(calls, seconds, 1.0)
        else:
            measured.setdefault(cell, _Calls()).add(calls, seconds, tuning.checked_gain(cell))
    rows = [asdict(calls) for calls in (*measured.values(), *predicted.values())]
    return {
        "cells": [
            {"collective": cell.collective, "ranks": cell.ranks, "bytes": cell.size, **asdict(measured[cell])}
            for cell in tuning.times
            if cell in measured
        ],
        "predicted": [
            {"collective": collective, "ranks": ranks, **asdict(calls)}
            for (collective, ranks), calls in predicted.items()
        ],
        "prediction_ratios": prediction_ratios(times) if predicted else [],
        "all": {name: sum(row[name] for row in rows) for name in asdict(_Calls())},
        "not_measured": other,
    }


@dataclass
class _Calls:
    """Calls of collectives, and the seconds of all of them by the library's own choice and by the rules."""

    calls: int = 0
    default_seconds: float = 0.0
    tuned_seconds: float = 0.0

    def add(self, calls: int, seconds: float, gain: float) -> None:
        """Count calls that take some seconds each by the library's own choice."""
        self.calls += calls
        self.default_seconds += calls * seconds
        self.tuned_seconds += calls * seconds / gain


def saving_table(savings: Mapping[str, Any]) -> str:
    """Return what `job_savings` has found as a text table."""
    rows = [["collective", "ranks", "size", "calls", "default", "tuned", "saved"]]
    for row in savings["cells"]:
        rows.append(_saving_row(row, format_bytes(row["bytes"]) if row["bytes"] else ""))
    rows += [_saving_row(row, "predicted") for row in savings["predicted"]]
    rows.append(_saving_row({"collective": "all", "ranks": ""} | savings["all"], ""))
    lines = table_lines(rows)
    if savings["predicted"]:
        lines.append(_prediction_note(savings))
    if savings["not_measured"]:
        lines.append(
            f"{savings['not_measured']:,} calls of which nothing was measured that would tell their time"
        )
    return "\n".join(lines)


def _prediction_note(savings: Mapping[str, Any]) -> str:
    """Return what a user should know of predicted times: how good they are, and what would be measured."""
    note = "predicted: sizes and communicators that were not measured, which have no rules"
    if ratios := savings["prediction_ratios"]:
        middle, largest = ratios[len(ratios) // 2], ratios[-1]
        note += (
            f";\nmeasured times are predicted from each other within a factor of {middle:.2g} in the median"
        )
        note += f", {largest:.2g} at most"
    measured = {row["ranks"] for row in savings["cells"]}
    missing = sorted({row["ranks"] for row in savings["predicted"]} - measured)
    return note + (f"; --ranks {','.join(map(str, missing))} measures those" if missing else "")


def _saving_row(row: Mapping[str, Any], size: str) -> list[str]:
    own, tuned = row["default_seconds"], row["tuned_seconds"]
    seconds = [format_seconds(value, 3) for value in (own, tuned, own - tuned)]
    return [row["collective"], str(row["ranks"]), size, f"{row['calls']:,}", *seconds]


def _recorded_calls(recording: Recording) -> Iterator[tuple[Cell, int]]:
    """Iterate over the collectives of a recording and how often each was called, but those of one rank."""
    from petacomm.recording.recording import CALLS

    for row in recording.collectives:
        ranks = len(recording.groups[row["group"]].ranks)
        if ranks > 1:
            yield Cell(CALLS[row["call"]], int(row["size"]), ranks), int(row["calls"])


def _measured_cell(tuning: Tuning, call: Cell) -> Cell | None:
    """Return the cell that was measured into whose sizes a call falls."""
    sizes = sizes_measured(tuning.times, call.collective, call.ranks)
    for measured, (begin, end) in size_bands(sizes).items():
        if begin <= call.size <= end or (call.collective == "barrier" and measured == 0):
            return call._replace(size=measured)
    return None
