"""Text and JSON of a plan."""

from __future__ import annotations

from typing import Any

from petacomm.base.text import table_lines
from petamap.mapmaking.noise_estimate import RIGHT_HAND_SIDES
from petamap.planning.message_table import bounds_json, bounds_table, phase_bounds
from petamap.planning.run_plan import RunPlan
from petamap.planning.run_prediction import RunPrediction
from petamap.planning.run_time import SAMPLE_BYTES, SampleTimes, predict_run_time


def plan_table(plan: RunPlan, measured: SampleTimes | None = None) -> str:
    """Return a plan as text: a table of the predictions, and the best one; `measured` are times of a run."""
    names = list(plan.predictions[0].seconds)
    head = ["distribution", "ranks x threads", "pixels", "held by", "partners", "memory", *names]
    rows = [head, *(_row(plan, prediction, names) for prediction in plan.predictions)]
    last = [*_legend(plan), _best_line(plan), *_run(plan, measured), *bounds_table(plan, measured)]
    return "\n".join([_title(plan), _data(plan), "", *table_lines(rows), "", *last])


def _title(plan: RunPlan) -> str:
    machine = plan.machine
    cores = f"{plan.cores} core{'s' * (plan.cores != 1)}"
    return f"{cores} on {_nodes(plan)} of {machine.nodes} nodes: {machine.title}"


def _data(plan: RunPlan) -> str:
    seen = plan.best.forecast.n_global.value
    of = f" of {plan.n_maps} bands" if plan.n_maps > 1 else ""
    pixels = f"{seen:,.0f} of {plan.n_maps * plan.n_pix:,} pixels{of} seen"
    parts = ", ".join([f"{plan.n_samp:.4g} samples", pixels, f"{plan.n_stokes} values a pixel"])
    noise = f"noise: {plan.bands.describe()}"
    unused = [f"unused: {text}"] if (text := plan.unused.describe()) else []
    return "\n".join([parts, *unused, noise, f"preconditioner: {plan.preconditioner.describe()}"])


def _row(plan: RunPlan, prediction: RunPrediction, names: list[str]) -> list[str]:
    forecast = prediction.forecast
    times = [
        f"{1e3 * prediction.seconds[name]:.3g}" + ("*" if name == prediction.best else " ") for name in names
    ]
    return [
        prediction.distribution.description,
        f"{forecast.size} x {prediction.threads}",
        f"{forecast.n_keys:,.0f}",
        f"{forecast.multiplicity.value:.1f}",
        f"{forecast.partners.value:,.0f}",
        f"{prediction.memory / 1e6:,.0f} MB" + ("" if plan.fits(prediction) else "!"),
        *times,
    ]


def _legend(plan: RunPlan) -> list[str]:
    lines = [
        "pixels of the rank that has most; ranks that hold a pixel; ranks with which one shares pixels;",
        "memory of a rank, pointing recomputed; predicted milliseconds of a reduction, * the quickest",
    ]
    unpaired = dict[str, float]()
    for one in plan.predictions:
        name = one.distribution.description
        unpaired[name] = max(unpaired.get(name, 0.0), 1e3 * one.unpaired_seconds)
    if most := ", ".join(f"{name} {value:.2g}" for name, value in unpaired.items() if value):
        lines.append(f"milliseconds more where a rank has one detector of a pair alone, at most: {most}")
    if any(0 < plan.rank_limit < one.memory for one in plan.predictions):
        lines.append(
            f"! a rank needs more than the {_bytes(plan.rank_limit)} of resources.memory: no such run"
        )
    if any(0 < plan.machine.node_memory < one.node_memory for one in plan.predictions):
        lines.append(f"! the ranks of a node need more than its {_bytes(plan.machine.node_memory)}")
    if plan.thinning:
        lines.append(plan.thinning.describe())
    elif plan.fraction < 1:
        forecasts = [prediction.forecast for prediction in plan.predictions]
        rows = max(rows.relative for forecast in forecasts for rows in forecast.rows.values())
        partners = max(forecast.partners.relative for forecast in forecasts)
        lines.append(
            f"{100 * plan.fraction:.2g} % of the sky sampled; standard error of rows sent "
            f"{100 * rows:.1f} %, of partners {100 * partners:.1f} % at most"
        )
    return lines


