"""Spanning trees of a rectangle of nodes that share no directed link (Almasi et al. 2005, 3.1; after Watts
and van de Geijn 1995, "A pipelined broadcast for multidimensional meshes").

Let c be the place of a node relative to the root, and i the dimension of a tree. Where c_i is not 0, the tree
reaches c in the order of the dimensions i, i + 1, ... (cyclic): it enters by the last one in which c is not
0. Where c_i is 0, it enters by dimension i. So the d trees enter a node by d different dimensions: those i
with c_i = 0 by i itself, the others each by the one before it among them, which is a permutation. Hence no
link is used twice. On a mesh trees go away from the root, and back by one link to reach c_i = 0; on a torus
they go upwards all the way round, and d more go downwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import Int64Array
from petacomm.schedule.schedule import ScheduleError, check_ranks
from petacomm.topology.torus import Torus


@dataclass(frozen=True)
class Tree:
    """A spanning tree of a grid.

    Attributes
    ----------
    root : int
    parent : int64 (n_nodes,)
        The node from which each is entered; -1 at the root.
    heading : int8 (n_nodes,)
        The port by which the parent sends, 2 x dimension, or one more for downwards; -1 at the root.
    depth : int64 (n_nodes,)
        Links from the root.
    turn : int64 (n_nodes,)
        Straight lines from the root: 0 at the root, else 1 or more.
    corner : int64 (n_nodes,)
        The node where the line that ends or passes here begins; -1 at the root.
    along : int64 (n_nodes,)
        Links from there; 0 at the root.
    """

    root: int
    parent: Int64Array
    heading: npt.NDArray[np.int8]
    depth: Int64Array
    turn: Int64Array
    corner: Int64Array
    along: Int64Array

    def with_lines_of(self, reach: Int64Array) -> Tree:
        """Return the tree with lines of at most `reach` links in each dimension, which some nodes pass on."""
        most = reach[np.maximum(self.heading, 0) // 2]
        along = np.where(self.along > 0, (self.along - 1) % most + 1, 0)
        corner = np.arange(len(self.parent))
        for step in range(int(along.max(initial=0))):
            corner = np.where(along > step, self.parent[corner], corner)
        # Pieces of a line follow each other, before the next line begins.
        pieces = (self.along - along) // most
        turn = self.turn * (int(pieces.max(initial=0)) + 1) + pieces
        _, order = np.unique(turn, return_inverse=True)
        corner[self.root] = -1
        return replace(self, corner=corner, along=along, turn=order)


def most_streams(grid: Torus) -> int:
    """Return how many trees without common links a grid has: its dimensions, or twice these on a torus.

    Dimensions of one node do not count. Where only some dimensions wrap, it is taken as a mesh.
    """
    dimensions = _dimensions(grid)
    return len(dimensions) * (2 if _is_torus(grid) else 1)


def trees(grid: Torus, root: int, n_streams: int) -> list[Tree]:
    """Return spanning trees of a grid that share no directed link.

    Parameters
    ----------
    grid : Torus
    root : int
    n_streams : int
        On a torus, the trees that go upwards come first.

    Raises
    ------
    ScheduleError
        If there is no such root, or more trees are asked for than there are.
    """
    check_ranks(grid.n_nodes)
    if not 0 <= root < grid.n_nodes:
        raise ScheduleError(f"there is no rank {root} in {grid}", mend="the root is one of its nodes")
    most = most_streams(grid)
    if not 1 <= n_streams <= max(1, most):
        raise ScheduleError(
            f"{n_streams} streams without common links do not fit in {grid}", mend=f"from 1 to {max(1, most)}"
        )
    if grid.n_nodes == 1:
        nothing = np.full(1, -1)
        zero = np.zeros(1, np.int64)
        return [Tree(0, nothing, nothing.astype(np.int8), zero, zero, nothing, zero)]
    dimensions = _dimensions(grid)
    make = _torus_tree if _is_torus(grid) else _mesh_tree
    return [make(grid, root, i % len(dimensions), 1 - 2 * (i // len(dimensions))) for i in range(n_streams)]


def _dimensions(grid: Torus) -> list[int]:
    return [dimension for dimension, size in enumerate(grid.shape) if size > 1]


def _is_torus(grid: Torus) -> bool:
    return grid.n_nodes > 1 and all(grid.wrap[dimension] for dimension in _dimensions(grid))


def _entry(away: npt.NDArray[np.bool_], first: int) -> tuple[Int64Array, Int64Array]:
    """Return by which dimension each node is entered, and the place of it in the order that begins at
    `first`."""
    order = np.roll(np.arange(away.shape[1]), -first)
    place = away.shape[1] - 1 - np.argmax(away[:, order[::-1]], axis=1)
    return order[place], place


def _torus_tree(grid: Torus, root: int, first: int, direction: int) -> Tree:
    dimensions = np.array(_dimensions(grid))
    sizes = np.array(grid.shape)[dimensions]
    here = grid.coordinates(np.arange(grid.n_nodes))[:, dimensions]
    steps = (here - here[root]) * direction % sizes
    entry, place = _entry(steps > 0, first)
    behind = steps[:, first] == 0
    entry = np.where(behind, first, entry)
    depth = steps.sum(axis=1) + np.where(behind, sizes[first], 0)
    back = np.where(behind, 1, np.take_along_axis(steps, entry[:, None], 1)[:, 0])
    turn = np.where(behind, len(dimensions), place) + 1
    direction_of = np.full(grid.n_nodes, direction)
    return _tree(grid, root, dimensions[entry], direction_of, depth, turn, back)


def _mesh_tree(grid: Torus, root: int, first: int, direction: int) -> Tree:
    dimensions = np.array(_dimensions(grid))
    here = grid.coordinates(np.arange(grid.n_nodes))[:, dimensions]
    steps = here - here[root]
    entry, place = _entry(steps != 0, first)
    behind = steps[:, first] == 0
    entry = np.where(behind, first, entry)
    size = grid.shape[dimensions[first]]
    # Those beside the root's plane are entered from above, or from below where the mesh ends.
    back_down = 1 if here[root, first] == size - 1 else -1
    along = np.take_along_axis(steps, entry[:, None], 1)[:, 0]
    depth = np.abs(steps).sum(axis=1) + np.where(behind, 2, 0)
    turn = np.where(behind, len(dimensions), place) + 1
    direction_of = np.where(behind, back_down, np.sign(along))
    return _tree(grid, root, dimensions[entry], direction_of, depth, turn, np.where(behind, 1, np.abs(along)))


def _tree(
    grid: Torus,
    root: int,
    dimension: Int64Array,
    direction: Int64Array,
    depth: Int64Array,
    turn: Int64Array,
    back: Int64Array,
) -> Tree:
    """Make a tree of the dimension and direction by which nodes are entered, and the links to their
    corners."""
    nodes = np.arange(grid.n_nodes)
    places = grid.coordinates(nodes)
    sizes = np.array(grid.shape)[dimension]
    ends = []
    for links in (np.ones_like(back), back):
        there = places.copy()
        there[nodes, dimension] = (places[nodes, dimension] - direction * links) % sizes
        ends.append(grid.rank_of(there))
    heading = (2 * dimension + (direction < 0)).astype(np.int8)
    for column, value in ((ends[0], -1), (ends[1], -1), (heading, -1), (depth, 0), (turn, 0), (back, 0)):
        column[root] = value
    return Tree(root, ends[0], heading, depth, turn, ends[1], back)
