"""``petamap plan mc``: prediction of memory and time of a Monte Carlo on a machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from petacomm.topology import Machine
    from petamap.data.config import RunConfig
    from petamap.montecarlo.group_plan import GroupPlan

_HEAD = [
    "groups", "ranks", "pointing", "memory", "set-up", "a realization", "reading", "iterating", "reducing",
    "skies", "spectra", "all", "core hours",
]  # fmt: skip


def print_montecarlo_plan(config: RunConfig, cores: int, machine: Machine, as_json: bool) -> int:
    """Print the predictions for some numbers of groups, as a table or as JSON."""
    from petacomm.cli.progress import progress_listener
    from petamap.montecarlo.group_plan import plan_montecarlo

    with progress_listener(0) as progress:
        plans = plan_montecarlo(config, cores, machine, progress)
    if as_json:
        import dataclasses
        import json

        print(json.dumps([{**dataclasses.asdict(one), "seconds": one.seconds} for one in plans], indent=2))
    else:
        print(_table(config, cores, machine, plans))
    return 0


def _table(config: RunConfig, cores: int, machine: Machine, plans: list[GroupPlan]) -> str:
    from petacomm.base.text import table_lines
    from petacomm.cli.progress import format_scaled
    from petamap.montecarlo.group_plan import expected_iterations, fastest, rank_memory

    limit, options = rank_memory(config, machine), config.montecarlo
    best = fastest(plans, limit or math.inf)
    rows = [_HEAD, *(_row(one, cores, "*" if one is best else "") for one in plans)]
    nodes = -(-cores // machine.cores)
    dealt = any(one.distributed for one in plans)
    return "\n".join(
        [
            f"{cores} core{'s' * (cores != 1)} on {nodes} of {machine.nodes} nodes: {machine.title}",
            f"{options.realizations:,} realizations, {options.parts}, a rank a core; "
            f"{expected_iterations(config)} iterations a map are assumed",
            "",
            *table_lines(rows),
            "",
            "ranks of a group; memory of a rank that maps one at a time; seconds of a realization of a",
            f"group, {plans[0].batch} at once where there is memory, and of its parts; * the quickest"
            + (f" that has room in {format_scaled(limit, 'B')} a rank" if limit else ""),
            *([f"no group has room in {format_scaled(limit, 'B')} a rank"] if best is None else []),
            *["+ spectra of each map on all ranks of a group: quicker, or none has room for whole maps"]
            * dealt,
        ]
    )


def _row(plan: GroupPlan, cores: int, mark: str) -> list[str]:
    from petacomm.cli.progress import format_duration, format_scaled

    parts = plan.reading, plan.iterating, plan.reducing, plan.skies
    pointing = "kept" if plan.kept else "recomputed"
    return [
        str(plan.groups), str(plan.ranks), pointing, format_scaled(plan.memory, "B"), f"{plan.set_up:.3g}",
        f"{plan.realization:.3g}", *(f"{part:.3g}" for part in parts),
        f"{plan.spectra:.3g}" + "+" * plan.distributed,
        format_duration(plan.seconds) + mark, f"{plan.seconds * cores / 3600:,.3g}",
    ]  # fmt: skip
