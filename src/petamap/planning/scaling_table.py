"""Tables and JSON of how a run scales."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from petacomm.base.text import table_lines
from petamap.planning.scaling import MeasuredRun, ScalingJob, ScalingTimes

_TIMES = ("calculation", "communication", "data")
_HEAD = ("cores", "ranks x threads", "reduction")


def scaling_table(
    measured: Sequence[tuple[MeasuredRun, ScalingTimes]],
    predicted: Sequence[tuple[ScalingJob, ScalingTimes]],
    machine: str,
    once: Mapping[ScalingJob, float],
) -> str:
    """Return the rows that were measured beside their predictions, and those that are predictions alone.

    Parameters
    ----------
    measured : sequence of (MeasuredRun, ScalingTimes)
        What runs took, and what was predicted of them.
    predicted : sequence of (ScalingJob, ScalingTimes)
    machine : str
        Name of the machine of the latter.
    once : mapping of ScalingJob to float
        Seconds that a rank spends whatever its samples, of the jobs that others are predicted from.
    """
    head = [*_HEAD, "seconds", "predicted", *(name for one in _TIMES for name in (one, "predicted"))]
    rows = [
        [*_job_cells(one.job), *_pair(one.times.total, forecast.total)]
        + [cell for name in _TIMES for cell in _pair(getattr(one.times, name), getattr(forecast, name))]
        for one, forecast in measured
    ]
    lines = table_lines([head, *rows], left=0)
    if predicted:
        rows = [
            [*_job_cells(job), *(_seconds(value) for value in (one.total, *_values(one)))]
            for job, one in predicted
        ]
        lines += ["", f"predicted on {machine}, with cores as fast as these"]
        lines += table_lines([[*_HEAD, "seconds", *_TIMES], *rows], left=0)
    lines += [
        "",
        "seconds, the mean over ranks; communication: with waiting for others; data: read or made, and maps",
    ]
    if once:
        each = ", ".join(f"{_seconds(value)} of {_name(job)}" for job, value in once.items())
        lines.append(f"of calculation and data each rank spends once, whatever its samples: {each}")
    return "\n".join(lines)


def scaling_json(
    measured: Sequence[tuple[MeasuredRun, ScalingTimes]],
    predicted: Sequence[tuple[ScalingJob, ScalingTimes]],
    machine: str,
    once: Mapping[ScalingJob, float],
) -> str:
    """Return what `scaling_table` has as JSON."""
    content = {
        "measured": [
            {**asdict(one.job), "measured": asdict(one.times), "predicted": asdict(forecast)}
            | {"iterations": one.iterations, "distribution": one.distribution}
            for one, forecast in measured
        ],
        "machine": machine,
        "predicted": [{**asdict(job), "predicted": asdict(one)} for job, one in predicted],
        "once": [{**asdict(job), "seconds": value} for job, value in once.items()],
    }
    return json.dumps(content, indent=2)


def _job_cells(job: ScalingJob) -> list[str]:
    reduction = job.reduction if job.ranks > 1 else "-"
    return [f"{job.cores:,}", _name(job), reduction]


def _name(job: ScalingJob) -> str:
    return f"{job.ranks:,} x {job.threads}"


def _values(one: ScalingTimes) -> list[float]:
    return [getattr(one, name) for name in _TIMES]


def _pair(measured: float, predicted: float) -> list[str]:
    return [_seconds(measured), _seconds(predicted)]


def _seconds(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
