"""Tori and meshes of up to six dimensions: node numbers, coordinates, neighbours, links and routes.

Nodes are numbered in C order: the last dimension runs fastest. All methods but `Torus.route` take arrays as
well as single numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_integer, whole_array, whole_numbers
from petacomm.base.errors import ConfigError
from petacomm.base.text import shape_text
from petacomm.base.typing import Int64Array

# The kernels number nodes and links with int32.
MAX_NODES = 2**31 - 1
MAX_DIMENSIONS = 6


class Torus:
    """An n-dimensional grid of nodes, each dimension a ring or a line: a torus, a mesh, or a mixture.

    Links are directed: neighbours have one in each direction. A ring of two nodes has two pairs of links.

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
        Which dimensions are rings; False where a dimension has one node, and so no links.
    n_nodes, n_links : int

    Raises
    ------
    ConfigError
        If the shape is empty, too large or not positive, or `wrap` does not fit it.

    Examples
    --------
    >>> import petacomm
    >>> torus = petacomm.Torus((4, 4, 2))
    >>> torus.n_nodes, torus.n_links
    (32, 192)
    >>> int(torus.hops(0, torus.node_at([2, 2, 1])))
    5
    """

    def __init__(self, shape: Sequence[int], wrap: bool | Sequence[bool] = True) -> None:
        self.shape = _checked_shape(shape)
        if not isinstance(wrap, Iterable | np.bool_ | bool):
            raise ConfigError(f"must be true or false, not {type(wrap).__name__}", where="wrap", mend=None)
        wraps = (wrap,) * len(self.shape) if isinstance(wrap, bool | np.bool_) else tuple(wrap)
        if len(wraps) != len(self.shape):
            raise ConfigError(
                f"{len(wraps)} of {len(self.shape)} dimensions say whether they wrap", mend="say it for each"
            )
        self.wrap = tuple(bool(ring) and size > 1 for ring, size in zip(wraps, self.shape, strict=True))
        self.n_nodes = math.prod(self.shape)
        # The links of a dimension and direction are numbered like the nodes that they leave. The end of a
        # line has none and is skipped.
        self._sources = [self._source_shape(dimension) for dimension in range(self.n_dimensions)]
        counts = np.repeat([math.prod(sources) for sources in self._sources], 2)
        self._first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.n_links = int(self._first[-1])

    @property
    def n_dimensions(self) -> int:
        """Number of dimensions, including those of one node."""
        return len(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Torus) and (self.shape, self.wrap) == (other.shape, other.wrap)

    def __hash__(self) -> int:
        return hash((self.shape, self.wrap))

    def __repr__(self) -> str:
        return f"Torus({self.shape}, wrap={self.wrap})"

    def coordinates(self, node: npt.ArrayLike) -> Int64Array:
        """Return the coordinates of nodes: int64 (..., n_dimensions).

        Parameters
        ----------
        node : int (...)

        Returns
        -------
        int64 (..., n_dimensions)

        Raises
        ------
        ConfigError
            If a node is not in the grid.
        """
        try:
            return np.stack(np.unravel_index(np.asarray(node), self.shape), -1).astype(np.int64)
        except (ValueError, TypeError):
            what = f"{node!r:.60} are not among the {self.n_nodes:,} nodes of {self}"
            raise ConfigError(what, mend="count from 0") from None

    def node_at(self, coordinates: npt.ArrayLike) -> Int64Array:
        """Return the nodes at coordinates (..., n_dimensions), which are taken modulo the size of rings.

        Parameters
        ----------
        coordinates : int (..., n_dimensions)

        Returns
        -------
        int64 (...)

        Raises
        ------
        ConfigError
            If a coordinate lies outside a dimension that does not wrap, or there is not one for each.
        """
        position = np.array(whole_array(coordinates, "coordinates"))
        if not position.ndim or position.shape[-1] != self.n_dimensions:
            raise ConfigError(
                f"coordinates of shape {position.shape} in {self}",
                mend=f"give {self.n_dimensions} of each node",
            )
        for dimension, (size, ring) in enumerate(zip(self.shape, self.wrap, strict=True)):
            column = position[..., dimension]
            if ring:
                column %= size
            elif np.any((column < 0) | (column >= size)):
                raise ConfigError(f"a coordinate lies outside dimension {dimension} of {self}", mend=None)
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(position, -1, 0)), self.shape), np.int64)

    def neighbor(self, node: npt.ArrayLike, dimension: int, direction: int) -> Int64Array:
        """Return the nodes one step away in direction +1 or -1; -1 where the mesh ends.

        Parameters
        ----------
        node : int (...)
        dimension : int
        direction : int
            +1 or -1.

        Returns
        -------
        int64 (...)
        """
        self._check_step(dimension, direction)
        position = self.coordinates(node)
        column = position[..., dimension] + direction
        size = self.shape[dimension]
        inside = (column >= 0) & (column < size) | self.wrap[dimension]
        position[..., dimension] = column % size
        return np.where(inside, self.node_at(position), -1)

    def link(self, node: npt.ArrayLike, dimension: int, direction: int) -> Int64Array:
        """Return the numbers of the links that leave nodes in direction +1 or -1; -1 where there is none.

        Parameters
        ----------
        node : int (...)
        dimension : int
        direction : int
            +1 or -1.

        Returns
        -------
        int64 (...)
        """
        self._check_step(dimension, direction)
        position = self.coordinates(node)
        sources = self._sources[dimension]
        position[..., dimension] -= direction < 0 and not self.wrap[dimension]
        column = position[..., dimension]
        exists = (column >= 0) & (column < sources[dimension])
        column[...] = np.where(exists, column, 0)
        if not math.prod(sources):
            return np.full(exists.shape, -1, np.int64)
        number = np.ravel_multi_index(tuple(np.moveaxis(position, -1, 0)), sources)
        return np.where(exists, self._first[2 * dimension + (direction < 0)] + number, -1)

    def _check_step(self, dimension: int, direction: int) -> None:
        require_integer(dimension, "dimension", 0, self.n_dimensions - 1)
        if direction not in (1, -1):
            raise ConfigError(f"{direction!r:.60} is no direction", where="direction", mend="give 1 or -1")

    def link_ends(self) -> tuple[Int64Array, Int64Array]:
        """Return the source and the target node of each link: int64 (n_links,) each.

        Returns
        -------
        source, target : int64 (n_links,)
        """
        ends = [np.empty(self.n_links, np.int64) for _ in range(2)]
        nodes = np.arange(self.n_nodes)
        for dimension in range(self.n_dimensions):
            for direction in (1, -1):
                links = self.link(nodes, dimension, direction)
                neighbors = self.neighbor(nodes, dimension, direction)
                ends[0][links[links >= 0]] = nodes[links >= 0]
                ends[1][links[links >= 0]] = neighbors[links >= 0]
        return ends[0], ends[1]

    def displacement(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the signed steps from nodes `a` to nodes `b` in each dimension.

        Steps go along the shorter arc of a ring; half a ring counts as positive.

        Parameters
        ----------
        a, b : int (...)
            Nodes.

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
        """Return the number of links of a shortest route from nodes `a` to nodes `b`: int64.

        Parameters
        ----------
        a, b : int (...)
            Nodes.

        Returns
        -------
        int64 (...)
        """
        return np.asarray(np.abs(self.displacement(a, b)).sum(-1))

    def route(self, a: int, b: int, order: Sequence[int] | None = None) -> Int64Array:
        """Return the links of the dimension-ordered route from one node to another: int64 (hops,).

        Parameters
        ----------
        a, b : int
            Nodes.
        order : sequence of int, optional
            Order of the dimensions; by default from the first to the last.

        Returns
        -------
        int64 (n_hops,)
            Links in the order in which they are crossed.
        """
        for name, end in (("a", a), ("b", b)):
            require_integer(end, name, 0, self.n_nodes - 1)
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
    sizes = whole_numbers(shape, "shape")
    text = shape_text(sizes)
    if not 1 <= len(sizes) <= MAX_DIMENSIONS:
        raise ConfigError(
            f"a shape of {len(sizes)} dimensions", mend=f"give 1 to {MAX_DIMENSIONS}, like 8x8x8"
        )
    if min(sizes) < 1:
        raise ConfigError(f"the shape {text} has a dimension without nodes", mend="give 1 or more in each")
    if math.prod(sizes) > MAX_NODES:
        raise ConfigError(f"the shape {text} has more than 2^31 - 1 nodes", mend="give a smaller one")
    return sizes


def parse_shape(text: str) -> tuple[int, ...]:
    """Return the shape that a text such as ``"8x8x8"`` describes.

    Raises
    ------
    ConfigError
        If the text is not a list of positive integers separated by x, or the shape is too large.
    """
    parts = text.lower().split("x")
    if not all(part.isdecimal() and len(part) < 11 for part in parts):
        raise ConfigError(f"'{text}' is not a shape", mend='write it like "8x8x8"')
    return _checked_shape([int(part) for part in parts])
