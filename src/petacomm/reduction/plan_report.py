"""Reports of reduction plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.reduction.tuner import choice_table

if TYPE_CHECKING:
    from petacomm.reduction.plan import ReductionPlan


def plan_report_lines(plan: ReductionPlan) -> list[str]:
    """Return the report of a plan as lines of text, the same on all ranks. Collective."""
    comm = plan.comm
    shared = plan.multiplicity[plan.owned]
    # Each key counts once, on its owner.
    histogram = comm.allreduce(np.bincount(shared, minlength=comm.size + 1).astype(np.int64))
    held = int(np.dot(histogram, np.arange(comm.size + 1)))
    most_keys = int(comm.max(plan.index_map.n_keys))
    lines = [
        f"{comm.size} ranks on {int(comm.node_of.max()) + 1} nodes, {plan.n_global} keys, "
        f"at most {most_keys} a rank; a key is on {held / max(1, plan.n_global):.2f} ranks",
        f"keys by the number of ranks that hold them: {_histogram(histogram)}",
        f"set up by {plan.setup}: "
        + ", ".join(f"{name} {comm.max(seconds):.3f} s" for name, seconds in sorted(_times(plan).items())),
    ]
    if not plan.chosen:
        return [*lines, "no algorithm is chosen yet"]
    lines.append(_memory(plan))
    load = plan.load()
    lines.append(f"an all-reduce by {plan.chosen}, busiest rank and, in brackets, busiest node:")
    for number, phase in enumerate(load, 1):
        lines.append(
            f"  phase {number}: {phase.messages:.0f} messages [{phase.node_messages:.0f}], "
            f"{phase.rows:.0f} rows sent [{phase.node_rows:.0f}, {phase.off_node_rows:.0f} leave it], "
            f"{phase.moved:.0f} moved in memory [{phase.node_moved:.0f}], {phase.barriers:.0f} waits"
        )
    return [*lines, *(choice_table(plan.choice) if plan.choice is not None else ["chosen by the caller"])]


def _memory(plan: ReductionPlan) -> str:
    """Return the line on the memory of the plan, the maximum over ranks."""
    n_keys = max(1, plan.index_map.n_keys)
    lists, buffers = (plan.comm.max(n_bytes / n_keys) for n_bytes in (plan.nbytes, plan.buffer_bytes))
    return (
        f"memory: at most {lists:.1f} bytes a key of a rank, its keys included, "
        f"and {buffers:.0f} for buffers of values"
    )


def _times(plan: ReductionPlan) -> dict[str, float]:
    """Return the seconds of the phases of the set-up; 0 for phases that this rank did not have."""
    names = sorted({name for names in plan.comm.allgather(list(plan.setup_times)) for name in names})
    return {name: plan.setup_times.get(name, 0.0) for name in names}


def _histogram(counts: Int64Array) -> str:
    """Return counts by powers of two as text, such as "1: 20, 2: 31, 3-4: 5"."""
    parts, low, high = [], 1, 1
    while low < len(counts):
        n = int(counts[low : high + 1].sum())
        if n:
            parts.append(f"{low}: {n}" if low == high else f"{low}-{min(high, len(counts) - 1)}: {n}")
        low, high = high + 1, 2 * high
    return ", ".join(parts) or "none"
