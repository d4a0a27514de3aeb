"""Times of collectives that were not measured, from those that were: other sizes, and other communicators."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from petacomm.tuning.cells import Cell, sizes_measured

_FAR = 64  # times beyond a measured size to which latency and bandwidth of the last two sizes tell nothing
Point = tuple[float, float]


def predicted_seconds(times: Mapping[Cell, float], cell: Cell) -> float | None:
    """Return the seconds of a cell by those of its collective that were measured.

    Between two sizes, and between two numbers of ranks, time is a power of these. Above the largest size it
    is latency and bytes by bandwidth, of the two largest; below the smallest it is that of the smallest; and
    beyond the numbers of ranks the power of the two nearest.

    Parameters
    ----------
    times : mapping of Cell to float
        Seconds that were measured.
    cell : Cell

    Returns
    -------
    float or None
        None where too little was measured: one size below, or other communicators of one number of ranks.
    """
    found = [
        (float(ranks), seconds)
        for ranks in sorted({one.ranks for one in times if one.collective == cell.collective})
        if (seconds := _at_size(times, cell._replace(ranks=ranks))) is not None
    ]
    return _power_law(found, cell.ranks)


def prediction_ratios(times: Mapping[Cell, float]) -> list[float]:
    """Return, ascending, by what factor each measured cell is predicted wrongly from all others, 1 at least.

    Those are left out that nothing predicts.
    """
    ratios = []
    for cell, measured in times.items():
        predicted = predicted_seconds({one: taken for one, taken in times.items() if one != cell}, cell)
        if predicted is not None:
            ratios.append(max(predicted / measured, measured / predicted))
    return sorted(ratios)


def _at_size(times: Mapping[Cell, float], cell: Cell) -> float | None:
    """Return the seconds at a size, on communicators of which some sizes were measured."""
    sizes = sizes_measured(times, cell.collective, cell.ranks)
    points = [(float(size), times[cell._replace(size=size)]) for size in sizes]
    if cell.size <= sizes[0]:
        return points[0][1]
    if cell.size <= sizes[-1]:
        return _power_law(points, cell.size)
    if len(points) == 1 or cell.size > _FAR * sizes[-1]:
        return None
    (first, before), (last, seconds) = points[-2:]
    return seconds + max(0.0, seconds - before) / (last - first) * (cell.size - last)


def _power_law(points: Sequence[Point], place: float) -> float | None:
    """Return the value at a place of the power law through the two points about it, or nearest to it."""
    places = [one for one, _ in points]
    if place in places:
        return points[places.index(place)][1]
    if len(points) < 2:
        return None
    end = min(max(bisect_left(places, place), 1), len(points) - 1)
    (x, low), (y, high) = points[end - 1 : end + 1]
    return low * math.pow(high / low, math.log(place / x) / math.log(y / x))
