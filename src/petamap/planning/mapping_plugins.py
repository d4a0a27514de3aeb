"""Plug-ins of `petacomm map`: the reductions of a map-making run as a communication graph.

They are registered as entry points in `pyproject.toml`, so that petacomm does not import petamap.
"""

from __future__ import annotations

import dataclasses

from petacomm.mapping.comparison import MappingTask
from petacomm.mapping.job import JobTable
from petacomm.mapping.job_graphs import GraphKind, JobCommunication
from petacomm.mapping.strategies import Resources
from petacomm.topology import Torus


def _run_communication(table: JobTable, n_ranks: int) -> JobCommunication:
    from petamap.data.config import load_config
    from petamap.planning.reduction_graph import run_reduction_graph

    name = table.get("run", str)
    groups = table.get("groups", int)
    graph = run_reduction_graph(load_config(table.resolve_path(name), []), n_ranks, groups=groups)
    return JobCommunication.from_graph(graph, f"reductions of {name}")


RUN_GRAPH = GraphKind(_run_communication, ("groups",))


def satellite_task() -> tuple[str, str, MappingTask]:
    """Return title, description and task of the reductions of a map-maker for a satellite's scan."""
    from petamap.data.config import load_config
    from petamap.examples import find_example
    from petamap.planning.reduction_graph import run_reduction_graph

    config = load_config(find_example("planck-year", ("plan.toml",)), ["map.n_side=256"])
    source = config.sources[0]
    options = dataclasses.replace(
        source.options, n_det=4, sample_rate=25.0, duration=60 * 86400.0, n_observations=60
    )
    config = dataclasses.replace(config, sources=(dataclasses.replace(source, options=options),))
    text = (
        "One reduction of I, Q and U at N_side 256 of sixty days of four detectors of a satellite like "
        "Planck, eight ranks per node: each rank sends the pixels that it shares to their owners and "
        "receives the sums. Neighbours in time share the most pixels, but the owners are spread over all "
        "holders, so that nearly all ranks communicate with all others."
    )
    return (
        "A satellite's reductions",
        text,
        MappingTask(run_reduction_graph(config, 512), Resources(Torus((4, 4, 4)), 8)),
    )
