"""Text of a tuning: rows by collective and size, variables, and savings of a recorded job."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from petacomm.base.text import format_bytes, format_seconds, table_lines
from petacomm.tuning.choice import DEFAULT, size_bands
from petacomm.tuning.tuning_job import Tuning

if TYPE_CHECKING:
    from petacomm.recording import Recording


def tuning_table(tuning: Tuning) -> str:
    """Return a tuning as a text table."""
    rows = [["collective", "size", "default", "chosen", "time", "gain", "95 % of gain", "in jobs"]]
    for (collective, size), times in tuning.times.items():
        choice = tuning.choices[collective, size]
        own = format_seconds(float(np.median(times[DEFAULT])), 3)
        row = [collective, format_bytes(size) if size else "", own]
        if choice.name == DEFAULT:
            note = "withdrawn" if tuning.is_withdrawn((collective, size)) else ""
            rows.append([*row, "default", "", "", note, ""])
            continue
        taken = format_seconds(float(np.median(times[choice.name])), 3)
        bounds = f"{choice.low:.2f} to {choice.high:.2f}"
        gain = f"{tuning.checked_gain((collective, size)):.2f}"
        rows.append([*row, choice.name, taken, f"{choice.gain:.2f}", bounds, gain])
    lines = [f"{tuning.ranks} ranks, {tuning.library}", "", *table_lines(rows), ""]
    lines.append(
        f"geometric mean of the gains in jobs, over all {len(tuning.times)} rows: {tuning.mean_gain():.2f}"
    )
    if tuning.commutative:
        lines.append("for programs all of whose operations commute: with others, results would be wrong")
    if tuning.wrong:
        lines.append(f"wrong results, never chosen: {', '.join(tuning.wrong)}")
    return "\n".join(lines)


def environment_text(tuning: Tuning, variables: Mapping[str, str]) -> str:
    """Return lines of a shell that make MPI read the rules, with the settings of the measurement."""
    both = dict(variables) | dict(tuning.settings)
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(both.items()))


def job_savings(tuning: Tuning, recording: Recording) -> dict[str, Any]:
    """Return what the rules save of the collectives of a recorded job, by the times that were measured here.

    Calls on communicators of other numbers of ranks, or of sizes beyond those measured, are counted apart.

    Returns
    -------
    dict
        A row for each collective and size (``cells``), sums over all of them (``all``), with seconds of all
        their calls by the library's own choice and by the rules; and other calls (``not_measured``).
    """
    cells: list[dict[str, Any]] = []
    other = 0
    for cell, calls in _recorded_cells(tuning, recording):
        if cell is None:
            other = calls
            continue
        own = calls * float(np.median(tuning.times[cell][DEFAULT]))
        tuned = own / tuning.checked_gain(cell)
        counted = {"calls": calls, "default_seconds": own, "tuned_seconds": tuned}
        cells.append({"collective": cell[0], "bytes": cell[1], **counted})
    sums = {name: sum(row[name] for row in cells) for name in ("calls", "default_seconds", "tuned_seconds")}
    return {"cells": cells, "all": sums, "not_measured": other}


def saving_table(savings: Mapping[str, Any]) -> str:
    """Return what `job_savings` has found as a text table."""
    rows = [["collective", "size", "calls", "default", "tuned", "saved"]]
    for row in [*savings["cells"], {"collective": "all", "bytes": 0} | savings["all"]]:
        size = format_bytes(row["bytes"]) if row["bytes"] else ""
        seconds = _three_seconds(row["default_seconds"], row["tuned_seconds"])
        rows.append([row["collective"], size, f"{row['calls']:,}", *seconds])
    other = savings["not_measured"]
    note = f"{other:,} calls of collectives, ranks or sizes that were not measured" if other else ""
    return "\n".join([*table_lines(rows), *([note] if note else [])])


def _recorded_cells(tuning: Tuning, recording: Recording) -> Iterator[tuple[tuple[str, int] | None, int]]:
    """Iterate over calls of the recording by the cell that they fall into, in the order of the cells."""
    from petacomm.recording.recording import CALLS

    calls: dict[tuple[str, int] | None, int] = {}
    for row in recording.collectives:
        fits = len(recording.groups[row["group"]].ranks) == tuning.ranks
        cell = _cell_of(tuning, CALLS[row["call"]], int(row["size"])) if fits else None
        calls[cell] = calls.get(cell, 0) + int(row["calls"])
    for cell in [*tuning.times, None]:
        if cell in calls:
            yield cell, calls[cell]


def _cell_of(tuning: Tuning, collective: str, size: int) -> tuple[str, int] | None:
    sizes = [one for name, one in tuning.times if name == collective]
    for measured, (begin, end) in size_bands(sizes).items():
        if begin <= size <= end or (collective == "barrier" and measured == 0):
            return collective, measured
    return None


def _three_seconds(own: float, tuned: float) -> list[str]:
    return [format_seconds(value, 3) for value in (own, tuned, own - tuned)]
