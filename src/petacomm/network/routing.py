"""Routings of networks of switches, and the capacities of links, as machines' files have them."""

from __future__ import annotations

import dataclasses

import numpy as np

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.typing import FloatArray
from petacomm.network.bluegene_wires import network_number
from petacomm.topology import (
    CliqueHierarchy,
    FatTree,
    Machine,
    Network,
    RouterNetwork,
    full_network,
    make_network,
)

SWITCH_ROUTINGS = ("minimal", "valiant", "ugal")
DETOUR_GROUPS = 3  # groups of routers from which there are detours


def machine_routing(machine: Machine) -> str:
    """Return the routing that a machine's file names, ``minimal`` if it names none.

    Raises
    ------
    ConfigError
        If there is no such routing.
    """
    routing = machine.network.get("routing", "minimal")
    if routing not in SWITCH_ROUTINGS:
        what = f"'network.routing' of machine '{machine.name}' is {routing!r}"
        raise ConfigError(what, mend=did_you_mean(str(routing), list(SWITCH_ROUTINGS)))
    return str(routing)


def network_routing(machine: Machine, network: Network) -> str:
    """Return the routing of a machine's file on a part of its network.

    It is minimal where the machine has detours, and the part no third group of routers for them to go by.

    Raises
    ------
    ConfigError
        If there is no such routing.
    """
    routing, straight = machine_routing(machine), not _has_detours(full_network(network)[1])
    return "minimal" if straight and _has_detours(make_network(machine)) else routing


def _has_detours(network: Network) -> bool:
    if isinstance(network, CliqueHierarchy | RouterNetwork):
        return count_groups(network) >= DETOUR_GROUPS
    return True


def count_groups(network: CliqueHierarchy | RouterNetwork) -> int:
    """Return the number of groups of routers, of those that detours avoid or go by way of."""
    return len(np.unique(network.router_groups()))


def n_levels(network: FatTree | CliqueHierarchy | RouterNetwork) -> int:
    """Return the number of levels of links of a network of switches."""
    if isinstance(network, RouterNetwork):
        return network.n_levels
    return len(network.parents) if isinstance(network, FatTree) else len(network.levels)


def attaches_nodes(network: Network) -> bool:
    """Return whether nodes are attached to switches by links that the network does not number.

    Fat trees number them; on a torus, and in cliques of one node a vertex, nodes route themselves.
    """
    _, full = full_network(network)
    if isinstance(full, CliqueHierarchy):
        return full.nodes_per_vertex > 1
    return isinstance(full, RouterNetwork)


def job_capacities(machine: Machine, network: Network) -> FloatArray | None:
    """Return the bandwidths of all links that messages cross between nodes of a job, None if unknown.

    Returns
    -------
    float64 (n_links,) or (n_links + 2 n_nodes,)
        Those of `link_capacities`; then, where `attaches_nodes`, that of each node and its switch, from the
        nodes and to them: `node_bandwidth`.
    """
    links = link_capacities(machine, network)
    if links is None or not attaches_nodes(network):
        return links
    return np.concatenate([links, np.full(2 * network.n_nodes, machine.node_bandwidth)])


def link_capacities(machine: Machine, network: Network) -> FloatArray | None:
    """Return the bandwidth of each link in bytes per second: float64 (n_links,), or None if it is unknown.

    The machine's file has `link_bandwidth` for all links; for a network of switches, `level_bandwidths` for
    each level, from the lowest up.
    """
    _, full = full_network(network)
    levels = machine.network.get("level_bandwidths")
    if (
        isinstance(full, FatTree | CliqueHierarchy | RouterNetwork)
        and isinstance(levels, list)
        and len(levels) == n_levels(full)
    ):
        numbers = []
        for level in levels:
            part = dataclasses.replace(machine, network={"level_bandwidths": level})
            numbers.append(network_number(part, "level_bandwidths", "bandwidth"))
        return np.array(numbers)[full.link_levels()]
    if "link_bandwidth" not in machine.network:
        return None
    return np.full(network.n_links, network_number(machine, "link_bandwidth", "bandwidth"))
