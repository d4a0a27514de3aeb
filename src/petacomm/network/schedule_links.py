"""What the links of a grid carry in each round of a schedule, and how long that takes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import FloatArray
from petacomm.network.link_load import loads_of_ways
from petacomm.schedule import Round, Schedule, displacements
from petacomm.topology import Torus


def round_loads(schedule: Schedule, grid: Torus, itemsize: int) -> Iterator[FloatArray]:
    """Iterate over the bytes on each link, a round at a time.

    Messages go dimension by dimension, or straight on by the port that they name; half a ring upwards. A line
    is one message.

    Parameters
    ----------
    schedule : Schedule
    grid : Torus
        Rank r is node r.
    itemsize : int
        Bytes of an element.

    Yields
    ------
    float64 (grid.n_links,)
    """
    for loads, _ in _rounds(schedule, grid, itemsize):
        yield loads


def _rounds(schedule: Schedule, grid: Torus, itemsize: int) -> Iterator[tuple[FloatArray, int]]:
    """Iterate over the bytes on each link and those of the longest message, a round at a time."""
    known: tuple[bytes, ...] = ()
    loads = np.zeros(grid.n_links)
    for part in schedule.rounds():
        part = _messages(part)
        columns = (part.source, part.destination, part.length, part.heading)
        key = tuple(column.tobytes() for column in columns)
        if key != known:  # rounds of a ring are all alike
            known = key
            loads = loads_of_ways(grid, part.source, displacements(part, grid), itemsize * part.length)
        yield loads, itemsize * int(part.length.max(initial=0))


def busiest_link(schedule: Schedule, grid: Torus, itemsize: int) -> float:
    """Return the bytes that the busiest link carries, all rounds together."""
    total = np.zeros(grid.n_links)
    for loads in round_loads(schedule, grid, itemsize):
        total += loads
    return float(total.max(initial=0))


def round_time(
    schedule: Schedule,
    grid: Torus,
    itemsize: int,
    latency: float,
    bandwidth: float,
    rendezvous: float = math.inf,
) -> float:
    """Return the seconds of rounds that wait for each other: of each a latency, and its busiest link's bytes.

    This is how MPICH2's all-to-all of 512 nodes of BlueGene/L comes to 58.2 of 58.3 measured MB/s a node.

    Parameters
    ----------
    schedule : Schedule
    grid : Torus
    itemsize : int
    latency : float
        Seconds of a message, from call to call.
    bandwidth : float
        Bytes a second of a link.
    rendezvous : float
        Bytes above which a message first asks whether it may come, and is answered: two latencies more.
    """
    total = 0.0
    for loads, longest in _rounds(schedule, grid, itemsize):
        total += latency * (3 if longest > rendezvous else 1) + float(loads.max(initial=0)) / bandwidth
    return total


def _messages(part: Round) -> Round:
    """Return the rows that go over wires; of a line the last, whose way passes all others."""
    part = part.take(part.moves)
    last = np.append((part.line[1:] != part.line[:-1]) | (part.line[1:] < 0), True)[: len(part)]
    return part.take(np.flatnonzero(last))
