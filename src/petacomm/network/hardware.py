"""What the packet simulator must know of a machine: links, buffers and processors of the nodes of a torus."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.units import quantity
from petacomm.topology import Machine

# Of each number of a file: its dimension (None: a whole number; "" a number).
_NUMBERS: dict[str, str | None] = {
    "clock": "frequency",
    "packet": "bytes",
    "payload": "bytes",
    "granule": "bytes",
    "link_bandwidth": "bandwidth",
    "raw_bandwidth": "bandwidth",
    "hop_latency": "time",
    "dynamic_channels": None,
    "channel": "bytes",
    "injection_fifos": None,
    "injection_fifo": "bytes",
    "reception_fifo": "bytes",
    "read_cycles": "",
    "write_cycles": "",
    "combine_cycles": "",
    "packet_cycles": "",
    "message_cycles": "",
    "all_to_all_cycles": "",
    "all_to_all_miss_cycles": "",
    "cache": "bytes",
}


# Numbers of the same table that others read.
_OF_OTHERS = (
    "tree_latency",
    "tree_bandwidth",
    "tree_packet",
    "tree_overhead",
    "interrupt_latency",
    "double_cycles",
    "integer_combine_cycles",
    "rendezvous",
)


@dataclass(frozen=True)
class Hardware:
    """The nodes of a torus or mesh, in bytes, seconds, bytes a second, and cycles of their clock.

    Attributes
    ----------
    clock : float
        Cycles a second; the tick of the simulation.
    packet, payload, granule : int
        Bytes of the largest packet, what it carries, and what sizes of packets are multiples of. A smaller
        packet has its content and as many bytes more as the largest, rounded up to granules.
    link_bandwidth, raw_bandwidth : float
        Of payload in full packets, and of the wire. A packet of b bytes holds a link for
        (b + overhead) / raw_bandwidth, the overhead being what makes full packets reach link_bandwidth.
    hop_latency : float
        Seconds until the header of a packet is at the next node.
    dynamic_channels, channel : int
        Adaptive virtual channels, and bytes of each; the escape channel has as many.
    injection_fifos, injection_fifo, reception_fifo : int
        FIFOs into which a processor writes, bytes of each, and of the FIFO of each link from which it reads.
    read_cycles, write_cycles : float
        Of the processor for a full packet, less in proportion for a smaller one.
    packet_cycles, combine_cycles, message_cycles : float
        Of the processor for every packet read or written on top, for every packet that it combines, whatever
        their size, and for every message begun.
    all_to_all_cycles, all_to_all_miss_cycles : float
        Of the all-to-all for each message, instead of message_cycles; and on top for each doubling of what a
        node sends and receives beyond what its `cache` holds.
    cache : int
        Bytes of a processor's first cache.
    sources : mapping of str to str
    """

    clock: float
    packet: int
    payload: int
    granule: int
    link_bandwidth: float
    raw_bandwidth: float
    hop_latency: float
    dynamic_channels: int
    channel: int
    injection_fifos: int
    injection_fifo: int
    reception_fifo: int
    read_cycles: float
    write_cycles: float
    combine_cycles: float
    packet_cycles: float
    message_cycles: float
    all_to_all_cycles: float
    all_to_all_miss_cycles: float
    cache: int
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "sources" and not 0 <= value < float("inf"):
                raise ConfigError(
                    f"'{name}' of the hardware is {value}", mend="give a number that is not negative"
                )
        smallest = self.packet - self.payload
        if not 0 < smallest <= self.granule <= self.packet or self.packet % self.granule:
            raise ConfigError(
                f"packets of {self.packet} bytes, {self.payload} of payload, in granules of {self.granule}",
                mend="packet must be a multiple of granule, and packet - payload no more than one",
            )
        if min(self.channel, self.injection_fifo, self.reception_fifo) < 2 * self.packet:
            # Two packets in the escape channel: the room of one keeps its rings turning.
            raise ConfigError("a channel or FIFO holds less than two packets", mend="give 512 bytes or more")
        if not 1 <= self.dynamic_channels <= 4 or not 1 <= self.injection_fifos <= 8:
            raise ConfigError(
                f"{self.dynamic_channels} dynamic channels and {self.injection_fifos} injection FIFOs",
                mend="give 1 to 4 channels and 1 to 8 FIFOs",
            )
        if self.overhead < 0:
            raise ConfigError("link_bandwidth is more than raw_bandwidth allows", mend="lower it")

    @property
    def overhead(self) -> float:
        """Bytes on the wire that come on top of each packet."""
        return self.payload * self.raw_bandwidth / self.link_bandwidth - self.packet

    def visit_cycles(self, held: float) -> float:
        """Return the cycles of each message of an all-to-all whose nodes send and receive `held` bytes."""
        doublings = math.log2(max(1.0, held / self.cache)) if self.cache else 0.0
        return self.all_to_all_cycles + self.all_to_all_miss_cycles * doublings

    def wire_time(self, payload: int) -> float:
        """Return the seconds that one packet of so many bytes of payload holds a link."""
        content = self.packet - self.payload + payload
        return (-(-content // self.granule) * self.granule + self.overhead) / self.raw_bandwidth


def hardware_of(machine: Machine) -> Hardware:
    """Return what the table `network` of a machine's file says of nodes and links.

    Raises
    ------
    ConfigError
        If a number is missing or has another unit.
    """
    numbers: dict[str, Any] = {key: _number(machine, key) for key in _NUMBERS}
    return Hardware(
        **numbers, sources={key: machine.network_sources.get(key, "not said") for key in _NUMBERS}
    )


def _number(machine: Machine, key: str) -> float | int:
    dimension = _NUMBERS[key]
    value = machine.network.get(key)
    if value is None:
        unknown = [other for other in machine.network if other not in _NUMBERS and other not in _OF_OTHERS]
        close = did_you_mean(key, unknown)
        hint = close if close and close.startswith("did") else f"write {key} = {_EXAMPLES.get(dimension, 2)}"
        raise ConfigError(f"machine '{machine.name}' has no 'network.{key}'", mend=hint)
    if dimension:
        if not isinstance(value, str):
            raise _wrong(machine, key, dimension)
        try:
            number = quantity(value, dimension)
        except ConfigError as error:
            raise ConfigError(
                f"'network.{key}' of machine '{machine.name}': {error.what}", mend=error.mend
            ) from None
        return round(number) if dimension == "bytes" else number
    if isinstance(value, bool) or not isinstance(value, int if dimension is None else int | float):
        raise _wrong(machine, key, dimension)
    return value


_EXAMPLES: dict[str | None, str] = {
    "time": '"70 ns"',
    "bandwidth": '"154 MB/s"',
    "bytes": '"256 B"',
    "frequency": '"700 MHz"',
}


def _wrong(machine: Machine, key: str, dimension: str | None) -> ConfigError:
    return ConfigError(
        f"'network.{key}' of machine '{machine.name}' must be a number{' with a unit' if dimension else ''}",
        mend=f"write {key} = {_EXAMPLES.get(dimension, '2')}",
    )
