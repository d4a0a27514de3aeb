"""Grids of ranks folded onto tori: a block on each node, and neighbouring blocks on neighbouring nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.metrics import measure
from petacomm.mapping.node_orders import line_order
from petacomm.mapping.placement import Placement
from petacomm.mapping.strategies import Site, register
from petacomm.topology import Torus

# Of so many ways to fold, those with the least surface of blocks, links are looked at.
_MEASURED = 16


def folds(grid: Sequence[int], torus: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield for each dimension of a torus the dimension of a grid that runs along it, in all ways that fit.

    They fit if the nodes along each dimension of the grid divide its size; several dimensions of the torus
    may be a line for one of the grid.
    """
    for along in product(range(len(grid)), repeat=len(torus)):
        nodes = _nodes_along(along, grid, torus)
        if all(size % n == 0 for size, n in zip(grid, nodes, strict=True)):
            yield along


def folded(grid: Torus, torus: Torus, along: Sequence[int]) -> Int64Array:
    """Return the node of each rank of a grid folded in one of these ways: int64 (grid.n_nodes,)."""
    nodes = _nodes_along(along, grid.shape, torus.shape)
    blocks = np.array(grid.shape) // nodes
    block = grid.coordinates(np.arange(grid.n_nodes)) // blocks
    place = np.empty((grid.n_nodes, torus.n_dimensions), np.int64)
    for dimension in range(grid.n_dimensions):
        used = [i for i, of in enumerate(along) if of == dimension]
        if used:
            line = Torus([torus.shape[i] for i in used], [torus.wrap[i] for i in used])
            place[:, used] = line.coordinates(line_order(line)[block[:, dimension]])
    return torus.rank_of(place)


def _nodes_along(along: Sequence[int], grid: Sequence[int], torus: Sequence[int]) -> list[int]:
    return [math.prod(n for n, of in zip(torus, along, strict=True) if of == i) for i in range(len(grid))]


def _surface(along: Sequence[int], grid: Sequence[int], torus: Sequence[int]) -> float:
    """Return the ranks of a block next to other blocks, as a part of all of its ranks."""
    nodes = _nodes_along(along, grid, torus)
    return sum(n / size for size, n in zip(grid, nodes, strict=True) if n > 1)


def _unfit(graph: CommunicationGraph, site: Site) -> str:
    if graph.grid is None:
        return "the ranks are no Cartesian grid"
    if not isinstance(site.network, Torus):
        return "the network is no whole torus or mesh"
    if next(folds(graph.grid, site.network.shape), None) is None:
        shown = ["x".join(map(str, shape)) for shape in (graph.grid, site.network.shape)]
        return f"a grid of {shown[0]} does not fold onto {shown[1]} nodes"
    return ""


@register("folded", "a Cartesian grid in blocks along the dimensions of a torus", unfit=_unfit)
def _folded(graph: CommunicationGraph, site: Site, seed: int) -> Int64Array:
    torus, shape = site.network, graph.grid
    assert isinstance(torus, Torus) and shape is not None
    ways = sorted(folds(shape, torus.shape), key=lambda along: _surface(along, shape, torus.shape))
    grid = Torus(shape)
    found = [folded(grid, torus, along) for along in ways[:_MEASURED]]

    def busiest(nodes: Int64Array) -> float:
        placement = Placement.from_nodes(nodes, torus, site.ranks_per_node)
        return measure(graph, placement, torus).largest_load

    return min(found, key=busiest)
