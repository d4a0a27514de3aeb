"""Packet simulation of the messages of a communication graph."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.placement import Placement
from petacomm.network import hops_between, make_simulator
from petacomm.network.packet_messages import PacketMessages, SimulationResult
from petacomm.topology import Machine, Network

# Maximum number of packet hops, which takes about a minute.
_MAX_HOPS = 2e8


def simulate_placement(
    graph: CommunicationGraph, placement: Placement, network: Network, machine: Machine, seed: int = 1
) -> SimulationResult:
    """Return the simulation of all messages between nodes, started at once, one message per pair of nodes.

    Parameters
    ----------
    graph : CommunicationGraph
    placement : Placement
    network : Network
        A whole torus or mesh, or a network of switches; packets take the routing of the machine's file.
    machine : Machine
        Its table `network` must have the parameters of the simulator.
    seed : int
        Seed of the order in which nodes send, and of the routers' random choices.

    Raises
    ------
    ConfigError
        If there is no simulator of the network, the machine's file lacks a number, or there are too many
        packets.
    """
    simulator = make_simulator(network, machine, seed=seed)
    traffic = graph.traffic(placement.nodes, network.n_nodes)
    n_bytes = np.rint(np.asarray(traffic.n_bytes)).astype(np.int64)
    packets = np.maximum(1, -(-n_bytes // simulator.hardware.payload))
    hops = float(np.dot(packets, hops_between(network, traffic.source, traffic.destination)))
    if hops > _MAX_HOPS:
        raise ConfigError(
            f"packets would cross about {hops:.2g} links, more than {_MAX_HOPS:.0e}",
            mend="leave the simulation out, or give fewer bytes",
        )
    # In a random order nodes do not all send in the same direction first.
    order = np.random.Generator(np.random.Philox(seed)).permutation(len(n_bytes))
    source, destination = (np.asarray(ends)[order] for ends in (traffic.source, traffic.destination))
    return simulator.simulate(PacketMessages(source, destination, n_bytes[order]))
