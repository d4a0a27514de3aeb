"""What `petacomm map` learns from petamap: the reductions of a run as a communication graph.

`pyproject.toml` names these objects as entry points, so that petacomm never imports petamap.
"""

from __future__ import annotations

import dataclasses

from petacomm.mapping.comparison import Task
from petacomm.mapping.job import Table
from petacomm.mapping.job_graphs import Communication, GraphKind
from petacomm.mapping.strategies import Site
from petacomm.topology import Torus


def _run(table: Table, n_ranks: int) -> Communication:
    from petamap.data.config import load
    from petamap.planning.reduction_graph import sharing_graph

    name = table.get("run", str)
    groups = table.get("groups", int)
    graph = sharing_graph(load(table.near(name), []), n_ranks, groups=groups)
    return Communication.of(graph, f"reductions of {name}")


RUN_GRAPH = GraphKind(_run, ("groups",))


def satellite_task() -> tuple[str, str, Task]:
    """Return title, description and task of the reductions of a map-maker on a satellite's scan."""
    from petamap.data.config import load
    from petamap.examples import find
    from petamap.planning.reduction_graph import sharing_graph

    config = load(find("planck-year", ("plan.toml",)), ["map.n_side=256"])
    source = config.sources[0]
    options = dataclasses.replace(
        source.options, n_det=4, sample_rate=25.0, duration=60 * 86400.0, n_observations=60
    )
    config = dataclasses.replace(config, sources=(dataclasses.replace(source, options=options),))
    text = (
        "One reduction of I, Q and U at N_side 256 of sixty days of four detectors of a satellite like "
        "Planck, eight ranks a node: each rank sends the pixels that it shares to their owners and gets "
        "the sums back. Neighbours in time share most, but owners are spread over all holders: nearly all"
        " talk to all."
    )
    return "A satellite's reductions", text, Task(sharing_graph(config, 512), Site(Torus((4, 4, 4)), 8))
