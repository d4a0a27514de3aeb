"""Strategy that gives each node a block of a Cartesian grid of ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.strategies import Resources, place_ranks, register_strategy
from petacomm.topology import Torus


def smallest_block(grid: Sequence[int], size: int) -> tuple[int, ...] | None:
    """Return the block of `size` ranks that divides a periodic grid and has the smallest surface, or None."""
    blocks = [block for block in _blocks(grid, size) if math.prod(block) == size]
    return min(blocks, key=lambda block: (_surface(block, grid), block), default=None)


def _blocks(grid: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    if not grid:
        yield ()
        return
    for first in range(1, min(grid[0], size) + 1):
        if grid[0] % first == 0 and size % first == 0:
            for rest in _blocks(grid[1:], size // first):
                yield (first, *rest)


def _surface(block: Sequence[int], grid: Sequence[int]) -> float:
    """Return the part of the ranks of a block that are next to others, summed over dimensions."""
    return sum(1 / here for here, whole in zip(block, grid, strict=True) if here < whole)


def _unfit(graph: CommunicationGraph, resources: Resources) -> str:
    grid = graph.likely_grid
    if grid is None:
        return "the ranks are no Cartesian grid"
    if resources.ranks_per_node == 1:
        return "with a rank a node there are no blocks"
    if smallest_block(grid, resources.ranks_per_node) is None:
        return f"no block of {resources.ranks_per_node} ranks divides the grid"
    return ""


@register_strategy(
    "blocks", "a Cartesian grid in blocks of a node's ranks, placed as by recursive", unfit=_unfit
)
def _blocked(graph: CommunicationGraph, resources: Resources, seed: int) -> Int64Array:
    grid = graph.likely_grid
    block = None if grid is None else smallest_block(grid, resources.ranks_per_node)
    assert grid is not None and block is not None
    numbers = Torus([whole // here for whole, here in zip(grid, block, strict=True)])
    block_of = numbers.node_at(Torus(grid).coordinates(np.arange(graph.n_ranks)) // np.array(block))
    between = graph.grouped(block_of, numbers.n_nodes)
    placed = place_ranks("recursive", between, Resources(resources.network), seed)
    return placed.nodes[block_of]
