"""Networks of routers whose routes are tables: HyperX, Slim Fly and Dragonfly+."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_integer, whole_numbers
from petacomm.base.errors import ConfigError
from petacomm.base.text import shape_text
from petacomm.base.typing import BoolArray, Int32Array, Int64Array
from petacomm.topology.finite_field import FiniteField

# The tables have four bytes for each pair of routers.
MAX_ROUTERS = 8192


class RouterNetwork(ABC):
    """Routers joined by links, each with its nodes.

    Attributes
    ----------
    n_vertices, n_nodes, n_links : int
        Number of routers, of nodes, and of directed links between routers.
    shape : tuple of int
        Dimensions in the order of node numbers, the last one running fastest.
    n_levels : int
        Number of kinds of links.
    """

    n_nodes: int
    shape: tuple[int, ...]
    n_levels: int

    def __init__(self, source: Int64Array, target: Int64Array, n_vertices: int) -> None:
        self._source, self._target = source, target
        self.n_links = len(source)
        self.n_vertices = n_vertices

    @cached_property
    def next_links(self) -> Int32Array:
        """First link of the route from each router (row) to each: int32 (n_vertices, n_vertices), or -1."""
        if self.n_vertices > MAX_ROUTERS:
            what = f"routes between {self.n_vertices:,} routers"
            raise ConfigError(what, mend=f"give a network of {MAX_ROUTERS:,} at most")
        return np.ascontiguousarray(self._make_next_links(), np.int32)

    def hops(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the number of links between the routers of nodes: int64."""
        at, end = np.broadcast_arrays(self.router_of(a), self.router_of(b))
        at, hops = np.array(at), np.zeros(at.shape, np.int64)
        while np.any(at != end):
            away = at != end
            at[away] = self._target[self.next_links[at[away], end[away]]]
            hops += away
        return hops

    def route(self, a: int, b: int) -> Int64Array:
        """Return the links from the router of one node to that of another, in order: int64 (hops,)."""
        at, end = (int(self.router_of(node)) for node in (a, b))
        links: list[int] = []
        while at != end:
            links.append(int(self.next_links[at, end]))
            at = int(self._target[links[-1]])
        return np.array(links, np.int64)

    def link_ends(self) -> tuple[Int64Array, Int64Array]:
        """Return the routers at the ends of each link: int64 (n_links,) each."""
        return self._source, self._target

    def router_groups(self) -> Int64Array:
        """Return the group of each router, which detours avoid or go by way of: int64 (n_vertices,)."""
        return np.arange(self.n_vertices)

    def changes_channel(self) -> BoolArray:
        """Return whether packets take the next virtual channel beyond each link: bool (n_links,)."""
        return np.ones(self.n_links, np.bool_)

    def link_lengths(self) -> Int64Array:
        """Return lengths of links, of which shortest routes have the least sum: int64 (n_links,)."""
        return np.ones(self.n_links, np.int64)

    @abstractmethod
    def router_of(self, node: npt.ArrayLike) -> Int64Array:
        """Return the routers to which nodes are attached: int64."""

    @abstractmethod
    def link_levels(self) -> Int64Array:
        """Return the kind of each link: int64 (n_links,)."""

    @abstractmethod
    def _make_next_links(self) -> Int64Array:
        """Return `next_links`."""


