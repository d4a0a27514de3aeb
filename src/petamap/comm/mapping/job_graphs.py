"""The kinds of communication graphs that a job file can name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from petamap.base.errors import ConfigError
from petamap.comm.mapping.graph import CommunicationGraph
from petamap.comm.mapping.graph_files import read_graph
from petamap.comm.mapping.nlpkkt import nlpkkt_graph
from petamap.comm.mapping.sources import added, grid_graph, line_graph, matrix_graph, schedule_graph

if TYPE_CHECKING:
    from petamap.comm.mapping.job import Table


@dataclass(frozen=True)
class Source:
    """A kind of graph.

    Attributes
    ----------
    make : callable
        Of the table [graph] and the number of ranks: the graph and what it is, in words.
    options : tuple of str
        Keys besides that of its name.
    """

    make: Callable[[Table, int], tuple[CommunicationGraph, str]]
    options: tuple[str, ...] = ()


def _file(table: Table, n_ranks: int) -> tuple[CommunicationGraph, str]:
    name = table.get("file", str)
    return read_graph(table.near(name), n_ranks), str(name)


def _matrix(table: Table, n_ranks: int) -> tuple[CommunicationGraph, str]:
    import scipy.io

    name = table.get("matrix", str)
    try:
        matrix = scipy.io.mmread(table.near(name))
    except (OSError, ValueError, TypeError) as error:
        what = str(error).splitlines()[0] if str(error) else "not Matrix Market"
        raise table.error(
            "matrix", f"{table.near(name)} cannot be read: {what}", "give Matrix Market"
        ) from None
    return matrix_graph(matrix, n_ranks, _number(table, "bytes", 8.0)), f"products with {name}"


def _nlpkkt(table: Table, n_ranks: int) -> tuple[CommunicationGraph, str]:
    n_grid = table.count("nlpkkt")
    return nlpkkt_graph(n_grid, n_ranks, _number(table, "bytes", 8.0)), f"products with nlpkkt{n_grid}"


def _grid(table: Table, n_ranks: int) -> tuple[CommunicationGraph, str]:
    shape = table.shape("grid") or []
    _check_product(table, "grid", shape, n_ranks)
    corners, wrap = table.get("corners", bool, False), table.get("periodic", bool, True)
    sizes = table.get("bytes", (int, float, list), 1)
    if isinstance(sizes, list) and len(sizes) != len(shape):
        raise table.error("bytes", f"{len(sizes)} sizes for {len(shape)} dimensions", "give one for each")
    return grid_graph(shape, wrap, sizes, corners), f"halos of a grid of {_x(shape)}"


def _lines(table: Table, n_ranks: int) -> tuple[CommunicationGraph, str]:
    shape = table.shape("alltoalls") or []
    _check_product(table, "alltoalls", shape, n_ranks)
    along: Any = table.get("along", list, [[dimension] for dimension in range(len(shape))])
    graphs = []
    for dimensions in along:
        inside = isinstance(dimensions, list) and all(
            type(d) is int and 0 <= d < len(shape) for d in dimensions
        )
        if not inside or not dimensions or len(set(dimensions)) < len(dimensions):
            raise table.error(
                "along", f"{dimensions} are no dimensions of {_x(shape)}", "write [[0], [1, 2]]"
            )
        graphs.append(line_graph(shape, dimensions, _number(table, "bytes", 1.0)))
    shown = " and ".join(",".join(map(str, dimensions)) for dimensions in along)
    return added(graphs), f"all-to-alls along dimension {shown} of {_x(shape)}"


def _collective(table: Table, n_ranks: int) -> tuple[CommunicationGraph, str]:
    from petamap.comm.network.asked import Question
    from petamap.comm.schedule import Call, make

    name, n_bytes = table.get("collective", str), table.count("bytes", 8)
    algorithm = table.get("algorithm", str, "auto")
    question = Question(name, "one-node", ranks=n_ranks, n_bytes=n_bytes, algorithm=algorithm)
    call: Call = question.answerable()[0]
    schedule = make(call, algorithm)
    return schedule_graph(schedule, call.itemsize), f"{name} by {schedule.algorithm}"


def _check_product(table: Table, key: str, shape: list[int], n_ranks: int) -> None:
    if math.prod(shape) != n_ranks or not shape:
        raise table.error(key, f"a grid of {_x(shape)} has {math.prod(shape)} ranks, not {n_ranks}")


def _number(table: Table, key: str, default: float) -> float:
    value = float(table.get(key, (int, float), default))
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{value:g} bytes", mend="give more than 0")
    return value


def _x(shape: list[int]) -> str:
    return "x".join(map(str, shape))


GRAPHS: dict[str, Source] = {
    "file": Source(_file),
    "matrix": Source(_matrix, ("bytes",)),
    "nlpkkt": Source(_nlpkkt, ("bytes",)),
    "grid": Source(_grid, ("bytes", "periodic", "corners")),
    "alltoalls": Source(_lines, ("bytes", "along")),
    "collective": Source(_collective, ("bytes", "algorithm")),
}
