"""Packets on a torus or mesh, one by one: how long messages take where they meet.

Each node has a router and a processor. A packet goes on as soon as its header is there and the next link and
a buffer at its far end are free (virtual cut-through). Adaptive packets take any link that brings them
nearer, through dynamic channels, and where these are full the escape channel, in the order of the dimensions;
packets in order take that alone. A ring of escape channels always keeps room for one packet more (bubble), so
nothing can block for ever. Time is in cycles of the machine's clock; docs/networks.md has the details.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array, UInt8Array
from petacomm.network._network import (
    Arbitration,
    Tie,
    TorusHardware,
    simulate_all_to_all,
    simulate_messages,
)
from petacomm.network.hardware import Hardware
from petacomm.schedule import Round, displacements
from petacomm.topology import Torus

_TO_LINE, _COMBINES, _IN_ORDER, _PIPELINED = 1, 2, 4, 8
_ARBITRATIONS = {
    "round-robin": Arbitration.round_robin,
    "longest-queue": Arbitration.longest_queue,
    "farthest": Arbitration.farthest,
}
_TIES = {"plus": Tie.plus, "parity": Tie.parity, "random": Tie.random}
# Hops are counted in eight bits.
_LONGEST_LINE, _LONGEST_RING, _LONGEST_WAY = 128, 254, 127
_LARGEST_MESSAGE = 2**40


@dataclass(frozen=True)
class Policy:
    """How routers and processors choose where they have a choice.

    Attributes
    ----------
    arbitration : str
        Which packet takes a free link: ``round-robin`` over the queues that want it; that of the
        ``longest-queue``; the one that goes ``farthest`` in a dimension.
    transit_first : bool
        Packets on their way go before those that the node injects.
    injection_room : int
        Full packets for which an injected packet must leave room in the channel it enters.
    fifo : str
        Into which FIFO a processor writes: the ``emptiest``, or that of the longest ``direction``.
    tie : str
        Which way a packet goes half round a ring: ``plus``, by ``parity`` of the source's coordinate, or at
        ``random``.
    early_release : bool
        The room of a packet is given back when it begins to leave, as by tokens for each granule; else when
        it has left.
    """

    arbitration: str = "round-robin"
    transit_first: bool = True
    injection_room: int = 0
    fifo: str = "emptiest"
    tie: str = "random"
    early_release: bool = True

    def __post_init__(self) -> None:
        for name, known in (
            ("arbitration", list(_ARBITRATIONS)),
            ("fifo", ["emptiest", "direction"]),
            ("tie", list(_TIES)),
        ):
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"unknown {name} '{getattr(self, name)}'", mend=did_you_mean(getattr(self, name), known)
                )


POLICIES = {
    "transit-first": Policy(),
    "fair": Policy(transit_first=False),
    "longest-queue": Policy(arbitration="longest-queue"),
    "throttled": Policy(injection_room=1),
    "farthest": Policy(arbitration="farthest"),
    "late-release": Policy(early_release=False),
}


@dataclass(frozen=True)
class Messages:
    """Messages between nodes, and which wait for which.

    Attributes
    ----------
    source, destination : int (n,)
        Nodes; never the same.
    n_bytes : int (n,)
        Of payload. A message of none is one packet without content.
    after_first : int (n + 1,), after : int
        Message i may start when its source has received the messages
        ``after[after_first[i]:after_first[i + 1]]``. By default no message waits.
    line, combine, in_order, pipelined : bool (n,) or bool
        All nodes on the straight line from source to destination receive it (deposit bit); receivers
        combine it with what they have; it is routed dimension by dimension and arrives in order; its segment
        s waits for segment s of the messages it is after, not for the whole of them.
    heading : int (n,) or int
        The port by which it leaves to go straight on, the longer way round a ring where that is so:
        2 x dimension, or one more for downwards. -1: a shortest way.
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
class Run:
    """What a simulation counted.

    Attributes
    ----------
    seconds : float
        Until the last processor was done.
    node_seconds : float64 (n_nodes,)
        Until each processor had written and read its last packet.
    link_bytes, link_packets : int64 (n_links,)
        On each link, as the grid numbers them; bytes of whole packets, headers included.
    packets, copies, hops, escapes, events : int
        Packets sent, copies made by the deposit bit, links crossed, those by the escape channel, events.
    most_in_flight, memory : int
        The most packets on their way at once, and bytes that packets, queues and links took.
    wall_seconds : float
        That the simulation took.
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
    """Simulates packets on one grid of nodes.

    Parameters
    ----------
    grid : Torus
        At most 128 nodes in a dimension, 254 in a ring.
    hardware : Hardware
    policy : Policy or str
        Or the name of one of `POLICIES`.
    seed : int
        Of all that is random; the same seed gives the same run.

    Raises
    ------
    ConfigError
        If a dimension is too long, the policy is unknown, or packets do not fit the buffers.
    """

    def __init__(
        self, grid: Torus, hardware: Hardware, policy: Policy | str = "transit-first", seed: int = 1
    ) -> None:
        if isinstance(policy, str):
            if policy not in POLICIES:
                raise ConfigError(f"unknown policy '{policy}'", mend=did_you_mean(policy, list(POLICIES)))
            policy = POLICIES[policy]
        for size, ring in zip(grid.shape, grid.wrap, strict=True):
            longest = _LONGEST_RING if ring else _LONGEST_LINE
            if size > longest:
                raise ConfigError(
                    f"{size} nodes in a dimension of {grid}", mend=f"simulate {longest} at most"
                )
        self.grid = grid
        self.hardware = hardware
        self.policy = policy
        self.seed = int(seed)
        _check_room(hardware, policy)

    def all_to_all(self, n_bytes: int | npt.ArrayLike, packets_a_visit: int = 2) -> Run:
        """Simulate the randomized all-to-all (Almasi et al. 2005, section 3.1).

        All nodes go through one seeded permutation of the nodes, each from another place, and send
        `packets_a_visit` packets to each destination in turn. A destination that has got all leaves the list.

        Parameters
        ----------
        n_bytes : int or int (n_nodes, n_nodes)
            Bytes from each node to each other one, or row by row to each; what a node sends to itself is
            left out.
        packets_a_visit : int

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
        if packets_a_visit < 1:
            raise ConfigError(f"{packets_a_visit} packets a visit", mend="give 1 or more")
        order = np.random.default_rng(self.seed).permutation(n).astype(np.int32)
        first = 0 if matrix is not None else int(np.asarray(n_bytes))
        held = 2 * n * float(np.mean(np.asarray(n_bytes, np.float64)))
        hardware = replace(self.hardware, message_cycles=self.hardware.visit_cycles(held))
        return self._run(hardware, simulate_all_to_all, order, first, matrix, packets_a_visit)

    def messages(self, messages: Messages) -> Run:
        """Simulate a list of messages.

        Raises
        ------
        ConfigError
            If an array has another length, a node is not of the grid, a message goes to its own source, a
            line or a heading is not straight, or messages wait for each other in a circle or for what never
            comes to them.
        """
        arrays = _checked(self.grid, messages)
        if messages.segment < 1:
            raise ConfigError(f"segments of {messages.segment} bytes", mend="give 1 or more")
        return self._run(self.hardware, simulate_messages, *arrays, int(messages.segment))

    def _run(self, hardware: Hardware, kernel: Any, *arguments: Any) -> Run:
        n = self.grid.n_nodes
        finish = np.zeros(n, np.int64)
        per_link = [np.zeros(n * 2 * self.grid.n_dimensions, np.int64) for _ in range(2)]
        start = time.perf_counter()
        counts = kernel(
            _kernel_hardware(self.grid, hardware, self.policy),
            *arguments,
            self.seed % 2**63,
            finish,
            *per_link,
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
        link_packets, link_bytes = (_by_link(self.grid, values) for values in per_link)
        kept = ("packets", "copies", "hops", "escapes", "events", "most_in_flight", "memory")
        return Run(
            seconds=float(finish.max(initial=0)) * tick,
            node_seconds=finish.astype(np.float64) * tick,
            link_bytes=link_bytes,
            link_packets=link_packets,
            wall_seconds=wall,
            **{key: counts[key] for key in kept},
        )


def _kernel_hardware(grid: Torus, hardware: Hardware, policy: Policy) -> Any:
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
    made.arbitration = _ARBITRATIONS[policy.arbitration]
    made.tie = _TIES[policy.tie]
    return made


def _check_room(hardware: Hardware, policy: Policy) -> None:
    if not 0 <= policy.injection_room < hardware.channel // hardware.packet:
        raise ConfigError(
            f"injected packets leave room for {policy.injection_room} more",
            mend="give less than a channel holds",
        )


def _by_link(grid: Torus, values: Int64Array) -> Int64Array:
    """Return the values of links by their numbers in the grid, from rows of nodes."""
    table = values.reshape(grid.n_nodes, grid.n_dimensions, 2)
    out = np.zeros(grid.n_links, np.int64)
    nodes = np.arange(grid.n_nodes)
    for dimension in range(grid.n_dimensions):
        for column, direction in enumerate((1, -1)):
            links = grid.link(nodes, dimension, direction)
            out[links[links >= 0]] = table[links >= 0, dimension, column]
    return out


def _checked(grid: Torus, messages: Messages) -> Sequence[Any]:
    """Return the arrays of the kernel, or say what is wrong with them."""
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
    part = Round.of(source, destination, 0, 0, heading=heading) if n else Round.of([], [], [], [])
    steps = displacements(part, grid)
    to_line, straight = flags & _TO_LINE > 0, (steps != 0).sum(-1) == 1
    _refuse(to_line & ~straight, "it goes to a line that is not straight")
    ahead = np.sign(np.take_along_axis(steps, np.maximum(heading[:, None] // 2, 0), 1)[:, 0])
    _refuse((heading >= 0) & (~straight | (ahead != 1 - 2 * (heading % 2))), "it does not lie straight ahead")
    _refuse((np.abs(steps) > _LONGEST_WAY).any(-1), f"it goes more than {_LONGEST_WAY} links straight on")
    receivers = np.where(to_line, np.abs(steps).sum(-1), 1).astype(np.int32)
    return source, destination, n_bytes, flags, heading, receivers, *_checked_order(messages, n)


def _heading(grid: Torus, messages: Messages, n: int) -> npt.NDArray[np.int8]:
    heading = np.broadcast_to(np.asarray(messages.heading, np.int64), n)
    _refuse((heading < -1) | (heading >= 2 * grid.n_dimensions), "it leaves by a port that is not there")
    return np.ascontiguousarray(heading, np.int8)


def _flags(messages: Messages, n: int) -> UInt8Array:
    flags = np.zeros(n, np.uint8)
    for bit, given in (
        (_TO_LINE, messages.line),
        (_COMBINES, messages.combine),
        (_IN_ORDER, messages.in_order),
        (_PIPELINED, messages.pipelined),
    ):
        flags |= np.broadcast_to(np.asarray(given, bool), n).astype(np.uint8) * np.uint8(bit)
    return flags


def _checked_order(messages: Messages, n: int) -> tuple[Int64Array, Int32Array]:
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
