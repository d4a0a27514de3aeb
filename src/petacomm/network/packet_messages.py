"""Messages that packet simulators send, their checks, and the results of a simulation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import real_array, require_integer
from petacomm.base.errors import ConfigError
from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array, UInt8Array

DEPOSIT, COMBINES, IN_ORDER, PIPELINED = 1, 2, 4, 8
_LARGEST_MESSAGE = 2**40


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


class MessageColumns(NamedTuple):
    """Messages as the kernels take them.

    Attributes
    ----------
    source, destination : int32 (n,)
    n_bytes : int64 (n,)
    flags : uint8 (n,)
    heading : int8 (n,)
    """

    source: Int32Array
    destination: Int32Array
    n_bytes: Int64Array
    flags: UInt8Array
    heading: npt.NDArray[np.int8]


def message_columns(messages: PacketMessages, n_nodes: int, n_outputs: int) -> MessageColumns:
    """Return the columns of messages; raise a ConfigError if one of them is invalid.

    Parameters
    ----------
    messages : PacketMessages
    n_nodes : int
        Number of nodes of the network.
    n_outputs : int
        Number of ports of a node by which a message may go straight on.
    """
    source = np.ascontiguousarray(messages.source, np.int32).ravel()
    destination = np.ascontiguousarray(messages.destination, np.int32).ravel()
    n_bytes = np.ascontiguousarray(messages.n_bytes, np.int64).ravel()
    n = len(source)
    if len(destination) != n or len(n_bytes) != n:
        raise ConfigError(
            f"{len(destination)} destinations, {len(n_bytes)} sizes, {n} sources", mend="give n each"
        )
    for name, nodes in (("source", source), ("destination", destination)):
        outside: BoolArray = (nodes < 0) | (nodes >= n_nodes)
        refuse_messages(outside, f"its {name} is not one of {n_nodes} nodes")
    refuse_messages(source == destination, "it goes from a node to itself")
    refuse_messages((n_bytes < 0) | (n_bytes > _LARGEST_MESSAGE), "its bytes are negative or more than 1 TiB")
    heading = np.broadcast_to(np.asarray(messages.heading, np.int64), n)
    refuse_messages((heading < -1) | (heading >= n_outputs), "it leaves by a port that is not there")
    if messages.segment < 1:
        raise ConfigError(f"segments of {messages.segment} bytes", mend="give 1 or more")
    flags = _flags(messages, n)
    return MessageColumns(source, destination, n_bytes, flags, np.ascontiguousarray(heading, np.int8))


def _flags(messages: PacketMessages, n: int) -> UInt8Array:
    flags = np.zeros(n, np.uint8)
    for bit, given in (
        (DEPOSIT, messages.line),
        (COMBINES, messages.combine),
        (IN_ORDER, messages.in_order),
        (PIPELINED, messages.pipelined),
    ):
        flags |= np.broadcast_to(np.asarray(given, bool), n).astype(np.uint8) * np.uint8(bit)
    return flags


def message_dependencies(messages: PacketMessages, n: int) -> tuple[Int64Array, Int32Array]:
    """Return the offsets, int64 (n + 1,), and numbers, int32, of those that messages wait for, checked."""
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


def refuse_messages(wrong: BoolArray | np.bool_, what: str) -> None:
    """Raise a ConfigError that names the first message of those that are `wrong`: bool (n,)."""
    if np.any(wrong):
        raise ConfigError(f"message {int(np.argmax(wrong))}: {what}", mend=None)


class AllToAllColumns(NamedTuple):
    """An all-to-all as the kernels take it.

    Attributes
    ----------
    order : int32 (n_nodes,)
        The permutation in which nodes send.
    n_bytes : int
        Bytes of each message, 0 if `matrix` has them.
    matrix : int64 (n_nodes, n_nodes) or None
    packets_per_visit : int
    """

    order: Int32Array
    n_bytes: int
    matrix: Int64Array | None
    packets_per_visit: int


def all_to_all_columns(
    n_bytes: int | npt.ArrayLike, packets_per_visit: int, n_nodes: int, seed: int
) -> AllToAllColumns:
    """Return the columns of an all-to-all; raise a ConfigError if it is invalid."""
    given = real_array(n_bytes, "n_bytes")
    least, most = (0.0, 0.0) if not given.size else (float(given.min()), float(given.max()))
    if not (least >= 0 and most <= _LARGEST_MESSAGE) or (given.ndim == 0 and least < 1):
        raise ConfigError(f"an all-to-all of {least:g} bytes", mend="give 1 or more, up to 1 TiB")
    matrix = None if given.ndim == 0 else np.ascontiguousarray(given, np.int64)
    if matrix is not None and matrix.shape != (n_nodes, n_nodes):
        raise ConfigError(
            f"bytes of shape {matrix.shape}", mend=f"give ({n_nodes}, {n_nodes}): from each node to each"
        )
    if require_integer(packets_per_visit, "packets_per_visit", -(2**63), 2**31 - 1) < 1:
        raise ConfigError(f"{packets_per_visit} packets a visit", mend="give 1 or more")
    order = np.random.default_rng(seed).permutation(n_nodes).astype(np.int32)
    first = 0 if matrix is not None else int(given)
    return AllToAllColumns(order, first, matrix, packets_per_visit)


def run_kernel(
    kernel: Callable[..., Any],
    hardware: Any,
    columns: Sequence[Any],
    seed: int,
    n_nodes: int,
    n_links: int,
    tick: float,
) -> SimulationResult:
    """Run a kernel that simulates packets and return its result, with links as the kernel numbers them.

    Parameters
    ----------
    kernel : callable
        `simulate_all_to_all` or `simulate_messages` of the extension module.
    hardware : object
        Its first argument.
    columns : sequence
        Its arguments that describe the messages.
    seed : int
    n_nodes, n_links : int
        Number of nodes and links of the kernel.
    tick : float
        Seconds of its unit of time.

    Raises
    ------
    ConfigError
        If messages wait for each other.
    """
    finish = np.zeros(n_nodes, np.int64)
    link_packets, link_bytes = np.zeros(n_links, np.int64), np.zeros(n_links, np.int64)
    start = time.perf_counter()
    counts = kernel(hardware, *columns, seed % 2**63, finish, link_packets, link_bytes)
    wall = time.perf_counter() - start
    if counts["in_flight"]:
        raise AssertionError(f"{counts['in_flight']} packets never came: the simulator has deadlocked")
    if counts.get("waiting"):
        raise ConfigError(
            f"{counts['waiting']} messages wait for ever, message {counts['first_waiting']} first",
            mend="let no message wait for one that its source does not receive, or that waits for it",
        )
    kept = ("packets", "copies", "hops", "escapes", "events", "most_in_flight", "memory")
    return SimulationResult(
        seconds=float(finish.max(initial=0)) * tick,
        node_seconds=finish.astype(np.float64) * tick,
        link_bytes=link_bytes,
        link_packets=link_packets,
        wall_seconds=wall,
        **{key: counts[key] for key in kept},
    )
