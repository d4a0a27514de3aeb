"""Switched networks: fat trees, and hierarchies of cliques such as dragonflies and PERCS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError, require_known
from petacomm.base.typing import Int64Array

_MOST_CABLES = 1 << 20  # of a pair of groups
ARRANGEMENTS = ("round-robin", "consecutive")


class FatTree:
    """A generalized fat tree of switches (Oehring et al. 1995): XGFT(h; m_1..m_h; w_1..w_h).

    A vertex of level l has m_l children, and each of these has w_l parents; nodes are the leaves, level 0.

    Parameters
    ----------
    children, parents : sequence of int
        m_l and w_l, from the leaves up.

    Attributes
    ----------
    n_nodes, n_links : int
        Number of leaves and of directed links; the upward links of all levels are numbered first, then the
        downward ones in the same order.
    """

    def __init__(self, children: Sequence[int], parents: Sequence[int]) -> None:
        if len(children) != len(parents) or not children or min(*children, *parents) < 1:
            raise ConfigError(
                f"a fat tree of children {list(children)} and parents {list(parents)}",
                mend="give one number, 1 or more, of both for each level",
            )
        self.children = tuple(children)
        self.parents = tuple(parents)
        self.n_nodes = math.prod(self.children)
        self._below = [math.prod(self.children[:level]) for level in range(len(self.children) + 1)]
        self._copies = [math.prod(self.parents[:level]) for level in range(len(self.parents) + 1)]
        # Cables between levels l and l + 1: each vertex of level l has w_(l + 1).
        cables = [
            self.n_nodes // self._below[level] * self._copies[level] * width
            for level, width in enumerate(self.parents)
        ]
        self._first = [0, *np.cumsum(cables).tolist()]
        self.n_links = 2 * self._first[-1]

    def common_level(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the level of the lowest common ancestors of two nodes: int64, 0 for the same node."""
        first, second = np.asarray(a), np.asarray(b)
        apart = [first // below != second // below for below in self._below[:-1]]
        return np.asarray(np.sum(np.broadcast_arrays(*apart), axis=0, dtype=np.int64))

    def hops(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the number of links between nodes, up to a common switch and down: int64."""
        return 2 * self.common_level(a, b)

    def route(self, a: int, b: int) -> Int64Array:
        """Return the links from one node to another, int64 (hops,), by d-mod-k routing."""
        up: list[int] = []
        down: list[int] = []
        copy = 0
        for level in range(int(self.common_level(a, b))):
            width = self.parents[level]
            port = b // self._copies[level] % width
            for node, links, base in ((a, up, 0), (b, down, self._first[-1])):
                vertex = node // self._below[level] * self._copies[level] + copy
                links.append(base + self._first[level] + vertex * width + port)
            copy += port * self._copies[level]
        return np.array(up + down[::-1], np.int64)

    @property
    def n_vertices(self) -> int:
        """Number of leaves and switches."""
        return sum(self._level_sizes())

    def link_ends(self) -> tuple[Int64Array, Int64Array]:
        """Return the vertices at the ends of each link: int64 (n_links,) each.

        Leaves are numbered first, then the switches level by level.

        Returns
        -------
        source, target : int64 (n_links,)
        """
        begins = np.cumsum([0, *self._level_sizes()])
        below, above = [], []
        for level, width in enumerate(self.parents):
            children = np.arange(begins[level + 1] - begins[level])
            subtree, copy = np.divmod(children, self._copies[level])
            tree = subtree // self.children[level] * self._copies[level + 1]
            parents = (tree + copy)[:, None] + np.arange(width) * self._copies[level]
            below.append(np.repeat(begins[level] + children, width))
            above.append(begins[level + 1] + parents.ravel())
        low, high = np.concatenate(below), np.concatenate(above)
        return np.concatenate([low, high]), np.concatenate([high, low])

    def link_levels(self) -> Int64Array:
        """Return the level of the lower end of each link: int64 (n_links,)."""
        return np.tile(np.repeat(np.arange(len(self.parents)), np.diff(self._first)), 2)

    def _level_sizes(self) -> list[int]:
        """Return the number of vertices of each level."""
        pairs = zip(self._below, self._copies, strict=True)
        return [self.n_nodes // below * copies for below, copies in pairs]


@dataclass(frozen=True)
class CliqueLevel:
    """One level of a hierarchy of cliques.

    Attributes
    ----------
    size : int
        Groups of the level below (vertices, at the lowest level) that form one group of this level.
    fully_linked : bool
        Whether each vertex has a link to each vertex of the other groups; else each pair of groups shares
        cables.
    cables : int
        Of each pair of groups. A message takes the one that its two vertices choose, the same both ways.
    arrangement : str
        Vertices of a group to which its cables lead, in the order of the other groups: ``round-robin``, one
        after the other; ``consecutive``, as many cables as each has to the first, and so on (Kim et al. 2008,
        figure 5).
    """

    size: int
    fully_linked: bool
    cables: int = 1
    arrangement: str = "round-robin"

    def __post_init__(self) -> None:
        require_known("unknown arrangement", self.arrangement, ARRANGEMENTS)


class CliqueHierarchy:
    """A hierarchy of cliques: at each level, all groups are linked with each other.

    Parameters
    ----------
    levels : sequence of CliqueLevel
        From the smallest cliques up; the lowest has a link for each pair.
    nodes_per_vertex : int
        Nodes that share a router; 1 where the nodes route themselves.

    Attributes
    ----------
    n_vertices, n_nodes : int
        Number of routers and of nodes. The router of a node is node // nodes_per_vertex; the lowest level
        runs fastest.
    n_links : int
        Number of directed links between routers, numbered level by level.
    """

    def __init__(self, levels: Sequence[CliqueLevel], nodes_per_vertex: int = 1) -> None:
        if not levels or min(level.size for level in levels) < 1 or nodes_per_vertex < 1:
            raise ConfigError(
                "a hierarchy of cliques has a level without members", mend="give 1 or more in each"
            )
        if not all(1 <= level.cables <= _MOST_CABLES for level in levels):
            raise ConfigError(
                f"pairs of groups with {[level.cables for level in levels]} cables",
                mend=f"give 1 to {_MOST_CABLES:,}",
            )
        self.levels = (CliqueLevel(levels[0].size, True), *levels[1:])
        self.nodes_per_vertex = nodes_per_vertex
        sizes = [level.size for level in self.levels]
        self._inner = [math.prod(sizes[:index]) for index in range(len(sizes) + 1)]
        self.n_vertices = self._inner[-1]
        self.n_nodes = self.n_vertices * nodes_per_vertex
        self._first = [0]
        for index, level in enumerate(self.levels):
            groups = self.n_vertices // (self._inner[index] if not level.fully_linked else 1)
            peers = (level.size - 1) * (self._inner[index] if level.fully_linked else level.cables)
            self._first.append(self._first[-1] + groups * peers)
        self.n_links = self._first[-1]

    def hops(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the number of links between the routers of nodes on the direct route: int64."""
        first, second = np.broadcast_arrays(np.asarray(a), np.asarray(b))
        return self._hops(
            first // self.nodes_per_vertex, second // self.nodes_per_vertex, len(self.levels) - 1
        )

    def route(self, a: int, b: int) -> Int64Array:
        """Return the links of the direct route: local, one global link, local: int64 (hops,)."""
        links = self._route(a // self.nodes_per_vertex, b // self.nodes_per_vertex)
        return np.array(links, np.int64)

    def link_levels(self) -> Int64Array:
        """Return the level of each link: int64 (n_links,)."""
        return np.repeat(np.arange(len(self.levels)), np.diff(self._first))

    def router_of(self, node: npt.ArrayLike) -> Int64Array:
        """Return the routers to which nodes are attached: int64."""
        return np.asarray(node, np.int64) // self.nodes_per_vertex

    def router_groups(self) -> Int64Array:
        """Return the group of each router, of those that detours avoid or go by way of: int64 (n_vertices,).

        Those of the highest level; each router is one of its own where all levels are fully linked.
        """
        routers = np.arange(self.n_vertices)
        return routers if self.levels[-1].fully_linked else routers // self._inner[-2]

    def link_ends(self) -> tuple[Int64Array, Int64Array]:
        """Return the routers at the ends of each link: int64 (n_links,) each.

        Returns
        -------
        source, target : int64 (n_links,)
        """
        ends = [self._level_ends(index) for index in range(len(self.levels))]
        source, target = (np.concatenate(column) for column in zip(*ends, strict=True))
        return source, target

    def _level_ends(self, index: int) -> tuple[Int64Array, Int64Array]:
        level, inner = self.levels[index], self._inner[index]
        links = np.arange(self._first[index + 1] - self._first[index])
        if level.fully_linked:
            source, rest = np.divmod(links, max(level.size - 1, 1) * inner)
            group, (peer, place) = source // inner, np.divmod(rest, inner)
            near = group % level.size
            return source, (group - near + peer + (peer >= near)) * inner + place
        group, port = np.divmod(links, max(level.size - 1, 1) * level.cables)
        peer, cable = np.divmod(port, level.cables)
        near = group % level.size
        far = peer + (peer >= near)
        port_in = (near - (near > far)) * level.cables + cable
        start, end = (self._vertex_of_port(one, index) for one in (port, port_in))
        return group * inner + start, (group - near + far) * inner + end

    def _vertex_of_port(self, port: Int64Array, index: int) -> Int64Array:
        """Return the vertices, counted in their group, at which cables of a level end."""
        level, inner = self.levels[index], self._inner[index]
        if level.arrangement == "round-robin":
            return np.asarray(port % inner)
        cables_each = -(-(level.size - 1) * level.cables // inner)
        return np.asarray(port // max(cables_each, 1))

    def _hops(self, a: Int64Array, b: Int64Array, index: int) -> Int64Array:
        if index == 0:
            return np.asarray(a != b, np.int64)
        inner = self._inner[index]
        separate = a // inner != b // inner
        below = self._hops(a, np.where(separate, a, b), index - 1)
        if self.levels[index].fully_linked:
            return np.where(separate, 1, below)
        out, arrival = self._gateways(a, b, index)[:2]
        ends = self._hops(a, np.where(separate, out, a), index - 1)
        ends = ends + self._hops(np.where(separate, arrival, b), b, index - 1)
        return np.where(separate, ends + 1, below)

    def _gateways(
        self, a: Int64Array, b: Int64Array, index: int
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the ends of the cable that leads from the group of a to that of b, and its port."""
        inner, size, cables = self._inner[index], self.levels[index].size, self.levels[index].cables
        source, target = a // inner, b // inner
        cable = (a + b) % cables
        port_out = (target % size - (target % size > source % size)) * cables + cable
        port_in = (source % size - (source % size > target % size)) * cables + cable
        start, end = (self._vertex_of_port(port, index) for port in (port_out, port_in))
        return source * inner + start, target * inner + end, port_out

    def _route(self, a: int, b: int) -> list[int]:
        if a == b:
            return []
        index = max(i for i, inner in enumerate(self._inner[:-1]) if a // inner != b // inner)
        level, inner = self.levels[index], self._inner[index]
        source, target = a // inner % level.size, b // inner % level.size
        if level.fully_linked:
            peer = target - (target > source)
            return [self._first[index] + (a * (level.size - 1) + peer) * inner + b % inner]
        out, arrival, port = self._gateways(np.asarray(a), np.asarray(b), index)
        cable = self._first[index] + a // inner * (level.size - 1) * level.cables + int(port)
        return [*self._route(a, int(out)), cable, *self._route(int(arrival), b)]


def dragonfly(
    n_groups: int, routers: int, nodes_per_router: int, cables: int = 1, arrangement: str = "round-robin"
) -> CliqueHierarchy:
    """Return a dragonfly network (Kim et al. 2008): groups of routers, each pair joined by cables.

    Parameters
    ----------
    n_groups, routers, nodes_per_router : int
        Number of groups, of routers of a group, and of nodes of a router.
    cables, arrangement
        As in `CliqueLevel`.

    Returns
    -------
    CliqueHierarchy
    """
    top = CliqueLevel(n_groups, False, cables, arrangement)
    return CliqueHierarchy([CliqueLevel(routers, True), top], nodes_per_router)


def percs(n_supernodes: int) -> CliqueHierarchy:
    """Return a PERCS network of supernodes joined by D links.

    A supernode has 4 drawers (24 LR links per hub), a drawer 8 hubs (7 LL links per hub).
    Hoefler, Optimizing Communication on Blue Waters, after Arimilli et al. 2010: the links of a drawer carry
    24 GB/s, those between drawers 5 GB/s.
    """
    return CliqueHierarchy([CliqueLevel(8, True), CliqueLevel(4, True), CliqueLevel(n_supernodes, False)])
