"""Routings of networks of switches, and the capacities of links, as machines' files have them."""

from __future__ import annotations

import dataclasses

import numpy as np

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.typing import FloatArray
from petacomm.network.bluegene_wires import network_number
from petacomm.topology import CliqueHierarchy, FatTree, Machine, Network, RouterNetwork, full_network

SWITCH_ROUTINGS = ("minimal", "valiant", "ugal")


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


def n_levels(network: FatTree | CliqueHierarchy | RouterNetwork) -> int:
    """Return the number of levels of links of a network of switches."""
    if isinstance(network, RouterNetwork):
        return network.n_levels
    return len(network.parents) if isinstance(network, FatTree) else len(network.levels)


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
