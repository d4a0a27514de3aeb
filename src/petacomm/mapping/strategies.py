"""Ways to place the ranks of a communication graph on nodes, each behind a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.typing import Int64Array
from petacomm.mapping import _mapping
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.node_orders import halved, line_order
from petacomm.mapping.placement import Placement
from petacomm.network.routes import ways_of
from petacomm.topology import Network

_MOST_PLACES = 1 << 26
# Passes of improvement of each cut.
_PASSES = 6


@dataclass(frozen=True)
class Site:
    """Where ranks can go.

    Attributes
    ----------
    network : Network
    ranks_per_node : int

    Raises
    ------
    ConfigError
        If it has no places, or more than 2^26.
    """

    network: Network
    ranks_per_node: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.ranks_per_node <= _MOST_PLACES // self.network.n_nodes:
            raise ConfigError(
                f"{self.network.n_nodes:,} nodes with {self.ranks_per_node:,} ranks a node",
                mend=f"give 1 rank a node or more, and at most {_MOST_PLACES:,} in all",
            )


# Returns the node of each rank: int (n_ranks,), none with more ranks than it has room for.
Strategy: TypeAlias = Callable[[CommunicationGraph, Site, int], Int64Array]


@dataclass(frozen=True)
class Entry:
    """A strategy of the registry.

    Attributes
    ----------
    place : callable
        Of graph, site and seed.
    summary : str
        In a line.
    missing : callable
        Returns what it needs and this machine lacks, or an empty text.
    unfit : callable
        Of graph and site: returns why it has no placement for them, or an empty text.
    """

    place: Strategy
    summary: str
    missing: Callable[[], str] = lambda: ""
    unfit: Callable[[CommunicationGraph, Site], str] = lambda graph, site: ""

    def lacks(self, graph: CommunicationGraph, site: Site) -> str:
        """Return why it cannot be used for this graph here, or an empty text."""
        return self.missing() or self.unfit(graph, site)


STRATEGIES: dict[str, Entry] = {}


def register(
    name: str,
    summary: str,
    missing: Callable[[], str] = lambda: "",
    unfit: Callable[[CommunicationGraph, Site], str] = lambda graph, site: "",
) -> Callable[[Strategy], Strategy]:
    """Make a function known as the strategy `name`."""

    def keep(place: Strategy) -> Strategy:
        STRATEGIES[name] = Entry(place, summary, missing, unfit)
        return place

    return keep


def strategy(name: str) -> Entry:
    """Return a strategy by its name.

    Raises
    ------
    ConfigError
        If there is none of this name, or it needs what is not installed.
    """
    if name not in STRATEGIES:
        raise ConfigError(f"unknown strategy '{name}'", mend=did_you_mean(name, list(STRATEGIES)))
    lack = STRATEGIES[name].missing()
    if lack:
        raise ConfigError(f"strategy '{name}' cannot be used: {lack}", mend="install it, or choose another")
    return STRATEGIES[name]


def place(name: str, graph: CommunicationGraph, site: Site, seed: int = 0) -> Placement:
    """Return the placement of a strategy, not refined.

    Raises
    ------
    ConfigError
        If there is no such strategy, it cannot be used here, or the ranks do not fit.
    """
    entry = strategy(name)
    check_room(graph.n_ranks, site)
    if lack := entry.unfit(graph, site):
        raise ConfigError(f"strategy '{name}' cannot be used: {lack}", mend="choose another, or auto")
    return Placement.from_nodes(entry.place(graph, site, seed), site.network, site.ranks_per_node)


def check_room(n_ranks: int, site: Site) -> None:
    """Raise unless so many ranks have a place."""
    room = site.network.n_nodes * site.ranks_per_node
    if n_ranks > room:
        raise ConfigError(
            f"{n_ranks} ranks do not fit on {site.network.n_nodes} nodes with {site.ranks_per_node} "
            "ranks a node",
            mend="take more nodes, or more ranks a node",
        )


@register("identity", "nodes in their order, each filled before the next: what a launcher does unasked")
def _identity(graph: CommunicationGraph, site: Site, seed: int) -> Int64Array:
    return np.arange(graph.n_ranks) // site.ranks_per_node


@register("random", "places drawn at random")
def _random(graph: CommunicationGraph, site: Site, seed: int) -> Int64Array:
    return Placement.random(site.network, site.ranks_per_node, graph.n_ranks, seed=seed).nodes


@register("greedy", "the rank with most bytes to placed ones first, where they cross the fewest links")
def _greedy(graph: CommunicationGraph, site: Site, seed: int) -> Int64Array:
    return greedy_nodes(graph, site)


def greedy_nodes(graph: CommunicationGraph, site: Site) -> Int64Array:
    """Return the node of each rank, placed one after the other: int64 (n_ranks,)."""
    nodes = np.empty(graph.n_ranks, np.int32)
    order = halved(site.network).order
    _mapping.place_greedily(ways_of(site.network), *graph.exchange, order, site.ranks_per_node, nodes)
    return nodes.astype(np.int64)


@register("recursive", "ranks and nodes cut into halves together, and halves of halves")
def _recursive(graph: CommunicationGraph, site: Site, seed: int) -> Int64Array:
    nodes = np.empty(graph.n_ranks, np.int32)
    order, cuts = halved(site.network)
    ways = ways_of(site.network)
    _mapping.place_by_bisection(ways, *graph.exchange, cuts, order, site.ranks_per_node, _PASSES, nodes)
    return nodes.astype(np.int64)


@register("rcm", "reverse Cuthill-McKee order of the ranks along a line through the nodes")
def _cuthill_mckee(graph: CommunicationGraph, site: Site, seed: int) -> Int64Array:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    offsets, partners, to, from_ = graph.exchange
    pattern = csr_array((to + from_, partners, offsets), shape=(graph.n_ranks, graph.n_ranks))
    order = reverse_cuthill_mckee(pattern, symmetric_mode=True)
    nodes = np.empty(graph.n_ranks, np.int64)
    nodes[order] = line_order(site.network)[np.arange(graph.n_ranks) // site.ranks_per_node]
    return nodes