class HyperX(RouterNetwork):
    """A HyperX network (Ahn et al. 2009): a grid of routers, those of each line linked with each other.

    Routes go one dimension after the other; two routers' messages take one cable, the same both ways.

    Parameters
    ----------
    routers : sequence of int
        Routers in each dimension, the last one running fastest.
    nodes_per_router : int
    cables : int or sequence of int
        Between any two routers of a line, of all dimensions or of each.

    Raises
    ------
    ConfigError
        If a number is not positive, or `cables` does not fit the dimensions.
    """

    def __init__(
        self, routers: Sequence[int], nodes_per_router: int = 1, cables: int | Sequence[int] = 1
    ) -> None:
        self.routers = whole_numbers(routers, "routers")
        given = [cables] * len(self.routers) if isinstance(cables, int) else cables
        self.cables = whole_numbers(given, "cables")
        self.nodes_per_router = require_integer(nodes_per_router, "nodes_per_router", 1)
        if not self.routers or len(self.cables) != len(self.routers) or min(*self.routers, *self.cables) < 1:
            what = f"a HyperX of {shape_text(self.routers)} routers and {list(self.cables)} cables"
            raise ConfigError(what, mend="give one number, 1 or more, of both for each dimension")
        n = math.prod(self.routers)
        self._coordinates = np.stack(np.unravel_index(np.arange(n), self.routers), -1).astype(np.int64)
        self._strides = [math.prod(self.routers[d + 1 :]) for d in range(len(self.routers))]
        ends = [self._line_ends(d) for d in range(len(self.routers))]
        self._first = np.cumsum([0, *(len(pair[0]) for pair in ends)])
        source, target = (np.concatenate(column) for column in zip(*ends, strict=True))
        super().__init__(source, target, n)
        self.n_nodes = n * self.nodes_per_router
        self.shape = (*self.routers, self.nodes_per_router)
        self.n_levels = len(self.routers)

    def router_of(self, node: npt.ArrayLike) -> Int64Array:
        """Return the routers to which nodes are attached: int64."""
        return np.asarray(node, np.int64) // self.nodes_per_router

    def link_levels(self) -> Int64Array:
        """Return the dimension of each link: int64 (n_links,)."""
        return np.repeat(np.arange(self.n_levels), np.diff(self._first))

    def _line_ends(self, d: int) -> tuple[Int64Array, Int64Array]:
        """Return the ends of the links of a dimension: by router, peer in its line, and cable."""
        size, cables = self.routers[d], self.cables[d]
        router = np.arange(len(self._coordinates))[:, None]
        place, peer = self._coordinates[:, d, None], np.arange(size - 1)
        target = router + (peer + (peer >= place) - place) * self._strides[d]
        return np.repeat(router, (size - 1) * cables), np.repeat(target.ravel(), cables)

    def _make_next_links(self) -> Int64Array:
        routers = np.arange(self.n_vertices)
        total = routers[:, None] + routers
        found = np.full((self.n_vertices, self.n_vertices), -1)
        for d in reversed(range(self.n_levels)):
            place = self._coordinates[:, d]
            here, there = place[:, None], place[None, :]
            peer = there - (there > here)
            port = (routers[:, None] * (self.routers[d] - 1) + peer) * self.cables[d] + total % self.cables[d]
            found = np.where(here != there, self._first[d] + port, found)
        return found


