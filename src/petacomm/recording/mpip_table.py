"""Text and JSON of mpiP's reports: bytes by call, by rank and by class of size."""

from __future__ import annotations

from typing import Any

import numpy as np

from petacomm.base.text import format_bytes, table_lines
from petacomm.recording.mpip import POINT_TO_POINT, MpipReport

_SHOWN = 16  # ranks that have lines of their own


def mpip_table(report: MpipReport) -> str:
    """Return a report as text tables."""
    data = mpip_json(report)
    lines = [
        f"{report.n_ranks:,} ranks, mpiP {report.version}",
        f"{format_bytes(data['bytes'])} sent by {data['calls']:,} calls; mpiP does not tell to which ranks",
    ]
    calls = [
        [
            row["name"],
            f"{row['calls']:,}",
            format_bytes(row["bytes"]),
            *map(format_bytes, row["least and most"]),
        ]
        for row in data["by call"]
    ]
    lines += ["", *table_lines([["call", "calls", "bytes", "least", "most"], *calls])]
    ranks = [[name, *map(format_bytes, sums)] for name, sums in _rank_rows(report)]
    lines += ["", *table_lines([["rank", "to single ranks", "to collectives"], *ranks])]
    shares = [
        [row.call, f"{100 * row.share:.3g} %", "{:,} to {:,}".format(*row.communicator),
         "{:,} to {:,} B".format(*row.size)]
        for row in report.sizes
    ]  # fmt: skip
    if shares:
        lines += [
            "",
            *table_lines([["messages by", "of all bytes", "ranks of communicator", "size"], *shares]),
        ]
    return "\n".join(lines)


def mpip_json(report: MpipReport) -> dict[str, Any]:
    """Return a report as JSON data, in bytes."""
    named, given = report.sent_by_rank()
    return {
        "ranks": report.n_ranks,
        "mpiP": report.version,
        "calls": int(report.sites["calls"].sum()),
        "bytes": float(report.sites["bytes"].sum()),
        "by call": [_call_row(report, number) for number in range(len(report.calls))],
        "by rank": [
            {"rank": rank, "to single ranks": float(to), "to collectives": float(other)}
            for rank, (to, other) in enumerate(zip(named, given, strict=True))
        ],
        "by size": [
            {"name": row.call, "share": row.share, "communicator": row.communicator, "size": row.size}
            for row in report.sizes
        ],
    }


def _call_row(report: MpipReport, number: int) -> dict[str, Any]:
    rows = report.sites[report.sites["call"] == number]
    return {
        "name": report.calls[number],
        "to single ranks": report.calls[number] in POINT_TO_POINT,
        "calls": int(rows["calls"].sum()),
        "bytes": float(rows["bytes"].sum()),
        "least and most": [float(rows["least"].min()), float(rows["most"].max())],
    }


def _rank_rows(report: MpipReport) -> list[tuple[str, tuple[float, float]]]:
    """Return the name and bytes of each rank, or of many ranks those with least and most, and the mean."""
    named, given = report.sent_by_rank()
    if report.n_ranks <= _SHOWN:
        return [(str(rank), (named[rank], given[rank])) for rank in range(report.n_ranks)]
    total = named + given
    ends = [(f"{int(rank)} ({which})", (named[rank], given[rank])) for rank, which in
            ((np.argmin(total), "least"), (np.argmax(total), "most"))]  # fmt: skip
    return [ends[0], ("mean", (float(named.mean()), float(given.mean()))), ends[1]]
