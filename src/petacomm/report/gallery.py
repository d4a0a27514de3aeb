"""Gallery of placements: pF3D, nlpkkt240, OpenAtom, and tasks of plug-ins."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import numpy as np

from petacomm.base.progress import Progress, SilentProgress
from petacomm.base.text import format_bytes
from petacomm.mapping import Placement, Resources, concurrent_loads, mapping_metrics, nlpkkt_graph
from petacomm.mapping.comparison import MappingTask, map_ranks
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.graph_sources import add_graphs, subgrid_alltoall_graph
from petacomm.mapping.partition import box
from petacomm.report.placement_page import LabeledPlacement, PlacementComparison, write_placement_page
from petacomm.topology import Network, Torus

_MIB = 1 << 20
_PF3D_CORES = 4  # of a node of Blue Gene/P


def write_gallery(path: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """Compute the placements of the gallery, write their page, and return its path.

    Parameters
    ----------
    path : path
    progress : Progress, optional
    """
    listener = progress or SilentProgress()
    plug_ins = [partial(_plug_in, entry) for entry in entry_points(group="petacomm.gallery")]
    makers: Sequence[Callable[[], PlacementComparison]] = (pf3d, nlpkkt240, *plug_ins, openatom)
    comparisons = []
    listener.begin("gallery", len(makers), "scenes")
    for make in makers:
        comparisons.append(make())
        listener.advance(1, comparisons[-1].title)
    listener.end()
    return write_placement_page(comparisons, path, "Where ranks go")


def pf3d() -> PlacementComparison:
    """Return the Rubik poster's placements of pF3D: planes of 8 x 16 ranks on tiles, and tilted."""
    torus = Torus((8, 8, 8))
    lines = [subgrid_alltoall_graph((16, 8, 16), [dimension], _MIB / 128) for dimension in (1, 2)]
    graph = add_graphs(lines)
    tiled, tilted = _pf3d_boxes(torus)
    placements = {
        "identity": Placement.identity(torus, _PF3D_CORES),
        "planes on tiles": tiled,
        "tiles, tilted twice": tilted,
    }
    labeled = [
        LabeledPlacement(name, placed, mapping_metrics(graph, placed, torus))
        for name, placed in placements.items()
    ]
    text = (
        "pF3D on 16 x 8 x 16 ranks, four on each of the 8 x 8 x 8 nodes of a Blue Gene/P: all-to-alls along "
        "lines of 8 and of 16 ranks within each plane of 8 x 16, 8 KiB from each rank to each. Planes are "
        "mapped to tiles of 8 x 8 x 2 cores; tilting spreads each line over more links. Where routers take "
        "the dimensions in any order, this reduces the load of a line or a plane alone; in one order it "
        "hardly helps a line, and a plane loads its links more. When all lines communicate at once, all "
        "links are in use anyway, and longer routes can only increase their loads."
    )
    head = ["placement", "routes", "a line of 8 alone", "a line of 16 alone", "a plane alone", "all at once"]
    rows = [
        [name, routing, *_load_cells(placed, lines, torus, routing)]
        for name, placed in placements.items()
        for routing in ("dimension-ordered", "all-orders")
    ]
    tables = {"What runs at once: bytes of the busiest link": (head, rows)}
    return PlacementComparison("pF3D", text, graph, torus, labeled, tables)


def _pf3d_boxes(torus: Torus) -> tuple[Placement, Placement]:
    planes = box([16, 8, 16])
    planes.tile([1, 8, 16])
    machine = box([8, 8, 8 * _PF3D_CORES])  # cores are the fastest part of the last dimension
    machine.tile([8, 8, 2])
    machine.map(planes)
    tiled = machine.placement(torus)
    machine.tilt(2, 0, 1)
    machine.tilt(2, 1, 1)
    return tiled, machine.placement(torus)


def _load_cells(
    placed: Placement, lines: Sequence[CommunicationGraph], network: Network, routing: str
) -> list[str]:
    """Return the largest link loads of sample lines and planes alone, and of all at once."""
    ranks = np.arange(placed.n_ranks).reshape(16, 8, 16)
    sample = (0, 5, 10, 15)
    graph = add_graphs(lines)
    cases = (
        (lines[0], [ranks[x, :, x] for x in sample]),
        (lines[1], [ranks[x, x // 2] for x in sample]),
        (graph, [ranks[x].ravel() for x in sample]),
    )
    loads = []
    for part, members in cases:
        graphs = [part.restricted_to(group) for group in members]
        loads.append(concurrent_loads(graphs, placed, network, routing).worst)
    return [
        format_bytes(n_bytes)
        for n_bytes in (*loads, concurrent_loads([graph], placed, network, routing).worst)
    ]


def nlpkkt240() -> PlacementComparison:
    """Return placements of products with the matrix nlpkkt240 on a torus of 1024 nodes."""
    network = Torus((8, 8, 16))
    text = (
        "Products of the matrix nlpkkt240 with a vector, 27,993,600 rows in equal blocks, one rank per node. "
        "Each rank has a slice of planes of the cube of points; variables and equations of the same slice "
        "exchange most."
    )
    return _compare("nlpkkt240", text, MappingTask(nlpkkt_graph(240, 1024), Resources(network)))


def openatom() -> PlacementComparison:
    """Return OpenAtom's default maps and its maps onto prisms of the torus."""
    from petacomm.mapping.openatom import WATER_256, default_maps, step_traffic, topology_maps
    from petacomm.topology import TopologyManager

    network = Torus((8, 8, 16))
    manager = TopologyManager.from_network(network)
    placed = Placement.identity(network)
    placements, rows = [], []
    for name, maps in (("default maps", default_maps), ("prisms", topology_maps)):
        phases = {
            phase: CommunicationGraph.from_edges(1024, part.source, part.destination, part.n_bytes)
            for phase, part in step_traffic(manager, maps(manager, WATER_256), WATER_256).items()
        }
        graph = add_graphs(list(phases.values()))
        placements.append(LabeledPlacement(name, placed, mapping_metrics(graph, placed, network), graph))
        loads = concurrent_loads(list(phases.values()), placed, network)
        rows.append([name, *map(format_bytes, (*loads.separate, loads.combined, loads.total))])
    text = (
        "A step of OpenAtom for 256 molecules of water on 1024 nodes: the transposes, pairs and sums of its "
        "ten phases. Objects are mapped here, not ranks: by default in blocks of consecutive ranks; with "
        "prisms, each prism of the torus has a plane of states, and the pairs of a plane stay in its prism."
    )
    head = ["maps", *phases, "all at once", "in turn, added"]
    first = placements[0].graph
    assert first is not None
    return PlacementComparison(
        "OpenAtom", text, first, network, placements, {"Phases: bytes of the busiest link": (head, rows)}
    )


def _plug_in(entry: EntryPoint) -> PlacementComparison:
    """Return the comparison of an entry point, a function that returns title, text and task."""
    return _compare(*entry.load()())


def _compare(title: str, text: str, task: MappingTask) -> PlacementComparison:
    result = map_ranks(task)
    placements = [LabeledPlacement(row.label, row.placement, row.metrics) for row in result.rows]
    return PlacementComparison(title, text, task.graph, task.resources.network, placements)
