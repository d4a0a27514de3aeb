"""Tables and JSON of how a run scales."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from petacomm.base.text import table_lines
from petamap.planning.scaling import Components, MeasuredRun, ScalingJob

_COMPONENTS = ("calculation", "communication", "data")
_HEAD = ("cores", "ranks x threads", "reduction")


def scaling_table(
    measured: Sequence[tuple[MeasuredRun, Components]],
    predicted: Sequence[tuple[ScalingJob, Components]],
    machine: str,
) -> str:
    """Return the rows that were measured beside their predictions, and those that are predictions alone.

    Parameters
    ----------
    measured : sequence of (MeasuredRun, Components)
        What runs took, and what was predicted of them.
    predicted : sequence of (ScalingJob, Components)
    machine : str
        Name of the machine of the latter.
    """
    head = [*_HEAD, "seconds", "predicted", *(name for one in _COMPONENTS for name in (one, "predicted"))]
    rows = [
        [*_job_cells(one.job), *_pair(one.components.total, forecast.total)]
        + [
            cell
            for name in _COMPONENTS
            for cell in _pair(getattr(one.components, name), getattr(forecast, name))
        ]
        for one, forecast in measured
    ]
    lines = table_lines([head, *rows], left=0)
    if predicted:
        rows = [
            [*_job_cells(job), *(_seconds(value) for value in (one.total, *_values(one)))]
            for job, one in predicted
        ]
        lines += ["", f"predicted on {machine}, with cores as fast as these"]
        lines += table_lines([[*_HEAD, "seconds", *_COMPONENTS], *rows], left=0)
    lines += [
        "",
        "seconds, the mean over ranks; communication: with waiting for others; data: read or made, and maps",
    ]
    return "\n".join(lines)


def scaling_json(
    measured: Sequence[tuple[MeasuredRun, Components]],
    predicted: Sequence[tuple[ScalingJob, Components]],
    machine: str,
) -> str:
    """Return what `scaling_table` has as JSON."""
    content = {
        "measured": [
            {**asdict(one.job), "measured": asdict(one.components), "predicted": asdict(forecast)}
            | {"iterations": one.iterations, "distribution": one.distribution}
            for one, forecast in measured
        ],
        "machine": machine,
        "predicted": [{**asdict(job), "predicted": asdict(one)} for job, one in predicted],
    }
    return json.dumps(content, indent=2)


def _job_cells(job: ScalingJob) -> list[str]:
    reduction = job.reduction if job.ranks > 1 else "-"
    return [f"{job.cores:,}", f"{job.ranks:,} x {job.threads}", reduction]


def _values(one: Components) -> list[float]:
    return [getattr(one, name) for name in _COMPONENTS]


def _pair(measured: float, predicted: float) -> list[str]:
    return [_seconds(measured), _seconds(predicted)]


def _seconds(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
