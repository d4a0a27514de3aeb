"""Simulation of a torus or mesh packet by packet.

Each node has a router and a processor. A packet is forwarded as soon as its header has arrived and the next
link and a buffer at its far end are free (virtual cut-through). Adaptive packets take any link that brings
them nearer, through dynamic channels, and if these are full the escape channel, in the order of the
dimensions; packets in order use only the escape channel. The rings of escape channels always keep room for
one more packet (bubble), which excludes deadlock. Time is in cycles of the machine's clock; see
docs/petacomm/networks.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_integer
from petacomm.base.errors import ConfigError, require_known
from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array, UInt8Array
from petacomm.network._network import TorusHardware, simulate_all_to_all, simulate_messages
from petacomm.network.hardware import Hardware
from petacomm.network.link_load import values_by_link
from petacomm.schedule import Round, message_displacements
from petacomm.topology import Torus

_DEPOSIT, _COMBINES, _IN_ORDER, _PIPELINED = 1, 2, 4, 8
Arbitration: TypeAlias = Literal["round-robin", "longest-queue", "farthest"]
Tie: TypeAlias = Literal["plus", "parity", "random"]
# The kernel counts hops in eight bits.
_MAX_LINE, _MAX_RING, _MAX_STEPS = 128, 254, 127
_LARGEST_MESSAGE = 2**40


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


@dataclass(frozen=True)
class PacketMessages:
    """Messages between nodes, and their dependencies.

    Attributes
    ----------
    source, destination : int (n,)
        Nodes; never equal.
    n_bytes : int (n,)
        Bytes of payload. A message without payload is one empty packet.
    after_first : int (n + 1,), after : int
        Message i may start when its source has received the messages
        ``after[after_first[i]:after_first[i + 1]]``. By default no message waits.
    line, combine, in_order, pipelined : bool (n,) or bool
        Whether all nodes on the straight line from source to destination receive the message (deposit bit);
        whether receivers combine it with their own data; whether it is routed dimension by dimension and
        arrives in order; whether its segment s waits only for segment s of the messages on which it depends.
    heading : int (n,) or int
        Port by which the message leaves and direction that it keeps, even along the longer arc of a ring:
        2 x dimension + (1 if downwards). -1: a shortest route.
    segment : int
        Bytes of a segment, rounded up to full packets.
    """

    source: npt.ArrayLike
    destination: npt.ArrayLike
    n_bytes: npt.ArrayLike
    after_first: npt.ArrayLike | None = None
    after: npt.ArrayLike = ()
    line: npt.ArrayLike = False
    combine: npt.ArrayLike = False
    in_order: npt.ArrayLike = False
    pipelined: npt.ArrayLike = False
    heading: npt.ArrayLike = -1
    segment: int = 240


@dataclass(frozen=True)
class SimulationResult:
    """Times and counts of a packet simulation.

    Attributes
    ----------
    seconds : float
        Simulated time until the last processor has finished.
    node_seconds : float64 (n_nodes,)
        Simulated time until each processor has written and read its last packet.
    link_bytes, link_packets : int64 (n_links,)
        Bytes of packets, including headers, and packets on each link.
    packets, copies, hops, escapes, events : int
        Number of packets sent, of copies made by the deposit bit, of hops, of hops by the escape channel, and
        of events.
    most_in_flight, memory : int
        Maximum number of packets in flight, and bytes of memory of packets, queues and links.
    wall_seconds : float
        Wall time of the simulation.
    """

    seconds: float
    node_seconds: FloatArray
    link_bytes: Int64Array
    link_packets: Int64Array
    packets: int
    copies: int
    hops: int
    escapes: int
    events: int
    most_in_flight: int
    memory: int
    wall_seconds: float


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
        self.seed = require_integer(seed, "seed", -(2**63))
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
        matrix = None if np.ndim(n_bytes) == 0 else np.ascontiguousarray(n_bytes, np.int64)
        least = int(np.min(n_bytes))
        if least < 0 or (matrix is None and least == 0) or int(np.max(n_bytes)) > _LARGEST_MESSAGE:
            raise ConfigError(f"an all-to-all of {least} bytes", mend="give 1 or more, up to 1 TiB")
        if matrix is not None and matrix.shape != (n, n):
            raise ConfigError(
                f"bytes of shape {matrix.shape}", mend=f"give ({n}, {n}): from each node to each"
            )
        if packets_per_visit < 1:
            raise ConfigError(f"{packets_per_visit} packets a visit", mend="give 1 or more")
        order = np.random.default_rng(self.seed).permutation(n).astype(np.int32)
        first = 0 if matrix is not None else int(np.asarray(n_bytes))
        held = 2 * n * float(np.mean(np.asarray(n_bytes, np.float64)))
        hardware = replace(self.hardware, message_cycles=self.hardware.alltoall_message_cycles(held))
        return self._run(hardware, simulate_all_to_all, order, first, matrix, packets_per_visit)

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
        arrays = _checked(self.grid, messages)
        if messages.segment < 1:
            raise ConfigError(f"segments of {messages.segment} bytes", mend="give 1 or more")
        return self._run(self.hardware, simulate_messages, *arrays, int(messages.segment))

    def _run(self, hardware: Hardware, kernel: Any, *arguments: Any) -> SimulationResult:
        n = self.grid.n_nodes
        finish = np.zeros(n, np.int64)
        # By node, dimension and direction.
        tables = [np.zeros((n, self.grid.n_dimensions, 2), np.int64) for _ in range(2)]
        start = time.perf_counter()
        counts = kernel(
            _kernel_hardware(self.grid, hardware, self.policy),
            *arguments,
            self.seed % 2**63,
            finish,
            *(table.ravel() for table in tables),
        )
        wall = time.perf_counter() - start
        if counts["in_flight"]:
            raise AssertionError(f"{counts['in_flight']} packets never came: the simulator has deadlocked")
        if counts.get("waiting"):
            raise ConfigError(
                f"{counts['waiting']} messages wait for ever, message {counts['first_waiting']} first",
                mend="let no message wait for one that its source does not receive, or that waits for it",
            )
        tick = 1 / self.hardware.clock
        link_packets, link_bytes = (values_by_link(self.grid, np.moveaxis(table, 0, -1)) for table in tables)
        kept = ("packets", "copies", "hops", "escapes", "events", "most_in_flight", "memory")
        return SimulationResult(
            seconds=float(finish.max(initial=0)) * tick,
            node_seconds=finish.astype(np.float64) * tick,
            link_bytes=link_bytes,
            link_packets=link_packets,
            wall_seconds=wall,
            **{key: counts[key] for key in kept},
        )


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
    source = np.ascontiguousarray(messages.source, np.int32).ravel()
    destination = np.ascontiguousarray(messages.destination, np.int32).ravel()
    n_bytes = np.ascontiguousarray(messages.n_bytes, np.int64).ravel()
    n = len(source)
    if len(destination) != n or len(n_bytes) != n:
        raise ConfigError(
            f"{len(destination)} destinations, {len(n_bytes)} sizes, {n} sources", mend="give n each"
        )
    for name, nodes in (("source", source), ("destination", destination)):
        outside: BoolArray = (nodes < 0) | (nodes >= grid.n_nodes)
        _refuse(outside, f"its {name} is not one of {grid.n_nodes} nodes")
    _refuse(source == destination, "it goes from a node to itself")
    _refuse((n_bytes < 0) | (n_bytes > _LARGEST_MESSAGE), "its bytes are negative or more than 1 TiB")
    flags, heading = _flags(messages, n), _heading(grid, messages, n)
    part = (
        Round.from_columns(source, destination, 0, 0, heading=heading)
        if n
        else Round.from_columns([], [], [], [])
    )
    steps = message_displacements(part, grid)
    deposit, straight = flags & _DEPOSIT > 0, (steps != 0).sum(-1) == 1
    _refuse(deposit & ~straight, "it goes to a line that is not straight")
    ahead = np.sign(np.take_along_axis(steps, np.maximum(heading[:, None] // 2, 0), 1)[:, 0])
    _refuse((heading >= 0) & (~straight | (ahead != 1 - 2 * (heading % 2))), "it does not lie straight ahead")
    _refuse((np.abs(steps) > _MAX_STEPS).any(-1), f"it goes more than {_MAX_STEPS} links straight on")
    receivers = np.where(deposit, np.abs(steps).sum(-1), 1).astype(np.int32)
    return source, destination, n_bytes, flags, heading, receivers, *_checked_dependencies(messages, n)


def _heading(grid: Torus, messages: PacketMessages, n: int) -> npt.NDArray[np.int8]:
    heading = np.broadcast_to(np.asarray(messages.heading, np.int64), n)
    _refuse((heading < -1) | (heading >= 2 * grid.n_dimensions), "it leaves by a port that is not there")
    return np.ascontiguousarray(heading, np.int8)


def _flags(messages: PacketMessages, n: int) -> UInt8Array:
    flags = np.zeros(n, np.uint8)
    for bit, given in (
        (_DEPOSIT, messages.line),
        (_COMBINES, messages.combine),
        (_IN_ORDER, messages.in_order),
        (_PIPELINED, messages.pipelined),
    ):
        flags |= np.broadcast_to(np.asarray(given, bool), n).astype(np.uint8) * np.uint8(bit)
    return flags


def _checked_dependencies(messages: PacketMessages, n: int) -> tuple[Int64Array, Int32Array]:
    given = np.zeros(n + 1) if messages.after_first is None else messages.after_first
    first = np.ascontiguousarray(given, np.int64)
    after = np.ascontiguousarray(messages.after, np.int32).ravel()
    if len(first) != n + 1 or first[0] or first[-1] != len(after) or (np.diff(first) < 0).any():
        raise ConfigError(
            "the offsets 'after_first' do not fit", mend="give n + 1, from 0 to the size of 'after'"
        )
    if len(after) and (after.min() < 0 or after.max() >= n):
        raise ConfigError("a message is after one that is not there", mend=f"they count from 0 to {n - 1}")
    return first, after


def _refuse(wrong: BoolArray | np.bool_, what: str) -> None:
    if np.any(wrong):
        raise ConfigError(f"message {int(np.argmax(wrong))}: {what}", mend=None)
