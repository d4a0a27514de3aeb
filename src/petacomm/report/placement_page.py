"""HTML page that compares placements: link loads and communication matrices."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mapping import CommunicationGraph, Placement
from petacomm.mapping.mapping_table import describe_network
from petacomm.mapping.metrics import MappingMetrics, all_link_loads
from petacomm.report.page import write_page
from petacomm.topology import Network, Torus, full_network

_SCRIPTS = ("colour.js", "text.js", "parts.js", "lines.js", "mapping.js")
# Maximum size of the matrix of ranks, number of points of a curve, maximum size of a minimap.
_MATRIX_SIZE, _CURVE_POINTS, _MAX_MINIMAP = 128, 48, 128


@dataclass(frozen=True)
class LabeledPlacement:
    """A placement with its title and metrics.

    Attributes
    ----------
    title : str
    placement : Placement
    metrics : MappingMetrics
    graph : CommunicationGraph, optional
        Communication graph, if it differs between placements because objects are on different ranks.
    """

    title: str
    placement: Placement
    metrics: MappingMetrics
    graph: CommunicationGraph | None = None


@dataclass(frozen=True)
class PlacementComparison:
    """A section of the page: a communication graph and several placements of it.

    Attributes
    ----------
    title, text : str
        Title and description.
    graph : CommunicationGraph
    network : Network
    placements : sequence of LabeledPlacement
        Placements to compare, the best last.
    tables : mapping of str to (head, rows)
        Additional tables, by their titles.
    routing : str, optional
        Routing of the link loads, as in `placement_link_loads`.
    """

    title: str
    text: str
    graph: CommunicationGraph
    network: Network
    placements: Sequence[LabeledPlacement]
    tables: Mapping[str, tuple[list[str], list[list[Any]]]] = field(default_factory=dict)
    routing: str | None = None


def write_placement_page(
    comparisons: Sequence[PlacementComparison], path: str | os.PathLike[str], title: str
) -> Path:
    """Write the page, and return its path.

    Raises
    ------
    ResourceError
        If it cannot be written.
    """
    data = {"title": title, "scenes": [_section(comparison) for comparison in comparisons]}
    elsewhere = "what <code>petacomm map compare --json</code> writes"
    return write_page(path, title, "petacomm", elsewhere, data, _SCRIPTS)


def _section(comparison: PlacementComparison) -> dict[str, Any]:
    placements = []
    for labeled in comparison.placements:
        graph = labeled.graph or comparison.graph
        loads = all_link_loads(graph, labeled.placement, comparison.network, comparison.routing)
        placements.append(
            {
                "title": labeled.title,
                "metrics": asdict(labeled.metrics),
                "curve": _sorted_curve(loads),
                "maps": minimaps(comparison.network, loads),
                "matrix": _matrix(graph, labeled.placement.slot_numbers),
            }
        )
    return {
        "title": comparison.title,
        "text": comparison.text,
        "network": describe_network(comparison.network),
        "routes": _describe_routes(comparison.network, comparison.routing),
        "ranks": comparison.graph.n_ranks,
        "edges": comparison.graph.n_edges,
        "matrix": _matrix(comparison.graph, np.arange(comparison.graph.n_ranks)),
        "placements": placements,
        "more": [
            {"title": name, "head": head, "rows": rows} for name, (head, rows) in comparison.tables.items()
        ],
    }


def _describe_routes(network: Network, routing: str | None) -> str:
    """Return how messages go, in words."""
    if routing not in (None, "minimal"):
        return {"ugal": "by UGAL's routes", "valiant": "by Valiant's detours"}.get(
            routing, f"by {routing} routes"
        )
    if isinstance(full_network(network)[1], Torus):
        return "by the shortest way, dimension after dimension; half a ring both ways"
    return "by the shortest routes"


def minimaps(network: Network, loads: FloatArray) -> list[dict[str, Any]]:
    """Return the link loads of a grid projected on each pair of its dimensions.

    A link of the projection has the mean load of the projected links of that dimension, in both directions;
    links of other dimensions are not shown. The list is empty if the network is not a grid.

    Returns
    -------
    list of dict
        `dimensions` (a, b), `shape`, and `down`, `across`: bytes on the link from each node to the next along
        a and along b, in row-major order.
    """
    if not isinstance(network, Torus):
        return []
    by_node = [_upward_loads(network, loads, dimension) for dimension in range(network.n_dimensions)]
    wide = [d for d, size in enumerate(network.shape) if size > 1]
    maps = []
    for a, b in combinations(wide, 2):
        shape = network.shape[a], network.shape[b]
        if max(shape) > _MAX_MINIMAP:
            continue
        others = tuple(d for d in range(network.n_dimensions) if d not in (a, b))
        down, across = (by_node[d].mean(axis=others) for d in (a, b))
        maps.append(
            {
                "dimensions": [a, b],
                "shape": shape,
                "down": np.round(down, 1).ravel().tolist(),
                "across": np.round(across, 1).ravel().tolist(),
            }
        )
    return maps


def _upward_loads(grid: Torus, loads: FloatArray, dimension: int) -> FloatArray:
    """Return the mean load of both directions of the link upwards of each node; 0 where there is none."""
    if not len(loads):
        return np.zeros(grid.shape)
    nodes = np.arange(grid.n_nodes)
    up, neighbor = grid.link(nodes, dimension, 1), grid.neighbor(nodes, dimension, 1)
    exists = up >= 0
    down = grid.link(np.where(exists, neighbor, 0), dimension, -1)
    both = (loads[up] + loads[down]) / 2
    return np.asarray(np.where(exists, both, 0.0).reshape(grid.shape))


def _sorted_curve(loads: FloatArray) -> list[list[float]]:
    """Return points (n, bytes) such that n links carry at least so many bytes."""
    order = np.sort(loads)[::-1]
    if not len(order):
        return []
    picked = np.unique(np.geomspace(1, len(order), min(_CURVE_POINTS, len(order))).astype(np.int64))
    return [[int(n), float(order[n - 1])] for n in picked]


def _matrix(graph: CommunicationGraph, position: Int64Array) -> dict[str, Any]:
    """Return the communication matrix of blocks of ranks: 0 for no bytes, else 1 to 255, logarithmic."""
    n = int(position.max(initial=0)) + 1
    side = min(_MATRIX_SIZE, n)
    rows, columns = (position[ends] * side // n for ends in (graph.sources, graph.targets))
    sums = np.bincount(rows * side + columns, graph.n_bytes, side * side).astype(np.float64)  # also of none
    largest, least = float(sums.max(initial=0.0)), float(sums[sums > 0].min(initial=math.inf))
    span = math.log(largest / least) if largest > least else 1.0
    with np.errstate(divide="ignore"):
        level = np.where(sums > 0, 1 + 254 * np.log(sums / least) / span, 0.0)
    squares: npt.NDArray[np.uint8] = np.clip(np.rint(level), 0, 255).astype(np.uint8)
    if largest == least:
        squares = np.where(sums > 0, 255, 0).astype(np.uint8)
    return {
        "side": side,
        "largest": largest,
        "least": least if math.isfinite(least) else 0.0,
        "squares": base64.b64encode(squares.tobytes()).decode("ascii"),
    }
