"""Kinds of communication graphs in job files, and their construction from the table ``[graph]``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from petacomm.base.errors import ConfigError
from petacomm.base.text import shape_text
from petacomm.mapping.graph import MOST_BYTES, CommunicationGraph
from petacomm.mapping.graph_files import read_graph
from petacomm.mapping.graph_sources import (
    add_graphs,
    grid_graph,
    matvec_graph,
    schedule_graph,
    subgrid_alltoall_graph,
)
from petacomm.mapping.nlpkkt import nlpkkt_graph
from petacomm.mapping.recorded_graph import halo_graph, recording_graph
from petacomm.recording import read_recording
from petacomm.recording.mpip import read_mpip

if TYPE_CHECKING:
    from petacomm.mapping.job import JobTable


@dataclass(frozen=True, eq=False)
class JobCommunication:
    """The communication of a job, in one or more phases.

    Attributes
    ----------
    title : str
        Description.
    phases : mapping of str to CommunicationGraph
        Graph of each phase, by its name.
    """

    title: str
    phases: Mapping[str, CommunicationGraph]

    @classmethod
    def from_graph(cls, graph: CommunicationGraph, title: str) -> JobCommunication:
        """Return the communication of a single phase."""
        return cls(title, {title: graph})

    @property
    def graph(self) -> CommunicationGraph:
        """Sum of all phases."""
        graphs = list(self.phases.values())
        return graphs[0] if len(graphs) == 1 else add_graphs(graphs)


@dataclass(frozen=True)
class GraphKind:
    """A kind of communication graph in job files.

    Attributes
    ----------
    build : callable
        Returns the communication, given the table ``[graph]`` and the number of ranks.
    options : tuple of str
        Keys of the table, besides that of the kind.
    """

    build: Callable[[JobTable, int], JobCommunication]
    options: tuple[str, ...] = ()


def _file(table: JobTable, n_ranks: int) -> JobCommunication:
    given = table.get("file", (str, list))
    names = [given] if isinstance(given, str) else given
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise table.error(
            "file", "'graph.file' must be a file, or different files", 'write file = "halo.csv"'
        )
    phases = {name: read_graph(table.resolve_path(name), n_ranks, table.progress) for name in names}
    return JobCommunication(" and ".join(names), phases)


def _recording(table: JobTable, n_ranks: int) -> JobCommunication:
    name = table.get("recording", str)
    algorithms = table.get("algorithms", dict, {})
    path = table.resolve_path(name)
    recording = read_recording(path, table.progress)
    if recording.n_ranks != n_ranks:
        what = f"{name} is of {recording.n_ranks} ranks, not {n_ranks}"
        raise table.error("recording", what, f"write ranks = {recording.n_ranks}, or record as many")
    phases = {
        f"phase {phase}": recording_graph(recording, algorithms, int(phase)) for phase in recording.phases
    }
    if len(phases) < 2:
        return JobCommunication.from_graph(recording_graph(recording, algorithms), name)
    return JobCommunication(name, phases)


def _mpip(table: JobTable, n_ranks: int) -> JobCommunication:
    name = table.get("mpip", str)
    if "halos" not in table.tree:
        raise table.error(
            "mpip", f"{name} does not tell to which ranks was sent",
            'write halos = "16x8", the grid of ranks that exchange halos; or record the job',
        )  # fmt: skip
    shape = _grid_shape(table, "halos", n_ranks)
    graph = halo_graph(read_mpip(table.resolve_path(name)), shape, table.get("periodic", bool, True))
    return JobCommunication.from_graph(graph, f"{name}, as halos of a grid of {shape_text(shape)}")


def _matrix(table: JobTable, n_ranks: int) -> JobCommunication:
    import scipy.io

    name = table.get("matrix", str)
    try:
        matrix = scipy.io.mmread(table.resolve_path(name))
    except (OSError, ValueError, TypeError) as error:
        what = str(error).splitlines()[0] if str(error) else "not Matrix Market"
        raise table.error(
            "matrix", f"{table.resolve_path(name)} cannot be read: {what}", "give Matrix Market"
        ) from None
    graph = matvec_graph(matrix, n_ranks, _number(table, "bytes", 8.0))
    return JobCommunication.from_graph(graph, f"products with {name}")


def _nlpkkt(table: JobTable, n_ranks: int) -> JobCommunication:
    n_grid = table.count("nlpkkt")
    graph = nlpkkt_graph(n_grid, n_ranks, _number(table, "bytes", 8.0))
    return JobCommunication.from_graph(graph, f"products with nlpkkt{n_grid}")


def _grid(table: JobTable, n_ranks: int) -> JobCommunication:
    shape = _grid_shape(table, "grid", n_ranks)
    corners, wrap = table.get("corners", bool, False), table.get("periodic", bool, True)
    sizes = table.get("bytes", (int, float, list), 1)
    if isinstance(sizes, list) and len(sizes) != len(shape):
        raise table.error("bytes", f"{len(sizes)} sizes for {len(shape)} dimensions", "give one for each")
    for size in sizes if isinstance(sizes, list) else [sizes]:
        if type(size) not in (int, float) or not 0 < size <= MOST_BYTES:
            raise table.error("bytes", f"{size!r} bytes", f"give more than 0, up to {MOST_BYTES:.1g}")
    return JobCommunication.from_graph(
        grid_graph(shape, wrap, sizes, corners), f"halos of a grid of {shape_text(shape)}"
    )


def _lines(table: JobTable, n_ranks: int) -> JobCommunication:
    shape = _grid_shape(table, "alltoalls", n_ranks)
    along: Any = table.get("along", list, [[dimension] for dimension in range(len(shape))])
    phases: dict[str, CommunicationGraph] = {}
    for dimensions in along:
        inside = isinstance(dimensions, list) and all(
            type(d) is int and 0 <= d < len(shape) for d in dimensions
        )
        if not inside or not dimensions or len(set(dimensions)) < len(dimensions):
            raise table.error(
                "along", f"{dimensions} are no dimensions of {shape_text(shape)}", "write [[0], [1, 2]]"
            )
        name = "along " + ",".join(map(str, dimensions))
        if name in phases:
            raise table.error("along", f"{dimensions} are given twice", "give each once")
        phases[name] = subgrid_alltoall_graph(shape, dimensions, _number(table, "bytes", 1.0))
    if not phases:
        raise table.error("along", "no dimensions", "write [[0], [1, 2]]")
    return JobCommunication(f"all-to-alls of {shape_text(shape)}, {' and '.join(phases)}", phases)


def _collective(table: JobTable, n_ranks: int) -> JobCommunication:
    from petacomm.network.query import CollectiveQuery
    from petacomm.schedule import CollectiveCall, make_schedule
    from petacomm.schedule.catalogue import PUBLISHED

    name, algorithm = table.get("collective", str), table.get("algorithm", str, PUBLISHED)
    # The tokens of a barrier count one byte each.
    n_bytes = None if name == "barrier" and "bytes" not in table.tree else table.count("bytes", 8)
    query = CollectiveQuery(name, "one-node", ranks=n_ranks, n_bytes=n_bytes, algorithm=algorithm)
    call: CollectiveCall = query.resolve()[0]
    schedule = make_schedule(call, algorithm)
    return JobCommunication.from_graph(
        schedule_graph(schedule, call.itemsize), f"{name} by {schedule.algorithm}"
    )


def _grid_shape(table: JobTable, key: str, n_ranks: int) -> list[int]:
    shape = table.shape(key) or []
    if math.prod(shape) != n_ranks or not shape:
        what = f"a grid of {shape_text(shape)} has {math.prod(shape)} ranks, not {n_ranks}"
        raise table.error(key, what, f"give a shape whose product is {n_ranks}")
    return shape


def _number(table: JobTable, key: str, default: float) -> float:
    value = float(table.get(key, (int, float), default))
    if not 0 < value <= MOST_BYTES:
        raise ConfigError(f"{value:g} bytes", mend=f"give more than 0, up to {MOST_BYTES:.1g}")
    return value


GRAPH_KINDS: dict[str, GraphKind] = {
    "file": GraphKind(_file),
    "recording": GraphKind(_recording, ("algorithms",)),
    "mpip": GraphKind(_mpip, ("halos", "periodic")),
    "matrix": GraphKind(_matrix, ("bytes",)),
    "nlpkkt": GraphKind(_nlpkkt, ("bytes",)),
    "grid": GraphKind(_grid, ("bytes", "periodic", "corners")),
    "alltoalls": GraphKind(_lines, ("bytes", "along")),
    "collective": GraphKind(_collective, ("bytes", "algorithm")),
}


def graph_kinds() -> Mapping[str, GraphKind]:
    """Return all kinds by name: those of `GRAPH_KINDS` and those of plug-ins.

    A plug-in is an entry point of the group ``petacomm.graphs``; its name is the key in the job file, its
    object a `GraphKind`.
    """
    from importlib.metadata import entry_points

    return GRAPH_KINDS | {entry.name: entry.load() for entry in entry_points(group="petacomm.graphs")}
