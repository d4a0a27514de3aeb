"""A plan as people and programs read it."""

from __future__ import annotations

from typing import Any

from petacomm.costs.forecast import Estimate
from petamap.planning.plan import Outlook, Plan


def table(plan: Plan) -> str:
    """Return a plan as text: a row for each way to run, the best one named below."""
    names = list(plan.outlooks[0].seconds)
    head = ["distribution", "ranks x threads", "pixels", "held by", "partners", "memory", *names]
    rows = [head, *(_row(plan, outlook, names) for outlook in plan.outlooks)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
    ]
    return "\n".join([_title(plan), _data(plan), "", *lines, "", *_legend(plan), _verdict(plan)])


def _title(plan: Plan) -> str:
    machine = plan.machine
    nodes = -(-plan.cores // machine.cores)
    return f"{plan.cores} cores on {nodes} of {machine.nodes} nodes: {machine.title}"


def _data(plan: Plan) -> str:
    seen = plan.best.forecast.n_global.value
    pixels = f"{seen:,.0f} of {plan.n_pix:,} pixels seen"
    return ", ".join([f"{plan.n_samp:.4g} samples", pixels, f"{plan.n_stokes} values a pixel"])


def _row(plan: Plan, outlook: Outlook, names: list[str]) -> list[str]:
    found = outlook.forecast
    times = [f"{1e3 * outlook.seconds[name]:.3g}" + ("*" if name == outlook.best else " ") for name in names]
    return [
        outlook.distribution.in_words,
        f"{found.size} x {outlook.threads}",
        f"{found.n_keys:,.0f}",
        f"{found.multiplicity.value:.1f}",
        f"{found.partners.value:,.0f}",
        f"{outlook.memory / 1e6:,.0f} MB",
        *times,
    ]


def _legend(plan: Plan) -> list[str]:
    lines = [
        "pixels of the rank that has most; ranks that hold a pixel; ranks with which one shares pixels;",
        "memory of a rank, pointing recomputed; predicted milliseconds of a reduction, * the quickest",
    ]
    if plan.fraction < 1:
        lines.append(
            f"{100 * plan.fraction:.2g} % of the sky sampled; standard error of rows sent "
            f"{_most(plan, 'rows')}, of partners {_most(plan, 'partners')} at most"
        )
    return lines


def _most(plan: Plan, what: str) -> str:
    if what == "partners":
        found = [outlook.forecast.partners for outlook in plan.outlooks]
    else:
        found = [rows for outlook in plan.outlooks for rows in outlook.forecast.rows.values()]
    return f"{100 * max(estimate.relative for estimate in found):.1f} %"


def _verdict(plan: Plan) -> str:
    best = plan.best
    how = f"{best.distribution.in_words}, {best.forecast.size} ranks x {best.threads} threads, {best.best}"
    return f"best: {how}: {1e3 * best.seconds[best.best]:.3g} ms"


def as_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as what JSON can hold; times in seconds, memory in bytes, errors are standard errors."""
    return {
        "machine": plan.machine.name,
        "cores": plan.cores,
        "samples": plan.n_samp,
        "pixels": plan.n_pix,
        "values_a_pixel": plan.n_stokes,
        "sky_fraction": plan.fraction,
        "outlooks": [_outlook(outlook) for outlook in plan.outlooks],
    }


def _outlook(outlook: Outlook) -> dict[str, Any]:
    found = outlook.forecast
    return {
        "distribution": outlook.distribution.name,
        "groups": outlook.distribution.groups,
        "ranks": found.size,
        "threads": outlook.threads,
        "ranks_per_node": found.ranks_per_node,
        "largest_pixels": found.n_keys,
        "mean_pixels": found.n_held,
        "pixels_seen": _estimate(found.n_global),
        "multiplicity": _estimate(found.multiplicity),
        "partners": _estimate(found.partners),
        "largest_partners": _estimate(found.partners_most),
        "mean_rows_sent": {name: _estimate(rows) for name, rows in found.rows.items()},
        "loads": {name: [vars(phase) for phase in load] for name, load in found.loads.items()},
        "seconds": outlook.seconds,
        "best": outlook.best,
        "memory": outlook.memory,
        "memory_with_pointing_kept": outlook.memory_kept,
    }


def _estimate(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "error": estimate.error}
