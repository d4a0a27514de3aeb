"""Short all-reduce and barrier on a rectangle: every rank broadcasts to its line, and all do the same
arithmetic (Almasi et al. 2005, 3.2).

Bandwidth is traded for latency: with the deposit bit, a packet reaches a whole line without being passed on
by software. On long lines this is done in groups first, whose ends then tell the rest of the line what the
group has; one dimension follows the other. All ranks combine in the order of their places, so they get the
same bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.schedule import (
    Round,
    Schedule,
    ScheduleError,
    check_ranks,
    joined,
    numbered_lines,
)
from petacomm.topology.torus import Torus

GROUP = 4  # found best for the all-reduce on BlueGene/L; a barrier takes the whole dimension


def allreduce(grid: Torus, n_elements: int, group: int | None = GROUP) -> Schedule:
    """Reduce vectors of about a packet.

    Parameters
    ----------
    grid : Torus
    n_elements : int
    group : int, optional
        Ranks of a group on a line. None: the whole line, in one phase.
    """
    return _schedule("allreduce", grid, n_elements, group)


def barrier(grid: Torus, group: int | None = None) -> Schedule:
    """Wait for a token of each rank of the line, in one dimension after the other."""
    return _schedule("barrier", grid, 1, group)


def _schedule(collective: str, grid: Torus, n_elements: int, group: int | None) -> Schedule:
    check_ranks(grid.n_nodes)
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
            yield _of_length(joined(both), n_elements)

    return Schedule(collective, "lines", grid.n_nodes, n_elements, len(steps), rounds)  # type: ignore[arg-type]


def _of_length(part: Round, n_elements: int) -> Round:
    return Round.of(
        part.source, part.destination, 0, n_elements, reduce=True, heading=part.heading, line=part.line
    )


def _lines(grid: Torus, dimension: int, members: int, among: str, direction: int) -> Round:
    """Return the lines that leave the nodes in one direction, nearest nodes first."""
    nodes = np.arange(grid.n_nodes, dtype=np.int64)
    reach = _reach(grid, grid.coordinates(nodes)[:, dimension], dimension, members, among, direction)
    nodes, reach = nodes[reach > 0], reach[reach > 0]
    source = np.repeat(nodes, reach)
    step = np.arange(1, len(source) + 1) - np.repeat(np.cumsum(reach) - reach, reach)
    places = grid.coordinates(source)
    places[:, dimension] = (places[:, dimension] + direction * step) % grid.shape[dimension]
    line = numbered_lines(step == 1)
    heading = 2 * dimension + (direction < 0)
    return Round.of(source, grid.rank_of(places), 0, 0, heading=heading, line=line)


def _reach(
    grid: Torus, place: Int64Array, dimension: int, members: int, among: str, direction: int
) -> Int64Array:
    """Return how many nodes each node tells, upwards or downwards.

    In a group, all to its ends, or half way round if it is a whole ring. On the line, the upper end of each
    group tells all above it, the lower end all below; on a ring, half of the others each.
    """
    size = grid.shape[dimension]
    first = place // members * members
    last = np.minimum(first + members, size) - 1
    if among == "line":
        others = size - (last - first + 1)
        if direction > 0:
            return np.where(place == last, (others + 1) // 2 if grid.wrap[dimension] else size - 1 - last, 0)
        return np.where(place == first, others // 2 if grid.wrap[dimension] else first, 0)
    if members == size and grid.wrap[dimension]:
        return np.full_like(place, size // 2 if direction > 0 else (size - 1) // 2)
    return last - place if direction > 0 else place - first
