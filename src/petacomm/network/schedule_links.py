"""Link loads of the rounds of a schedule on a network, and the time that they imply."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import FloatArray
from petacomm.network.link_load import Traffic, displacement_loads
from petacomm.network.routes import kernel_routes, routed_link_loads
from petacomm.schedule import Round, Schedule, message_displacements
from petacomm.topology import Network, Torus


def round_link_loads(
    schedule: Schedule, network: Network, itemsize: int, routing: str = "minimal"
) -> Iterator[FloatArray]:
    """Iterate over the bytes on each link, round by round.

    On a torus or mesh, messages are routed dimension by dimension, or straight in the direction of their
    heading; half a ring is routed upwards. A line is one message.

    Parameters
    ----------
    schedule : Schedule
    network : Network
        Network of the ranks; rank r is node r.
    itemsize : int
        Bytes of an element.
    routing : str
        On a network of switches, as in `routed_link_loads`.

    Yields
    ------
    float64 (network.n_links,)
    """
    for loads, _ in _round_loads(schedule, network, itemsize, routing):
        yield loads


def _round_loads(
    schedule: Schedule, network: Network, itemsize: int, routing: str
) -> Iterator[tuple[FloatArray, int]]:
    """Iterate over the bytes on each link and those of the longest message, round by round."""
    previous: tuple[bytes, ...] = ()
    loads = np.zeros(network.n_links)
    routes = None if isinstance(network, Torus) else kernel_routes(network)
    for part in schedule.rounds():
        part = _messages(part)
        columns = (part.source, part.destination, part.length, part.heading)
        key = tuple(column.tobytes() for column in columns)
        if key != previous:  # the rounds of a ring algorithm are all equal
            previous = key
            n_bytes = itemsize * part.length
            if isinstance(network, Torus):
                steps = message_displacements(part, network)
                loads = displacement_loads(network, part.source, steps, n_bytes)
            else:
                traffic = Traffic(part.source, part.destination, n_bytes)
                loads = routed_link_loads(network, traffic, routing, routes=routes)
        yield loads, itemsize * int(part.length.max(initial=0))


def total_link_loads(
    schedule: Schedule, network: Network, itemsize: int, routing: str = "minimal"
) -> FloatArray:
    """Return the bytes on each link, summed over all rounds: float64 (network.n_links,)."""
    total = np.zeros(network.n_links)
    for loads in round_link_loads(schedule, network, itemsize, routing):
        total += loads
    return total


def busiest_link_bytes(schedule: Schedule, network: Network, itemsize: int) -> float:
    """Return the bytes on the busiest link, summed over all rounds."""
    return float(total_link_loads(schedule, network, itemsize).max(initial=0))


def synchronous_rounds_time(
    schedule: Schedule,
    network: Network,
    itemsize: int,
    latency: float,
    bandwidth: float | FloatArray,
    rendezvous: float = math.inf,
    routing: str = "minimal",
) -> float:
    """Return the seconds of a schedule in which each round waits for the one before.

    A round takes a latency and the time of its busiest link, and no time if it only copies in memory. For
    MPICH2's all-to-all on 512 nodes of BlueGene/L the result is 58.2 MB/s per node; 58.3 were measured.

    Parameters
    ----------
    schedule : Schedule
    network : Network
    itemsize : int
        Bytes of an element.
    latency : float
        Seconds of a message, from call to call.
    bandwidth : float or float64 (n_links,)
        Bandwidth of each link, in bytes per second.
    rendezvous : float
        Bytes above which a message uses the rendezvous protocol, which adds two latencies.
    routing : str
        On a network of switches, as in `routed_link_loads`.
    """
    total = 0.0
    for loads, longest in _round_loads(schedule, network, itemsize, routing):
        if not longest:
            continue
        total += latency * (3 if longest > rendezvous else 1) + float((loads / bandwidth).max(initial=0))
    return total


def _messages(part: Round) -> Round:
    """Return the rows that use links; only the last row of a line, whose route passes all others."""
    part = part.take(part.is_message)
    return part.take(~part.is_passed)
