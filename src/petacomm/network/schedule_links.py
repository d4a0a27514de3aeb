"""Link loads of the rounds of a schedule on a grid, and the time that they imply."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import FloatArray
from petacomm.network.link_load import displacement_loads
from petacomm.schedule import Round, Schedule, message_displacements
from petacomm.topology import Torus


def round_link_loads(schedule: Schedule, grid: Torus, itemsize: int) -> Iterator[FloatArray]:
    """Iterate over the bytes on each link, round by round.

    Messages are routed dimension by dimension, or straight in the direction of their heading; half a ring is
    routed upwards. A line is one message.

    Parameters
    ----------
    schedule : Schedule
    grid : Torus
        Network of the ranks; rank r is node r.
    itemsize : int
        Bytes of an element.

    Yields
    ------
    float64 (grid.n_links,)
    """
    for loads, _ in _round_loads(schedule, grid, itemsize):
        yield loads


def _round_loads(schedule: Schedule, grid: Torus, itemsize: int) -> Iterator[tuple[FloatArray, int]]:
    """Iterate over the bytes on each link and those of the longest message, round by round."""
    previous: tuple[bytes, ...] = ()
    loads = np.zeros(grid.n_links)
    for part in schedule.rounds():
        part = _messages(part)
        columns = (part.source, part.destination, part.length, part.heading)
        key = tuple(column.tobytes() for column in columns)
        if key != previous:  # the rounds of a ring algorithm are all equal
            previous = key
            loads = displacement_loads(
                grid, part.source, message_displacements(part, grid), itemsize * part.length
            )
        yield loads, itemsize * int(part.length.max(initial=0))


def busiest_link_bytes(schedule: Schedule, grid: Torus, itemsize: int) -> float:
    """Return the bytes on the busiest link, summed over all rounds."""
    total = np.zeros(grid.n_links)
    for loads in round_link_loads(schedule, grid, itemsize):
        total += loads
    return float(total.max(initial=0))


def synchronous_rounds_time(
    schedule: Schedule,
    grid: Torus,
    itemsize: int,
    latency: float,
    bandwidth: float,
    rendezvous: float = math.inf,
) -> float:
    """Return the seconds of a schedule in which each round waits for the one before.

    A round takes a latency and the time of its busiest link. For MPICH2's all-to-all on 512 nodes of
    BlueGene/L the result is 58.2 MB/s per node; 58.3 were measured.

    Parameters
    ----------
    schedule : Schedule
    grid : Torus
    itemsize : int
        Bytes of an element.
    latency : float
        Seconds of a message, from call to call.
    bandwidth : float
        Bandwidth of a link, in bytes per second.
    rendezvous : float
        Bytes above which a message uses the rendezvous protocol, which adds two latencies.
    """
    total = 0.0
    for loads, longest in _round_loads(schedule, grid, itemsize):
        total += latency * (3 if longest > rendezvous else 1) + float(loads.max(initial=0)) / bandwidth
    return total


def _messages(part: Round) -> Round:
    """Return the rows that use links; only the last row of a line, whose route passes all others."""
    part = part.take(part.is_message)
    return part.take(~part.is_passed)