class SlimFly(RouterNetwork):
    """A Slim Fly network (Besta and Hoefler 2014): the graph of McKay, Miller and Siran 1998, of diameter 2.

    Two subgraphs of q x q routers; routers of a row of one are linked if their difference is one of a set of
    generators, and those of both if y = m x + c in the field of q elements. Routes go by way of one of the
    common neighbours, chosen by the destination.

    Parameters
    ----------
    q : int
        A prime power that is no 2; 2 q^2 routers with (3 q - d) / 2 links, where q = 4 w + d, d = -1, 0 or 1.
    nodes_per_router : int, optional
        By default half of the links of a router, rounded up, which balances them.

    Raises
    ------
    ConfigError
        If there is no such graph.
    """

    n_levels = 1

    def __init__(self, q: int, nodes_per_router: int | None = None) -> None:
        self.q = require_integer(q, "q", 3)
        adjacent = _mms_adjacency(FiniteField(self.q))
        source, target = (np.asarray(ends, np.int64) for ends in np.nonzero(adjacent))
        super().__init__(source, target, len(adjacent))
        default = -(-(self.n_links // self.n_vertices) // 2)
        self.nodes_per_router = (
            default if nodes_per_router is None else require_integer(nodes_per_router, "nodes_per_router", 1)
        )
        self.n_nodes = self.n_vertices * self.nodes_per_router
        self.shape = (2, self.q, self.q, self.nodes_per_router)

    def router_of(self, node: npt.ArrayLike) -> Int64Array:
        """Return the routers to which nodes are attached: int64."""
        return np.asarray(node, np.int64) // self.nodes_per_router

    def link_levels(self) -> Int64Array:
        """Return zeros: all links are alike: int64 (n_links,)."""
        return np.zeros(self.n_links, np.int64)

    def _make_next_links(self) -> Int64Array:
        n, degree = self.n_vertices, self.n_links // self.n_vertices
        neighbors, links = self._target.reshape(n, degree), np.arange(self.n_links).reshape(n, degree)
        adjacent = np.zeros((n, n), np.bool_)
        adjacent[self._source, self._target] = True
        found = np.full((n, n), -1)
        for a in range(n):
            # Of the neighbours of a, those that are neighbours of b: the one that b chooses.
            common = adjacent[neighbors[a]]
            order = np.cumsum(common, axis=0)
            chosen = 1 + np.arange(n) % np.maximum(order[-1], 1)
            found[a] = links[a, np.argmax(common & (order == chosen), axis=0)]
            found[a, neighbors[a]] = links[a]
            found[a, a] = -1
        return found


def _mms_adjacency(field: FiniteField) -> BoolArray:
    """Return which routers are linked: bool (2 q^2, 2 q^2); a router is (subgraph, x or m, y or c)."""
    q = field.order
    if q % 4 == 2:
        raise ConfigError(f"q = {q} has no Slim Fly", mend="give a prime power that is no 2")
    exponents = np.arange(q - 1)
    if q % 4 == 3:
        w = (q + 1) // 4
        low, high = np.arange(0, 2 * w, 2), np.arange(2 * w - 1, 4 * w - 2, 2)
        sets = np.concatenate([low, high]), np.concatenate([low + 1, high + 1])
    else:
        sets = exponents[::2], exponents[::2] + 1
    x, y = np.divmod(np.arange(q * q), q)
    difference = field.subtract(y[:, None], y)
    same_row = x[:, None] == x
    blocks = [same_row & np.isin(difference, field.powers[one % (q - 1)]) for one in sets]
    # y = m x + c, of (x, y) in the first subgraph and (m, c) in the second
    across = y[:, None] == field.add(field.multiply(x[None, :], x[:, None]), y[None, :])
    return np.block([[blocks[0], across], [across.T, blocks[1]]])


class DragonflyPlus(RouterNetwork):
    """A Dragonfly+ network (Shpiner et al. 2017): groups of leaf and spine routers.

    All leaves of a group are linked with all of its spines. Nodes are attached to leaves, cables between
    groups to spines in turn. Routes go up to a spine with a cable, over, and down; within a group by one
    spine.

    Parameters
    ----------
    n_groups, leaves, spines, nodes_per_leaf : int
        Number of groups, of routers of both kinds in a group, and of nodes of a leaf.
    cables : int
        Of each pair of groups.

    Raises
    ------
    ConfigError
        If a number is not positive.
    """

    n_levels = 2

    def __init__(self, n_groups: int, leaves: int, spines: int, nodes_per_leaf: int, cables: int = 1) -> None:
        numbers = {"n_groups": n_groups, "leaves": leaves, "spines": spines, "nodes_per_leaf": nodes_per_leaf}
        self.n_groups, self.leaves, self.spines, self.nodes_per_leaf, self.cables = (
            require_integer(number, name, 1) for name, number in {**numbers, "cables": cables}.items()
        )
        self._size = leaves + spines
        ends = [*self._local_ends(), self._cable_ends()]
        self._n_local = 2 * n_groups * leaves * spines
        source, target = (np.concatenate(column) for column in zip(*ends, strict=True))
        super().__init__(source, target, n_groups * self._size)
        self.n_nodes = n_groups * leaves * nodes_per_leaf
        self.shape = (n_groups, leaves, nodes_per_leaf)

    def router_of(self, node: npt.ArrayLike) -> Int64Array:
        """Return the leaves to which nodes are attached: int64."""
        group, leaf = np.divmod(np.asarray(node, np.int64) // self.nodes_per_leaf, self.leaves)
        return np.asarray(group * self._size + leaf)

    def link_levels(self) -> Int64Array:
        """Return 0 for links within groups and 1 for cables between them: int64 (n_links,)."""
        return (np.arange(self.n_links) >= self._n_local).astype(np.int64)

    def router_groups(self) -> Int64Array:
        """Return the group of each router: int64 (n_vertices,)."""
        return np.arange(self.n_vertices) // self._size

    def changes_channel(self) -> BoolArray:
        """Return which links are cables between groups: bool (n_links,)."""
        return np.asarray(self.link_levels() == 1)

    def link_lengths(self) -> Int64Array:
        """Return lengths that make one cable shorter than any two: int64 (n_links,)."""
        return np.where(self.link_levels() == 1, 9, 1)

    def _local_ends(self) -> list[tuple[Int64Array, Int64Array]]:
        """Return the ends of links up, by group, leaf and spine, and of those down in the same order."""
        group, leaf, spine = (
            part.ravel() for part in np.indices((self.n_groups, self.leaves, self.spines), np.int64)
        )
        low, high = group * self._size + leaf, group * self._size + self.leaves + spine
        return [(low, high), (high, low)]

    def _cable_ends(self) -> tuple[Int64Array, Int64Array]:
        """Return the ends of cables: by group, other group, and cable of the pair."""
        group, peer, cable = (
            part.ravel() for part in np.indices((self.n_groups, self.n_groups - 1, self.cables), np.int64)
        )
        other = peer + (peer >= group)
        return self._spine(group, other, cable), self._spine(other, group, cable)

    def _spine(self, group: Int64Array, other: Int64Array, cable: Int64Array) -> Int64Array:
        """Return the spines of groups at which their cables to other groups end."""
        port = (other - (other > group)) * self.cables + cable
        return group * self._size + self.leaves + port % self.spines

    def _cable(self, group: Int64Array, other: Int64Array, cable: Int64Array) -> Int64Array:
        peer = other - (other > group)
        return self._n_local + (group * (self.n_groups - 1) + peer) * self.cables + cable

    def _up(self, leaf: Int64Array, spine: Int64Array) -> Int64Array:
        """Return the links from leaves up to spines of their groups; those down have as many more."""
        group, place = np.divmod(leaf, self._size)
        return (group * self.leaves + place) * self.spines + spine % self._size - self.leaves

    def _make_next_links(self) -> Int64Array:
        a, b = np.arange(self.n_vertices)[:, None], np.arange(self.n_vertices)[None, :]
        group, other = a // self._size, b // self._size
        is_leaf, to_leaf = a % self._size < self.leaves, b % self._size < self.leaves
        # From a spine, the first of the cables to the other group that it has, of those after the one that b
        # chooses; else down to a leaf.
        steps = np.arange(self.cables).reshape(-1, 1, 1)
        cables = (b + steps) % self.cables
        owned = self._spine(group, other, cables) == a
        cable = np.take_along_axis(cables, np.argmax(owned, axis=0)[None], 0)[0]
        half = self._n_local // 2
        down = half + self._up(group * self._size + (a + b) % self.leaves, a)
        onward = np.where(owned.any(axis=0), self._cable(group, other, cable), down)
        there = np.where(to_leaf, half + self._up(b, a), down)
        from_spine = np.where(group == other, there, onward)
        spine = self._spine(group, other, (a + b) % self.cables)
        inside = group * self._size + self.leaves + (a + b) % self.spines
        inside = np.where(to_leaf, inside, b)
        from_leaf = self._up(a, np.where(group == other, inside, spine))
        return np.where(a == b, -1, np.where(is_leaf, from_leaf, from_spine))
