"""The gallery of placements: pF3D before and after, nlpkkt240, OpenAtom, and tasks of plug-ins."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import numpy as np

from petacomm.base.progress import Progress, Silent
from petacomm.mapping import Placement, Site, concurrency, measure, nlpkkt_graph
from petacomm.mapping.comparison import Task, map_ranks
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.graph_sources import added, line_graph
from petacomm.mapping.mapping_table import size
from petacomm.mapping.partition import box
from petacomm.report.placement_page import Scene, Shown, write_mapping
from petacomm.topology import Network, Torus

_MIB = 1 << 20


def write_gallery(path: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """Make the placements, and write their page.

    Parameters
    ----------
    path : path
    progress : Progress, optional
    """
    listener = progress or Silent()
    plug_ins = [partial(_plug_in, entry) for entry in entry_points(group="petacomm.gallery")]
    makers: Sequence[Callable[[], Scene]] = (pf3d, nlpkkt240, *plug_ins, openatom)
    scenes = []
    listener.begin("gallery", len(makers), "scenes")
    for make in makers:
        scenes.append(make())
        listener.advance(1, scenes[-1].title)
    listener.end()
    return write_mapping(scenes, path, "Where ranks go")


def pf3d() -> Scene:
    """The poster's pF3D: planes of 8 x 16 ranks on tiles of a torus, then tilted."""
    torus = Torus((8, 8, 32))
    lines = [line_graph((16, 8, 16), [dimension], _MIB / 128) for dimension in (1, 2)]
    graph = added(lines)
    tiled, tilted = _pf3d_boxes(torus)
    placements = {
        "identity": Placement.identity(torus),
        "planes on tiles": tiled,
        "tiles, tilted twice": tilted,
    }
    shown = [Shown(name, placed, measure(graph, placed, torus)) for name, placed in placements.items()]
    text = (
        "pF3D on 16 x 8 x 16 ranks: all-to-alls along lines of 8 and of 16 ranks within each plane of 8 x"
        " 16, 8 KiB from each rank to each. Planes go to tiles of 8 x 8 x 2 of the torus; tilting spreads"
        " each line over more links. That helps a line that is alone, most where routers take dimensions "
        "in any order. When all are at it, every link is some line's, and longer ways only add to what "
        "links carry."
    )
    head = ["placement", "routes", "a line of 8 alone", "a line of 16 alone", "a plane alone", "all at once"]
    rows = [
        [name, routing, *_by_assumption(placed, lines, torus, routing)]
        for name, placed in placements.items()
        for routing in ("dimension-ordered", "all-orders")
    ]
    more = {"What runs at once: bytes of the busiest link": (head, rows)}
    return Scene("pF3D", text, graph, torus, shown, more)


def _pf3d_boxes(torus: Torus) -> tuple[Placement, Placement]:
    planes = box([16, 8, 16])
    planes.tile([1, 8, 16])
    machine = box([8, 8, 32])
    machine.tile([8, 8, 2])
    machine.map(planes)
    tiled = machine.placement(torus)
    machine.tilt(2, 0, 1)
    machine.tilt(2, 1, 1)
    return tiled, machine.placement(torus)


def _by_assumption(
    placed: Placement, lines: Sequence[CommunicationGraph], network: Network, routing: str
) -> list[str]:
    """Return the largest link load of some lines and planes alone, and of all at once."""
    ranks = np.arange(placed.n_ranks).reshape(16, 8, 16)
    some = (0, 5, 10, 15)
    graph = added(lines)
    alone = (
        (lines[0], [ranks[x, :, z] for x, z in zip(some, some, strict=True)]),
        (lines[1], [ranks[x, x // 2] for x in some]),
        (graph, [ranks[x].ravel() for x in some]),
    )
    found = []
    for part, members in alone:
        each = [part.among_only(group) for group in members]
        found.append(concurrency(each, placed, network, routing).alone)
    return [size(n_bytes) for n_bytes in (*found, concurrency([graph], placed, network, routing).alone)]


def nlpkkt240() -> Scene:
    """The source's matrix on a torus of 1024 nodes."""
    network = Torus((8, 8, 16))
    text = (
        "Products of the matrix nlpkkt240 with a vector, 27,993,600 rows in equal runs, a rank a node. A "
        "cube of points is cut into slices of planes; variables and equations of the same slice exchange "
        "most."
    )
    return _mapped("nlpkkt240", text, Task(nlpkkt_graph(240, 1024), Site(network)))


def openatom() -> Scene:
    """OpenAtom's arrays of objects: its default maps, and prisms of the torus."""
    from petacomm.mapping.openatom import WATER_256, default_maps, topology_maps, traffic
    from petacomm.topology import TopologyManager

    network = Torus((8, 8, 16))
    manager = TopologyManager.whole(network)
    placed = Placement.identity(network)
    shown, rows = [], []
    for name, maps in (("default maps", default_maps), ("prisms", topology_maps)):
        phases = {
            phase: CommunicationGraph.from_edges(1024, part.source, part.destination, part.n_bytes)
            for phase, part in traffic(manager, maps(manager, WATER_256), WATER_256).items()
        }
        graph = added(list(phases.values()))
        shown.append(Shown(name, placed, measure(graph, placed, network), graph))
        found = concurrency(list(phases.values()), placed, network)
        rows.append([name, *map(size, (*found.each, found.together, found.in_turn))])
    text = (
        "OpenAtom's step for 256 molecules of water on 1024 nodes: six arrays of objects that transpose, "
        "pair and add up. What moves here are objects, not ranks: by default they are dealt in blocks; "
        "prisms of the torus hold a plane of states each, and what a plane pairs stays in its prism."
    )
    head = ["maps", *phases, "all at once", "in turn, added"]
    first = shown[0].graph
    assert first is not None
    return Scene("OpenAtom", text, first, network, shown, {"Phases: bytes of the busiest link": (head, rows)})


def _plug_in(entry: EntryPoint) -> Scene:
    """Return the scene of an entry point: a function of nothing that returns title, text and task."""
    return _mapped(*entry.load()())


def _mapped(title: str, text: str, task: Task) -> Scene:
    found = map_ranks(task)
    shown = [Shown(row.title, row.placement, row.metrics) for row in found.rows]
    return Scene(title, text, task.graph, task.site.network, shown)
