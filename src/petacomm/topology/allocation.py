"""The nodes of a network that are allocated to a job."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array
from petacomm.topology.networks import Network


class Allocation:
    """The nodes of a job, numbered from 0 in the order in which its launcher fills them.

    Links and routes are those of the network.

    Parameters
    ----------
    network : Network
    nodes : int (n_nodes,)
        Number in the network of each node of the job, each once.

    Attributes
    ----------
    n_nodes : int
        Number of nodes of the job.
    n_links : int
        Number of links of the complete network.

    Raises
    ------
    ConfigError
        If there are no nodes, or one is not in the network or given twice.
    """

    def __init__(self, network: Network, nodes: npt.ArrayLike) -> None:
        chosen = np.asarray(nodes, np.int64).ravel()
        if not len(chosen):
            raise ConfigError("a job without nodes", mend="name at least one")
        outside = np.flatnonzero((chosen < 0) | (chosen >= network.n_nodes))
        if len(outside):
            raise ConfigError(
                f"there is no node {chosen[outside[0]]}", mend=f"nodes are 0 to {network.n_nodes - 1}"
            )
        ordered = np.sort(chosen)
        duplicates = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(duplicates):
            raise ConfigError(f"node {duplicates[0]} is named twice", mend="name each once")
        self.network = network
        self.nodes = chosen
        self.n_nodes = len(chosen)
        self.n_links = network.n_links

    def hops(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the number of links between nodes of the job: int64."""
        return self.network.hops(self.nodes[np.asarray(a)], self.nodes[np.asarray(b)])

    def route(self, a: int, b: int) -> Int64Array:
        """Return the links from one node of the job to another, in order: int64 (hops,)."""
        return self.network.route(int(self.nodes[a]), int(self.nodes[b]))


def full_network(network: Network) -> tuple[Int64Array, Network]:
    """Return the nodes of an allocation in its complete network, and that network."""
    nodes, full = np.arange(network.n_nodes), network
    while isinstance(full, Allocation):
        nodes, full = full.nodes[nodes], full.network
    return nodes, full
