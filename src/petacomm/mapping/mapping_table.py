"""Text and JSON of mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from petacomm.base.text import format_bytes, format_seconds, shape_text, table_lines
from petacomm.mapping.comparison import MeasuredPlacement
from petacomm.mapping.job import MappingJob
from petacomm.mapping.metrics import concurrent_loads
from petacomm.topology import Allocation, CliqueHierarchy, FatTree, Network, RouterNetwork, Torus


def job_title(job: MappingJob) -> str:
    """Return a line that describes a job and its machine."""
    width = f", {job.resources.ranks_per_node} a node" if job.resources.ranks_per_node > 1 else ""
    where = f"{describe_network(job.resources.network)} of {job.machine.title}"
    return f"{job.graph.n_ranks:,} ranks{width}, {job.graph.n_edges:,} edges of {job.title}, on {where}"


def describe_network(network: Network) -> str:
    """Return a short description of a network."""
    if isinstance(network, Allocation):
        return f"{network.n_nodes:,} nodes of {describe_network(network.network)}"
    if isinstance(network, Torus):
        return f"a {'torus' if any(network.wrap) else 'mesh'} of {shape_text(network.shape)}"
    if isinstance(network, CliqueHierarchy):
        return f"cliques of {shape_text(level.size for level in network.levels)}"
    if isinstance(network, FatTree):
        return f"a fat tree of {shape_text(network.children)}"
    if isinstance(network, RouterNetwork):
        return f"a {type(network).__name__} of {shape_text(network.shape)}"
    return f"a network of {network.n_nodes:,} nodes"


def mapping_table(job: MappingJob, rows: Sequence[MeasuredPlacement], notes: Sequence[str] = ()) -> str:
    """Return placements as a text table, compared with the random one."""
    timed = any(row.metrics.largest_time for row in rows)
    random = rows[1].load
    lines = []
    for row in rows:
        metrics = row.metrics
        line = {"placement": row.label, "busiest link": format_bytes(metrics.largest_load)}
        if timed:
            line["busy for"] = format_seconds(metrics.largest_time, 3)
        line |= {
            "against random": f"{100 * (row.load / random - 1):+.0f} %" if random else "-",
            "mean link": format_bytes(metrics.mean_load),
            "hops a byte": f"{metrics.dilation:.2f}",
            "edges inside": f"{metrics.internal_edges:,}",
        }
        lines.append(line)
    text = [job_title(job), "", *table_lines([list(lines[0]), *(list(line.values()) for line in lines)])]
    if len(job.phases) > 1:
        text += ["", "busiest link of each phase", "", *table_lines(phase_rows(job, rows))]
    return "\n".join([*text, *([""] if notes else []), *notes])


def phase_rows(job: MappingJob, rows: Sequence[MeasuredPlacement]) -> list[list[str]]:
    """Return a table of the largest link loads of each phase and of their combinations, with its header."""
    cells = [["placement", *job.phases, "all at once", "in turn, added"]]
    for row in rows:
        loads = concurrent_loads(list(job.phases.values()), row.placement, job.resources.network, job.routing)
        cells.append([row.label, *map(format_bytes, (*loads.separate, loads.combined, loads.total))])
    return cells


def mapping_json(
    job: MappingJob, rows: Sequence[MeasuredPlacement], more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return placements as JSON data, in bytes and seconds."""
    phases = list(job.phases.values())
    network = job.resources.network
    return {
        "graph": job.title,
        "phases": list(job.phases),
        "ranks": job.graph.n_ranks,
        "edges": job.graph.n_edges,
        "bytes": job.graph.total_bytes,
        "machine": job.machine.name,
        "network": describe_network(job.resources.network),
        "nodes": job.resources.network.n_nodes,
        "ranks_per_node": job.resources.ranks_per_node,
        "placements": [
            {"strategy": row.name, "refined": row.refined, "seconds": row.seconds}
            | asdict(row.metrics)
            | {"phase_loads": list(concurrent_loads(phases, row.placement, network, job.routing).separate)}
            for row in rows
        ],
    } | dict(more or {})
