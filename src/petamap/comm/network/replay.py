"""Schedules as messages of the packet simulator."""

from __future__ import annotations

import numpy as np

from petamap.base.errors import ConfigError
from petamap.comm.network.packets import Messages
from petamap.comm.schedule import Schedule, displacements, flat_messages
from petamap.comm.topology import Torus


def packet_messages(schedule: Schedule, itemsize: int, grid: Torus, segment: int = 240) -> Messages:
    """Return the messages of a schedule, to be simulated on a grid whose node r is rank r.

    Messages that leave by a port are routed in order; streams are pipelined in segments. Lines of half a ring
    go upwards, so they need a policy whose `tie` is "plus".

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
        If the grid has other nodes, or a message goes the longer way round a ring: packets do not.
    """
    if grid.n_nodes != schedule.n_ranks:
        raise ConfigError(
            f"a schedule of {schedule.n_ranks} ranks on {grid.n_nodes} nodes", mend="give one node a rank"
        )
    flat = flat_messages(schedule, itemsize)
    links = np.abs(displacements(flat, grid)).sum(-1)
    longer = np.flatnonzero(links > grid.hops(flat.source, flat.destination))
    if len(longer):
        raise ConfigError(
            f"'{schedule.algorithm}' sends {links[longer[0]]} links along a ring, the longer way round",
            mend="make it with half_rings=True",
        )
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
        segment=segment,
    )
