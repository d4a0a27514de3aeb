"""Simulation of a torus or mesh packet by packet.

Each node has a router and a processor. A packet is forwarded as soon as its header has arrived and the next
link and a buffer at its far end are free (virtual cut-through). Adaptive packets take any link that brings
them nearer, through dynamic channels, and if these are full the escape channel, in the order of the
dimensions; packets in order use only the escape channel. The rings of escape channels always keep room for
one more packet (bubble), which excludes deadlock. Time is in cycles of the machine's clock; see
docs/petacomm/networks.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_instance, require_integer
from petacomm.base.errors import ConfigError, require_known
from petacomm.network._network import TorusHardware, simulate_all_to_all, simulate_messages
from petacomm.network.hardware import Hardware
from petacomm.network.link_load import values_by_link
from petacomm.network.packet_messages import (
    DEPOSIT,
    PacketMessages,
    SimulationResult,
    all_to_all_columns,
    message_columns,
    message_dependencies,
    refuse_messages,
    run_kernel,
)
from petacomm.schedule import Round, message_displacements
from petacomm.topology import Torus

Arbitration: TypeAlias = Literal["round-robin", "longest-queue", "farthest"]
Tie: TypeAlias = Literal["plus", "parity", "random"]
# The kernel counts hops in eight bits.
_MAX_LINE, _MAX_RING, _MAX_STEPS = 128, 254, 127


@dataclass(frozen=True)
class RouterPolicy:
    """Arbitration and buffer policies of routers and processors.

    Attributes
    ----------
    arbitration : str
        Packet that takes a free link: ``round-robin`` over the queues that request it; that of the
        ``longest-queue``; the one with the ``farthest`` distance to go in a dimension.
    transit_first : bool
        Whether packets in transit have priority over packets that the node injects.
    injection_room : int
        Number of full packets for which an injected packet must leave room in the channel that it enters.
    fifo : str
        FIFO into which a processor writes: the ``emptiest``, or that of the longest ``direction``.
    tie : str
        Direction of a packet over half a ring: ``plus``, by ``parity`` of the source's coordinate, or at
        ``random``.
    early_release : bool
        Whether the buffer of a packet is released when it begins to leave, as by tokens for each granule;
        else when it has left.
    """

    arbitration: Arbitration = "round-robin"
    transit_first: bool = True
    injection_room: int = 0
    fifo: str = "emptiest"
    tie: Tie = "random"
    early_release: bool = True

    def __post_init__(self) -> None:
        require_known("unknown arbitration", self.arbitration, get_args(Arbitration))
        require_known("unknown fifo", self.fifo, ["emptiest", "direction"])
        require_known("unknown tie", self.tie, get_args(Tie))


POLICIES = {
    "transit-first": RouterPolicy(),
    "fair": RouterPolicy(transit_first=False),
    "longest-queue": RouterPolicy(arbitration="longest-queue"),
    "throttled": RouterPolicy(injection_room=1),
    "farthest": RouterPolicy(arbitration="farthest"),
    "late-release": RouterPolicy(early_release=False),
}


class PacketSimulator:
    """Packet simulator of one torus or mesh.

    Parameters
    ----------
    grid : Torus
        At most 128 nodes in a dimension, 254 in a ring.
    hardware : Hardware
    policy : RouterPolicy or str
        A policy, or the name of one of `POLICIES`.
    seed : int
        Seed of all random numbers; the same seed gives the same run.

    Raises
    ------
    ConfigError
        If a dimension is too long, the policy is unknown, or packets do not fit the buffers.

    Examples
    --------
    >>> import petacomm
    >>> from petacomm.network import make_hardware
    >>> hardware = make_hardware(petacomm.load_machine("bluegene-l"))
    >>> simulator = petacomm.PacketSimulator(petacomm.Torus((4, 4, 2), False), hardware)
    >>> simulator.simulate_all_to_all(240).seconds > 0
    True
    """

    def __init__(
        self, grid: Torus, hardware: Hardware, policy: RouterPolicy | str = "transit-first", seed: int = 1
    ) -> None:
        require_instance(grid, "grid", Torus, "of switches there is SwitchSimulator")
        require_instance(hardware, "hardware", Hardware, "give make_hardware(load_machine('bluegene-l'))")
        if isinstance(policy, str):
            require_known("unknown policy", policy, POLICIES)
            policy = POLICIES[policy]
        if not isinstance(policy, RouterPolicy):
            raise ConfigError(f"a {type(policy).__name__} is no policy", mend=f"one of {', '.join(POLICIES)}")
        for size, ring in zip(grid.shape, grid.wrap, strict=True):
            longest = _MAX_RING if ring else _MAX_LINE
            if size > longest:
                raise ConfigError(
                    f"{size} nodes in a dimension of {grid}", mend=f"simulate {longest} at most"
                )
        self.grid = grid
        self.hardware = hardware
        self.policy = policy
        self.seed = require_integer(seed, "seed", 0)
        _check_room(hardware, policy)

    def simulate_all_to_all(
        self, n_bytes: int | npt.ArrayLike, packets_per_visit: int = 2
    ) -> SimulationResult:
        """Simulate the randomized all-to-all (Almasi et al. 2005, section 3.1).

        All nodes go through the same seeded permutation of the nodes, each from another position, and send
        `packets_per_visit` packets to each destination in turn. Finished destinations leave the list.

        Parameters
        ----------
        n_bytes : int or int (n_nodes, n_nodes)
            Bytes from each node to each other one, or from each node (row) to each (column); the diagonal is
            ignored.
        packets_per_visit : int

        Returns
        -------
        SimulationResult

        Raises
        ------
        ConfigError
            If there is nothing to send, a number is negative, or the matrix is not square.
        """
        n = self.grid.n_nodes
        columns = all_to_all_columns(n_bytes, packets_per_visit, n, self.seed)
        held = 2 * n * float(np.mean(np.asarray(n_bytes, np.float64)))
        hardware = replace(self.hardware, message_cycles=self.hardware.alltoall_message_cycles(held))
        return self._run(hardware, simulate_all_to_all, columns)

    def simulate(self, messages: PacketMessages) -> SimulationResult:
        """Simulate a list of messages.

        Parameters
        ----------
        messages : PacketMessages

        Returns
        -------
        SimulationResult

        Raises
        ------
        ConfigError
            If an array has a wrong length, a node is not in the grid, a message is sent to its own source, a
            line or a message with a heading is not straight, or the dependencies are cyclic or of messages
            that the source does not receive.
        """
        require_instance(messages, "messages", PacketMessages)
        columns = (*_checked(self.grid, messages), int(messages.segment))
        return self._run(self.hardware, simulate_messages, columns)

    def _run(self, hardware: Hardware, kernel: Any, columns: Sequence[Any]) -> SimulationResult:
        n, shape = self.grid.n_nodes, (self.grid.n_nodes, self.grid.n_dimensions, 2)
        made = _kernel_hardware(self.grid, hardware, self.policy)
        run = run_kernel(kernel, made, columns, self.seed, n, math.prod(shape), 1 / self.hardware.clock)
        link_packets, link_bytes = (
            # By node, dimension and direction.
            values_by_link(self.grid, np.moveaxis(table.reshape(shape), 0, -1))
            for table in (run.link_packets, run.link_bytes)
        )
        return replace(run, link_packets=link_packets, link_bytes=link_bytes)


def _kernel_hardware(grid: Torus, hardware: Hardware, policy: RouterPolicy) -> Any:
    made = TorusHardware(list(grid.shape), list(grid.wrap))
    ticks = hardware.clock
    made.granule = hardware.granule
    made.header = hardware.packet - hardware.payload
    made.payload = hardware.payload
    made.packet = hardware.packet // hardware.granule
    made.granule_ticks = hardware.granule / hardware.raw_bandwidth * ticks
    made.overhead_ticks = hardware.overhead / hardware.raw_bandwidth * ticks
    made.hop_ticks = max(1, round(hardware.hop_latency * ticks))
    made.channels = hardware.dynamic_channels
    made.channel = hardware.channel // hardware.granule
    made.injection_fifos = hardware.injection_fifos
    made.injection_fifo = hardware.injection_fifo // hardware.granule
    made.reception_fifo = hardware.reception_fifo // hardware.granule
    made.read_ticks = hardware.read_cycles
    made.write_ticks = hardware.write_cycles
    made.combine_ticks = hardware.combine_cycles
    made.packet_ticks = hardware.packet_cycles
    made.message_ticks = round(hardware.message_cycles)
    made.injection_room = policy.injection_room * made.packet
    made.transit_first = policy.transit_first
    made.fifo_by_direction = policy.fifo == "direction"
    made.early_release = policy.early_release
    made.arbitration = policy.arbitration
    made.tie = policy.tie
    return made


def _check_room(hardware: Hardware, policy: RouterPolicy) -> None:
    if not 0 <= policy.injection_room < hardware.channel // hardware.packet:
        raise ConfigError(
            f"injected packets leave room for {policy.injection_room} more",
            mend="give less than a channel holds",
        )


def _checked(grid: Torus, messages: PacketMessages) -> Sequence[Any]:
    """Return the arguments of the kernel; raise a ConfigError if the messages are invalid."""
    columns = message_columns(messages, grid.n_nodes, 2 * grid.n_dimensions)
    source, destination, _, flags, heading = columns
    n = len(source)
    part = (
        Round.from_columns(source, destination, 0, 0, heading=heading)
        if n
        else Round.from_columns([], [], [], [])
    )
    steps = message_displacements(part, grid)
    deposit, straight = flags & DEPOSIT > 0, (steps != 0).sum(-1) == 1
    refuse_messages(deposit & ~straight, "it goes to a line that is not straight")
    ahead = np.sign(np.take_along_axis(steps, np.maximum(heading[:, None] // 2, 0), 1)[:, 0])
    refuse_messages(
        (heading >= 0) & (~straight | (ahead != 1 - 2 * (heading % 2))), "it does not lie straight ahead"
    )
    refuse_messages((np.abs(steps) > _MAX_STEPS).any(-1), f"it goes more than {_MAX_STEPS} links straight on")
    receivers = np.where(deposit, np.abs(steps).sum(-1), 1).astype(np.int32)
    return *columns, receivers, *message_dependencies(messages, n)
