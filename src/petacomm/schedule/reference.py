"""A schedule on the values of all ranks in one process: what executors must do, said as simply as can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.schedule.schedule import Schedule

Operation: TypeAlias = Callable[..., Any]


def replay(schedule: Schedule, work: AnyArray, operation: Operation = np.add) -> None:
    """Go through the rounds of a schedule.

    Parameters
    ----------
    schedule : Schedule
    work : array (n_ranks, n_elements)
        The work space of each rank, changed in place.
    operation : ufunc
        Combines values, where they are reduced.
    """
    for part in schedule.rounds():
        rows = list(
            zip(part.source, part.destination, part.begin, part.destination_begin, part.length, strict=True)
        )
        sent = [work[source, begin : begin + length].copy() for source, _, begin, _, length in rows]
        reduced: dict[tuple[int, int, int], list[tuple[int, AnyArray]]] = {}
        for (source, here, _, begin, length), values, adds in zip(rows, sent, part.reduce, strict=True):
            if adds:
                place = schedule.place(int(source))
                reduced.setdefault((here, begin, length), []).append((place, values))
            else:
                work[here, begin : begin + length] = values
        for (here, begin, length), arrived in reduced.items():
            combine(work[here, begin : begin + length], schedule.place(int(here)), arrived, operation)


def combine(own: AnyArray, place: int, arrived: Iterable[tuple[int, AnyArray]], operation: Operation) -> None:
    """Combine values with a rank's own, in place, in the order of the places of their ranks.

    All ranks that combine the same values so get the same bits.

    Parameters
    ----------
    own : array
    place : int
        Of the rank.
    arrived : iterable of (int, array)
        Values of other ranks, of the same shape, with the places of these.
    operation : ufunc
    """
    terms = sorted([(place, own), *arrived], key=lambda term: term[0])
    total = terms[0][1]
    for _, values in terms[1:]:
        total = operation(total, values)
    own[...] = total
