"""Text and JSON of the reproduction."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from petamap.papers.sudarsan2011.comparisons import (
    PublishedComparison,
    published_inconsistencies,
    summarize_comparisons,
)
from petamap.papers.sudarsan2011.figures import Sudarsan2011Results
from petamap.papers.sudarsan2011.published import VERSIONS


def sudarsan2011_table(results: Sudarsan2011Results) -> str:
    """Return the reproduction as text, one block per figure."""
    blocks = [results.published.title, _sampled(results)]
    for figure, more in ((2, _spreads), (3, _set_ups), (4, _costs), (5, _fits), (6, _algorithms)):
        rows = [c for c in results.comparisons if c.figure == figure]
        blocks.append(f"Figure {figure}")
        blocks += [text for text in (_compared(rows), more(results)) if text]
    blocks += [
        "The published numbers among themselves",
        "\n".join(published_inconsistencies(results.published)),
        summarize_comparisons(results.comparisons),
    ]
    return "\n\n".join(blocks)


def _sampled(results: Sudarsan2011Results) -> str:
    return f"{100 * results.fraction:.2g} % of the sky sampled; Figure 2 from all pixels of rank 0"


def format_number(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def comparison_cells(row: PublishedComparison) -> tuple[str, str]:
    """Return the published and the reproduced number as text."""
    low, high = row.published[0], row.published[-1]
    text = format_number(low) if low == high else f"{format_number(low)} to {format_number(high)}"
    if row.bound:
        text = f"{row.bound} {text}"
    error = f" +- {format_number(row.error)}" if row.error else ""
    return text, format_number(row.ours) + error


def _compared(rows: Sequence[PublishedComparison]) -> str:
    """Return the comparisons grouped by quantity, each group followed by the reasons for differences."""
    lines = []
    if rows:
        lines = align_columns([("", "", "published", "ours", "")])
    for what in dict.fromkeys(row.what for row in rows):
        same = [row for row in rows if row.what == what]
        lines += [what, *align_columns([("", row.machine, *comparison_cells(row), row.kind) for row in same])]
        lines += [f"    {why}" for why in dict.fromkeys(row.why for row in same) if why]
    return "\n".join(lines)


def align_columns(
    rows: Sequence[Sequence[str]], widths: Sequence[int] = (2, 14, 16, 20, 28), left: int = 2
) -> list[str]:
    """Return rows as lines, the first `left` columns left-aligned, the others right-aligned."""
    return [
        "".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _block(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) + 2 for column in zip(head, *rows, strict=True)]
    return "\n".join([title, *align_columns([head, *rows], widths, left=1)])


def _spreads(results: Sudarsan2011Results) -> str:
    rows = [
        [f"{s.cores:,}", f"{s.n_held:,.0f}", *map(format_number, (s.all_over_map.value, s.sum_over_keys))]
        for s in results.spreads
    ]
    head = ["ranks", "pixels of a rank", "n_all / N_p", "overlaps / pixels"]
    return _block("all detectors, a rank a core", head, rows)


def _set_ups(results: Sudarsan2011Results) -> str:
    measured = results.measured
    rows = [
        [f"{s.cores:,}", *map(format_number, (s.allgather, s.sift, s.initialise))] for s in results.set_ups
    ]
    head = ["cores", "allgather", "sift", "initialise"]
    steps = ", ".join(f"{name} {seconds:.3g}" for name, seconds in measured.steps.items())
    title = (
        f"seconds of the set-up on Franklin, unthreaded: allgather by the model; sift and initialise at "
        f"{1e9 * measured.sift_time:.3g} ns a key\n"
        f"gathered and {1e9 * measured.initialise_time:.3g} ns a key shared, measured here"
    )
    ranks = f"{measured.ranks} of {measured.run_ranks:,} ranks, {measured.keys:,.0f} keys each"
    where = f"measured here on {ranks}, the slowest, in s: {steps}"
    return _block(title, head, rows) + "\n" + where


def _costs(results: Sudarsan2011Results) -> str:
    blocks = []
    for machine, costs in results.costs.items():
        cores = [cost.cores for cost in costs[VERSIONS[0]]]
        rows = [
            [f"{n:,}", *(format_number(costs[v][i].core_seconds(results.iterations)) for v in VERSIONS)]
            for i, n in enumerate(cores)
        ]
        blocks.append(_block(f"{machine}: core-seconds of communication, model", ["cores", *VERSIONS], rows))
    return "\n\n".join(blocks)


def _fits(results: Sudarsan2011Results) -> str:
    if not results.fitted:
        return "no timings fitted: give --timings FILE, or start with mpiexec"
    rows = [
        [name, f"{1e6 * alpha:.3g}", f"{1 / beta / 1e9:.3g}" if beta > 0 else "no limit seen"]
        for name, (alpha, beta) in results.fitted.items()
    ]
    return _block("fitted to timings", ["collective", "alpha, us", "1 / beta, GB/s"], rows)


def _algorithms(results: Sudarsan2011Results) -> str:
    names = list(next(iter(results.seconds.values()))["unthreaded"])
    rows = [
        [f"{machine}, {kind}", *(format_number(1e3 * seconds[name]) for name in names)]
        for machine, kinds in results.seconds.items()
        for kind, seconds in kinds.items()
    ]
    return _block("model: milliseconds of one sum at the most cores", ["", *names], rows)


def sudarsan2011_json(results: Sudarsan2011Results) -> dict[str, Any]:
    """Return the reproduction as JSON data; times are in seconds, bandwidths in bytes per second."""
    last_ranks = (2, 10, 20, 50)
    return {
        "source": results.published.title,
        "sky_fraction": results.fraction,
        "iterations": results.iterations,
        "summary": summarize_comparisons(results.comparisons),
        "comparisons": [dataclasses.asdict(row) for row in results.comparisons],
        "inconsistencies": published_inconsistencies(results.published),
        "overlaps": [
            {
                "ranks": o.size,
                "shared_keys": o.counts.tolist(),
                "shared_part": {str(n): o.shared_part(n) for n in last_ranks},
            }
            for o in results.overlaps
        ],
        "spreads": [dataclasses.asdict(spread) for spread in results.spreads],
        "set_ups": [dataclasses.asdict(set_up) for set_up in results.set_ups],
        "measured": {
            {"run_ranks": "of"}.get(key, key): value
            for key, value in dataclasses.asdict(results.measured).items()
        },
        "costs": {
            machine: {version: [dataclasses.asdict(cost) for cost in row] for version, row in costs.items()}
            for machine, costs in results.costs.items()
        },
        "ways": results.seconds,
        "sustained": dict(results.published.sustained),
        "fitted": {
            name: {"alpha": alpha, "bytes_a_second": 1 / beta if beta > 0 else None}
            for name, (alpha, beta) in results.fitted.items()
        },
    }
