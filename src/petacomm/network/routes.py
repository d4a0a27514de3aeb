"""Loads and hops on any network, by kernels that follow each message over its links."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int32Array
from petacomm.network import _network
from petacomm.network.link_load import Traffic
from petacomm.topology import Allocation, CliqueHierarchy, FatTree, Network, Torus

# Loads of all links are kept, and places of all nodes.
_MOST_LINKS = 100_000_000


def ways_of(network: Network) -> Any:
    """Return the network as kernels know it: they take the ways that its `route` takes.

    On a torus half a ring is gone both ways, with half of the bytes each.

    Raises
    ------
    ConfigError
        If it is a network of a kind that the kernels do not know, or has more than 10^8 links.
    """
    if network.n_links > _MOST_LINKS:
        raise ConfigError(f"a network of {network.n_links:,} links", mend="take a part of it")
    at = np.arange(network.n_nodes)
    whole = network
    while isinstance(whole, Allocation):
        at, whole = whole.nodes[at], whole.network
    if isinstance(whole, Torus):
        kind: dict[str, Any] = {"shape": list(whole.shape), "wrap": list(whole.wrap)}
    elif isinstance(whole, CliqueHierarchy):
        at = at // whole.nodes_per_vertex
        levels = whole.levels
        kind = {"sizes": [level.size for level in levels], "every": [level.every for level in levels]}
        kind["cliques"] = True
    elif isinstance(whole, FatTree):
        kind = {"children": list(whole.children), "parents": list(whole.parents)}
    else:
        raise ConfigError(f"no map of the links of a {type(whole).__name__}", mend=None)
    return _network.Routes(**kind, vertex=at.astype(np.int32), n_links=network.n_links)


def routed_loads(network: Network, traffic: Traffic) -> FloatArray:
    """Return the bytes that cross each link of any network: float64 (n_links,).

    On a torus these are the loads of `link_loads`, dimension-ordered with split ties, but for rounding.

    Raises
    ------
    ConfigError
        If the traffic does not fit the network, or the network's kind has no map of its links.
    """
    source, destination = (_node_numbers(nodes, network) for nodes in (traffic.source, traffic.destination))
    if len(source) != len(destination):
        raise ConfigError(f"{len(source)} sources and {len(destination)} destinations", mend="give pairs")
    n_bytes = np.broadcast_to(np.asarray(traffic.n_bytes, np.float64), source.shape)
    loads = np.zeros(network.n_links)
    ways_of(network).add_loads(source, destination, np.ascontiguousarray(n_bytes), loads)
    return loads


def hops_between(network: Network, source: npt.ArrayLike, destination: npt.ArrayLike) -> Int32Array:
    """Return the links between pairs of nodes: int32 (n,), as `Network.hops`, for many pairs."""
    first, second = _node_numbers(source, network), _node_numbers(destination, network)
    found = np.empty(len(first), np.int32)
    ways_of(network).count_hops(first, second, found)
    return found


def _node_numbers(nodes: npt.ArrayLike, network: Network) -> Int32Array:
    numbers = np.asarray(nodes).ravel()
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= network.n_nodes):
        raise ConfigError(f"a node is not among the {network.n_nodes} of the network", mend="count from 0")
    return np.ascontiguousarray(numbers, np.int32)
