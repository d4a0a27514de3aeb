"""Simulation of a network of switches packet by packet: fat trees, dragonflies and their like.

A packet is forwarded as soon as its header has arrived and the next link and a buffer at its far end are free
(virtual cut-through); room in buffers comes back as credits, a hop later. Packets wait at the link that they
take next, so none waits for another that takes a different link. Where there are several links to choose
from, a packet takes the one with the fewest bytes that wait for it or fill the buffers at its end; ties are
decided by a hash of seed, packet and hop. Virtual channels rise along routes, which excludes deadlock; see
docs/petacomm/networks.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_integer
from petacomm.base.errors import ConfigError, require_known
from petacomm.base.typing import Int64Array
from petacomm.network import _network
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
from petacomm.network.routing import n_levels
from petacomm.network.switch_graph import switch_graph
from petacomm.network.switch_hardware import SwitchHardware
from petacomm.topology import Network, full_network

Routing: TypeAlias = Literal["minimal", "valiant", "ugal", "ugal-g", "ugal-l", "ugal-l-vc"]
# Ticks for which a full packet holds the fastest link.
_TICKS = 128


class SwitchSimulator:
    """Packet simulator of one network of switches.

    Parameters
    ----------
    network : FatTree, CliqueHierarchy or Allocation
        An allocation has the nodes that send, in their order, and all links and switches of its network.
    hardware : SwitchHardware
    routing : str
        ``minimal``: shortest routes; on a fat tree, any way up and the way down. ``valiant``: by way of a
        switch in another group, drawn at random for each packet (Valiant 1982). ``ugal``: minimal, unless the
        queue of its first link times its hops is longer than that of such a detour, and of the channels of
        both where they begin with the same link (UGAL-L_VCH, Kim et al. 2008). For comparison, as there:
        ``ugal-l`` takes queues of links alone, ``ugal-l-vc`` those of channels, and ``ugal-g`` looks at the
        cables between groups, of which a real router knows its own.
    seed : int
        Seed of all random numbers; the same seed gives the same run.

    Attributes
    ----------
    n_channels : int
        Number of virtual channels of each link.

    Raises
    ------
    ConfigError
        If the network has no switches, the routing is unknown or has no meaning on it, or bandwidths do not
        fit its levels.

    Examples
    --------
    >>> from petacomm.network import SwitchHardware, SwitchSimulator
    >>> from petacomm.topology import dragonfly
    >>> hardware = SwitchHardware(256, 240, 32, (10e9,), 10e9, 100e-9, 8192)
    >>> SwitchSimulator(dragonfly(5, 4, 2), hardware, "ugal").simulate_all_to_all(240).packets
    1560
    """

    def __init__(
        self, network: Network, hardware: SwitchHardware, routing: str = "minimal", seed: int = 1
    ) -> None:
        require_known("unknown routing", routing, get_args(Routing))
        detours, graph = routing != "minimal", switch_graph(network)
        levels = n_levels(cast(Any, full_network(network)[1]))
        if len(hardware.level_bandwidths) not in (1, levels):
            what = f"{len(hardware.level_bandwidths)} bandwidths for {levels} levels of links"
            raise ConfigError(what, mend="give one, or one for each level")
        if detours and not graph.has_detours:
            raise ConfigError(f"routing '{routing}' without a third group", mend='route "minimal"')
        self.network = network
        self.hardware = hardware
        self.routing = routing
        self.seed = require_integer(seed, "seed", 0)
        self._graph = graph
        self._kernel = graph.kernel_network(detours)
        self.n_channels: int = self._kernel.n_channels(detours)

    def simulate_all_to_all(
        self, n_bytes: int | npt.ArrayLike, packets_per_visit: int = 2
    ) -> SimulationResult:
        """Simulate the randomized all-to-all, as `PacketSimulator.simulate_all_to_all`.

        Parameters
        ----------
        n_bytes : int or int (n_nodes, n_nodes)
            Bytes from each node to each other one, or from each node (row) to each (column); the diagonal is
            ignored.
        packets_per_visit : int

        Returns
        -------
        SimulationResult
            A node sends no faster than so many messages as there are other nodes; a single one, of few in a
            matrix, may be faster than `message_bandwidth`.

        Raises
        ------
        ConfigError
            If there is nothing to send, a number is negative, or the matrix is not square.
        """
        n_nodes = self.network.n_nodes
        columns = all_to_all_columns(n_bytes, packets_per_visit, n_nodes, self.seed)
        return self._run(_network.simulate_all_to_all, columns, max(1, n_nodes - 1))

    def simulate(self, messages: PacketMessages) -> SimulationResult:
        """Simulate a list of messages, which go to one node each.

        Parameters
        ----------
        messages : PacketMessages

        Returns
        -------
        SimulationResult
            Links and hops are those that the network numbers, which may leave out those of nodes.

        Raises
        ------
        ConfigError
            If an array has a wrong length, a node is not in the network, a message is sent to its own source,
            to a line or straight on, or the dependencies are cyclic or of messages that the source does not
            receive.
        """
        columns = message_columns(messages, self.network.n_nodes, 0)
        n = len(columns.source)
        refuse_messages(columns.flags & DEPOSIT > 0, "it goes to a line, which only a torus has")
        dependencies = message_dependencies(messages, n)
        all_columns = (*columns, np.ones(n, np.int32), *dependencies, int(messages.segment))
        return self._run(_network.simulate_messages, all_columns)

    def _run(self, kernel: Any, columns: Sequence[Any], n_messages: float = math.inf) -> SimulationResult:
        """Run a kernel in which each node sends no more than `n_messages` at a time."""
        graph, levels = self._graph, range(-1, int(self._graph.level.max()) + 1)
        bandwidths = [self.hardware.bandwidth(level) for level in levels]
        level, n_links = graph.node_links
        most = n_messages * self.hardware.message_bandwidth / n_links
        bandwidths[level + 1] = min(bandwidths[level + 1], most)
        tick = self.hardware.payload / max(bandwidths) / _TICKS
        made = self._kernel_hardware(bandwidths, tick)
        run = run_kernel(kernel, made, columns, self.seed, graph.n_nodes, len(graph.source), tick)
        link_packets, link_bytes = (self._by_link(one) for one in (run.link_packets, run.link_bytes))
        return replace(run, link_packets=link_packets, link_bytes=link_bytes, hops=int(link_packets.sum()))

    def _kernel_hardware(self, bandwidths: Sequence[float], tick: float) -> Any:
        hardware = self.hardware
        made = _network.SwitchHardware(self._kernel)
        made.granule, made.payload = hardware.granule, hardware.payload
        made.header = hardware.packet - hardware.payload
        made.channel = hardware.channel // hardware.granule
        full = hardware.packet // hardware.granule
        times = [hardware.payload / bandwidth / tick for bandwidth in bandwidths]
        made.ticks = [[max(1, round(time * size / full)) for size in range(full + 1)] for time in times]
        made.hop_ticks = [max(1, round(hardware.hop_latency / tick))] * len(times)
        made.message_ticks = round(hardware.message_time / tick)
        level, n_links = self._graph.node_links
        if hardware.message_bandwidth < n_links * bandwidths[level + 1]:
            gap = hardware.payload / hardware.message_bandwidth / tick
            made.message_gap = [max(1, round(gap * size / full)) for size in range(full + 1)]
        made.routing = cast(Routing, self.routing)
        return made

    def _by_link(self, values: Int64Array) -> Int64Array:
        """Return values of the links of the graph by the numbers of the network's links."""
        numbers = self._graph.number
        links = np.zeros(self.network.n_links, np.int64)
        links[numbers[numbers >= 0]] = values[numbers >= 0]
        return links
