"""Link loads and hops on any network, by kernels that follow the route of each message."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int32Array
from petacomm.network import _network
from petacomm.network.link_load import Traffic
from petacomm.topology import CliqueHierarchy, FatTree, Network, Torus, full_network

# The kernels store the loads of all links and the positions of all nodes.
_MAX_LINKS = 100_000_000


def kernel_routes(network: Network) -> Any:
    """Return the kernels' representation of a network; their routes are those of `Network.route`.

    On a torus, messages over half a ring are split evenly between both directions.

    Raises
    ------
    ConfigError
        If the kernels do not support the kind of network, or it has more than 10^8 links.
    """
    if network.n_links > _MAX_LINKS:
        raise ConfigError(f"a network of {network.n_links:,} links", mend="take a part of it")
    vertex, full = full_network(network)
    if isinstance(full, Torus):
        kind: dict[str, Any] = {"shape": list(full.shape), "wrap": list(full.wrap)}
    elif isinstance(full, CliqueHierarchy):
        vertex = vertex // full.nodes_per_vertex
        levels = full.levels
        cables = [0 if level.fully_linked else level.cables for level in levels]
        consecutive = [level.arrangement == "consecutive" for level in levels]
        kind = {"sizes": [level.size for level in levels], "cables": cables, "consecutive": consecutive}
    elif isinstance(full, FatTree):
        kind = {"children": list(full.children), "parents": list(full.parents)}
    else:
        raise ConfigError(f"no map of the links of a {type(full).__name__}", mend=None)
    return _network.Routes(**kind, vertex=vertex.astype(np.int32), n_links=network.n_links)


def routed_link_loads(network: Network, traffic: Traffic) -> FloatArray:
    """Return the bytes on each link of any network: float64 (n_links,).

    On a torus these are the loads of `link_loads`, dimension-ordered with split ties, up to rounding.

    Raises
    ------
    ConfigError
        If the traffic does not fit the network, or the kernels do not support the kind of network.
    """
    source, destination = (_node_numbers(nodes, network) for nodes in (traffic.source, traffic.destination))
    if len(source) != len(destination):
        raise ConfigError(f"{len(source)} sources and {len(destination)} destinations", mend="give pairs")
    n_bytes = np.broadcast_to(np.asarray(traffic.n_bytes, np.float64), source.shape)
    loads = np.zeros(network.n_links)
    kernel_routes(network).add_loads(source, destination, np.ascontiguousarray(n_bytes), loads)
    return loads


def hops_between(network: Network, source: npt.ArrayLike, destination: npt.ArrayLike) -> Int32Array:
    """Return the number of links between pairs of nodes: int32 (n,); `Network.hops` for many pairs."""
    first, second = _node_numbers(source, network), _node_numbers(destination, network)
    hops = np.empty(len(first), np.int32)
    kernel_routes(network).count_hops(first, second, hops)
    return hops


def _node_numbers(nodes: npt.ArrayLike, network: Network) -> Int32Array:
    numbers = np.asarray(nodes).ravel()
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= network.n_nodes):
        raise ConfigError(f"a node is not among the {network.n_nodes} of the network", mend="count from 0")
    return np.ascontiguousarray(numbers, np.int32)