def _best_line(plan: RunPlan) -> str:
    best = plan.best
    ranks, threads = (_number(*one) for one in ((best.forecast.size, "rank"), (best.threads, "thread")))
    how = f"{best.distribution.description}, {ranks} x {threads}, {best.best}"
    return f"best: {how}: {1e3 * best.seconds[best.best]:.3g} ms"


def _run(plan: RunPlan, measured: SampleTimes | None) -> list[str]:
    """Return what the run takes as a whole with the least memory; times of passes are much the same."""
    chosen = plan.least_memory
    taken = predict_run_time(plan, chosen, measured)
    memory = _bytes(chosen.node_memory)
    where = f"{chosen.distribution.description}, {chosen.forecast.size} x {chosen.threads}"
    around, iterating = _duration(taken.around), _duration(taken.iterating)
    lines = [
        f"run: {_bytes(plan.n_samp * SAMPLE_BYTES)} of signal; {memory} a node, the least: {where}",
        f"time: set-up and data {around}, {taken.iterations} iterations {iterating}; "
        f"{taken.core_hours:,.3g} core hours",
    ]
    if plan.noise_rounds and not measured:
        lines.append(
            f"      and before it the estimate of the noise, in at most {plan.noise_rounds} rounds, "
            f"each of which but the first solves for {RIGHT_HAND_SIDES} maps"
        )
    return lines


def _number(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n > 1)}"


def _nodes(plan: RunPlan) -> int:
    return -(-plan.cores // plan.machine.cores)


def _bytes(number: float) -> str:
    for size, unit in ((1e12, "TB"), (1e9, "GB")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number / 1e6:.3g} MB"


def _duration(seconds: float) -> str:
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def plan_json(plan: RunPlan, measured: SampleTimes | None = None) -> dict[str, Any]:
    """Return a plan as JSON data; times are in seconds, memory in bytes, errors are standard errors.

    Times of the preconditioner, at least and at most, are in iterations of block-diagonal; `measured` are
    times of a run.
    """
    return {
        "machine": plan.machine.name,
        "cores": plan.cores,
        "samples": plan.n_samp,
        "pixels": plan.n_pix,
        "values_a_pixel": plan.n_stokes,
        "unused": vars(plan.unused),
        "sky_fraction": plan.fraction,
        "n_lag": plan.bands.n_lag,
        "shortest_band": plan.bands.shortest,
        "information_lost": plan.bands.loss,
        "variance_misstated": plan.bands.misstated,
        "preconditioner": plan.preconditioner.kind,
        "preconditioned_iteration": plan.preconditioner.iteration,
        "preconditioner_set_up": plan.preconditioner.set_up,
        "noise_rounds": plan.noise_rounds,
        "signal_bytes": plan.n_samp * SAMPLE_BYTES,
        "run": vars(predict_run_time(plan, plan.least_memory, measured)),
        "thinning": vars(plan.thinning) if plan.thinning else None,
        "sent_beside_the_bounds": plan.unbounded,
        "node_memory": plan.machine.node_memory or None,
        "predictions": [
            {
                **_prediction_json(one),
                "fits": plan.fits(one),
                "sent_about" if plan.thinning else "sent_at_most": bounds_json(
                    phase_bounds(plan, one, measured)
                ),
            }
            for one in plan.predictions
        ],
    }


def _prediction_json(prediction: RunPrediction) -> dict[str, Any]:
    forecast = prediction.forecast
    return {
        "distribution": prediction.distribution.name,
        "groups": prediction.distribution.groups,
        "ranks": forecast.size,
        "threads": prediction.threads,
        "ranks_per_node": forecast.ranks_per_node,
        "largest_pixels": forecast.n_keys,
        "mean_pixels": forecast.n_held,
        "pixels_seen": vars(forecast.n_global),
        "multiplicity": vars(forecast.multiplicity),
        "partners": vars(forecast.partners),
        "largest_partners": vars(forecast.partners_most),
        "mean_rows_sent": {name: vars(rows) for name, rows in forecast.rows.items()},
        "loads": {name: [vars(phase) for phase in load] for name, load in forecast.loads.items()},
        "seconds": prediction.seconds,
        "unpaired_seconds": prediction.unpaired_seconds,
        "best": prediction.best,
        "memory": prediction.memory,
        "memory_with_pointing_kept": prediction.memory_kept,
    }
