"""Text and JSON of predictions and simulations of collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from petacomm.base.text import format_seconds, shape_text, table_lines
from petacomm.network.predictions import Prediction
from petacomm.network.simulations import SimulatedCollective
from petacomm.schedule import CollectiveCall
from petacomm.topology import Machine


def call_title(call: CollectiveCall, machine: Machine) -> str:
    """Return a line that describes a call on a machine."""
    size = "" if call.collective == "barrier" else f" of {call.n_bytes:,} bytes"
    each = " from each rank to each" if call.collective == "alltoall" else ""
    ranks = f"{call.n_ranks:,} rank{'s' * (call.n_ranks > 1)}"
    return f"{call.collective}{size}{each}, {ranks}{_grid_text(call)}: {machine.title}"


def _grid_text(call: CollectiveCall) -> str:
    if call.grid is None:
        return ""
    kind = "torus" if all(w or s == 1 for w, s in zip(call.grid.wrap, call.grid.shape, strict=True)) else (
        "mesh" if not any(call.grid.wrap) else "partly closed mesh"
    )  # fmt: skip
    return f" on a {kind} of {shape_text(call.grid.shape)}"


def prediction_table(call: CollectiveCall, machine: Machine, predictions: Sequence[Prediction]) -> str:
    """Return the predictions as text, with the chosen algorithm marked and the reasons why others fail."""
    rows = [("algorithm", "predicted", "closed form", "link loads", "busiest link")]
    rows += [
        (
            prediction.algorithm + " *" * prediction.chosen + " +" * prediction.published,
            format_seconds(prediction.seconds),
            format_seconds(prediction.closed),
            format_seconds(prediction.loaded),
            "-" if prediction.busiest is None else f"{prediction.busiest:,.0f} B",
        )
        for prediction in predictions
        if not prediction.unmet
    ]
    lines = [call_title(call, machine), "", *table_lines(rows), ""]
    lines += [
        "predicted: the larger of the two; link loads leave processors out, closed forms of MPI's algorithms "
        "links that messages share",
        "* the lowest, which 'auto' takes; + what the published switching points take",
    ]
    lines += [f"{p.algorithm}: {p.why}" for p in predictions if p.why]
    lines += [
        f"{p.algorithm} cannot be used: it needs that {'; '.join(p.unmet)}" for p in predictions if p.unmet
    ]
    return "\n".join(lines)


def simulation_table(call: CollectiveCall, machine: Machine, simulated: SimulatedCollective) -> str:
    """Return the result of a simulation as text."""
    rows = [("algorithm", simulated.algorithm), ("time", format_seconds(simulated.seconds))]
    if call.n_bytes and simulated.seconds:
        factor = call.n_ranks - 1 if call.collective == "alltoall" else 1
        rows.append(("bandwidth a rank", f"{factor * call.n_bytes / simulated.seconds / 1e6:,.1f} MB/s"))
    run = simulated.run
    if run is not None:
        on_torus = call.grid is not None
        copies = f", and {run.copies:,} copies by the deposit bit" if on_torus else ""
        escapes = f", {run.escapes:,} by the escape channel" if on_torus else ""
        rows += [
            ("packets", f"{run.packets:,}{copies}"),
            ("links crossed", f"{run.hops:,}{escapes}"),
            ("busiest link", f"{int(run.link_bytes.max(initial=0)):,} B, headers included"),
            ("in flight", f"{run.most_in_flight:,} packets at most"),
        ]
    lines = [call_title(call, machine), "", *table_lines(rows, left=2)]
    return "\n".join([*lines, *([f"note: {simulated.note}"] if simulated.note else [])])


def call_json(call: CollectiveCall, machine: Machine) -> dict[str, Any]:
    """Return a call as JSON data."""
    return {
        "collective": call.collective,
        "machine": machine.name,
        "ranks": call.n_ranks,
        "shape": None if call.grid is None else list(call.grid.shape),
        "wrap": None if call.grid is None else list(call.grid.wrap),
        "bytes": call.n_bytes,
    }


def predictions_json(
    call: CollectiveCall, machine: Machine, predictions: Sequence[Prediction]
) -> dict[str, Any]:
    """Return the predictions as JSON data; times are in seconds."""
    return call_json(call, machine) | {"algorithms": [dict(vars(prediction)) for prediction in predictions]}


def simulation_json(call: CollectiveCall, machine: Machine, simulated: SimulatedCollective) -> dict[str, Any]:
    """Return the result of a simulation as JSON data; times are in seconds."""
    data = call_json(call, machine) | {
        "algorithm": simulated.algorithm,
        "seconds": simulated.seconds,
        "note": simulated.note,
    }
    run = simulated.run
    if run is None:
        return data
    counts = ("packets", "copies", "hops", "escapes", "events", "most_in_flight", "memory", "wall_seconds")
    more = {key: getattr(run, key) for key in counts}
    return data | more | {"busiest_link_bytes": int(run.link_bytes.max(initial=0))}
