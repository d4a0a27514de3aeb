"""Reduce and all-reduce along a Hamiltonian path or cycle (Almasi et al. 2005, 3.1).

Each node receives from one neighbour only: the least work per byte, but the highest latency.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.schedule import (
    Round,
    Schedule,
    ScheduleError,
    check_n_ranks,
    check_root,
    merge_rounds,
    split_evenly,
)
from petacomm.topology.torus import Torus


def hamiltonian_reduce(grid: Torus, n_elements: int, root: int = 0) -> Schedule:
    """Return a reduce along a Hamiltonian cycle in both directions, half of the vector each.

    There is such a cycle if two dimensions have more than one node and one of them is even, or if there is
    one dimension and it is a ring. On other grids the vector flows to the root from both ends of a path.
    """
    n_ranks = grid.n_nodes
    check_root(grid, root)
    cycle = hamiltonian_cycle(grid)
    if cycle is None:
        path = hamiltonian_path(grid)
        place = int(np.flatnonzero(path == root)[0])
        arms = [path[: place + 1], path[: place - 1 if place else None : -1]]
        streams = [(arm, 0) for arm in arms]
        begins, lengths = split_evenly(n_elements, 1)
    else:
        forward, backward = _both_directions(cycle, root)
        streams = [(forward, 0), (backward, 1)]
        begins, lengths = split_evenly(n_elements, 2)
    hops = [_hops(grid, path) for path, _ in streams]
    n_rounds = max(len(part) for part in hops)

    def rounds() -> Iterator[Round]:
        for k in range(n_rounds):
            # All streams end in the last round.
            indices = [k - n_rounds + len(part) for part in hops]
            yield merge_rounds(
                [
                    _reduce_hop(part, i, begins[stream], lengths[stream])
                    for part, i, (_, stream) in zip(hops, indices, streams, strict=True)
                    if i >= 0
                ]
            )

    return Schedule("reduce", "hamiltonian", n_ranks, n_elements, n_rounds, rounds, root=root, pipelined=True)


def hamiltonian_allreduce(grid: Torus, n_elements: int) -> Schedule:
    """Return an all-reduce: a reduce along a Hamiltonian path to its end, and a broadcast back along it."""
    check_n_ranks(grid.n_nodes)
    hops = _hops(grid, hamiltonian_path(grid))
    n_hops = len(hops)

    def rounds() -> Iterator[Round]:
        for k in range(n_hops):
            yield _reduce_hop(hops, k, 0, n_elements)
        for k in reversed(range(n_hops)):
            yield _broadcast_hop(hops, k, 0, n_elements)

    return Schedule("allreduce", "hamiltonian", grid.n_nodes, n_elements, 2 * n_hops, rounds, pipelined=True)


def hamiltonian_cycle_allreduce(grid: Torus, n_elements: int, root: int = 0) -> Schedule:
    """Return an all-reduce in both directions of a Hamiltonian cycle, half of the vector each.

    Each half is broadcast back along the path of its reduction, so that links carry as much as with one path.

    Raises
    ------
    ScheduleError
        If the grid has no Hamiltonian cycle, or no such root.
    """
    check_root(grid, root)
    cycle = hamiltonian_cycle(grid)
    if cycle is None:
        raise ScheduleError(
            f"there is no way through all nodes of {grid} and back", mend="use 'hamiltonian', along a path"
        )
    streams = [_hops(grid, path) for path in _both_directions(cycle, root)]
    begins, lengths = split_evenly(n_elements, 2)
    n_hops = len(streams[0])

    def rounds() -> Iterator[Round]:
        halves = list(zip(streams, begins, lengths, strict=True))
        for k in range(n_hops):
            yield merge_rounds([_reduce_hop(hops, k, begin, length) for hops, begin, length in halves])
        for k in reversed(range(n_hops)):
            yield merge_rounds([_broadcast_hop(hops, k, begin, length) for hops, begin, length in halves])

    return Schedule(
        "allreduce", "cycle", grid.n_nodes, n_elements, 2 * n_hops, rounds, root=root, pipelined=True
    )


def hamiltonian_path(grid: Torus) -> Int64Array:
    """Return the nodes of a grid along a Hamiltonian path (boustrophedon order): int64 (n_nodes,)."""
    coordinates = np.zeros((1, 0), np.int64)
    for size in reversed(grid.shape):
        turns = [coordinates if i % 2 == 0 else coordinates[::-1] for i in range(size)]
        first = np.repeat(np.arange(size), len(coordinates))
        coordinates = np.column_stack([first, np.concatenate(turns)])
    return grid.node_at(coordinates)


def hamiltonian_cycle(grid: Torus) -> Int64Array | None:
    """Return the nodes of a grid along a Hamiltonian cycle: int64 (n_nodes,); None if none is known.

    Rows are the coordinates of an even dimension, columns the nodes of a path through the other dimensions.
    The cycle goes back and forth along the rows, without the first column, and returns through the first
    column.
    """
    wide = [dimension for dimension, size in enumerate(grid.shape) if size > 1]
    if len(wide) == 1 and grid.wrap[wide[0]] and grid.n_nodes > 2:
        return np.arange(grid.n_nodes)
    even = [dimension for dimension in wide if grid.shape[dimension] % 2 == 0]
    if len(wide) < 2 or not even:
        return None
    shape = list(grid.shape)
    n_rows, shape[even[0]] = shape[even[0]], 1
    others = Torus(shape, False)
    columns = others.coordinates(hamiltonian_path(others))
    along = np.arange(1, len(columns))
    row = np.repeat(np.arange(n_rows), len(columns) - 1)
    column = np.concatenate([along if i % 2 == 0 else along[::-1] for i in range(n_rows)])
    row = np.concatenate([row, np.arange(n_rows)[::-1]])
    column = np.concatenate([column, np.zeros(n_rows, np.int64)])
    coordinates = columns[column]
    coordinates[:, even[0]] = row
    return grid.node_at(coordinates)


def _both_directions(cycle: Int64Array, root: int) -> tuple[Int64Array, Int64Array]:
    """Return the two paths that go around a cycle in opposite directions and end at the root."""
    forward = np.roll(cycle, -1 - int(np.flatnonzero(cycle == root)[0]))
    return forward, np.append(forward[:-1][::-1], root)


def _hops(grid: Torus, path: Int64Array) -> Round:
    """Return the steps of a path as rows of a round."""
    steps = np.diff(grid.coordinates(path), axis=0)
    dimension = np.argmax(steps != 0, axis=1) if len(steps) else np.zeros(0, np.int64)
    step = np.take_along_axis(steps, dimension[:, None], 1)[:, 0]
    # A step of more than one coordinate wraps around a ring, in the opposite direction.
    down = (step < 0) ^ (np.abs(step) > 1)
    return Round.from_columns(path[:-1], path[1:], 0, 0, heading=2 * dimension + down)


def _reduce_hop(hops: Round, k: int, begin: int, length: int) -> Round:
    return Round.from_columns(
        hops.source[k], hops.destination[k], begin, length, heading=hops.heading[k], reduce=True
    )


def _broadcast_hop(hops: Round, k: int, begin: int, length: int) -> Round:
    return Round.from_columns(hops.destination[k], hops.source[k], begin, length, heading=hops.heading[k] ^ 1)
