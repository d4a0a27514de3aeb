"""Mappings as people and programs read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from petacomm.mapping.comparison import Found
from petacomm.mapping.job import Job
from petacomm.mapping.metrics import concurrency
from petacomm.topology import Allocation, CliqueHierarchy, FatTree, Network, Torus


def title(job: Job) -> str:
    """Return what is mapped where, in a line."""
    width = f", {job.site.ranks_per_node} a node" if job.site.ranks_per_node > 1 else ""
    where = f"{described(job.site.network)} of {job.machine.title}"
    return f"{job.graph.n_ranks:,} ranks{width}, {job.graph.n_edges:,} edges of {job.title}, on {where}"


def described(network: Network) -> str:
    """Return a network in words."""
    if isinstance(network, Allocation):
        return f"{network.n_nodes:,} nodes of {described(network.network)}"
    if isinstance(network, Torus):
        shape = "x".join(map(str, network.shape))
        return f"a {'torus' if any(network.wrap) else 'mesh'} of {shape}"
    if isinstance(network, CliqueHierarchy):
        return f"cliques of {'x'.join(str(level.size) for level in network.levels)}"
    if isinstance(network, FatTree):
        return f"a fat tree of {'x'.join(map(str, network.children))}"
    return f"a network of {network.n_nodes:,} nodes"


def table(job: Job, rows: Sequence[Found], notes: Sequence[str] = ()) -> str:
    """Return placements as text, a row each, beside the random one."""
    timed = any(row.metrics.largest_time for row in rows)
    head = [
        "placement",
        "busiest link",
        "against random",
        "mean link",
        "links a byte",
        "edges inside",
    ]
    if timed:
        head.insert(2, "busy for")
    random = rows[1].load
    cells = [head]
    for row in rows:
        metrics = row.metrics
        line = [
            row.title,
            size(metrics.largest_load),
            f"{100 * (row.load / random - 1):+.0f} %" if random else "-",
            size(metrics.mean_load),
            f"{metrics.dilation:.2f}",
            f"{metrics.internal_edges:,}",
        ]
        if timed:
            line.insert(2, _duration(metrics.largest_time))
        cells.append(line)
    text = [title(job), "", *_aligned(cells)]
    if len(job.phases) > 1:
        text += ["", "busiest link of each phase", "", *_aligned(phase_cells(job, rows))]
    return "\n".join([*text, *([""] if notes else []), *notes])


def phase_cells(job: Job, rows: Sequence[Found]) -> list[list[str]]:
    """Return the busiest link of each phase, of all at once and of one after the other, with a head."""
    cells = [["placement", *job.phases, "all at once", "in turn, added"]]
    for row in rows:
        found = concurrency(list(job.phases.values()), row.placement, job.site.network)
        cells.append([row.title, *map(size, (*found.each, found.together, found.in_turn))])
    return cells


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]


def size(n_bytes: float) -> str:
    """Return bytes for people."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.3g} {unit}"
    return f"{n_bytes:.3g} B"


def _duration(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def as_json(job: Job, rows: Sequence[Found], more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return placements as what JSON can hold; bytes, and seconds."""
    phases = list(job.phases.values())
    network = job.site.network
    return {
        "graph": job.title,
        "phases": list(job.phases),
        "ranks": job.graph.n_ranks,
        "edges": job.graph.n_edges,
        "bytes": job.graph.total_bytes,
        "machine": job.machine.name,
        "network": described(job.site.network),
        "nodes": job.site.network.n_nodes,
        "ranks_per_node": job.site.ranks_per_node,
        "placements": [
            {"strategy": row.name, "refined": row.refined, "seconds": row.seconds}
            | asdict(row.metrics)
            | {"phase_loads": list(concurrency(phases, row.placement, network).each)}
            for row in rows
        ],
    } | dict(more or {})
