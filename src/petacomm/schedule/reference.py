"""Reference execution of a schedule on the arrays of all ranks in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.schedule.schedule import Schedule

Operation: TypeAlias = Callable[..., Any]


def replay(schedule: Schedule, work: AnyArray, operation: Operation = np.add) -> None:
    """Execute a schedule in place on the work spaces of all ranks.

    Parameters
    ----------
    schedule : Schedule
    work : array (n_ranks, n_elements)
        Work space of each rank, changed in place.
    operation : ufunc
        Operation of reductions.
    """
    for part in schedule.rounds():
        rows = list(
            zip(part.source, part.destination, part.begin, part.destination_begin, part.length, strict=True)
        )
        sent = [work[source, begin : begin + length].copy() for source, _, begin, _, length in rows]
        reduced: dict[tuple[int, int, int], list[tuple[int, AnyArray]]] = {}
        for (source, rank, _, begin, length), values, reduces in zip(rows, sent, part.reduce, strict=True):
            if reduces:
                position = schedule.combine_position(int(source))
                reduced.setdefault((rank, begin, length), []).append((position, values))
            else:
                work[rank, begin : begin + length] = values
        for (rank, begin, length), arrived in reduced.items():
            own = work[rank, begin : begin + length]
            combine_in_rank_order(own, schedule.combine_position(int(rank)), arrived, operation)


def combine_in_rank_order(
    own: AnyArray, position: int, arrived: Iterable[tuple[int, AnyArray]], operation: Operation
) -> None:
    """Combine received values with a rank's own, in place, in the order of the ranks' positions.

    All ranks that combine the same values get bit-identical results.

    Parameters
    ----------
    own : array
        Values of the rank, replaced by the result.
    position : int
        Position of the rank in the order of combination.
    arrived : iterable of (int, array)
        Positions and values of other ranks; arrays of the same shape.
    operation : ufunc
    """
    terms = sorted([(position, own), *arrived], key=lambda term: term[0])
    total = terms[0][1]
    for _, values in terms[1:]:
        total = operation(total, values)
    own[...] = total
