"""The wires of BlueGene/L beside its torus: closed forms of the collective tree and the global interrupts."""

from __future__ import annotations

import math

from petacomm.base.errors import ConfigError
from petacomm.base.units import quantity
from petacomm.network.closed_forms import tree_time
from petacomm.network.hardware import Hardware
from petacomm.topology import Machine


def tree_seconds(machine: Machine, hardware: Hardware, n_bytes: int) -> float:
    """Return the seconds of a broadcast, a barrier or an all-reduce of integers on the tree.

    The processor writes the first packet, the tree takes `tree_time`, the processor reads the last packet.
    For these two it takes the cycles of packets of the torus with as much content.

    Raises
    ------
    ConfigError
        If the machine's file lacks a number of the tree.
    """
    numbers = [
        network_number(machine, key, dimension)
        for key, dimension in (
            ("tree_latency", "time"),
            ("tree_bandwidth", "bandwidth"),
            ("tree_packet", "bytes"),
            ("tree_overhead", "bytes"),
        )
    ]
    latency, bandwidth, payload, header = numbers
    content = min(n_bytes, payload) / payload
    cycles = (hardware.read_cycles + hardware.write_cycles) * content + 2 * hardware.packet_cycles
    software = (cycles + hardware.message_cycles) / hardware.clock
    return software + tree_time(n_bytes, latency, bandwidth, payload, header)


def tree_doubles_seconds(machine: Machine, hardware: Hardware, n_bytes: int) -> float:
    """Return the least seconds of an all-reduce of doubles on the tree, by the two-phase method.

    Almasi et al. 2005, section 5.2: 2 bytes for the exponent of each double go through the tree, then 12 for
    its aligned mantissa. The processor takes the doubles apart, puts them together again, and reads and
    writes packets meanwhile.
    """
    n_doubles = n_bytes // 8
    wire = sum(tree_seconds(machine, hardware, n * n_doubles) for n in (2, 12))
    cycles = network_number(machine, "double_cycles", "")
    cycles += (2 + 12) * (hardware.read_cycles + hardware.write_cycles) / hardware.payload
    return max(wire, n_doubles * cycles / hardware.clock)


def interrupt_seconds(machine: Machine, n_nodes: int) -> float:
    """Return the seconds of a barrier on the interrupt wires.

    That of the full system, in proportion to the levels of a binary tree of the nodes: an assumption, for the
    wires are an OR of all nodes, and the source gives the full system's alone.
    """
    full = network_number(machine, "interrupt_latency", "time")
    return full * min(1.0, max(1.0, math.log2(n_nodes)) / math.log2(max(2, machine.nodes)))


def network_number(machine: Machine, key: str, dimension: str) -> float:
    """Return a number with a unit, or a plain one if `dimension` is empty, of the table `network`.

    Raises
    ------
    ConfigError
        If it is missing or has another unit.
    """
    value = machine.network.get(key)
    if value is None:
        raise ConfigError(f"machine '{machine.name}' has no 'network.{key}'", mend="add it to the file")
    try:
        number = quantity(value, dimension) if dimension else float(value)
    except (ConfigError, TypeError, ValueError) as error:
        what = error.what if isinstance(error, ConfigError) else f"{value!r} is no number"
        raise ConfigError(f"'network.{key}' of machine '{machine.name}': {what}", mend=None) from None
    return number
