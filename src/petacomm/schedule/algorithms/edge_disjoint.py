"""Broadcast, reduce and all-reduce along several spanning trees that share no link, each with its part of the
vector (Almasi et al. 2005, 3.1)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.disjoint_trees import Tree, most_streams, trees
from petacomm.schedule.schedule import Collective, Round, Schedule, joined, numbered_lines, parts
from petacomm.topology.torus import Torus


def broadcast(
    grid: Torus,
    n_elements: int,
    root: int = 0,
    n_streams: int | None = None,
    deposit: bool = True,
    half_rings: bool = False,
) -> Schedule:
    """Broadcast along spanning trees.

    Parameters
    ----------
    grid : Torus
    n_elements : int
    root : int
    n_streams : int, optional
        By default as many as there are: the dimensions of a mesh, twice these of a torus.
    deposit : bool
        Whether straight runs are one message that leaves copies on its way; else each rank passes it on.
    half_rings : bool
        Whether no line goes the longer way round a ring, since routers would not: some ranks pass it on.
    """
    chosen = trees(grid, root, n_streams or max(1, most_streams(grid)))
    if half_rings:
        reach = [
            max(1, (size - 1) // 2) if ring else size
            for size, ring in zip(grid.shape, grid.wrap, strict=True)
        ]
        chosen = [tree.with_lines_of(np.array(reach)) for tree in chosen]
    down = [_lines(tree) if deposit else _links(tree) for tree in chosen]
    return _schedule("broadcast", grid, n_elements, root, [down])


def reduce(grid: Torus, n_elements: int, root: int = 0, n_streams: int | None = None) -> Schedule:
    """Reduce along the spanning trees of a broadcast, in reverse: each rank adds its own, so nothing is
    deposited."""
    chosen = trees(grid, root, n_streams or max(1, most_streams(grid)))
    return _schedule("reduce", grid, n_elements, root, [[_reversed(tree) for tree in chosen]])


def allreduce(
    grid: Torus, n_elements: int, root: int = 0, n_streams: int | None = None, deposit: bool = True
) -> Schedule:
    """Reduce to a root and broadcast from it, along the same trees.

    By default one stream on a mesh, and on a torus one for each dimension: their ways back do not meet the
    ways there, so that each link is used at most once.
    """
    most = most_streams(grid)
    torus = all(grid.wrap[i] for i, size in enumerate(grid.shape) if size > 1)
    chosen = trees(grid, root, n_streams or max(1, most // 2 if torus else 1))
    up = [_reversed(tree) for tree in chosen]
    down = [_lines(tree) if deposit else _links(tree) for tree in chosen]
    return _schedule("allreduce", grid, n_elements, root, [up, down])


def _schedule(
    collective: Collective, grid: Torus, n_elements: int, root: int, phases: list[list[list[Round]]]
) -> Schedule:
    """Make a schedule of phases one after the other, each with the rounds of several streams at once.

    Streams are small, a row for each rank, and are kept.
    """
    begins, lengths = parts(n_elements, len(phases[0]))
    each = [max(len(stream) for stream in phase) for phase in phases]

    def rounds() -> Iterator[Round]:
        for phase, n_rounds in zip(phases, each, strict=True):
            for k in range(n_rounds):
                yield joined(
                    [
                        _placed(stream[k], begins[s], lengths[s])
                        for s, stream in enumerate(phase)
                        if k < len(stream)
                    ]
                )

    return Schedule(
        collective, "streams", grid.n_nodes, n_elements, sum(each), rounds, root=root, pipelined=True
    )


def _placed(part: Round, begin: int, length: int) -> Round:
    """Give a stream's round its part of the vector."""
    return Round.of(
        part.source,
        part.destination,
        begin,
        length,
        reduce=part.reduce,
        heading=part.heading,
        line=part.line,
    )


def _lines(tree: Tree) -> list[Round]:
    """Return a tree as rounds of straight lines."""
    ranks = _others(tree)
    order = ranks[np.lexsort((tree.depth[ranks], tree.heading[ranks], tree.corner[ranks], tree.turn[ranks]))]
    edges = np.searchsorted(tree.turn[order], np.arange(1, tree.turn.max(initial=0) + 2))
    return [_deposited(tree, order[a:b]) for a, b in itertools.pairwise(edges) if b > a]


def _deposited(tree: Tree, ranks: Int64Array) -> Round:
    corner, heading = tree.corner[ranks], tree.heading[ranks]
    begins = np.append(True, (corner[1:] != corner[:-1]) | (heading[1:] != heading[:-1]))
    return Round.of(corner, ranks, 0, 0, heading=heading, line=numbered_lines(begins))


def _links(tree: Tree) -> list[Round]:
    """Return a tree as rounds of single links, from the root."""
    return [
        Round.of(tree.parent[ranks], ranks, 0, 0, heading=tree.heading[ranks]) for ranks in _by_depth(tree)
    ]


def _reversed(tree: Tree) -> list[Round]:
    """Return a tree as rounds of single links to the root, where what arrives is added."""
    return [
        Round.of(ranks, tree.parent[ranks], 0, 0, heading=tree.heading[ranks] ^ 1, reduce=True)
        for ranks in reversed(_by_depth(tree))
    ]


def _others(tree: Tree) -> Int64Array:
    return np.flatnonzero(tree.parent >= 0)


def _by_depth(tree: Tree) -> list[Int64Array]:
    ranks = _others(tree)
    ranks = ranks[np.argsort(tree.depth[ranks], kind="stable")]
    edges = np.searchsorted(tree.depth[ranks], np.arange(1, tree.depth.max(initial=0) + 2))
    return [ranks[a:b] for a, b in itertools.pairwise(edges)]
