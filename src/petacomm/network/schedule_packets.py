"""Schedules as messages of the packet simulator."""

from __future__ import annotations

from petacomm.base.errors import ConfigError
from petacomm.network.packets import Messages
from petacomm.schedule import Schedule, flat_messages
from petacomm.topology import Torus


def packet_messages(schedule: Schedule, itemsize: int, grid: Torus, segment: int = 240) -> Messages:
    """Return the messages of a schedule, to be simulated on a grid whose node r is rank r.

    Messages that leave by a port go straight on and in order; streams are pipelined in segments.

    Parameters
    ----------
    schedule : Schedule
        Not cut into segments: the simulator does that.
    itemsize : int
        Bytes of an element.
    grid : Torus
    segment : int
        Bytes.

    Raises
    ------
    ConfigError
        If the grid has other nodes.
    """
    if grid.n_nodes != schedule.n_ranks:
        raise ConfigError(
            f"a schedule of {schedule.n_ranks} ranks on {grid.n_nodes} nodes", mend="give one node a rank"
        )
    flat = flat_messages(schedule, itemsize)
    return Messages(
        flat.source,
        flat.destination,
        flat.bytes,
        flat.after_first,
        flat.after,
        line=flat.to_line,
        combine=flat.combines,
        in_order=flat.heading >= 0,
        pipelined=flat.pipelined,
        heading=flat.heading,
        segment=segment,
    )
