"""Networks of switches and cliques: fat trees, dragonflies, PERCS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array


class FatTree:
    """A generalized fat tree of switches (Oehring et al. 1995): XGFT(h; m_1..m_h; w_1..w_h).

    A vertex of level l has m_l children and each of these w_l parents; nodes are the leaves, level 0.

    Parameters
    ----------
    children, parents : sequence of int
        m_l and w_l, from the leaves up.

    Attributes
    ----------
    n_nodes, n_links : int
        Leaves, and directed links: up those of all levels, then down in the same order.
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
        # The cables between levels l and l + 1: each vertex of l has w_(l + 1).
        cables = [
            self.n_nodes // self._below[level] * self._copies[level] * width
            for level, width in enumerate(self.parents)
        ]
        self._first = [0, *np.cumsum(cables).tolist()]
        self.n_links = 2 * self._first[-1]

    def level(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the level of the lowest switches above both nodes; 0 for the same node."""
        first, second = np.asarray(a), np.asarray(b)
        apart = [first // below != second // below for below in self._below[:-1]]
        return np.asarray(np.sum(np.broadcast_arrays(*apart), axis=0, dtype=np.int64))

    def hops(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the number of links between nodes: up to a common switch and down."""
        return 2 * self.level(a, b)

    def route(self, a: int, b: int) -> Int64Array:
        """Return the links from one node to another; the parents are chosen by the destination (d mod k)."""
        up: list[int] = []
        down: list[int] = []
        copy = 0
        for level in range(int(self.level(a, b))):
            width = self.parents[level]
            port = b // self._copies[level] % width
            for node, links, base in ((a, up, 0), (b, down, self._first[-1])):
                vertex = node // self._below[level] * self._copies[level] + copy
                links.append(base + self._first[level] + vertex * width + port)
            copy += port * self._copies[level]
        return np.array(up + down[::-1], np.int64)


@dataclass(frozen=True)
class Level:
    """One level of a hierarchy of cliques.

    Attributes
    ----------
    size : int
        Groups of the level below (vertices, at the lowest level) that make one of this level.
    every : bool
        Each vertex has a link to each vertex of the other groups; else each pair of groups shares one cable,
        and cables are dealt to the vertices of a group in turn.
    """

    size: int
    every: bool


class CliqueHierarchy:
    """Cliques of cliques: at each level, all groups are linked with each other.

    Parameters
    ----------
    levels : sequence of Level
        From the smallest cliques up; the lowest has a link for each pair.
    nodes_per_vertex : int
        Nodes that share a router; 1 where the nodes route themselves.

    Attributes
    ----------
    n_vertices, n_nodes : int
        Routers, and nodes: node // nodes_per_vertex is its router, and the lowest level runs fastest.
    n_links : int
        Directed links between routers, level by level.
    """

    def __init__(self, levels: Sequence[Level], nodes_per_vertex: int = 1) -> None:
        if not levels or min(level.size for level in levels) < 1 or nodes_per_vertex < 1:
            raise ConfigError(
                "a hierarchy of cliques has a level without members", mend="give 1 or more in each"
            )
        self.levels = (Level(levels[0].size, True), *levels[1:])
        self.nodes_per_vertex = nodes_per_vertex
        sizes = [level.size for level in self.levels]
        self._inner = [math.prod(sizes[:index]) for index in range(len(sizes) + 1)]
        self.n_vertices = self._inner[-1]
        self.n_nodes = self.n_vertices * nodes_per_vertex
        self._first = [0]
        for index, level in enumerate(self.levels):
            groups = self.n_vertices // (self._inner[index] if not level.every else 1)
            peers = (level.size - 1) * (self._inner[index] if level.every else 1)
            self._first.append(self._first[-1] + groups * peers)
        self.n_links = self._first[-1]

    def hops(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the number of links between the routers of nodes, by the direct way."""
        first, second = np.broadcast_arrays(np.asarray(a), np.asarray(b))
        return self._hops(
            first // self.nodes_per_vertex, second // self.nodes_per_vertex, len(self.levels) - 1
        )

    def route(self, a: int, b: int) -> Int64Array:
        """Return the links from one node to another by the direct way: local, one long link, local."""
        links = self._route(a // self.nodes_per_vertex, b // self.nodes_per_vertex)
        return np.array(links, np.int64)

    def link_levels(self) -> Int64Array:
        """Return the level of each link: int64 (n_links,)."""
        return np.repeat(np.arange(len(self.levels)), np.diff(self._first))

    def _hops(self, a: Int64Array, b: Int64Array, index: int) -> Int64Array:
        if index == 0:
            return np.asarray(a != b, np.int64)
        inner = self._inner[index]
        apart = a // inner != b // inner
        below = self._hops(a, np.where(apart, a, b), index - 1)
        if self.levels[index].every:
            return np.where(apart, 1, below)
        out, arrival = self._gateways(a, b, index)
        ends = self._hops(a, np.where(apart, out, a), index - 1)
        ends = ends + self._hops(np.where(apart, arrival, b), b, index - 1)
        return np.where(apart, ends + 1, below)

    def _gateways(self, a: Int64Array, b: Int64Array, index: int) -> tuple[Int64Array, Int64Array]:
        """Return the ends of the cable between the groups of a and b."""
        inner, size = self._inner[index], self.levels[index].size
        here, there = a // inner, b // inner
        port_out = (there % size - (there % size > here % size)) % inner
        port_in = (here % size - (here % size > there % size)) % inner
        return here * inner + port_out, there * inner + port_in

    def _route(self, a: int, b: int) -> list[int]:
        if a == b:
            return []
        index = max(i for i, inner in enumerate(self._inner[:-1]) if a // inner != b // inner)
        level, inner = self.levels[index], self._inner[index]
        here, there = a // inner % level.size, b // inner % level.size
        peer = there - (there > here)
        if level.every:
            return [self._first[index] + (a * (level.size - 1) + peer) * inner + b % inner]
        out, arrival = self._gateways(np.asarray(a), np.asarray(b), index)
        cable = self._first[index] + a // inner * (level.size - 1) + peer
        return [*self._route(a, int(out)), cable, *self._route(int(arrival), b)]


def dragonfly(n_groups: int, routers: int, nodes_per_router: int) -> CliqueHierarchy:
    """Return a dragonfly (Kim et al. 2008): cliques of routers, one cable for each pair of them."""
    return CliqueHierarchy([Level(routers, True), Level(n_groups, False)], nodes_per_router)


def percs(n_supernodes: int) -> CliqueHierarchy:
    """Return a PERCS machine: 8 hubs a drawer (7 LL links a hub), 4 drawers a supernode (24 LR), D links.

    Hoefler, Optimizing Communication on Blue Waters, after Arimilli et al. 2010: the links of a drawer carry
    24 GB/s, those between drawers 5 GB/s.
    """
    return CliqueHierarchy([Level(8, True), Level(4, True), Level(n_supernodes, False)])
