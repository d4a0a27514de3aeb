"""Hierarchical strategy: ranks grouped into nodes and nodes into islands by METIS, through pymetis."""

from __future__ import annotations

import importlib.util

import numpy as np

from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.node_orders import bisect_network
from petacomm.mapping.strategies import Resources, greedy_nodes, register_strategy
from petacomm.network.routes import hops_between
from petacomm.topology import Allocation

# METIS takes integer weights, whose sum must fit 32 bits.
_MAX_WEIGHT = 1 << 20


def fit_capacity(graph: CommunicationGraph, resources: Resources, nodes: Int64Array) -> Int64Array:
    """Return the nodes of ranks with no node over its capacity, by moving ranks to the nearest free nodes.

    The ranks that exchange the fewest bytes with the others on an overfull node are moved.

    Parameters
    ----------
    graph : CommunicationGraph
    resources : Site
    nodes : int64 (n_ranks,)
    """
    free_slots = resources.ranks_per_node - np.bincount(nodes, minlength=resources.network.n_nodes)
    if not (free_slots < 0).any():
        return nodes
    offsets, partners, to, from_ = graph.partner_lists
    rank = np.repeat(np.arange(graph.n_ranks), np.diff(offsets))
    local = nodes[rank] == nodes[partners]
    local_bytes = np.bincount(rank[local], (to + from_)[local], graph.n_ranks)
    moved = nodes.copy()
    for node in np.flatnonzero(free_slots < 0):
        ranks = np.flatnonzero(nodes == node)
        for mover in ranks[np.argsort(local_bytes[ranks], kind="stable")][: -free_slots[node]]:
            free = np.flatnonzero(free_slots > 0)
            hops = hops_between(resources.network, np.full(len(free), node), free)
            moved[mover] = free[np.argmin(hops)]
            free_slots[moved[mover]] -= 1
        free_slots[node] = 0
    return moved


def _missing() -> str:
    spec = importlib.util.find_spec("pymetis")
    return "" if spec else "there is no pymetis (pip install petamap[mapping])"


@register_strategy(
    "hierarchical", "METIS groups of ranks for nodes and of nodes for islands, then greedily", _missing
)
def _hierarchical(graph: CommunicationGraph, resources: Resources, seed: int) -> Int64Array:
    network = resources.network
    node_group = _node_groups(graph, resources)
    between = graph.grouped(node_group, network.n_nodes)
    order, cuts = bisect_network(network)
    islands = _islands(cuts, network.n_nodes)
    sizes = np.diff(islands)
    island_of = _metis_parts(between, sizes)
    # Islands of equal size are placed by their centres; else they stay in order, each in an island of its
    # size.
    centres = order[(islands[:-1] + islands[1:]) // 2]
    of_islands = between.grouped(island_of, len(sizes))
    if len(set(sizes)) == 1:
        position = greedy_nodes(of_islands, Resources(Allocation(network, centres)))
    else:
        position = np.arange(len(sizes))
    node_of = np.empty(network.n_nodes, np.int64)
    for island in range(len(sizes)):
        members = np.flatnonzero(island_of == island)
        target = position[island]
        nodes = order[islands[target] : islands[target + 1]].astype(np.int64)
        within = between.subgraph(members)
        node_of[members] = nodes[greedy_nodes(within, Resources(Allocation(network, nodes)))]
    return node_of[node_group]


def _node_groups(graph: CommunicationGraph, resources: Resources) -> Int64Array:
    """Return the group of each rank, with groups of at most the size of a node."""
    if resources.ranks_per_node == 1:
        return np.arange(graph.n_ranks)
    n_groups = -(-graph.n_ranks // resources.ranks_per_node)
    full, rest = divmod(graph.n_ranks, resources.ranks_per_node)
    return _metis_parts(graph, np.array([resources.ranks_per_node] * full + [rest] * (n_groups - full)))


def _islands(cuts: Int32Array, n_nodes: int) -> Int64Array:
    """Return the begins of islands of about sqrt(n) nodes in the order of the bisection, and the end."""
    low, middle, high = cuts[:3]
    large = high - low > max(2, n_nodes**0.5)
    return np.unique(np.concatenate([[0, n_nodes], middle[large]])).astype(np.int64)


def _metis_parts(graph: CommunicationGraph, sizes: Int64Array) -> Int64Array:
    """Return the part of each vertex, with parts of at most the given sizes."""
    import pymetis

    offsets, partners, to, from_ = graph.partner_lists
    both = to + from_
    weights = np.maximum(1, np.rint(both * (_MAX_WEIGHT / max(1.0, float(both.max(initial=0.0))))))
    shares = (sizes / sizes.sum()).tolist()
    if len(sizes) == 1:
        return np.zeros(graph.n_ranks, np.int64)
    _, part_of = pymetis.part_graph(
        len(sizes),
        adjacency=pymetis.CSRAdjacency(offsets.tolist(), partners.tolist()),
        eweights=weights.astype(np.int64).tolist(),
        tpwgts=shares,
        recursive=True,
        options=pymetis.Options(ufactor=1, seed=0),
    )
    return _balance(graph, np.asarray(part_of, np.int64), sizes)


def _balance(graph: CommunicationGraph, part_of: Int64Array, sizes: Int64Array) -> Int64Array:
    """Return parts that do not exceed their sizes, by moving the vertices with the smallest loss."""
    room = sizes - np.bincount(part_of, minlength=len(sizes))
    part_of = part_of.copy()
    for part in np.flatnonzero(room < 0):
        members = np.flatnonzero(part_of == part)
        rows = np.array([_bytes_by_part(graph, int(vertex), part_of, len(sizes)) for vertex in members])
        for _ in range(-room[part]):
            gain = np.where(room > 0, rows - rows[:, part][:, None], -np.inf)
            vertex, to_part = np.unravel_index(np.argmax(gain), gain.shape)
            part_of[members[vertex]] = to_part
            rows[vertex] = -np.inf
            rows[vertex, part] = 0.0
            room[to_part] -= 1
        room[part] = 0
    return part_of


def _bytes_by_part(graph: CommunicationGraph, vertex: int, part_of: Int64Array, n_parts: int) -> FloatArray:
    """Return the bytes that a vertex exchanges with each part: float64 (n_parts,)."""
    offsets, partners, to, from_ = graph.partner_lists
    row = slice(offsets[vertex], offsets[vertex + 1])
    return np.bincount(part_of[partners[row]], to[row] + from_[row], n_parts).astype(np.float64)
