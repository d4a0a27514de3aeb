"""Hardware parameters of the packet simulator: links, buffers and processors of the nodes of a torus."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.units import parse_quantity
from petacomm.topology import Machine

# Numbers of the same table that other modules read.
_OTHER_NUMBERS = (
    "tree_latency",
    "tree_bandwidth",
    "tree_packet",
    "tree_overhead",
    "interrupt_latency",
    "double_cycles",
    "integer_combine_cycles",
    "rendezvous",
)


def _number(dimension: str | None) -> Any:
    """Return a field that is a number of that dimension in a machine's file; None: an integer, "": plain."""
    return field(metadata={"dimension": dimension})


@dataclass(frozen=True)
class Hardware:
    """Parameters of the nodes of a torus or mesh, in bytes, seconds, bytes per second, and clock cycles.

    Attributes
    ----------
    clock : float
        Clock frequency in Hz; a cycle is the time unit of the simulation.
    packet, payload, granule : int
        Bytes of the largest packet, bytes of its payload, and the unit of packet sizes. A smaller packet has
        its payload and the same header as the largest, rounded up to granules.
    link_bandwidth, raw_bandwidth : float
        Bandwidth of payload in full packets, and of the wire. A packet of b bytes occupies a link for
        (b + overhead) / raw_bandwidth, with the overhead for which full packets reach link_bandwidth.
    hop_latency : float
        Seconds until the header of a packet is at the next node.
    dynamic_channels, channel : int
        Number of adaptive virtual channels, and bytes of each, also of the escape channel.
    injection_fifos, injection_fifo, reception_fifo : int
        Number of injection FIFOs, bytes of each, and bytes of the reception FIFO of each link.
    read_cycles, write_cycles : float
        Cycles of the processor for a full packet, in proportion for a smaller one.
    packet_cycles, combine_cycles, message_cycles : float
        Additional cycles of the processor for each packet read or written and for each packet combined,
        whatever their size, and for each message begun.
    all_to_all_cycles, all_to_all_miss_cycles : float
        Cycles for each message of an all-to-all, instead of message_cycles; and additional ones for each
        doubling of the bytes that a node sends and receives beyond the size of its `cache`.
    cache : int
        Bytes of a processor's first-level cache.
    sources : mapping of str to str
        Source of each number, by its name.
    """

    clock: float = _number("frequency")
    packet: int = _number("bytes")
    payload: int = _number("bytes")
    granule: int = _number("bytes")
    link_bandwidth: float = _number("bandwidth")
    raw_bandwidth: float = _number("bandwidth")
    hop_latency: float = _number("time")
    dynamic_channels: int = _number(None)
    channel: int = _number("bytes")
    injection_fifos: int = _number(None)
    injection_fifo: int = _number("bytes")
    reception_fifo: int = _number("bytes")
    read_cycles: float = _number("")
    write_cycles: float = _number("")
    combine_cycles: float = _number("")
    packet_cycles: float = _number("")
    message_cycles: float = _number("")
    all_to_all_cycles: float = _number("")
    all_to_all_miss_cycles: float = _number("")
    cache: int = _number("bytes")
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
            # The bubble rule keeps room for one packet in the rings of the escape channel, besides the one in
            # it.
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
        """Bytes on the wire in addition to each packet."""
        return self.payload * self.raw_bandwidth / self.link_bandwidth - self.packet

    def alltoall_message_cycles(self, held: float) -> float:
        """Return the cycles per message of an all-to-all in which a node sends and receives `held` bytes."""
        doublings = math.log2(max(1.0, held / self.cache)) if self.cache else 0.0
        return self.all_to_all_cycles + self.all_to_all_miss_cycles * doublings

    def wire_time(self, payload: int) -> float:
        """Return the seconds for which a packet with `payload` bytes of payload occupies a link."""
        content = self.packet - self.payload + payload
        return (-(-content // self.granule) * self.granule + self.overhead) / self.raw_bandwidth


_NUMBERS = {item.name: item.metadata["dimension"] for item in fields(Hardware) if item.metadata}


def make_hardware(machine: Machine) -> Hardware:
    """Return the hardware parameters in the table `network` of a machine's file.

    Raises
    ------
    ConfigError
        If a number is missing or has a wrong unit.
    """
    numbers: dict[str, Any] = {key: _read_number(machine, key) for key in _NUMBERS}
    return Hardware(
        **numbers, sources={key: machine.network_sources.get(key, "not said") for key in _NUMBERS}
    )


def _read_number(machine: Machine, key: str) -> float | int:
    dimension = _NUMBERS[key]
    value = machine.network.get(key)
    if value is None:
        unknown = [
            other for other in machine.network if other not in _NUMBERS and other not in _OTHER_NUMBERS
        ]
        close = did_you_mean(key, unknown)
        hint = close if close and close.startswith("did") else f"write {key} = {_EXAMPLES.get(dimension, 2)}"
        raise ConfigError(f"machine '{machine.name}' has no 'network.{key}'", mend=hint)
    if dimension:
        if not isinstance(value, str):
            raise _wrong(machine, key, dimension)
        try:
            number = parse_quantity(value, dimension)
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
