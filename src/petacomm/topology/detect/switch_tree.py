"""Names of switches and nodes, as job schedulers tell them, made a tree with numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.topology.switched import FatTree


def tree_of(paths: Sequence[tuple[Hashable, ...]]) -> tuple[FatTree, Int64Array]:
    """Return a tree that holds all paths, and the number of each one's node.

    Parameters
    ----------
    paths : sequence of tuple
        From the top to the node; a node named twice is one node. Members of a group are numbered in the
        order in which they come. Shorter paths hang from the top.

    Returns
    -------
    network : FatTree
        One parent for each vertex; as many members a level as the largest group has, so some numbers of
        nodes belong to none.
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
