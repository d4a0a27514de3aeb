"""Reduce and all-reduce along a path through all nodes: each receives from one neighbour alone, which costs
the least work a byte and the longest wait (Almasi et al. 2005, 3.1)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.schedule import Round, Schedule, ScheduleError, check_ranks, joined, parts
from petacomm.topology.torus import Torus


def reduce(grid: Torus, n_elements: int, root: int = 0) -> Schedule:
    """Reduce along a Hamiltonian cycle in both directions, half of the vector each.

    There is such a cycle if two dimensions have more than one node and one of them is even, or if there is
    one dimension and it is a ring. On other grids the vector flows to the root from both ends of a path.
    """
    n_ranks = grid.n_nodes
    _check_root(grid, root)
    around = cycle(grid)
    if around is None:
        path = snake(grid)
        place = int(np.flatnonzero(path == root)[0])
        arms = [path[: place + 1], path[: place - 1 if place else None : -1]]
        streams = [(arm, 0) for arm in arms]
        begins, lengths = parts(n_elements, 1)
    else:
        there = np.roll(around, -1 - int(np.flatnonzero(around == root)[0]))
        streams = [(there, 0), (np.append(there[:-1][::-1], root), 1)]
        begins, lengths = parts(n_elements, 2)
    hops = [_hops(grid, path) for path, _ in streams]
    n_rounds = max(len(part) for part in hops)

    def rounds() -> Iterator[Round]:
        for k in range(n_rounds):
            # All streams end in the last round.
            at = [k - n_rounds + len(part) for part in hops]
            yield joined(
                [
                    _reducing(part, i, begins[stream], lengths[stream])
                    for part, i, (_, stream) in zip(hops, at, streams, strict=True)
                    if i >= 0
                ]
            )

    return Schedule("reduce", "hamiltonian", n_ranks, n_elements, n_rounds, rounds, root=root, pipelined=True)


def allreduce(grid: Torus, n_elements: int) -> Schedule:
    """Reduce along a Hamiltonian path to its end, and broadcast the same way back."""
    check_ranks(grid.n_nodes)
    hops = _hops(grid, snake(grid))
    n_hops = len(hops)

    def rounds() -> Iterator[Round]:
        for k in range(n_hops):
            yield _reducing(hops, k, 0, n_elements)
        for k in reversed(range(n_hops)):
            yield _returning(hops, k, 0, n_elements)

    return Schedule("allreduce", "hamiltonian", grid.n_nodes, n_elements, 2 * n_hops, rounds, pipelined=True)


def allreduce_both_ways(grid: Torus, n_elements: int, root: int = 0) -> Schedule:
    """Reduce both ways round a Hamiltonian cycle, half of the vector each, and broadcast the ways back.

    Each half goes back where the other came from, so that links carry as much as along one path. Grids
    that have no such cycle are refused.
    """
    _check_root(grid, root)
    around = cycle(grid)
    if around is None:
        raise ScheduleError(
            f"there is no way through all nodes of {grid} and back", mend="use 'hamiltonian', along a path"
        )
    there = np.roll(around, -1 - int(np.flatnonzero(around == root)[0]))
    streams = [_hops(grid, path) for path in (there, np.append(there[:-1][::-1], root))]
    begins, lengths = parts(n_elements, 2)
    n_hops = len(streams[0])

    def rounds() -> Iterator[Round]:
        halves = list(zip(streams, begins, lengths, strict=True))
        for k in range(n_hops):
            yield joined([_reducing(hops, k, begin, length) for hops, begin, length in halves])
        for k in reversed(range(n_hops)):
            yield joined([_returning(hops, k, begin, length) for hops, begin, length in halves])

    return Schedule(
        "allreduce", "cycle", grid.n_nodes, n_elements, 2 * n_hops, rounds, root=root, pipelined=True
    )


def snake(grid: Torus) -> Int64Array:
    """Return the nodes of a grid on a path through all of them: int64 (n_nodes,)."""
    places = np.zeros((1, 0), np.int64)
    for size in reversed(grid.shape):
        turns = [places if i % 2 == 0 else places[::-1] for i in range(size)]
        first = np.repeat(np.arange(size), len(places))
        places = np.column_stack([first, np.concatenate(turns)])
    return grid.rank_of(places)


def cycle(grid: Torus) -> Int64Array | None:
    """Return the nodes of a grid on a way through all of them and back to the first; None if there is none.

    Rows go along an even dimension, columns along a path through the others: through all columns but the
    first to and fro, and back through the first.
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
    columns = others.coordinates(snake(others))
    to_and_fro = np.arange(1, len(columns))
    row = np.repeat(np.arange(n_rows), len(columns) - 1)
    column = np.concatenate([to_and_fro if i % 2 == 0 else to_and_fro[::-1] for i in range(n_rows)])
    row = np.concatenate([row, np.arange(n_rows)[::-1]])
    column = np.concatenate([column, np.zeros(n_rows, np.int64)])
    places = columns[column]
    places[:, even[0]] = row
    return grid.rank_of(places)


def _hops(grid: Torus, path: Int64Array) -> Round:
    """Return the steps of a path as rows."""
    steps = np.diff(grid.coordinates(path), axis=0)
    dimension = np.argmax(steps != 0, axis=1) if len(steps) else np.zeros(0, np.int64)
    step = np.take_along_axis(steps, dimension[:, None], 1)[:, 0]
    # A step over the seam of a ring goes the other way than the coordinates say.
    down = (step < 0) ^ (np.abs(step) > 1)
    return Round.of(path[:-1], path[1:], 0, 0, heading=2 * dimension + down)


def _reducing(hops: Round, k: int, begin: int, length: int) -> Round:
    return Round.of(hops.source[k], hops.destination[k], begin, length, heading=hops.heading[k], reduce=True)


def _returning(hops: Round, k: int, begin: int, length: int) -> Round:
    return Round.of(hops.destination[k], hops.source[k], begin, length, heading=hops.heading[k] ^ 1)


def _check_root(grid: Torus, root: int) -> None:
    check_ranks(grid.n_nodes)
    if not 0 <= root < grid.n_nodes:
        raise ScheduleError(f"there is no rank {root} in {grid}", mend="the root is one of its nodes")
