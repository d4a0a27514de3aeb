"""Broadcast, reduce and all-reduce along edge-disjoint spanning trees, each with a part of the vector.

See Almasi et al. 2005, 3.1, and `petacomm.schedule.disjoint_trees`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.disjoint_trees import SpanningTree, edge_disjoint_trees, max_streams
from petacomm.schedule.schedule import Collective, Round, Schedule, merge_rounds, number_lines, split_evenly
from petacomm.topology.torus import Torus


def edge_disjoint_broadcast(
    grid: Torus,
    n_elements: int,
    root: int = 0,
    n_streams: int | None = None,
    deposit: bool = True,
    half_rings: bool = False,
) -> Schedule:
    """Return a broadcast along edge-disjoint spanning trees.

    Parameters
    ----------
    grid : Torus
    n_elements : int
    root : int
    n_streams : int, optional
        Number of trees. By default `max_streams`: the dimensions of a mesh, or twice as many of a torus.
    deposit : bool
        Whether each straight line is one message with the deposit bit; else each rank forwards the message.
    half_rings : bool
        Whether lines are split where they would take the longer arc of a ring, as routers would not.
    """
    chosen = edge_disjoint_trees(grid, root, n_streams or max(1, max_streams(grid)))
    if half_rings:
        reach = [
            max(1, (size - 1) // 2) if ring else size
            for size, ring in zip(grid.shape, grid.wrap, strict=True)
        ]
        chosen = [tree.with_line_limit(np.array(reach)) for tree in chosen]
    down = [_lines(tree) if deposit else _links(tree) for tree in chosen]
    return _schedule("broadcast", grid, n_elements, root, [down])


def edge_disjoint_reduce(
    grid: Torus, n_elements: int, root: int = 0, n_streams: int | None = None
) -> Schedule:
    """Return a reduce along the trees of a broadcast in reverse; without deposit bit, as each rank adds."""
    chosen = edge_disjoint_trees(grid, root, n_streams or max(1, max_streams(grid)))
    return _schedule("reduce", grid, n_elements, root, [[_reversed(tree) for tree in chosen]])


def edge_disjoint_allreduce(
    grid: Torus, n_elements: int, root: int = 0, n_streams: int | None = None, deposit: bool = True
) -> Schedule:
    """Return an all-reduce: a reduce to a root and a broadcast from it, along the same trees.

    By default there is one tree on a mesh, and on a torus one for each dimension: these and their reverses
    share no link, so that each link is used at most once.
    """
    is_torus = all(grid.wrap[i] for i, size in enumerate(grid.shape) if size > 1)
    default = max(1, max_streams(grid) // 2 if is_torus else 1)
    chosen = edge_disjoint_trees(grid, root, n_streams or default)
    up = [_reversed(tree) for tree in chosen]
    down = [_lines(tree) if deposit else _links(tree) for tree in chosen]
    return _schedule("allreduce", grid, n_elements, root, [up, down])


def _schedule(
    collective: Collective, grid: Torus, n_elements: int, root: int, phases: list[list[list[Round]]]
) -> Schedule:
    """Return a schedule of consecutive phases, each with the rounds of several concurrent streams.

    Streams are small, one row per rank, and are kept in memory.
    """
    begins, lengths = split_evenly(n_elements, len(phases[0]))
    phase_lengths = [max(len(stream) for stream in phase) for phase in phases]

    def rounds() -> Iterator[Round]:
        for phase, n_rounds in zip(phases, phase_lengths, strict=True):
            for k in range(n_rounds):
                yield merge_rounds(
                    [
                        stream[k].with_elements(begins[s], lengths[s])
                        for s, stream in enumerate(phase)
                        if k < len(stream)
                    ]
                )

    return Schedule(
        collective, "streams", grid.n_nodes, n_elements, sum(phase_lengths), rounds, root=root, pipelined=True
    )


def _lines(tree: SpanningTree) -> list[Round]:
    """Return the rounds of a broadcast along a tree, straight line by straight line."""
    ranks = _non_roots(tree)
    keys = (tree.depth[ranks], tree.heading[ranks], tree.line_start[ranks], tree.turn[ranks])
    order = ranks[np.lexsort(keys)]
    edges = np.searchsorted(tree.turn[order], np.arange(1, tree.turn.max(initial=0) + 2))
    return [_line_round(tree, order[a:b]) for a, b in itertools.pairwise(edges) if b > a]


def _line_round(tree: SpanningTree, ranks: Int64Array) -> Round:
    start, heading = tree.line_start[ranks], tree.heading[ranks]
    begins = np.append(True, (start[1:] != start[:-1]) | (heading[1:] != heading[:-1]))
    return Round.from_columns(start, ranks, 0, 0, heading=heading, line=number_lines(begins))


def _links(tree: SpanningTree) -> list[Round]:
    """Return the rounds of a broadcast along a tree, link by link."""
    return [
        Round.from_columns(tree.parent[ranks], ranks, 0, 0, heading=tree.heading[ranks])
        for ranks in _by_depth(tree)
    ]


def _reversed(tree: SpanningTree) -> list[Round]:
    """Return the rounds of a reduce along a tree, link by link."""
    return [
        Round.from_columns(ranks, tree.parent[ranks], 0, 0, heading=tree.heading[ranks] ^ 1, reduce=True)
        for ranks in reversed(_by_depth(tree))
    ]


def _non_roots(tree: SpanningTree) -> Int64Array:
    return np.flatnonzero(tree.parent >= 0)


def _by_depth(tree: SpanningTree) -> list[Int64Array]:
    ranks = _non_roots(tree)
    ranks = ranks[np.argsort(tree.depth[ranks], kind="stable")]
    edges = np.searchsorted(tree.depth[ranks], np.arange(1, tree.depth.max(initial=0) + 2))
    return [ranks[a:b] for a, b in itertools.pairwise(edges)]
