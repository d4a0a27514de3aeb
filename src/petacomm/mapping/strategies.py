"""Registry of mapping strategies, which place the ranks of a communication graph on nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from petacomm.base.arguments import require_integer
from petacomm.base.errors import ConfigError, require_known
from petacomm.base.typing import Int64Array
from petacomm.mapping import _mapping
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.node_orders import bisect_network, line_order
from petacomm.mapping.placement import Placement, check_capacity
from petacomm.network.routes import kernel_routes
from petacomm.topology import Network
from petacomm.topology.networks import require_network

_MAX_SLOTS = 1 << 26
# Improvement passes of each bisection.
_PASSES = 6


@dataclass(frozen=True)
class Resources:
    """The nodes on which ranks can be placed.

    Parameters
    ----------
    network : Network
    ranks_per_node : int
        Number of slots of a node.

    Raises
    ------
    ConfigError
        If there are no slots, or more than 2^26.

    Examples
    --------
    >>> import petacomm
    >>> petacomm.Resources(petacomm.Torus((4, 4)), ranks_per_node=2).network.n_nodes
    16
    """

    network: Network
    ranks_per_node: int = 1

    def __post_init__(self) -> None:
        require_network(self.network)
        require_integer(self.ranks_per_node, "ranks_per_node", -(2**100), 2**100)
        if not 1 <= self.ranks_per_node <= _MAX_SLOTS // self.network.n_nodes:
            raise ConfigError(
                f"{self.network.n_nodes:,} nodes with {self.ranks_per_node:,} ranks a node",
                mend=f"give 1 rank a node or more, and at most {_MAX_SLOTS:,} in all",
            )


# Returns the node of each rank, int (n_ranks,), given graph, resources and seed; no node has more ranks than
# slots.
Strategy: TypeAlias = Callable[[CommunicationGraph, Resources, int], Int64Array]
F = TypeVar("F", bound=Strategy)


@dataclass(frozen=True)
class StrategyEntry:
    """A registered strategy.

    Attributes
    ----------
    function : callable
        Returns the node of each rank, given graph, resources and seed.
    summary : str
        Description in one line.
    missing : callable
        Returns the dependency that is not installed, or an empty string.
    unfit : callable
        Returns why the strategy cannot be used for a graph and resources, or an empty string.
    """

    function: Strategy
    summary: str
    missing: Callable[[], str] = lambda: ""
    unfit: Callable[[CommunicationGraph, Resources], str] = lambda graph, resources: ""

    def reason_unusable(self, graph: CommunicationGraph, resources: Resources) -> str:
        """Return why the strategy cannot be used for a graph and resources, or an empty string."""
        return self.missing() or self.unfit(graph, resources)


STRATEGIES: dict[str, StrategyEntry] = {}


def register_strategy(
    name: str,
    summary: str,
    missing: Callable[[], str] = lambda: "",
    unfit: Callable[[CommunicationGraph, Resources], str] = lambda graph, resources: "",
) -> Callable[[F], F]:
    """Return a decorator that registers a function as the strategy `name`."""

    def decorate(function: F) -> F:
        STRATEGIES[name] = StrategyEntry(function, summary, missing, unfit)
        return function

    return decorate


def get_strategy(name: str) -> StrategyEntry:
    """Return a strategy by its name.

    Raises
    ------
    ConfigError
        If there is no such strategy, or a dependency is not installed.
    """
    require_known("unknown strategy", name, STRATEGIES)
    lack = STRATEGIES[name].missing()
    if lack:
        raise ConfigError(f"strategy '{name}' cannot be used: {lack}", mend="install it, or choose another")
    return STRATEGIES[name]


def place_ranks(name: str, graph: CommunicationGraph, resources: Resources, seed: int = 0) -> Placement:
    """Return the placement of a strategy, not refined.

    Raises
    ------
    ConfigError
        If there is no such strategy, it cannot be used, or there are more ranks than slots.
    """
    entry = get_strategy(name)
    check_capacity(graph.n_ranks, resources.network, resources.ranks_per_node)
    if lack := entry.unfit(graph, resources):
        raise ConfigError(f"strategy '{name}' cannot be used: {lack}", mend="choose another, or auto")
    return Placement.from_nodes(
        entry.function(graph, resources, seed), resources.network, resources.ranks_per_node
    )


@register_strategy(
    "identity", "nodes in their order, each filled before the next: what a launcher does unasked"
)
def _identity(graph: CommunicationGraph, resources: Resources, seed: int) -> Int64Array:
    return np.arange(graph.n_ranks) // resources.ranks_per_node


@register_strategy("cyclic", "nodes in turn: what a launcher does that deals ranks cyclically")
def _cyclic(graph: CommunicationGraph, resources: Resources, seed: int) -> Int64Array:
    return np.arange(graph.n_ranks) % resources.network.n_nodes


@register_strategy("random", "places drawn at random")
def _random(graph: CommunicationGraph, resources: Resources, seed: int) -> Int64Array:
    return Placement.random(resources.network, resources.ranks_per_node, graph.n_ranks, seed=seed).nodes


@register_strategy(
    "greedy", "the rank with most bytes to placed ones first, where they cross the fewest links"
)
def greedy_nodes(graph: CommunicationGraph, resources: Resources, seed: int = 0) -> Int64Array:
    """Return the node of each rank by greedy placement, one rank after the other: int64 (n_ranks,)."""
    nodes = np.empty(graph.n_ranks, np.int32)
    order = bisect_network(resources.network).order
    _mapping.place_greedily(
        kernel_routes(resources.network), *graph.partner_lists, order, resources.ranks_per_node, nodes
    )
    return nodes.astype(np.int64)


@register_strategy("recursive", "ranks and nodes cut into halves together, and halves of halves")
def _recursive(graph: CommunicationGraph, resources: Resources, seed: int) -> Int64Array:
    nodes = np.empty(graph.n_ranks, np.int32)
    order, cuts = bisect_network(resources.network)
    routes = kernel_routes(resources.network)
    _mapping.place_by_bisection(
        routes, *graph.partner_lists, cuts, order, resources.ranks_per_node, _PASSES, nodes
    )
    return nodes.astype(np.int64)


@register_strategy("rcm", "reverse Cuthill-McKee order of the ranks along a line through the nodes")
def _cuthill_mckee(graph: CommunicationGraph, resources: Resources, seed: int) -> Int64Array:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    offsets, partners, to, from_ = graph.partner_lists
    pattern = csr_array((to + from_, partners, offsets), shape=(graph.n_ranks, graph.n_ranks))
    order = reverse_cuthill_mckee(pattern, symmetric_mode=True)
    nodes = np.empty(graph.n_ranks, np.int64)
    nodes[order] = line_order(resources.network)[np.arange(graph.n_ranks) // resources.ranks_per_node]
    return nodes
