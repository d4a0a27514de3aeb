"""Grids of processes on cliques: nodes, drawers of nodes, and so on, inside which links are many or fast.

After Hoefler's Blue Waters talk (chapter 3): the block of a grid with the most internal edges is as nearly a
cube as can be, and all-to-alls of a distributed FFT belong inside cliques, whatever shape of its grid that
asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array
from petacomm.mapping.placement import Placement
from petacomm.topology import Torus


def edges_by_node(grid: Torus, placement: Placement) -> tuple[Int64Array, Int64Array]:
    """Return the edges of the processes of each node that stay on it, and that leave it.

    Parameters
    ----------
    grid : Torus
        The processes, each with an edge to each of its neighbours: its halo exchange. A ring of two
        neighbours has two edges either way.
    placement : Placement
        Of the processes, numbered as the grid numbers them.

    Returns
    -------
    internal, remote : int64 (placement.n_nodes,)
        Directed edges, counted where they begin.
    """
    _check_ranks(grid, placement.n_ranks)
    start, end = (placement.nodes[ends] for ends in grid.link_ends())
    internal = np.bincount(start[start == end], minlength=placement.n_nodes)
    return internal, np.bincount(start[start != end], minlength=placement.n_nodes)


def best_block(grid: Torus, size: int) -> tuple[int, ...]:
    """Return the shape of `size` neighbouring processes that parts the grid and has the most internal edges.

    Of those that have as many, the first one whose sizes lie nearest to each other.

    Raises
    ------
    ConfigError
        If no block of this size divides the grid.
    """
    blocks = list(_blocks(grid.shape, size))
    if not blocks:
        shown = "x".join(map(str, grid.shape))
        raise ConfigError(
            f"no block of {size} processes divides a grid of {shown}",
            mend="take another number of processes a node, or another grid",
        )
    return min(blocks, key=lambda block: (-_internal(grid, block), max(block) - min(block)))


def place_blocks(
    grid: Torus, sizes: Sequence[int], blocks: Sequence[Sequence[int]] | None = None
) -> Placement:
    """Return a grid of processes in blocks on nodes, blocks of nodes on the next cliques, and so on.

    Parameters
    ----------
    grid : Torus
        The processes.
    sizes : sequence of int
        Processes of a node, nodes of a drawer, drawers of a supernode, ...; nodes of one clique have
        consecutive numbers, as those of `CliqueHierarchy`. All cliques of the last size are filled.
    blocks : sequence of shapes, optional
        For each size; by default `best_block` of what is left of the grid.

    Raises
    ------
    ConfigError
        If a block does not divide the grid.
    """
    if blocks is not None and len(blocks) != len(sizes):
        raise ConfigError(f"{len(blocks)} blocks for {len(sizes)} sizes", mend="give one for each")
    places = grid.coordinates(np.arange(grid.n_nodes))
    rest, inner, number = grid, 1, np.zeros(grid.n_nodes, np.int64)
    for level, size in enumerate(sizes):
        block = best_block(rest, size) if blocks is None else tuple(blocks[level])
        if block not in _blocks(rest.shape, size):
            shown = ["x".join(map(str, shape)) for shape in (block, rest.shape)]
            raise ConfigError(
                f"a block of {shown[0]} is not {size} of a grid of {shown[1]}",
                mend="give divisors of the grid",
            )
        number += inner * np.ravel_multi_index(tuple((places % block).T), block)
        inner *= size
        places = places // block
        rest = Torus([n // b for n, b in zip(rest.shape, block, strict=True)], rest.wrap)
    number += inner * rest.rank_of(places)
    per_node = sizes[0] if sizes else 1
    return Placement(number // per_node, number % per_node, per_node, grid.n_nodes // per_node)


@dataclass(frozen=True, eq=False)
class Pencils:
    """A grid of processes for a distributed FFT in three dimensions, and where they go.

    Attributes
    ----------
    rows, columns : int
        Rank r is in row communicator r // columns and column communicator r % columns; each transposes once,
        a row among `columns` ranks and a column among `rows`.
    block : (int, int)
        Rows and columns of the ranks of one node.
    placement : Placement
    remote : float
        Bytes that leave nodes in both transpositions, in units of the data.
    """

    rows: int
    columns: int
    block: tuple[int, int]
    placement: Placement
    remote: float


def fft_pencils(n_ranks: int, ranks_per_node: int, points: tuple[int, int, int]) -> list[Pencils]:
    """Return the ways to cut an FFT into pencils, those that send least between nodes first.

    In an all-to-all of n ranks each sends 1/n of its data to each; b of them on its node keep b/n there. So a
    communicator that fits on a node costs nothing, and a square grid is seldom best.

    Parameters
    ----------
    n_ranks, ranks_per_node : int
    points : (int, int, int)
        Of the transform. No rank is left without points: rows are at most the first and second number of
        points, columns at most the second and third.

    Raises
    ------
    ConfigError
        If ranks do not fill nodes, or are more than pencils.
    """
    if n_ranks < 1 or ranks_per_node < 1 or n_ranks % ranks_per_node:
        raise ConfigError(f"{n_ranks} ranks do not fill nodes of {ranks_per_node}", mend="fill all nodes")
    found = []
    for rows, columns in _blocks((n_ranks, n_ranks), n_ranks):
        if rows > min(points[:2]) or columns > min(points[1:]):
            continue
        grid = Torus((rows, columns), False)
        for across, along in _blocks(grid.shape, ranks_per_node):
            remote = 2.0 - across / rows - along / columns
            placement = place_blocks(grid, [ranks_per_node], [(across, along)])
            found.append(Pencils(rows, columns, (across, along), placement, remote))
    if not found:
        shown = "x".join(map(str, points))
        raise ConfigError(f"{n_ranks} ranks cannot share pencils of {shown}", mend="take fewer ranks")
    return sorted(found, key=lambda way: (way.remote, abs(way.rows - way.columns)))


def _blocks(shape: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Iterate over the shapes of `size` whose numbers divide those of a grid."""
    if not shape:
        if size == 1:
            yield ()
        return
    for part in range(1, min(shape[0], size) + 1):
        if shape[0] % part == 0 and size % part == 0:
            for others in _blocks(shape[1:], size // part):
                yield (part, *others)


def _internal(grid: Torus, block: tuple[int, ...]) -> int:
    """Return the directed edges inside a block; a dimension it fills is closed where the grid's is."""
    size = math.prod(block)
    dimensions = zip(grid.shape, grid.wrap, block, strict=True)
    return sum(2 * (size if ring and b == n else size - size // b) for n, ring, b in dimensions)


def _check_ranks(grid: Torus, n_ranks: int) -> None:
    if n_ranks != grid.n_nodes:
        raise ConfigError(
            f"{n_ranks} ranks are placed of a grid of {grid.n_nodes} processes", mend="place each once"
        )
