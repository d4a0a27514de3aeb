"""Conversion of schedules to messages of the packet simulator."""

from __future__ import annotations

from petacomm.base.errors import ConfigError
from petacomm.network.packet_messages import PacketMessages
from petacomm.schedule import Schedule, flat_messages
from petacomm.topology import Network


def packet_messages(
    schedule: Schedule, itemsize: int, network: Network, segment: int = 240
) -> PacketMessages:
    """Return the messages of a schedule for a simulation on a network whose node r is rank r.

    Messages with a heading are routed straight and in order; streams are pipelined in segments.

    Parameters
    ----------
    schedule : Schedule
        Not segmented: the simulator does that.
    itemsize : int
        Bytes of an element.
    network : Network
    segment : int
        Bytes of a segment.

    Raises
    ------
    ConfigError
        If the network does not have one node per rank.
    """
    if network.n_nodes != schedule.n_ranks:
        raise ConfigError(
            f"a schedule of {schedule.n_ranks} ranks on {network.n_nodes} nodes", mend="give one node a rank"
        )
    flat = flat_messages(schedule, itemsize)
    return PacketMessages(
        flat.source,
        flat.destination,
        flat.bytes,
        flat.after_first,
        flat.after,
        line=flat.deposit,
        combine=flat.combines,
        in_order=flat.heading >= 0,
        pipelined=flat.pipelined,
        heading=flat.heading,
        segment=segment,
    )
