"""The page of placements: loads of links before and after, and who sends to whom."""

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

from petacomm.base.files import replacing
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mapping import CommunicationGraph, Placement
from petacomm.mapping.mapping_table import described
from petacomm.mapping.metrics import Metrics, loads
from petacomm.report.page import assembled
from petacomm.topology import Network, Torus

_SCRIPTS = ("colour.js", "text.js", "parts.js", "lines.js", "mapping.js")
# Squares of a matrix of ranks, a side; points of a curve; nodes of a side of a minimap, beyond which there is
# none.
_SQUARES, _POINTS, _MOST = 128, 48, 128


@dataclass(frozen=True)
class Shown:
    """A placement on the page.

    Attributes
    ----------
    title : str
    placement : Placement
    metrics : Metrics
    graph : CommunicationGraph, optional
        Who sends to whom, where that is not the same for all: objects of a program may be on other ranks.
    """

    title: str
    placement: Placement
    metrics: Metrics
    graph: CommunicationGraph | None = None


@dataclass(frozen=True)
class Scene:
    """A communication and its placements.

    Attributes
    ----------
    title, text : str
        What it is.
    graph : CommunicationGraph
    network : Network
    shown : sequence of Shown
        Those to compare, the best last.
    more : mapping of str to (head, rows)
        Tables for the end, by their titles.
    """

    title: str
    text: str
    graph: CommunicationGraph
    network: Network
    shown: Sequence[Shown]
    more: Mapping[str, tuple[list[str], list[list[Any]]]] = field(default_factory=dict)


def write_mapping(scenes: Sequence[Scene], path: str | os.PathLike[str], title: str) -> Path:
    """Write the page, and return its path.

    Raises
    ------
    ResourceError
        If it cannot be written.
    """
    data = {"title": title, "scenes": [_scene(scene) for scene in scenes]}
    text = assembled(
        f"{title} – petacomm", "what <code>petacomm map compare --json</code> writes", data, _SCRIPTS
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _scene(scene: Scene) -> dict[str, Any]:
    placements = []
    for shown in scene.shown:
        graph = shown.graph or scene.graph
        on_links = loads(graph, shown.placement, scene.network)
        placements.append(
            {
                "title": shown.title,
                "metrics": asdict(shown.metrics),
                "curve": _sorted_curve(on_links),
                "maps": minimaps(scene.network, on_links),
                "matrix": _matrix(graph, shown.placement.places),
            }
        )
    return {
        "title": scene.title,
        "text": scene.text,
        "network": described(scene.network),
        "ranks": scene.graph.n_ranks,
        "edges": scene.graph.n_edges,
        "matrix": _matrix(scene.graph, np.arange(scene.graph.n_ranks)),
        "placements": placements,
        "more": [{"title": name, "head": head, "rows": rows} for name, (head, rows) in scene.more.items()],
    }


def minimaps(network: Network, on_links: FloatArray) -> list[dict[str, Any]]:
    """Return the loads of the links of a grid projected on each pair of its dimensions.

    A link of the projection has the mean load of the links of that dimension, of both directions, that lie
    over it; those of dimensions that are projected away are not drawn. None where the network is no grid.

    Returns
    -------
    list of dict
        `dimensions` (a, b), `shape`, and `down`, `across`: bytes of the link from each place to the next
        along a and along b, rows after each other.
    """
    if not isinstance(network, Torus):
        return []
    by_place = [_along(network, on_links, dimension) for dimension in range(network.n_dimensions)]
    wide = [d for d, size in enumerate(network.shape) if size > 1]
    pairs = combinations(wide, 2) if len(wide) > 1 else [(wide[0], wide[0])] if wide else []
    found = []
    for a, b in pairs:
        shape = network.shape[a], network.shape[b]
        if a == b or max(shape) > _MOST:
            continue
        others = tuple(d for d in range(network.n_dimensions) if d not in (a, b))
        down, across = (by_place[d].mean(axis=others) for d in (a, b))
        found.append(
            {
                "dimensions": [a, b],
                "shape": shape,
                "down": np.round(down, 1).ravel().tolist(),
                "across": np.round(across, 1).ravel().tolist(),
            }
        )
    return found


def _along(grid: Torus, on_links: FloatArray, dimension: int) -> FloatArray:
    """Return the mean of both directions of the link upwards of each node, in the grid's shape; 0: none."""
    nodes = np.arange(grid.n_nodes)
    up, beyond = grid.link(nodes, dimension, 1), grid.neighbor(nodes, dimension, 1)
    there = up >= 0
    down = grid.link(np.where(there, beyond, 0), dimension, -1)
    both = (on_links[up] + on_links[down]) / 2
    return np.asarray(np.where(there, both, 0.0).reshape(grid.shape))


def _sorted_curve(on_links: FloatArray) -> list[list[float]]:
    """Return points (links, bytes): so many links carry at least as much."""
    order = np.sort(on_links)[::-1]
    if not len(order):
        return []
    picked = np.unique(np.geomspace(1, len(order), min(_POINTS, len(order))).astype(np.int64))
    return [[int(n), float(order[n - 1])] for n in picked]


def _matrix(graph: CommunicationGraph, position: Int64Array) -> dict[str, Any]:
    """Return the bytes between ranks as squares: a byte each, 0 for none, else logarithms up to 255."""
    n = int(position.max(initial=0)) + 1
    side = min(_SQUARES, n)
    rows, columns = (position[ends] * side // n for ends in (graph.sources, graph.targets))
    sums = np.bincount(rows * side + columns, graph.n_bytes, side * side)
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
