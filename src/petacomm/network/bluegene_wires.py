"""Closed forms of BlueGene/L's networks besides the torus: the collective tree and the global interrupts."""

from __future__ import annotations

import math

from petacomm.base.errors import ConfigError
from petacomm.base.units import parse_quantity
from petacomm.network.closed_forms import tree_time
from petacomm.network.hardware import Hardware
from petacomm.topology import Machine


def tree_seconds(machine: Machine, hardware: Hardware, n_bytes: int) -> float:
    """Return the seconds of a broadcast, a barrier or an all-reduce of integers on the tree.

    The processor writes the first packet, the tree takes `tree_time`, the processor reads the last packet.
    The processor's cycles are those of torus packets with the same payload.

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
    """Return a lower bound of the seconds of an all-reduce of doubles on the tree, by the two-phase method.

    Almasi et al. 2005, section 5.2: 2 bytes for the exponent of each double are sent through the tree, then
    12 for its aligned mantissa. At the same time the processor splits the doubles, reassembles them, and
    reads and writes packets.
    """
    n_doubles = n_bytes // 8
    wire = sum(tree_seconds(machine, hardware, n * n_doubles) for n in (2, 12))
    cycles = network_number(machine, "double_cycles", "")
    cycles += (2 + 12) * (hardware.read_cycles + hardware.write_cycles) / hardware.payload
    return max(wire, n_doubles * cycles / hardware.clock)


def interrupt_seconds(machine: Machine, n_nodes: int) -> float:
    """Return the seconds of a barrier on the global interrupt wires.

    The source gives the time of the full system only; that of fewer nodes is assumed to be proportional to
    the levels of a binary tree of the nodes.
    """
    full = network_number(machine, "interrupt_latency", "time")
    return full * min(1.0, max(1.0, math.log2(n_nodes)) / math.log2(max(2, machine.nodes)))


def network_number(machine: Machine, key: str, dimension: str) -> float:
    """Return a number of a machine's table `network`, in SI units and bytes.

    Parameters
    ----------
    machine : Machine
    key, dimension : str
        Name of the number, and dimension of its unit; empty for a plain number.

    Raises
    ------
    ConfigError
        If it is missing or has a wrong unit.
    """
    value = machine.network.get(key)
    if value is None:
        raise ConfigError(f"machine '{machine.name}' has no 'network.{key}'", mend="add it to the file")
    try:
        number = parse_quantity(value, dimension) if dimension else float(value)
    except (ConfigError, TypeError, ValueError) as error:
        what = error.what if isinstance(error, ConfigError) else f"{value!r} is no number"
        raise ConfigError(f"'network.{key}' of machine '{machine.name}': {what}", mend=None) from None
    return number
