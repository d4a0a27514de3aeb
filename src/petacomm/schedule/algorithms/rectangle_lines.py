"""Short all-reduce and barrier on a rectangle: each rank broadcasts to its line, and all ranks add.

See Almasi et al. 2005, 3.2.
Bandwidth is traded for latency: with the deposit bit, a packet reaches all nodes of a line without being
forwarded by software. Long lines are divided into groups, which combine first; the ends of each group then
broadcast its result to the rest of the line. The dimensions follow one another. All ranks combine in the same
order and get bit-identical results.
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
    merge_rounds,
    number_lines,
)
from petacomm.topology.torus import Torus

GROUP_SIZE = 4  # best for the all-reduce on BlueGene/L; a barrier uses complete lines


def lines_allreduce(grid: Torus, n_elements: int, group: int | None = GROUP_SIZE) -> Schedule:
    """Return an all-reduce of vectors of about a packet.

    Parameters
    ----------
    grid : Torus
    n_elements : int
    group : int, optional
        Ranks of a group on a line. None: the complete line, in one phase.
    """
    return _schedule("allreduce", grid, n_elements, group)


def lines_barrier(grid: Torus, group: int | None = None) -> Schedule:
    """Return a barrier: an all-reduce of one element, by default with complete lines."""
    return _schedule("barrier", grid, 1, group)


def _schedule(collective: str, grid: Torus, n_elements: int, group: int | None) -> Schedule:
    check_n_ranks(grid.n_nodes)
    if group is not None and group < 1:
        raise ScheduleError(f"a group of {group} ranks", mend="give 1 or more")
    steps = [
        (dimension, size if group is None else min(group, size), among)
        for dimension, size in enumerate(grid.shape)
        for among in ("group", "line")
        if size > 1 and (among == "group") | (group is not None and group < size)
    ]

    def rounds() -> Iterator[Round]:
        for dimension, members, among in steps:
            both = [_lines(grid, dimension, members, among, direction) for direction in (1, -1)]
            yield merge_rounds(both).with_elements(0, n_elements)

    return Schedule(collective, "lines", grid.n_nodes, n_elements, len(steps), rounds)  # type: ignore[arg-type]


def _lines(grid: Torus, dimension: int, members: int, among: str, direction: int) -> Round:
    """Return the lines from all nodes in one direction, nearest destinations first."""
    nodes = np.arange(grid.n_nodes, dtype=np.int64)
    reach = _reach(grid, grid.coordinates(nodes)[:, dimension], dimension, members, among, direction)
    nodes, reach = nodes[reach > 0], reach[reach > 0]
    source = np.repeat(nodes, reach)
    step = np.arange(1, len(source) + 1) - np.repeat(np.cumsum(reach) - reach, reach)
    coordinates = grid.coordinates(source)
    coordinates[:, dimension] = (coordinates[:, dimension] + direction * step) % grid.shape[dimension]
    line = number_lines(step == 1)
    heading = 2 * dimension + (direction < 0)
    return Round.from_columns(
        source, grid.node_at(coordinates), 0, 0, reduce=True, heading=heading, line=line
    )


def _reach(
    grid: Torus, coordinate: Int64Array, dimension: int, members: int, among: str, direction: int
) -> Int64Array:
    """Return the number of nodes to which each node sends in one direction.

    In a group: all nodes to its end, or half of a ring that is one group. On the line, the upper end of each
    group sends to all nodes above it, the lower end to all below; on a ring, to half of the others each.
    """
    size = grid.shape[dimension]
    first = coordinate // members * members
    last = np.minimum(first + members, size) - 1
    if among == "line":
        others = size - (last - first + 1)
        if direction > 0:
            above = (others + 1) // 2 if grid.wrap[dimension] else size - 1 - last
            return np.where(coordinate == last, above, 0)
        return np.where(coordinate == first, others // 2 if grid.wrap[dimension] else first, 0)
    if members == size and grid.wrap[dimension]:
        return np.full_like(coordinate, size // 2 if direction > 0 else (size - 1) // 2)
    return last - coordinate if direction > 0 else coordinate - first
