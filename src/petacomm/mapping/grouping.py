"""Ranks in groups of equal size: those of a node, and nodes in islands; METIS through pymetis."""

from __future__ import annotations

import importlib.util

import numpy as np

from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.node_orders import halved
from petacomm.mapping.strategies import Site, greedy_nodes, register
from petacomm.network.routes import hops_between
from petacomm.topology import Allocation

# METIS takes whole weights; their sum must fit 32 bits.
_LARGEST_WEIGHT = 1 << 20


def within_room(graph: CommunicationGraph, site: Site, nodes: Int64Array) -> Int64Array:
    """Return nodes of ranks such that none has more than it has room for: some ranks move to near free ones.

    Those leave a crowded node that exchange least with its other ranks.

    Parameters
    ----------
    graph : CommunicationGraph
    site : Site
    nodes : int64 (n_ranks,)
    """
    room = site.ranks_per_node - np.bincount(nodes, minlength=site.network.n_nodes)
    if not (room < 0).any():
        return nodes
    offsets, partners, to, from_ = graph.exchange
    rank_of = np.repeat(np.arange(graph.n_ranks), np.diff(offsets))
    near = nodes[rank_of] == nodes[partners]
    tied = np.bincount(rank_of[near], (to + from_)[near], graph.n_ranks)
    moved = nodes.copy()
    for node in np.flatnonzero(room < 0):
        ranks = np.flatnonzero(nodes == node)
        for rank in ranks[np.argsort(tied[ranks], kind="stable")][: -room[node]]:
            free = np.flatnonzero(room > 0)
            hops = hops_between(site.network, np.full(len(free), node), free)
            moved[rank] = free[np.argmin(hops)]
            room[moved[rank]] -= 1
        room[node] = 0
    return moved


def _missing() -> str:
    found = importlib.util.find_spec("pymetis")
    return "" if found else "there is no pymetis (pip install petamap[mapping])"


@register("hierarchical", "METIS groups of ranks for nodes and of nodes for islands, then greedily", _missing)
def _hierarchical(graph: CommunicationGraph, site: Site, seed: int) -> Int64Array:
    network = site.network
    ranks_on = _node_groups(graph, site)
    between = graph.grouped(ranks_on, network.n_nodes)
    order, cuts = halved(network)
    islands = _islands(cuts, network.n_nodes)
    sizes = np.diff(islands)
    island_of = _parts(between, sizes)
    # Islands go to where most of their nodes are near, each to one of its size.
    centres = order[(islands[:-1] + islands[1:]) // 2]
    of_islands = between.grouped(island_of, len(sizes))
    at = greedy_nodes(of_islands, Site(Allocation(network, centres))) if len(set(sizes)) == 1 else None
    place_of = np.arange(len(sizes)) if at is None else at
    node_of = np.empty(network.n_nodes, np.int64)
    for island in range(len(sizes)):
        members = np.flatnonzero(island_of == island)
        there = place_of[island]
        nodes = order[islands[there] : islands[there + 1]].astype(np.int64)
        within = between.among(members)
        node_of[members] = nodes[greedy_nodes(within, Site(Allocation(network, nodes)))]
    return node_of[ranks_on]


def _node_groups(graph: CommunicationGraph, site: Site) -> Int64Array:
    """Return the group of each rank, as many groups as nodes and none larger than a node."""
    if site.ranks_per_node == 1:
        return np.arange(graph.n_ranks)
    n_groups = -(-graph.n_ranks // site.ranks_per_node)
    full, rest = divmod(graph.n_ranks, site.ranks_per_node)
    return _parts(graph, np.array([site.ranks_per_node] * full + [rest] * (n_groups - full)))


def _islands(cuts: Int32Array, n_nodes: int) -> Int64Array:
    """Return where islands begin in the order of halves, and the end: parts of about sqrt(n) nodes."""
    low, middle, high = cuts[:3]
    large = high - low > max(2, n_nodes**0.5)
    return np.unique(np.concatenate([[0, n_nodes], middle[large]])).astype(np.int64)


def _parts(graph: CommunicationGraph, sizes: Int64Array) -> Int64Array:
    """Return the part of each vertex, parts of exactly these sizes; vertices may be fewer."""
    import pymetis

    offsets, partners, to, from_ = graph.exchange
    both = to + from_
    weights = np.maximum(1, np.rint(both * (_LARGEST_WEIGHT / max(1.0, float(both.max(initial=0.0))))))
    shares = (sizes / sizes.sum()).tolist()
    if len(sizes) == 1:
        return np.zeros(graph.n_ranks, np.int64)
    _, found = pymetis.part_graph(
        len(sizes),
        adjacency=pymetis.CSRAdjacency(offsets.tolist(), partners.tolist()),
        eweights=weights.astype(np.int64).tolist(),
        tpwgts=shares,
        recursive=True,
        options=pymetis.Options(ufactor=1, seed=0),
    )
    return _balanced(graph, np.asarray(found, np.int64), sizes)


def _balanced(graph: CommunicationGraph, part_of: Int64Array, sizes: Int64Array) -> Int64Array:
    """Return parts no larger than their sizes: those that lose least by it move to where there is room."""
    room = sizes - np.bincount(part_of, minlength=len(sizes))
    part_of = part_of.copy()
    for part in np.flatnonzero(room < 0):
        members = np.flatnonzero(part_of == part)
        rows = np.array([_ties(graph, int(vertex), part_of, len(sizes)) for vertex in members])
        for _ in range(-room[part]):
            gain = np.where(room > 0, rows - rows[:, part][:, None], -np.inf)
            vertex, to_part = np.unravel_index(np.argmax(gain), gain.shape)
            part_of[members[vertex]] = to_part
            rows[vertex] = -np.inf
            rows[vertex, part] = 0.0
            room[to_part] -= 1
        room[part] = 0
    return part_of


def _ties(graph: CommunicationGraph, vertex: int, part_of: Int64Array, n_parts: int) -> FloatArray:
    offsets, partners, to, from_ = graph.exchange
    row = slice(offsets[vertex], offsets[vertex + 1])
    both: FloatArray = np.bincount(part_of[partners[row]], to[row] + from_[row], n_parts).astype(np.float64)
    return both
