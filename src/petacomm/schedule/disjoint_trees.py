"""Edge-disjoint spanning trees of tori and meshes.

Spanning trees that share no directed link (Almasi et al. 2005, 3.1; after Watts and van de Geijn 1995, "A
pipelined broadcast for multidimensional meshes").

Let c be the coordinates of a node relative to the root, and i the dimension of a tree. If c_i is not 0, the
tree reaches c in the order of the dimensions i, i + 1, ... (cyclic): it enters by the last one in which c is
not 0. If c_i is 0, it enters by dimension i. So the d trees enter a node by d different dimensions: those i
with c_i = 0 by i itself, the others each by the one before it among them, which is a permutation. Hence no
link is used twice. On a mesh, trees go away from the root, and back by one link to reach c_i = 0; on a torus
they go upwards around the ring, and d more trees go downwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import Int64Array
from petacomm.schedule.schedule import ScheduleError, check_root
from petacomm.topology.torus import Torus


@dataclass(frozen=True)
class SpanningTree:
    """A spanning tree of a grid.

    Attributes
    ----------
    root : int
    parent : int64 (n_nodes,)
        Parent of each node; -1 at the root.
    heading : int8 (n_nodes,)
        Port by which the parent sends, 2 x dimension + (1 if downwards); -1 at the root.
    depth : int64 (n_nodes,)
        Number of links from the root.
    turn : int64 (n_nodes,)
        Number of straight lines from the root: 0 at the root, else 1 or more.
    line_start : int64 (n_nodes,)
        First node of the line that ends at or passes through each node; -1 at the root.
    line_position : int64 (n_nodes,)
        Number of links from the start of the line; 0 at the root.
    """

    root: int
    parent: Int64Array
    heading: npt.NDArray[np.int8]
    depth: Int64Array
    turn: Int64Array
    line_start: Int64Array
    line_position: Int64Array

    def with_line_limit(self, max_length: Int64Array) -> SpanningTree:
        """Return the tree with lines split to at most `max_length` (n_dimensions,) links."""
        limit = max_length[np.maximum(self.heading, 0) // 2]
        position = np.where(self.line_position > 0, (self.line_position - 1) % limit + 1, 0)
        start = np.arange(len(self.parent))
        for step in range(int(position.max(initial=0))):
            start = np.where(position > step, self.parent[start], start)
        # The pieces of a line come one after the other, before the next line begins.
        piece = (self.line_position - position) // limit
        turn = self.turn * (int(piece.max(initial=0)) + 1) + piece
        _, order = np.unique(turn, return_inverse=True)
        start[self.root] = -1
        return replace(self, line_start=start, line_position=position, turn=order)


def max_streams(grid: Torus) -> int:
    """Return the maximum number of edge-disjoint trees: the number of dimensions, or twice that on a torus.

    Dimensions of one node do not count. A grid in which only some dimensions wrap counts as a mesh.
    """
    dimensions = _dimensions(grid)
    return len(dimensions) * (2 if _is_torus(grid) else 1)


def edge_disjoint_trees(grid: Torus, root: int, n_streams: int) -> list[SpanningTree]:
    """Return spanning trees of a grid that share no directed link.

    Parameters
    ----------
    grid : Torus
    root : int
    n_streams : int
        Number of trees, at most `max_streams(grid)`. On a torus, those that go upwards come first.

    Raises
    ------
    ScheduleError
        If there is no such root, or the number of trees is out of range.
    """
    check_root(grid, root)
    limit = max(1, max_streams(grid))
    if not 1 <= n_streams <= limit:
        raise ScheduleError(
            f"{n_streams} streams without common links do not fit in {grid}", mend=f"from 1 to {limit}"
        )
    if grid.n_nodes == 1:
        none = np.full(1, -1)
        zero = np.zeros(1, np.int64)
        return [SpanningTree(0, none, none.astype(np.int8), zero, zero, none, zero)]
    dimensions = _dimensions(grid)
    make = _torus_tree if _is_torus(grid) else _mesh_tree
    return [make(grid, root, i % len(dimensions), 1 - 2 * (i // len(dimensions))) for i in range(n_streams)]


def _dimensions(grid: Torus) -> list[int]:
    """Return the dimensions of more than one node."""
    return [dimension for dimension, size in enumerate(grid.shape) if size > 1]


def _is_torus(grid: Torus) -> bool:
    return grid.n_nodes > 1 and all(grid.wrap[dimension] for dimension in _dimensions(grid))


def _entry(nonzero: npt.NDArray[np.bool_], first: int) -> tuple[Int64Array, Int64Array]:
    """Return the dimension by which each node is entered, and its index in the cyclic order from `first`."""
    order = np.roll(np.arange(nonzero.shape[1]), -first)
    index = nonzero.shape[1] - 1 - np.argmax(nonzero[:, order[::-1]], axis=1)
    return order[index], index


def _torus_tree(grid: Torus, root: int, first: int, direction: int) -> SpanningTree:
    dimensions = np.array(_dimensions(grid))
    sizes = np.array(grid.shape)[dimensions]
    coordinates = grid.coordinates(np.arange(grid.n_nodes))[:, dimensions]
    steps = (coordinates - coordinates[root]) * direction % sizes
    entry, index = _entry(steps > 0, first)
    in_plane = steps[:, first] == 0  # of the root: entered last, by the dimension of the tree
    entry = np.where(in_plane, first, entry)
    depth = steps.sum(axis=1) + np.where(in_plane, sizes[first], 0)
    position = np.where(in_plane, 1, np.take_along_axis(steps, entry[:, None], 1)[:, 0])
    turn = np.where(in_plane, len(dimensions), index) + 1
    directions = np.full(grid.n_nodes, direction)
    return _make_tree(grid, root, dimensions[entry], directions, depth, turn, position)


def _mesh_tree(grid: Torus, root: int, first: int, direction: int) -> SpanningTree:
    dimensions = np.array(_dimensions(grid))
    coordinates = grid.coordinates(np.arange(grid.n_nodes))[:, dimensions]
    steps = coordinates - coordinates[root]
    entry, index = _entry(steps != 0, first)
    in_plane = steps[:, first] == 0
    entry = np.where(in_plane, first, entry)
    size = grid.shape[dimensions[first]]
    # The nodes of the root's plane are entered from above, or from below where the mesh ends.
    plane_direction = 1 if coordinates[root, first] == size - 1 else -1
    step = np.take_along_axis(steps, entry[:, None], 1)[:, 0]
    depth = np.abs(steps).sum(axis=1) + np.where(in_plane, 2, 0)
    turn = np.where(in_plane, len(dimensions), index) + 1
    directions = np.where(in_plane, plane_direction, np.sign(step))
    position = np.where(in_plane, 1, np.abs(step))
    return _make_tree(grid, root, dimensions[entry], directions, depth, turn, position)


def _make_tree(
    grid: Torus,
    root: int,
    dimension: Int64Array,
    direction: Int64Array,
    depth: Int64Array,
    turn: Int64Array,
    position: Int64Array,
) -> SpanningTree:
    """Return the tree whose nodes are entered by a dimension and direction, `position` links along a line."""
    nodes = np.arange(grid.n_nodes)
    coordinates = grid.coordinates(nodes)
    sizes = np.array(grid.shape)[dimension]

    def node_before(n_links: Int64Array) -> Int64Array:
        before = coordinates.copy()
        before[nodes, dimension] = (coordinates[nodes, dimension] - direction * n_links) % sizes
        return grid.node_at(before)

    parent, start = node_before(np.ones_like(position)), node_before(position)
    heading = (2 * dimension + (direction < 0)).astype(np.int8)
    for column, value in ((parent, -1), (start, -1), (heading, -1), (depth, 0), (turn, 0), (position, 0)):
        column[root] = value
    return SpanningTree(root, parent, heading, depth, turn, start, position)
