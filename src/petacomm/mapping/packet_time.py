"""How long the messages of a communication graph take, packet by packet."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.placement import Placement
from petacomm.network import PacketSimulator, hardware_of
from petacomm.network.packets import Messages, Run
from petacomm.topology import Machine, Network, Torus

# Packets times links, in about a minute.
_MOST_HOPS = 2e8


def simulated(
    graph: CommunicationGraph, placement: Placement, network: Network, machine: Machine, seed: int = 1
) -> Run:
    """Return the run of all messages between nodes, begun at once, a message for each pair of nodes.

    Parameters
    ----------
    graph : CommunicationGraph
    placement : Placement
    network : Torus
    machine : Machine
        Its table `network` has what the simulator needs.
    seed : int
        Of the order in which a node sends, and of what routers draw.

    Raises
    ------
    ConfigError
        If the network is no torus or mesh, the machine's file lacks a number, or packets would be too many.
    """
    if not isinstance(network, Torus):
        raise ConfigError("packets need a whole torus or mesh", mend="leave the simulation out")
    hardware = hardware_of(machine)
    traffic = graph.traffic(placement.nodes, network.n_nodes)
    n_bytes = np.rint(np.asarray(traffic.n_bytes)).astype(np.int64)
    packets = np.maximum(1, -(-n_bytes // hardware.payload))
    hops = float(np.dot(packets, network.hops(traffic.source, traffic.destination)))
    if hops > _MOST_HOPS:
        raise ConfigError(
            f"packets would cross about {hops:.2g} links, more than {_MOST_HOPS:.0e}",
            mend="leave the simulation out, or give fewer bytes",
        )
    # Nodes send in an order of their own, or all would send in the same direction first.
    order = np.random.Generator(np.random.Philox(seed)).permutation(len(n_bytes))
    source, destination = (np.asarray(ends)[order] for ends in (traffic.source, traffic.destination))
    return PacketSimulator(network, hardware, seed=seed).messages(
        Messages(source, destination, n_bytes[order])
    )
