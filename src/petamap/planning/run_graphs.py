"""The reductions of a run of the map-maker as a communication graph that a job file can name."""

from __future__ import annotations

from petamap.comm.mapping.job import Table
from petamap.comm.mapping.job_graphs import Communication, Source


def _run(table: Table, n_ranks: int) -> Communication:
    from petamap.data.config import load
    from petamap.planning.sharing import sharing_graph

    name = table.get("run", str)
    groups = table.get("groups", int)
    graph = sharing_graph(load(table.near(name), []), n_ranks, groups=groups)
    return Communication.of(graph, f"reductions of {name}")


RUN_GRAPHS = {"run": Source(_run, ("groups",))}
