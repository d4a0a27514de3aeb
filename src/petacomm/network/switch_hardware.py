"""Hardware parameters of the packet simulator of networks of switches."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from petacomm.base.errors import ConfigError
from petacomm.network.bluegene_wires import network_number
from petacomm.topology import Machine

_LARGEST_PACKET = 255  # granules, which the kernel counts in eight bits


@dataclass(frozen=True)
class SwitchHardware:
    """Parameters of links, buffers and nodes, in bytes, seconds and bytes per second.

    Attributes
    ----------
    packet, payload, granule : int
        Bytes of the largest packet, bytes of its payload, and the unit of packet sizes. A smaller packet has
        its payload and the same header as the largest, rounded up to granules.
    level_bandwidths : tuple of float
        Bandwidth of the links of each level of the network, in payload of full packets; one for all levels,
        or one for each. A smaller packet takes its part of the time of a full one.
    node_bandwidth : float
        The same of the links between nodes and their switches, where these are not a level of the network.
    hop_latency : float
        Seconds until the header of a packet is at the next switch and has been routed there.
    channel : int
        Bytes of the buffer of each virtual channel at the end of each link.
    message_time : float
        Seconds in which a node begins a message.
    message_bandwidth : float
        Largest bandwidth of one message, e.g. of one of several cards of a node.
    """

    packet: int
    payload: int
    granule: int
    level_bandwidths: tuple[float, ...]
    node_bandwidth: float
    hop_latency: float
    channel: int
    message_time: float = 0.0
    message_bandwidth: float = math.inf

    def __post_init__(self) -> None:
        for name in ("packet", "payload", "granule", "channel", "node_bandwidth", "hop_latency"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ConfigError(f"'{name}' of the hardware is {value}", mend="give more than 0")
        if not self.level_bandwidths or not all(0 < one < float("inf") for one in self.level_bandwidths):
            what = f"bandwidths {self.level_bandwidths} of links"
            raise ConfigError(what, mend="give one above 0 for each level")
        if not 0 <= self.message_time < float("inf"):
            raise ConfigError(f"'message_time' of the hardware is {self.message_time}", mend="give 0 or more")
        if not self.message_bandwidth > 0:
            what = f"'message_bandwidth' of the hardware is {self.message_bandwidth}"
            raise ConfigError(what, mend="give more than 0")
        if not 0 <= self.packet - self.payload <= self.granule or self.packet % self.granule:
            raise ConfigError(
                f"packets of {self.packet} bytes, {self.payload} of payload, in granules of {self.granule}",
                mend="packet must be a multiple of granule, and packet - payload no more than one",
            )
        if self.packet > _LARGEST_PACKET * self.granule:
            least = -(-self.packet // _LARGEST_PACKET)
            what = f"packets of {self.packet // self.granule} granules"
            raise ConfigError(what, mend=f"give a granule of {least} bytes or more")
        if self.channel < self.packet:
            raise ConfigError("a channel holds less than a packet", mend=f"give {self.packet} bytes or more")

    def bandwidth(self, level: int) -> float:
        """Return the bandwidth of the links of a level; of level -1, those between nodes and switches."""
        if level < 0:
            return self.node_bandwidth
        return self.level_bandwidths[level if len(self.level_bandwidths) > 1 else 0]


def make_switch_hardware(machine: Machine) -> SwitchHardware:
    """Return the hardware parameters in the table `network` of the file of a machine with switches.

    Its `link_bandwidth` is that of all links, or `level_bandwidths` has those of each level; `message_time`
    is 0 if it is missing. No message is faster than the machine's `bandwidth`.

    Raises
    ------
    ConfigError
        If a number is missing or has a wrong unit.
    """
    levels = machine.network.get("level_bandwidths")
    if isinstance(levels, list):
        parts = [dataclasses.replace(machine, network={"level_bandwidths": one}) for one in levels]
        bandwidths = tuple(network_number(part, "level_bandwidths", "bandwidth") for part in parts)
    else:
        bandwidths = (network_number(machine, "link_bandwidth", "bandwidth"),)
    packet, payload, granule, channel = (
        round(network_number(machine, name, "bytes")) for name in ("packet", "payload", "granule", "channel")
    )
    return SwitchHardware(
        packet,
        payload,
        granule,
        bandwidths,
        machine.node_bandwidth,
        network_number(machine, "hop_latency", "time"),
        channel,
        network_number(machine, "message_time", "time") if "message_time" in machine.network else 0.0,
        machine.bandwidth,
    )
