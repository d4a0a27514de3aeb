"""Link loads and hops on any network, by kernels that follow the route of each message."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import whole_array
from petacomm.base.errors import ConfigError, require_known
from petacomm.base.typing import FloatArray, Int32Array
from petacomm.network import _network
from petacomm.network.link_load import Traffic, bytes_of_pairs
from petacomm.network.routing import DETOUR_GROUPS, SWITCH_ROUTINGS, count_groups
from petacomm.topology import CliqueHierarchy, FatTree, Network, RouterNetwork, Torus, full_network

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
    elif isinstance(full, RouterNetwork):
        vertex = full.router_of(vertex)
        kind = {"next": full.next_links, "head": full.link_ends()[1].astype(np.int32)}
    elif isinstance(full, FatTree):
        kind = {"children": list(full.children), "parents": list(full.parents)}
    else:
        raise ConfigError(f"no map of the links of a {type(full).__name__}", mend=None)
    return _network.Routes(**kind, vertex=vertex.astype(np.int32), n_links=network.n_links)


def routed_link_loads(
    network: Network,
    traffic: Traffic,
    routing: str = "minimal",
    capacity: FloatArray | None = None,
    routes: Any = None,
) -> FloatArray:
    """Return the bytes on each link of any network: float64 (n_links,).

    On a torus these are the loads of `link_loads`, dimension-ordered with split ties, up to rounding.

    Parameters
    ----------
    network : Network
    traffic : Traffic
    routing : str
        ``minimal``: the routes of the network. ``valiant``, on a network of groups of routers: the expected
        loads of detours by way of a router in a third group, all with the same probability (Valiant 1982).
        ``ugal``: the part of all bytes takes detours that makes the busiest link the least busy.
    capacity : float64 (n_links,), optional
        Bandwidth of each link, by which ``ugal`` weighs its load.
    routes : object, optional
        `kernel_routes` of the network, where it is asked for often.

    Returns
    -------
    float64 (n_links,)

    Raises
    ------
    ConfigError
        If the traffic does not fit the network, the routing has no meaning on it, or the kernels do not
        support the kind of network.
    """
    require_known("unknown routing", routing, SWITCH_ROUTINGS)
    source, destination = (_node_numbers(nodes, network) for nodes in (traffic.source, traffic.destination))
    if len(source) != len(destination):
        raise ConfigError(f"{len(source)} sources and {len(destination)} destinations", mend="give pairs")
    n_bytes = bytes_of_pairs(traffic, len(source))
    columns = (source, destination, np.ascontiguousarray(n_bytes))
    kernel = kernel_routes(network) if routes is None else routes
    straight, around = np.zeros(network.n_links), np.zeros(network.n_links)
    if routing != "valiant":
        kernel.add_loads(*columns, straight)
    if routing != "minimal":
        kernel.add_detour_loads(*_detours(network), *columns, around)
    return straight + around if routing != "ugal" else _level(straight, around, capacity)


def _detours(network: Network) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Return the heads of links, the groups of routers, and the routers by way of which detours go."""
    _, full = full_network(network)
    if not isinstance(full, CliqueHierarchy | RouterNetwork) or count_groups(full) < DETOUR_GROUPS:
        raise ConfigError(f"detours on a {type(full).__name__} without a third group", mend='route "minimal"')
    routers = np.unique(full.router_of(np.arange(full.n_nodes)))
    columns = (full.link_ends()[1], full.router_groups(), routers)
    head, groups, middles = (np.ascontiguousarray(column, np.int32) for column in columns)
    return head, groups, middles


def _level(straight: FloatArray, around: FloatArray, capacity: FloatArray | None) -> FloatArray:
    """Return the mixture of two loads whose largest load, over its capacity, is least: float64 (n_links,)."""
    if not len(straight):
        return straight
    weight = 1.0 if capacity is None else capacity
    part = _level_part(straight / weight, around / weight)
    return np.asarray((1 - part) * straight + part * around)


def _level_part(begin: FloatArray, end: FloatArray) -> float:
    """Return the x from 0 to 1 at which the largest of the lines (1 - x) begin + x end, (n,), is least.

    The largest is convex and linear between corners: each step takes the x at which the lines cross that are
    the largest at both ends, until no other line is larger there.
    """
    low, high = 0.0, 1.0
    left, right = int(np.argmax(begin)), int(np.argmax(end))
    slope = end - begin
    while slope[left] < 0 < slope[right]:
        x = (begin[left] - begin[right]) / (slope[right] - slope[left])
        largest = int(np.argmax(begin + x * slope))
        if largest in (left, right) or not low < x < high:
            return float(x)
        if slope[largest] < 0:
            low, left = x, largest
        else:
            high, right = x, largest
    return float(low if slope[left] >= 0 else high)


def hops_between(network: Network, source: npt.ArrayLike, destination: npt.ArrayLike) -> Int32Array:
    """Return the number of links between pairs of nodes: int32 (n,); `Network.hops` for many pairs."""
    first, second = _node_numbers(source, network), _node_numbers(destination, network)
    hops = np.empty(len(first), np.int32)
    kernel_routes(network).count_hops(first, second, hops)
    return hops


def _node_numbers(nodes: npt.ArrayLike, network: Network) -> Int32Array:
    numbers = whole_array(nodes, "nodes").ravel()
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= network.n_nodes):
        raise ConfigError(f"a node is not among the {network.n_nodes} of the network", mend="count from 0")
    return np.ascontiguousarray(numbers, np.int32)
