"""Text and JSON of what a rank sends at most in each phase of a planned run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from petacomm.base.text import table_lines
from petamap.planning.phase_bounds import bound_phases
from petamap.planning.rank_traffic import RankSizes, Sent
from petamap.planning.run_plan import RunPlan
from petamap.planning.run_prediction import RunPrediction
from petamap.planning.run_time import SampleTimes, predict_run_time


def phase_bounds(
    plan: RunPlan, prediction: RunPrediction, measured: SampleTimes | None = None
) -> Mapping[str, Sent]:
    """Return the most that a rank sends in each phase of one of the predictions of a plan.

    Parameters
    ----------
    plan : RunPlan
    prediction : RunPrediction
    measured : SampleTimes, optional
        Of a run like it, whose iterations are taken.
    """
    iterations = predict_run_time(plan, prediction, measured).iterations
    return bound_phases(prediction.sizes, iterations)


def bounds_table(plan: RunPlan, measured: SampleTimes | None = None) -> list[str]:
    """Return the bounds of the best distribution and threads, a line a phase; nothing for a single rank.

    Of a scan that is thinned out they are estimates, and called so.
    """
    best = plan.best
    if best.forecast.size == 1:
        return []
    bounds, size = phase_bounds(plan, best, measured), best.forecast.size
    most = "about" if plan.thinning else "at most"
    rows = [[f"sent by a rank {most}", "messages", "collectives", "bytes", "messages in all"]]
    rows += [
        [name, f"{sent.messages:,.0f}", f"{sent.collectives:,.0f}", _bytes(sent.bytes),
         f"{sent.tree_messages(size):,.0f}"]
        for name, sent in bounds.items()
    ]  # fmt: skip
    beside = f"; beside it what {' and '.join(plan.unbounded)} send" if plan.unbounded else ""
    return [
        "", *table_lines(rows), "",
        f"reductions by {_reductions(best.sizes)};",
        "messages to single ranks, and with those inside of collectives, by trees;",
        f"dot products are among the iterations{beside}",
        *(("estimates, no bounds: the scan was thinned out",) if plan.thinning else ()),
    ]  # fmt: skip


def _reductions(sizes: RankSizes) -> str:
    """Return whose calls are bounded, in words."""
    return " or ".join(sizes.reductions) + (", whichever is chosen" if len(sizes.reductions) > 1 else "")


def bounds_json(bounds: Mapping[str, Sent]) -> dict[str, Any]:
    """Return bounds as JSON data."""
    return {name: sent._asdict() for name, sent in bounds.items()}


def _bytes(number: float) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f} B"
