"""Broadcast, all-reduce and barrier on a combining tree: up to its root, and down to all ranks.

BlueGene/L's tree network does this in hardware, for integers (Almasi et al. 2005, 4); floating-point sums
take two phases, as in `petacomm.collectives.integer_sums`. On other networks the messages are sent point to
point.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.schedule import Collective, Round, Schedule, ScheduleError, check_n_ranks


def binary_tree_parents(n_ranks: int) -> Int64Array:
    """Return the parents in a binary tree, -1 at its root, rank 0: int64 (n_ranks,)."""
    return (np.arange(n_ranks, dtype=np.int64) - 1) // 2


def tree_allreduce(n_ranks: int, n_elements: int, parents: Int64Array | None = None) -> Schedule:
    """Return an all-reduce that combines up to the root of the tree and broadcasts down.

    Parameters
    ----------
    n_ranks, n_elements : int
    parents : int (n_ranks,), optional
        Parent of each rank in the tree, -1 at its root. By default a binary tree.
    """
    return _schedule("allreduce", n_ranks, n_elements, parents)


def tree_barrier(n_ranks: int, parents: Int64Array | None = None) -> Schedule:
    """Return a barrier: an all-reduce of one element."""
    return replace(_schedule("barrier", n_ranks, 1, parents), pipelined=False)


def tree_broadcast(
    n_ranks: int, n_elements: int, root: int = 0, parents: Int64Array | None = None
) -> Schedule:
    """Return a broadcast from `root` up to the root of the tree and down to all ranks, as in hardware."""
    parent, levels = _levels(n_ranks, parents)
    path = [root]
    while len(path) <= n_ranks and parent[path[-1]] >= 0:
        path.append(int(parent[path[-1]]))

    def rounds() -> Iterator[Round]:
        for child, above in itertools.pairwise(path):
            yield Round.from_columns(child, above, 0, n_elements)
        yield from _down(parent, levels, n_elements)

    n_rounds = len(path) - 1 + len(levels)
    return Schedule(
        "broadcast", "tree", n_ranks, n_elements, n_rounds, rounds, root=root, pipelined=True, network="tree"
    )


def _schedule(collective: Collective, n_ranks: int, n_elements: int, parents: Int64Array | None) -> Schedule:
    parent, levels = _levels(n_ranks, parents)

    def rounds() -> Iterator[Round]:
        for ranks in reversed(levels):
            yield Round.from_columns(ranks, parent[ranks], 0, n_elements, reduce=True)
        yield from _down(parent, levels, n_elements)

    n_rounds = 2 * len(levels)
    return Schedule(collective, "tree", n_ranks, n_elements, n_rounds, rounds, pipelined=True, network="tree")


def _down(parent: Int64Array, levels: list[Int64Array], n_elements: int) -> Iterator[Round]:
    for ranks in levels:
        yield Round.from_columns(parent[ranks], ranks, 0, n_elements)


def _levels(n_ranks: int, parents: Int64Array | None) -> tuple[Int64Array, list[Int64Array]]:
    """Return the parents, and the ranks of each level below the root."""
    check_n_ranks(n_ranks)
    parent = binary_tree_parents(n_ranks) if parents is None else np.asarray(parents, np.int64)
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
