"""Prospects and simulations as people and programs read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from petacomm.network.predictions import Prospect, Simulated
from petacomm.schedule import Call
from petacomm.topology import Machine


def title(call: Call, machine: Machine) -> str:
    """Return what is asked, in a line."""
    size = "" if call.collective == "barrier" else f" of {call.n_bytes:,} bytes"
    each = " from each rank to each" if call.collective == "alltoall" else ""
    return f"{call.collective}{size}{each}, {call.n_ranks:,} ranks{_place(call)}: {machine.title}"


def _place(call: Call) -> str:
    if call.grid is None:
        return ""
    shape = "x".join(map(str, call.grid.shape))
    kind = "torus" if all(w or s == 1 for w, s in zip(call.grid.wrap, call.grid.shape, strict=True)) else (
        "mesh" if not any(call.grid.wrap) else "partly closed mesh"
    )  # fmt: skip
    return f" on a {kind} of {shape}"


def table(call: Call, machine: Machine, found: Sequence[Prospect]) -> str:
    """Return all algorithms as text, the chosen one marked, with why others cannot be used."""
    rows = [("algorithm", "closed form", "link loads", "busiest link")]
    rows += [
        (
            prospect.algorithm + (" *" if prospect.chosen else ""),
            seconds(prospect.closed),
            seconds(prospect.loaded),
            "-" if prospect.busiest is None else f"{prospect.busiest:,.0f} B",
        )
        for prospect in found
        if not prospect.unmet
    ]
    lines = [title(call, machine), "", *_aligned(rows), ""]
    lines += ["* what the selector takes; link loads leave processors out"]
    lines += [f"{p.algorithm}: {p.why}" for p in found if p.why]
    lines += [f"{p.algorithm} cannot be used: it needs that {'; '.join(p.unmet)}" for p in found if p.unmet]
    return "\n".join(lines)


def simulated_table(call: Call, machine: Machine, found: Simulated) -> str:
    """Return a simulation as text."""
    rows = [("algorithm", found.algorithm), ("time", seconds(found.seconds))]
    if call.n_bytes:
        factor = call.n_ranks - 1 if call.collective == "alltoall" else 1
        rows.append(("bandwidth a rank", f"{factor * call.n_bytes / found.seconds / 1e6:,.1f} MB/s"))
    run = found.run
    if run is not None:
        rows += [
            ("packets", f"{run.packets:,}, and {run.copies:,} copies by the deposit bit"),
            ("links crossed", f"{run.hops:,}, {run.escapes:,} by the escape channel"),
            ("busiest link", f"{int(run.link_bytes.max(initial=0)):,} B, headers included"),
            ("in flight", f"{run.most_in_flight:,} packets at most"),
        ]
    lines = [title(call, machine), "", *_aligned(rows, left=2)]
    return "\n".join([*lines, *([f"note: {found.note}"] if found.note else [])])


def seconds(value: float | None) -> str:
    """Return a time for people; - for none."""
    if value is None:
        return "-"
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if value * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e6:.4g} us"


def _aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def call_json(call: Call, machine: Machine) -> dict[str, Any]:
    """Return a call as what JSON can hold."""
    return {
        "collective": call.collective,
        "machine": machine.name,
        "ranks": call.n_ranks,
        "shape": None if call.grid is None else list(call.grid.shape),
        "wrap": None if call.grid is None else list(call.grid.wrap),
        "bytes": call.n_bytes,
    }


def outlook_json(call: Call, machine: Machine, found: Sequence[Prospect]) -> dict[str, Any]:
    """Return prospects as what JSON can hold; times in seconds."""
    return call_json(call, machine) | {"algorithms": [dict(vars(prospect)) for prospect in found]}


def simulated_json(call: Call, machine: Machine, found: Simulated) -> dict[str, Any]:
    """Return a simulation as what JSON can hold; times in seconds."""
    data = call_json(call, machine) | {
        "algorithm": found.algorithm,
        "seconds": found.seconds,
        "note": found.note,
    }
    run = found.run
    if run is None:
        return data
    counts = ("packets", "copies", "hops", "escapes", "events", "most_in_flight", "memory", "wall_seconds")
    more = {key: getattr(run, key) for key in counts}
    return data | more | {"busiest_link_bytes": int(run.link_bytes.max(initial=0))}
