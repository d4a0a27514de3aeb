"""Placement of grids of processes on hierarchies of cliques: nodes, drawers of nodes, and so on.

After Hoefler's Blue Waters talk (chapter 3): the block of a grid with the most internal edges is as close to
a cube as possible, and the all-to-alls of a distributed FFT should stay within cliques, whatever the shape of
its grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.text import shape_text
from petacomm.base.typing import Int64Array
from petacomm.mapping.placement import Placement
from petacomm.topology import Torus


def count_node_edges(grid: Torus, placement: Placement) -> tuple[Int64Array, Int64Array]:
    """Return the numbers of edges within each node, and from each node to others.

    Parameters
    ----------
    grid : Torus
        Grid of the processes, each with an edge to each of its neighbours (halo exchange). A ring of two has
        two edges in each direction.
    placement : Placement
        Placement of the processes, in the numbering of the grid.

    Returns
    -------
    internal, remote : int64 (placement.n_nodes,)
        Number of directed edges, counted at their sources.
    """
    if placement.n_ranks != grid.n_nodes:
        raise ConfigError(
            f"{placement.n_ranks} ranks are placed of a grid of {grid.n_nodes} processes",
            mend="place each once",
        )
    start, end = (placement.nodes[ends] for ends in grid.link_ends())
    internal = np.bincount(start[start == end], minlength=placement.n_nodes)
    return internal, np.bincount(start[start != end], minlength=placement.n_nodes)


def best_block(grid: Torus, size: int) -> tuple[int, ...]:
    """Return the shape of a block of `size` processes that divides the grid and has the most internal edges.

    Among equal ones it is the first whose sizes differ least.

    Raises
    ------
    ConfigError
        If no block of this size divides the grid.
    """
    blocks = list(dividing_blocks(grid.shape, size))
    if not blocks:
        raise ConfigError(
            f"no block of {size} processes divides a grid of {shape_text(grid.shape)}",
            mend="take another number of processes a node, or another grid",
        )
    return min(blocks, key=lambda block: (-_internal_edges(grid, block), max(block) - min(block)))


def place_blocks(
    grid: Torus, sizes: Sequence[int], blocks: Sequence[Sequence[int]] | None = None
) -> Placement:
    """Return the placement of a grid in blocks of processes on nodes, blocks of nodes on cliques, and so on.

    Parameters
    ----------
    grid : Torus
        Grid of the processes.
    sizes : sequence of int
        Processes of a node, nodes of a drawer, drawers of a supernode, ...; the nodes of a clique have
        consecutive numbers, as in `CliqueHierarchy`. All cliques of the last size are filled.
    blocks : sequence of shapes, optional
        Shape of the blocks for each size; by default the `best_block` of the remaining grid.

    Raises
    ------
    ConfigError
        If a block does not divide the grid.
    """
    if blocks is not None and len(blocks) != len(sizes):
        raise ConfigError(f"{len(blocks)} blocks for {len(sizes)} sizes", mend="give one for each")
    coordinates = grid.coordinates(np.arange(grid.n_nodes))
    rest, inner, number = grid, 1, np.zeros(grid.n_nodes, np.int64)
    for level, size in enumerate(sizes):
        block = best_block(rest, size) if blocks is None else tuple(blocks[level])
        if block not in dividing_blocks(rest.shape, size):
            raise ConfigError(
                f"a block of {shape_text(block)} is not {size} of a grid of {shape_text(rest.shape)}",
                mend="give divisors of the grid",
            )
        number += inner * np.ravel_multi_index(tuple((coordinates % block).T), block)
        inner *= size
        coordinates = coordinates // block
        rest = Torus([n // b for n, b in zip(rest.shape, block, strict=True)], rest.wrap)
    number += inner * rest.node_at(coordinates)
    per_node = sizes[0] if sizes else 1
    return Placement(number // per_node, number % per_node, per_node, grid.n_nodes // per_node)


@dataclass(frozen=True, eq=False)
class PencilDecomposition:
    """A pencil decomposition of a distributed three-dimensional FFT, and the placement of its processes.

    Attributes
    ----------
    rows, columns : int
        Rank r is in row communicator r // columns and column communicator r % columns; each transposes once,
        a row among `columns` ranks and a column among `rows`.
    block : (int, int)
        Rows and columns of the ranks of one node.
    placement : Placement
    remote : float
        Data sent between nodes in both transpositions, as a multiple of all data.
    """

    rows: int
    columns: int
    block: tuple[int, int]
    placement: Placement
    remote: float


def pencil_decompositions(
    n_ranks: int, ranks_per_node: int, points: tuple[int, int, int]
) -> list[PencilDecomposition]:
    """Return the pencil decompositions of an FFT, sorted by the data that they send between nodes.

    In an all-to-all of n ranks each rank sends 1/n of its data to each other; with b ranks on its node, b/n
    stays there. A communicator that fits on a node sends nothing between nodes, so that a square grid is
    seldom best.

    Parameters
    ----------
    n_ranks, ranks_per_node : int
    points : (int, int, int)
        Size of the transform. Every rank has points: rows are at most the first and second size, columns at
        most the second and third.

    Raises
    ------
    ConfigError
        If the ranks do not fill nodes, or are more than the pencils.
    """
    if n_ranks < 1 or ranks_per_node < 1 or n_ranks % ranks_per_node:
        raise ConfigError(f"{n_ranks} ranks do not fill nodes of {ranks_per_node}", mend="fill all nodes")
    decompositions = []
    for rows, columns in dividing_blocks((n_ranks, n_ranks), n_ranks):
        if rows > min(points[:2]) or columns > min(points[1:]):
            continue
        grid = Torus((rows, columns), False)
        for across, along in dividing_blocks(grid.shape, ranks_per_node):
            remote = 2.0 - across / rows - along / columns
            placement = place_blocks(grid, [ranks_per_node], [(across, along)])
            decompositions.append(PencilDecomposition(rows, columns, (across, along), placement, remote))
    if not decompositions:
        what = f"{n_ranks} ranks cannot share pencils of {shape_text(points)}"
        raise ConfigError(what, mend="take fewer ranks")
    return sorted(decompositions, key=lambda pencils: (pencils.remote, abs(pencils.rows - pencils.columns)))


def dividing_blocks(shape: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Iterate over the shapes of `size` elements that divide the shape of a grid."""
    if not shape:
        if size == 1:
            yield ()
        return
    for part in range(1, min(shape[0], size) + 1):
        if shape[0] % part == 0 and size % part == 0:
            for others in dividing_blocks(shape[1:], size // part):
                yield (part, *others)


def _internal_edges(grid: Torus, block: tuple[int, ...]) -> int:
    """Return the number of directed edges inside a block, which wraps where it fills a ring of the grid."""
    size = math.prod(block)
    dimensions = zip(grid.shape, grid.wrap, block, strict=True)
    return sum(2 * (size if ring and b == n else size - size // b) for n, ring, b in dimensions)
