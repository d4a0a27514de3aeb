"""What a placement does to the network: hops, bytes and loads of links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.placement import Placement
from petacomm.network import link_loads
from petacomm.network.routes import hops_between, routed_loads
from petacomm.topology import Network, Torus


@dataclass(frozen=True)
class Metrics:
    """What a communication asks of the links.

    Attributes
    ----------
    hop_bytes : float
        Bytes times the links that they cross.
    dilation : float
        Links that a byte crosses on average; those within a node count 0.
    longest : int
        Links of the longest way.
    largest_load, mean_load : float
        Bytes of the busiest link, and of all on average.
    largest_time : float
        Seconds of the link that is busy longest; 0 where capacities are not known.
    internal_edges, remote_edges : int
        Pairs of ranks that send on one node, and between nodes; directed.
    internal_bytes, remote_bytes : float
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


def loads(
    graph: CommunicationGraph, placement: Placement, network: Network, routing: str | None = None
) -> FloatArray:
    """Return the bytes on each link: float64 (n_links,).

    Parameters
    ----------
    graph : CommunicationGraph
    placement : Placement
    network : Network
    routing : str, optional
        Of a torus or mesh, one of `link_load.ROUTINGS`; by default the network's own routes.

    Raises
    ------
    ConfigError
        If a routing is given for another network.
    """
    traffic = graph.traffic(placement.nodes, network.n_nodes)
    if routing is None:
        return routed_loads(network, traffic)
    if not isinstance(network, Torus):
        raise ConfigError(f"routing '{routing}' without a whole torus or mesh", mend="leave it out")
    return link_loads(network, traffic, routing)


def measure(
    graph: CommunicationGraph, placement: Placement, network: Network, capacity: FloatArray | None = None
) -> Metrics:
    """Return what a graph, all of it at once, does to a network.

    Parameters
    ----------
    graph : CommunicationGraph
    placement : Placement
    network : Network
    capacity : float64 (n_links,), optional
        Bytes a second of each link.
    """
    source, target = placement.nodes[graph.sources], placement.nodes[graph.targets]
    internal = source == target
    traffic = graph.traffic(placement.nodes, network.n_nodes)
    on_links = routed_loads(network, traffic)
    hops = hops_between(network, traffic.source, traffic.destination)
    hop_bytes = float(np.dot(hops, np.asarray(traffic.n_bytes)))
    inside = float(graph.n_bytes[internal].sum())
    total = graph.total_bytes
    return Metrics(
        hop_bytes=hop_bytes,
        dilation=hop_bytes / total if total else 0.0,
        longest=int(hops.max(initial=0)),
        largest_load=float(on_links.max(initial=0.0)),
        mean_load=float(on_links.mean()) if len(on_links) else 0.0,
        largest_time=0.0 if capacity is None else float((on_links / capacity).max(initial=0.0)),
        internal_edges=int(internal.sum()),
        remote_edges=int((~internal).sum()),
        internal_bytes=inside,
        remote_bytes=total - inside,
    )


@dataclass(frozen=True)
class Concurrency:
    """The largest link load of several communications, for each assumption about what runs at once.

    Attributes
    ----------
    each : tuple of float
        Bytes of the busiest link of each of them.
    together : float
        When all run at once.
    """

    each: tuple[float, ...]
    together: float

    @property
    def alone(self) -> float:
        """Bytes of the busiest link when one runs at a time: of the worst of them."""
        return max(self.each, default=0.0)

    @property
    def in_turn(self) -> float:
        """The sum of the largest loads of each: bytes that wait one after the other."""
        return sum(self.each)


def concurrency(
    graphs: Sequence[CommunicationGraph],
    placement: Placement,
    network: Network,
    routing: str | None = None,
) -> Concurrency:
    """Return the largest link load of communications that run alone, together, or one after the other.

    Parameters
    ----------
    graphs : sequence of CommunicationGraph
        E.g. phases of a step, or sub-communicators; all of the same ranks.
    placement : Placement
    network : Network
    routing : str, optional
        As in `loads`.
    """
    total = np.zeros(network.n_links)
    largest = []
    for graph in graphs:
        part = loads(graph, placement, network, routing)
        total += part
        largest.append(float(part.max(initial=0.0)))
    return Concurrency(tuple(largest), float(total.max(initial=0.0)))
