"""Networks of switches as graphs for the packet simulator: links, routes and virtual channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import BoolArray, Int64Array
from petacomm.network import _network
from petacomm.topology import CliqueHierarchy, FatTree, Network, RouterNetwork, full_network

# Pairs of switches for which the kernel's tables have the next links: 4 bytes and more each.
_MAX_PAIRS = 1 << 27


@dataclass(frozen=True)
class SwitchGraph:
    """The links of a network of switches, and of its nodes, with what routers do on each.

    Vertices are the nodes, numbered first, and the switches.

    Attributes
    ----------
    n_nodes, n_vertices : int
    source, target : int64 (n,)
        Vertices of each directed link.
    number : int64 (n,)
        Number of each link in the network; -1 for one between a node and its switch that it does not number.
    length : int64 (n,)
        Packets take routes of the least total length.
    rises : bool (n,)
        Whether a packet uses the next virtual channel beyond the link.
    level : int64 (n,)
        Level of each link in the network; -1 where `number` is -1.
    region : int64 (n_vertices,)
        A detour goes by way of a switch of a region other than those of source and destination, and ends as
        soon as it is in that region.
    middles : int64 (n_middles,)
        Switches by way of which detours go.
    """

    n_nodes: int
    n_vertices: int
    source: Int64Array
    target: Int64Array
    number: Int64Array
    length: Int64Array
    rises: BoolArray
    level: Int64Array
    region: Int64Array
    middles: Int64Array

    @property
    def has_detours(self) -> bool:
        """Whether detours may go by way of three regions."""
        return len(np.unique(self.region[self.middles])) > 2

    @property
    def node_links(self) -> tuple[int, int]:
        """The level of the links that leave nodes, and how many leave each."""
        leaving = self.source < self.n_nodes
        return int(self.level[leaving][0]), int(leaving.sum()) // self.n_nodes

    def kernel_network(self, detours: bool) -> Any:
        """Return the kernel's tables of the graph, with switches for detours if these are made.

        Raises
        ------
        ConfigError
            If the tables would take too much memory.
        """
        n_switches = self.n_vertices - self.n_nodes
        if n_switches * (n_switches if detours else min(self.n_nodes, n_switches)) > _MAX_PAIRS:
            what = f"routes between {n_switches:,} switches do not fit the tables of the simulator"
            raise ConfigError(what, mend="simulate a part of the network")
        columns: dict[str, Any] = {"tail": self.source, "head": self.target, "length": self.length}
        columns |= {"region": self.region, "middles": self.middles if detours else self.middles[:0]}
        columns = {name: np.ascontiguousarray(column, np.int32) for name, column in columns.items()}
        rises, kind = (np.ascontiguousarray(column, np.uint8) for column in (self.rises, self.level + 1))
        return _network.SwitchNetwork(self.n_nodes, self.n_vertices, rises=rises, kind=kind, **columns)


def switch_graph(network: Network) -> SwitchGraph:
    """Return the graph of a network of switches; of an allocation, with its nodes alone.

    Raises
    ------
    ConfigError
        If the network has no switches.
    """
    nodes, full = full_network(network)
    if isinstance(full, FatTree):
        return _fat_tree_graph(full, nodes)
    if isinstance(full, CliqueHierarchy):
        return _attached_graph(full, nodes, *_clique_rules(full))
    if isinstance(full, RouterNetwork):
        return _attached_graph(full, nodes, full.link_lengths(), full.changes_channel())
    raise ConfigError(f"a {type(full).__name__} is no network of switches", mend="take one that is")


def _fat_tree_graph(tree: FatTree, nodes: Int64Array) -> SwitchGraph:
    """Return the graph of a fat tree: shortest routes go up and down, so one channel suffices."""
    source, target = tree.link_ends()
    n_vertices = len(nodes) + tree.n_vertices - tree.n_nodes
    renumbered = np.full(tree.n_vertices, -1)
    renumbered[nodes] = np.arange(len(nodes))
    renumbered[tree.n_nodes :] = np.arange(len(nodes), n_vertices)
    source, target = renumbered[source], renumbered[target]
    kept = np.flatnonzero((source >= 0) & (target >= 0))
    return SwitchGraph(
        len(nodes),
        n_vertices,
        source[kept],
        target[kept],
        number=kept,
        length=np.ones(len(kept), np.int64),
        rises=np.zeros(len(kept), np.bool_),
        level=tree.link_levels()[kept],
        region=np.zeros(n_vertices, np.int64),
        middles=np.arange(0),
    )


def _attached_graph(
    network: CliqueHierarchy | RouterNetwork, nodes: Int64Array, length: Int64Array, rises: BoolArray
) -> SwitchGraph:
    """Return the graph of a network whose nodes are attached to routers by links that it does not number."""
    n, (source, target) = len(nodes), network.link_ends()
    routers, own = n + network.router_of(nodes), np.arange(n)
    apart = np.full(2 * n, -1)
    return SwitchGraph(
        n,
        n + network.n_vertices,
        np.concatenate([n + source, own, routers]),
        np.concatenate([n + target, routers, own]),
        number=np.concatenate([np.arange(network.n_links), apart]),
        length=np.concatenate([length, np.ones(2 * n, np.int64)]),
        rises=np.concatenate([rises, np.zeros(2 * n, np.bool_)]),
        level=np.concatenate([network.link_levels(), apart]),
        region=np.concatenate([np.full(n, -1), network.router_groups()]),
        middles=n + np.unique(network.router_of(np.arange(network.n_nodes))),
    )


def _clique_rules(network: CliqueHierarchy) -> tuple[Int64Array, BoolArray]:
    """Return lengths and rises of links.

    Lengths make one cable between groups shorter than any two. In a dragonfly packets change the channel
    with the group: local and global links then follow each other in one order (Kim et al. 2008). Elsewhere
    they do so with each link.
    """
    lengths, longest = [], 0
    for level in network.levels:
        lengths.append(1 if level.fully_linked else 2 * longest + 1)
        longest = max(longest, 1) if level.fully_linked else 4 * longest + 1
    levels = network.link_levels()
    sparse = [index for index, level in enumerate(network.levels) if not level.fully_linked]
    is_dragonfly = sparse == [len(network.levels) - 1]
    rises = levels == sparse[0] if is_dragonfly else np.ones(len(levels), np.bool_)
    return np.array(lengths)[levels], rises
