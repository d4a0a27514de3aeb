"""Tori and meshes of any number of dimensions: coordinates, neighbours and links as numbers.

Nodes are numbered as NumPy numbers the elements of an array of that shape: the last dimension runs fastest.
All methods take arrays as well as single numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array

# Node and link numbers of the kernels are int32.
MOST_NODES = 2**31 - 1
MOST_DIMENSIONS = 6


class Torus:
    """An n-dimensional grid of nodes, closed to rings where dimensions wrap: a torus, a mesh, or between.

    Links are directed: neighbours have one either way. A ring of two nodes has two pairs of links.

    Parameters
    ----------
    shape : sequence of int
        Nodes in each dimension; at most 6 dimensions and 2^31 - 1 nodes.
    wrap : bool or sequence of bool
        Which dimensions are rings.

    Attributes
    ----------
    shape : tuple of int
    wrap : tuple of bool
        False where a dimension has one node: it has no links.
    n_nodes, n_links : int

    Raises
    ------
    ConfigError
        If the shape is empty, too large or not positive, or `wrap` does not fit it.
    """

    def __init__(self, shape: Sequence[int], wrap: bool | Sequence[bool] = True) -> None:
        self.shape = _checked_shape(shape)
        wraps = (wrap,) * len(self.shape) if isinstance(wrap, bool | np.bool_) else tuple(wrap)
        if len(wraps) != len(self.shape):
            raise ConfigError(
                f"{len(wraps)} of {len(self.shape)} dimensions say whether they wrap", mend="say it for each"
            )
        self.wrap = tuple(bool(ring) and size > 1 for ring, size in zip(wraps, self.shape, strict=True))
        self.n_nodes = math.prod(self.shape)
        # The links of a dimension and direction are numbered like the nodes they leave, those without one
        # left out: the end of a line has none.
        self._sources = [self._source_shape(dimension) for dimension in range(self.n_dimensions)]
        counts = np.repeat([math.prod(sources) for sources in self._sources], 2)
        self._first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.n_links = int(self._first[-1])

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions, those of one node included."""
        return len(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Torus) and (self.shape, self.wrap) == (other.shape, other.wrap)

    def __hash__(self) -> int:
        return hash((self.shape, self.wrap))

    def __repr__(self) -> str:
        return f"Torus({self.shape}, wrap={self.wrap})"

    def coordinates(self, rank: npt.ArrayLike) -> Int64Array:
        """Return the coordinates of nodes: int64 (..., n_dimensions)."""
        return np.stack(np.unravel_index(np.asarray(rank), self.shape), -1).astype(np.int64)

    def rank_of(self, coordinates: npt.ArrayLike) -> Int64Array:
        """Return the numbers of nodes, of coordinates (..., n_dimensions) taken modulo a ring.

        Raises
        ------
        ConfigError
            If a coordinate lies outside a dimension that does not wrap.
        """
        places = np.array(coordinates, np.int64)
        for dimension, (size, ring) in enumerate(zip(self.shape, self.wrap, strict=True)):
            column = places[..., dimension]
            if ring:
                column %= size
            elif np.any((column < 0) | (column >= size)):
                raise ConfigError(f"a coordinate lies outside dimension {dimension} of {self}", mend=None)
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), self.shape), np.int64)

    def neighbor(self, rank: npt.ArrayLike, dimension: int, direction: int) -> Int64Array:
        """Return the nodes one step away, direction +1 or -1; -1 where the mesh ends."""
        places = self.coordinates(rank)
        there = places[..., dimension] + direction
        size = self.shape[dimension]
        inside = (there >= 0) & (there < size) | self.wrap[dimension]
        places[..., dimension] = there % size
        return np.where(inside, self.rank_of(places), -1)

    def link(self, rank: npt.ArrayLike, dimension: int, direction: int) -> Int64Array:
        """Return the numbers of the links that leave nodes, direction +1 or -1; -1 where there is none."""
        places = self.coordinates(rank)
        sources = self._sources[dimension]
        places[..., dimension] -= direction < 0 and not self.wrap[dimension]
        column = places[..., dimension]
        exists = (column >= 0) & (column < sources[dimension])
        column[...] = np.where(exists, column, 0)
        if not math.prod(sources):
            return np.full(exists.shape, -1, np.int64)
        number = np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), sources)
        return np.where(exists, self._first[2 * dimension + (direction < 0)] + number, -1)

    def link_ends(self) -> tuple[Int64Array, Int64Array]:
        """Return the nodes that each link leaves and enters: int64 (n_links,) each, by link number."""
        ends = [np.empty(self.n_links, np.int64) for _ in range(2)]
        nodes = np.arange(self.n_nodes)
        for dimension in range(self.n_dimensions):
            for direction in (1, -1):
                links = self.link(nodes, dimension, direction)
                there = self.neighbor(nodes, dimension, direction)
                ends[0][links[links >= 0]] = nodes[links >= 0]
                ends[1][links[links >= 0]] = there[links >= 0]
        return ends[0], ends[1]

    def link_places(self) -> tuple[Int64Array, Int64Array]:
        """Return the dimension and the direction (+1, -1) of each link: int64 (n_links,) each."""
        counts = np.diff(self._first)
        dimension = np.repeat(np.arange(2 * self.n_dimensions) // 2, counts)
        return dimension, np.repeat(np.tile([1, -1], self.n_dimensions), counts)

    def displacement(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the steps from nodes `a` to nodes `b`, signed, the shorter way round each ring.

        Half a ring is counted as positive.

        Returns
        -------
        int64 (..., n_dimensions)
        """
        steps = self.coordinates(b) - self.coordinates(a)
        for dimension, (size, ring) in enumerate(zip(self.shape, self.wrap, strict=True)):
            if ring:
                column = steps[..., dimension]
                column %= size
                column -= size * (2 * column > size)
        return steps

    def hops(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the number of links of a shortest way from nodes `a` to nodes `b`."""
        return np.asarray(np.abs(self.displacement(a, b)).sum(-1))

    def route(self, a: int, b: int, order: Sequence[int] | None = None) -> Int64Array:
        """Return the links from one node to another, dimension by dimension.

        Parameters
        ----------
        a, b : int
        order : sequence of int, optional
            The dimensions in the order in which they are crossed; by default 0, 1, ...
        """
        steps = self.displacement(a, b)
        links: list[int] = []
        node: Any = a
        for dimension in range(self.n_dimensions) if order is None else order:
            direction = 1 if steps[dimension] > 0 else -1
            for _ in range(abs(int(steps[dimension]))):
                links.append(int(self.link(node, dimension, direction)))
                node = self.neighbor(node, dimension, direction)
        return np.array(links, np.int64)

    def _source_shape(self, dimension: int) -> tuple[int, ...]:
        size = self.shape[dimension] - (not self.wrap[dimension])
        return (*self.shape[:dimension], size, *self.shape[dimension + 1 :])


def _checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(int(size) for size in shape)
    shown = "x".join(map(str, sizes))
    if not 1 <= len(sizes) <= MOST_DIMENSIONS:
        raise ConfigError(
            f"a shape of {len(sizes)} dimensions", mend=f"give 1 to {MOST_DIMENSIONS}, like 8x8x8"
        )
    if min(sizes) < 1:
        raise ConfigError(f"the shape {shown} has a dimension without nodes", mend="give 1 or more in each")
    if math.prod(sizes) > MOST_NODES:
        raise ConfigError(f"the shape {shown} has more than 2^31 - 1 nodes", mend="give a smaller one")
    return sizes


def parse_shape(text: str) -> tuple[int, ...]:
    """Read ``"8x8x8"``.

    Raises
    ------
    ConfigError
        If it is not a list of positive whole numbers with an x between them.
    """
    parts = text.lower().split("x")
    if not all(part.isdecimal() and len(part) < 11 for part in parts):
        raise ConfigError(f"'{text}' is not a shape", mend='write it like "8x8x8"')
    return _checked_shape([int(part) for part in parts])
