"""Broadcast, all-reduce and barrier on a combining tree: up to its top, and down to all (Almasi et al. 2005,
4).

BlueGene/L's tree network does this in hardware, for integers: floating-point sums take two phases, as in
`petacomm.mpi`. Elsewhere its messages are sent like all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.schedule import Collective, Round, Schedule, ScheduleError, check_ranks


def binary(n_ranks: int) -> Int64Array:
    """Return the parents of a binary tree, -1 at its top, rank 0: int64 (n_ranks,)."""
    return (np.arange(n_ranks, dtype=np.int64) - 1) // 2


def allreduce(n_ranks: int, n_elements: int, parents: Int64Array | None = None) -> Schedule:
    """Combine on the way up, turn back at the top, and broadcast.

    Parameters
    ----------
    n_ranks, n_elements : int
    parents : int (n_ranks,), optional
        The tree: the parent of each rank, -1 at the top. By default a binary tree.
    """
    return _schedule("allreduce", n_ranks, n_elements, parents)


def barrier(n_ranks: int, parents: Int64Array | None = None) -> Schedule:
    """Wait for one packet to come back."""
    return replace(_schedule("barrier", n_ranks, 1, parents), pipelined=False)


def broadcast(n_ranks: int, n_elements: int, root: int = 0, parents: Int64Array | None = None) -> Schedule:
    """Send from the root up to the top of the tree, and from there to all, as the hardware does."""
    parent, levels = _levels(n_ranks, parents)
    way = [root]
    while len(way) <= n_ranks and parent[way[-1]] >= 0:
        way.append(int(parent[way[-1]]))

    def rounds() -> Iterator[Round]:
        for here, there in itertools.pairwise(way):
            yield Round.of(here, there, 0, n_elements)
        yield from _down(parent, levels, n_elements)

    n_rounds = len(way) - 1 + len(levels)
    return Schedule(
        "broadcast", "tree", n_ranks, n_elements, n_rounds, rounds, root=root, pipelined=True, network="tree"
    )


def _schedule(collective: Collective, n_ranks: int, n_elements: int, parents: Int64Array | None) -> Schedule:
    parent, levels = _levels(n_ranks, parents)

    def rounds() -> Iterator[Round]:
        for ranks in reversed(levels):
            yield Round.of(ranks, parent[ranks], 0, n_elements, reduce=True)
        yield from _down(parent, levels, n_elements)

    n_rounds = 2 * len(levels)
    return Schedule(collective, "tree", n_ranks, n_elements, n_rounds, rounds, pipelined=True, network="tree")


def _down(parent: Int64Array, levels: list[Int64Array], n_elements: int) -> Iterator[Round]:
    for ranks in levels:
        yield Round.of(parent[ranks], ranks, 0, n_elements)


def _levels(n_ranks: int, parents: Int64Array | None) -> tuple[Int64Array, list[Int64Array]]:
    """Return the parents, and the ranks of each level below the top."""
    check_ranks(n_ranks)
    parent = binary(n_ranks) if parents is None else np.asarray(parents, np.int64)
    _check_parents(parent, n_ranks)
    level = np.zeros(n_ranks, np.int64)
    above = parent.copy()
    for _ in range(n_ranks):
        below = np.flatnonzero(above >= 0)
        if not len(below):
            break
        level[below] += 1
        above[below] = parent[above[below]]
    else:
        raise ScheduleError("the parents of a tree go round in a circle", mend="every way up ends at the top")
    order = np.argsort(level, kind="stable")
    edges = np.searchsorted(level[order], np.arange(1, level.max() + 2))
    return parent, [order[a:b] for a, b in itertools.pairwise(edges)]


def _check_parents(parent: Int64Array, n_ranks: int) -> None:
    if parent.shape != (n_ranks,) or parent.min() < -1 or parent.max() >= n_ranks:
        raise ScheduleError(
            f"the parents of a tree do not fit {n_ranks} ranks", mend="give one for each rank"
        )
    if np.count_nonzero(parent < 0) != 1:
        raise ScheduleError("a tree has one top", mend="give one rank the parent -1")
