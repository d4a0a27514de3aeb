"""Placements with a given number of ranks on each node, as launchers or running processes have them."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.mapping.graph import CommunicationGraph
from petacomm.topology import Network


def with_node_counts(
    nodes: Int64Array, counts: Int64Array, graph: CommunicationGraph, network: Network
) -> Int64Array:
    """Return nodes of ranks of which each has a given number, by moving as few ranks as can be.

    Ranks that are too many go to the nearest node with room, those first that exchange least with their node.

    Parameters
    ----------
    nodes : int64 (n_ranks,)
        Node of each rank.
    counts : int64 (n_nodes,)
        Ranks of each node, as many in all as there are.
    graph : CommunicationGraph
    network : Network

    Returns
    -------
    int64 (n_ranks,)
    """
    fitted = nodes.copy()
    here = np.bincount(nodes, minlength=len(counts))
    inside = nodes[graph.sources] == nodes[graph.targets]
    ends = np.concatenate([graph.sources[inside], graph.targets[inside]])
    exchanged = np.bincount(ends, np.tile(graph.n_bytes[inside], 2), graph.n_ranks)
    for node in np.flatnonzero(here > counts):
        there = np.flatnonzero(nodes == node)
        for rank in there[np.argsort(exchanged[there], kind="stable")][: here[node] - counts[node]]:
            free = np.flatnonzero(here < counts)
            fitted[rank] = free[np.argmin(network.hops(np.full(len(free), node), free))]
            here[fitted[rank]] += 1
    return fitted
