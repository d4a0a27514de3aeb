"""Fat tree made from the names of switches and nodes that a job scheduler reports."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.topology.switched import FatTree


def fat_tree_from_paths(paths: Sequence[tuple[Hashable, ...]]) -> tuple[FatTree, Int64Array]:
    """Return a fat tree that contains all paths, and the node at the end of each.

    Parameters
    ----------
    paths : sequence of tuple
        Names from the top to the node; equal paths lead to the same node. Members of a group are numbered in
        order of appearance. Shorter paths are extended at the top.

    Returns
    -------
    network : FatTree
        Each vertex has one parent, and all groups of a level have the size of the largest, so that some node
        numbers are unused.
    nodes : int64 (len(paths),)
    """
    depth = max(len(path) for path in paths)
    full = [(*path[:1], *[path[0]] * (depth - len(path)), *path[1:]) for path in paths]
    members: dict[tuple[Hashable, ...], dict[Hashable, int]] = {}
    numbers = np.zeros((len(full), depth), np.int64)
    for row, path in enumerate(full):
        for level, name in enumerate(path):
            group = members.setdefault(path[:level], {})
            numbers[row, level] = group.setdefault(name, len(group))
    sizes = numbers.max(0) + 1
    network = FatTree(sizes[::-1].tolist(), [1] * depth)
    return network, np.asarray(np.ravel_multi_index(tuple(numbers.T), tuple(sizes)), np.int64)
