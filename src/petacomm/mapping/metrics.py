"""Metrics of a placement: hops, bytes and link loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.arguments import real_array
from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.placement import Placement
from petacomm.network import Traffic, link_loads
from petacomm.network.routes import hops_between, routed_link_loads
from petacomm.network.routing import SWITCH_ROUTINGS, attaches_nodes
from petacomm.topology import Network, Torus


@dataclass(frozen=True)
class MappingMetrics:
    """Metrics of a communication graph under a placement. The attributes are also the keys of its JSON.

    Attributes
    ----------
    hop_bytes : float
        Sum of bytes times hops.
    dilation : float
        Average number of hops of a byte; bytes within a node count 0.
    longest : int
        Largest number of hops of a message.
    largest_load, mean_load : float
        Bytes on the busiest link, and mean bytes on a link, those between nodes and switches included.
    largest_time : float
        Transfer time of the busiest link in seconds; 0 if bandwidths are unknown: the busiest is then that
        with most bytes.
    internal_edges, remote_edges : int
        Number of directed edges within nodes, and between nodes.
    internal_bytes, remote_bytes : float
        Bytes within nodes, and between nodes.
    """

    hop_bytes: float
    dilation: float
    longest: int
    largest_load: float
    mean_load: float
    largest_time: float
    internal_edges: int
    remote_edges: int
    internal_bytes: float
    remote_bytes: float

    @property
    def objective(self) -> float:
        """What placements minimize: the largest transfer time of a link if known, else the largest load."""
        return self.largest_time or self.largest_load


def require_capacities(capacity: Any, network: Network) -> FloatArray:
    """Return the bandwidths of links; raise a UserError unless each has one above 0.

    Returns
    -------
    float64 (n_links,) or (n_links + 2 n_nodes,)
        The latter only where `attaches_nodes`: as in `job_capacities`.
    """
    checked = real_array(capacity, "capacity", 1)
    counts = [network.n_links + 2 * network.n_nodes * nodes for nodes in (0, attaches_nodes(network))]
    if len(checked) not in counts or not np.all((checked > 0) & np.isfinite(checked)):
        raise ConfigError(
            "capacities do not fit the links", mend=f"give one above 0 for each of {network.n_links}"
        )
    return checked


def default_capacities(network: Network) -> FloatArray:
    """Return a bandwidth of 1 for each link, those between nodes and switches included."""
    return np.ones(network.n_links + 2 * network.n_nodes * attaches_nodes(network))


def node_link_loads(traffic: Traffic, n_nodes: int) -> FloatArray:
    """Return the bytes that each node sends, then those that each receives: float64 (2 n_nodes,)."""
    n_bytes, ends = np.asarray(traffic.n_bytes), (traffic.source, traffic.destination)
    return np.concatenate([np.bincount(np.asarray(end), n_bytes, n_nodes) for end in ends])


def placement_link_loads(
    graph: CommunicationGraph, placement: Placement, network: Network, routing: str | None = None
) -> FloatArray:
    """Return the bytes on each link: float64 (n_links,).

    Parameters
    ----------
    graph : CommunicationGraph
    placement : Placement
    network : Network
    routing : str, optional
        On a torus or mesh, one of `link_load.ROUTINGS`; on a network of switches, as in `routed_link_loads`.
        By default the network's own routes.

    Raises
    ------
    ConfigError
        If the network has no such routing.
    """
    traffic = graph.traffic(placement.nodes, network.n_nodes)
    if routing is None or routing in SWITCH_ROUTINGS:
        return routed_link_loads(network, traffic, routing or "minimal")
    if not isinstance(network, Torus):
        raise ConfigError(f"routing '{routing}' without a whole torus or mesh", mend="leave it out")
    return link_loads(network, traffic, routing)


def all_link_loads(
    graph: CommunicationGraph, placement: Placement, network: Network, routing: str | None = None
) -> FloatArray:
    """Return the loads of `placement_link_loads`, and behind them those between nodes and their switches.

    Returns
    -------
    float64 (n_links,) or (n_links + 2 n_nodes,)
        Bytes; the latter where nodes are attached to switches by links that the network does not number.
    """
    loads = placement_link_loads(graph, placement, network, routing)
    if not attaches_nodes(network):
        return loads
    traffic = graph.traffic(placement.nodes, network.n_nodes)
    return np.concatenate([loads, node_link_loads(traffic, network.n_nodes)])


def mapping_metrics(
    graph: CommunicationGraph,
    placement: Placement,
    network: Network,
    capacity: FloatArray | None = None,
    routing: str = "minimal",
) -> MappingMetrics:
    """Return the metrics of a graph under a placement, with all messages sent at the same time.

    Parameters
    ----------
    graph : CommunicationGraph
    placement : Placement
    network : Network
    capacity : float64 (n_links,) or (n_links + 2 n_nodes,), optional
        Bandwidth of each link, in bytes per second; with those between nodes and switches as in
        `job_capacities`, which else count in bytes alone.
    routing : str
        As in `routed_link_loads`; hops are those of shortest routes between switches, whatever it is.
    """
    source, target = placement.nodes[graph.sources], placement.nodes[graph.targets]
    internal = source == target
    traffic = graph.traffic(placement.nodes, network.n_nodes)
    links = None if capacity is None else capacity[: network.n_links]
    loads = routed_link_loads(network, traffic, routing, links)
    if attaches_nodes(network):
        loads = np.concatenate([loads, node_link_loads(traffic, network.n_nodes)])
    # Without bandwidths, the busiest link is the one with most bytes.
    times = loads if capacity is None else loads[: len(capacity)] / capacity
    busiest = int(np.argmax(times)) if len(times) else None
    hops = hops_between(network, traffic.source, traffic.destination)
    hop_bytes = float(np.dot(hops, np.asarray(traffic.n_bytes)))
    inside = float(graph.n_bytes[internal].sum())
    total = graph.total_bytes
    return MappingMetrics(
        hop_bytes=hop_bytes,
        dilation=hop_bytes / total if total else 0.0,
        longest=int(hops.max(initial=0)),
        largest_load=0.0 if busiest is None else float(loads[busiest]),
        mean_load=float(loads.mean()) if len(loads) else 0.0,
        largest_time=0.0 if capacity is None or busiest is None else float(times[busiest]),
        internal_edges=int(internal.sum()),
        remote_edges=int((~internal).sum()),
        internal_bytes=inside,
        remote_bytes=total - inside,
    )


@dataclass(frozen=True)
class ConcurrentLoads:
    """Largest link loads of several graphs, for different assumptions about their concurrency.

    Attributes
    ----------
    separate : tuple of float
        Bytes on the busiest link of each graph alone.
    combined : float
        Bytes on the busiest link if all are sent at the same time.
    """

    separate: tuple[float, ...]
    combined: float

    @property
    def worst(self) -> float:
        """Bytes on the busiest link of the worst graph alone."""
        return max(self.separate, default=0.0)

    @property
    def total(self) -> float:
        """Sum of the largest loads of all graphs: the cost if they are sent one after the other."""
        return sum(self.separate)


def concurrent_loads(
    graphs: Sequence[CommunicationGraph],
    placement: Placement,
    network: Network,
    routing: str | None = None,
) -> ConcurrentLoads:
    """Return the largest link loads of graphs that are sent separately or at the same time.

    Links between nodes and switches are among them.

    Parameters
    ----------
    graphs : sequence of CommunicationGraph
        Graphs of the same ranks, e.g. the phases of a step, or sub-communicators.
    placement : Placement
    network : Network
    routing : str, optional
        As in `placement_link_loads`.
    """
    total = np.zeros_like(default_capacities(network))
    largest = []
    for graph in graphs:
        part = all_link_loads(graph, placement, network, routing)
        total += part
        largest.append(float(part.max(initial=0.0)))
    return ConcurrentLoads(tuple(largest), float(total.max(initial=0.0)))
