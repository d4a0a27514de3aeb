"""Strategy that folds a Cartesian grid of ranks onto a torus: one block of ranks per node, in order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from petacomm.base.text import shape_text
from petacomm.base.typing import Int64Array
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.metrics import mapping_metrics
from petacomm.mapping.node_orders import line_order
from petacomm.mapping.placement import Placement
from petacomm.mapping.strategies import Resources, register_strategy
from petacomm.topology import Torus

# Link loads are computed for at most so many foldings, those with the smallest surface of blocks.
_MAX_CANDIDATES = 16


def possible_foldings(grid: Sequence[int], torus: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Iterate over the foldings of a grid: the dimension of the grid along each dimension of the torus.

    The number of nodes along each dimension of the grid must divide its size; several dimensions of the torus
    may form a line for one dimension of the grid.
    """
    for along in product(range(len(grid)), repeat=len(torus)):
        nodes = _nodes_along(along, grid, torus)
        if all(size % n == 0 for size, n in zip(grid, nodes, strict=True)):
            yield along


def fold_grid(grid: Torus, torus: Torus, along: Sequence[int]) -> Int64Array:
    """Return the node of each rank of a grid under a folding: int64 (grid.n_nodes,).

    Parameters
    ----------
    grid, torus : Torus
    along : sequence of int
        Dimension of the grid along each dimension of the torus, from `possible_foldings`.
    """
    nodes = _nodes_along(along, grid.shape, torus.shape)
    blocks = np.array(grid.shape) // nodes
    block = grid.coordinates(np.arange(grid.n_nodes)) // blocks
    coordinates = np.empty((grid.n_nodes, torus.n_dimensions), np.int64)
    for dimension in range(grid.n_dimensions):
        used = [i for i, d in enumerate(along) if d == dimension]
        if used:
            line = Torus([torus.shape[i] for i in used], [torus.wrap[i] for i in used])
            coordinates[:, used] = line.coordinates(line_order(line)[block[:, dimension]])
    return torus.node_at(coordinates)


def _nodes_along(along: Sequence[int], grid: Sequence[int], torus: Sequence[int]) -> list[int]:
    """Return the number of nodes along each dimension of the grid."""
    return [math.prod(n for n, d in zip(torus, along, strict=True) if d == i) for i in range(len(grid))]


def _surface(along: Sequence[int], grid: Sequence[int], torus: Sequence[int]) -> float:
    """Return the fraction of the ranks of a block that are next to other blocks."""
    nodes = _nodes_along(along, grid, torus)
    return sum(n / size for size, n in zip(grid, nodes, strict=True) if n > 1)


def _unfit(graph: CommunicationGraph, resources: Resources) -> str:
    shape = graph.likely_grid
    if shape is None:
        return "the ranks are no Cartesian grid"
    if not isinstance(resources.network, Torus):
        return "the network is no whole torus or mesh"
    if next(possible_foldings(shape, resources.network.shape), None) is None:
        torus = shape_text(resources.network.shape)
        return f"a grid of {shape_text(shape)} does not fold onto {torus} nodes"
    return ""


@register_strategy("folded", "a Cartesian grid in blocks along the dimensions of a torus", unfit=_unfit)
def _folded(graph: CommunicationGraph, resources: Resources, seed: int) -> Int64Array:
    torus, shape = resources.network, graph.likely_grid
    assert isinstance(torus, Torus) and shape is not None
    foldings = sorted(
        possible_foldings(shape, torus.shape), key=lambda along: _surface(along, shape, torus.shape)
    )
    grid = Torus(shape)
    candidates = [fold_grid(grid, torus, along) for along in foldings[:_MAX_CANDIDATES]]

    def largest_load(nodes: Int64Array) -> float:
        placement = Placement.from_nodes(nodes, torus, resources.ranks_per_node)
        return mapping_metrics(graph, placement, torus).largest_load

    return min(candidates, key=largest_load)
