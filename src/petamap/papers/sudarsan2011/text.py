"""The retold figures as people and programs read them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from petamap.papers.sudarsan2011.comparisons import Comparison, inconsistencies
from petamap.papers.sudarsan2011.figures import Retelling
from petamap.papers.sudarsan2011.published import VERSIONS


def table(found: Retelling) -> str:
    """Return everything as text, a block a figure."""
    blocks = [found.published.title, _sampled(found)]
    for figure, more in ((2, _spreads), (3, _set_ups), (4, _costs), (5, _fits), (6, _ways)):
        rows = [c for c in found.comparisons if c.figure == figure]
        blocks.append(f"Figure {figure}")
        blocks += [text for text in (_compared(rows), more(found)) if text]
    blocks += ["The published numbers among themselves", "\n".join(inconsistencies(found.published))]
    return "\n\n".join(blocks)


def _sampled(found: Retelling) -> str:
    return f"{100 * found.fraction:.2g} % of the sky sampled; Figure 2 from all pixels of rank 0"


def number(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def told(row: Comparison) -> tuple[str, str]:
    """Return the published number and ours in words."""
    low, high = row.published[0], row.published[-1]
    text = number(low) if low == high else f"{number(low)} to {number(high)}"
    if row.bound:
        text = f"{row.bound} {text}"
    error = f" +- {number(row.error)}" if row.error else ""
    return text, number(row.ours) + error


def _compared(rows: Sequence[Comparison]) -> str:
    """Return rows in groups of one meaning, and below each why ours are others."""
    lines = []
    if rows:
        lines = aligned([("", "", "published", "ours")])
    for what in dict.fromkeys(row.what for row in rows):
        same = [row for row in rows if row.what == what]
        lines += [what, *aligned([("", row.machine, *told(row)) for row in same])]
        lines += [f"    {why}" for why in dict.fromkeys(row.why for row in same) if why]
    return "\n".join(lines)


def aligned(rows: Sequence[Sequence[str]], widths: Sequence[int] = (2, 14, 16, 20)) -> list[str]:
    """Return rows as lines, the first two columns to the left and the others to the right."""
    out = []
    for row in rows:
        cells = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        out.append("".join(cells).rstrip())
    return out


def _block(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    every = [head, *rows]
    widths = [max(len(row[i]) for row in every) + 2 for i in range(len(head))]
    lines = [
        row[0].ljust(widths[0])
        + "".join(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in every
    ]
    return "\n".join([title, *lines])


def _spreads(found: Retelling) -> str:
    rows = [
        [f"{s.cores:,}", f"{s.n_held:,.0f}", number(s.all_over_map.value), number(s.sum_over_keys)]
        for s in found.spreads
    ]
    head = ["ranks", "pixels of a rank", "n_all / N_p", "overlaps / pixels"]
    return _block("all detectors, a rank a core", head, rows)


def _set_ups(found: Retelling) -> str:
    here = found.measured
    rows = [[f"{s.cores:,}", *map(number, (s.allgather, s.sift, s.initialise))] for s in found.set_ups]
    head = ["cores", "allgather", "sift", "initialise"]
    steps = ", ".join(f"{name} {seconds:.3g}" for name, seconds in here.steps.items())
    title = (
        f"seconds of the set-up on Franklin, unthreaded: allgather by the model; sift and initialise at "
        f"{1e9 * here.sift_time:.3g} ns a key\n"
        f"gathered and {1e9 * here.initialise_time:.3g} ns a key shared, measured here"
    )
    ranks = f"{here.ranks} of {here.of:,} ranks, {here.keys:,.0f} keys each"
    where = f"measured here on {ranks}, the slowest, in s: {steps}"
    return _block(title, head, rows) + "\n" + where


def _costs(found: Retelling) -> str:
    blocks = []
    for machine, costs in found.costs.items():
        cores = [cost.cores for cost in costs[VERSIONS[0]]]
        rows = [
            [f"{n:,}", *(number(costs[v][i].core_seconds(found.iterations)) for v in VERSIONS)]
            for i, n in enumerate(cores)
        ]
        blocks.append(_block(f"{machine}: core-seconds of communication, model", ["cores", *VERSIONS], rows))
    return "\n\n".join(blocks)


def _fits(found: Retelling) -> str:
    if not found.fitted:
        return "no timings fitted: give --timings FILE, or start with mpiexec"
    rows = [
        [name, f"{1e6 * alpha:.3g}", f"{1 / beta / 1e9:.3g}" if beta > 0 else "no limit seen"]
        for name, (alpha, beta) in found.fitted.items()
    ]
    return _block("fitted to timings", ["collective", "alpha, us", "1 / beta, GB/s"], rows)


def _ways(found: Retelling) -> str:
    names = list(next(iter(found.ways.values()))["unthreaded"])
    rows = [
        [f"{machine}, {kind}", *(number(1e3 * seconds[name]) for name in names)]
        for machine, kinds in found.ways.items()
        for kind, seconds in kinds.items()
    ]
    return _block("model: milliseconds of one sum at the most cores", ["", *names], rows)


def as_json(found: Retelling) -> dict[str, Any]:
    """Return everything as what JSON can hold; times in seconds, bandwidths in bytes a second."""
    some = (2, 10, 20, 50)
    return {
        "source": found.published.title,
        "sky_fraction": found.fraction,
        "iterations": found.iterations,
        "comparisons": [dataclasses.asdict(row) for row in found.comparisons],
        "inconsistencies": inconsistencies(found.published),
        "overlaps": [
            {
                "ranks": o.size,
                "shared_keys": o.counts.tolist(),
                "shared_part": {str(n): o.shared_part(n) for n in some},
            }
            for o in found.overlaps
        ],
        "spreads": [dataclasses.asdict(spread) for spread in found.spreads],
        "set_ups": [dataclasses.asdict(set_up) for set_up in found.set_ups],
        "measured": dataclasses.asdict(found.measured),
        "costs": {
            machine: {version: [dataclasses.asdict(cost) for cost in row] for version, row in costs.items()}
            for machine, costs in found.costs.items()
        },
        "ways": found.ways,
        "sustained": dict(found.published.sustained),
        "fitted": {
            name: {"alpha": alpha, "bytes_a_second": 1 / beta if beta > 0 else None}
            for name, (alpha, beta) in found.fitted.items()
        },
    }
