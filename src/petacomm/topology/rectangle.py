"""Rectangular sets of nodes, whose lines can use the deposit bit (Almasi et al. 2005, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array
from petacomm.topology.torus import Torus


@dataclass(frozen=True)
class Rectangle:
    """A box of nodes in a torus or mesh.

    Attributes
    ----------
    torus : Torus
        The torus or mesh that contains the box.
    origin : tuple of int
        Lowest corner of the box, which may extend across the wrap-around of a ring.
    grid : Torus
        The box as a network; a dimension is a ring if the box fills a ring of `torus`.
    """

    torus: Torus
    origin: tuple[int, ...]
    grid: Torus

    @property
    def nodes(self) -> Int64Array:
        """Numbers in `torus` of the nodes of the box, in the order of `grid`: int64 (grid.n_nodes,)."""
        coordinates = self.grid.coordinates(np.arange(self.grid.n_nodes)) + np.array(self.origin)
        return self.torus.node_at(coordinates)


def find_rectangle(torus: Torus, nodes: npt.ArrayLike) -> Rectangle | None:
    """Return the rectangle that a set of nodes fills, or None where it fills none.

    Parameters
    ----------
    torus : Torus
    nodes : int (n,)
        In any order, each once.

    Raises
    ------
    ConfigError
        If there are no nodes, or one is outside the torus or given twice.
    """
    chosen = _checked_nodes(torus, nodes)
    origin, extent, rings = bounding_box(torus.coordinates(chosen), torus.shape, torus.wrap)
    if np.prod(extent, dtype=np.int64) != len(chosen):
        return None
    return Rectangle(torus, origin, Torus(extent, rings))


def _checked_nodes(torus: Torus, nodes: npt.ArrayLike) -> Int64Array:
    chosen = np.asarray(nodes, np.int64).ravel()
    if not len(chosen):
        raise ConfigError("a set of no nodes", mend="name at least one")
    if chosen.min() < 0 or chosen.max() >= torus.n_nodes:
        raise ConfigError(f"a node is not among the {torus.n_nodes} of {torus}", mend="count from 0")
    if len(np.unique(chosen)) < len(chosen):
        raise ConfigError("a node is named twice", mend="name each once")
    return chosen


def bounding_box(
    coordinates: Int64Array, shape: Sequence[int], wrap: Sequence[bool]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[bool, ...]]:
    """Return the smallest box in a grid that contains nodes.

    Parameters
    ----------
    coordinates : int64 (n, n_dimensions)
    shape, wrap : sequence
        Size of each dimension of the grid, and whether it is a ring.

    Returns
    -------
    origin, extent : tuple of int
        Lowest corner of the box, and its size.
    rings : tuple of bool
        Which dimensions are rings that the box fills.
    """
    sizes = list(zip(shape, wrap, strict=True))
    columns = zip(coordinates.T, sizes, strict=True)
    origin, extent = zip(*(_shortest_span(np.unique(column), *size) for column, size in columns), strict=True)
    rings = tuple(ring and length == size for length, (size, ring) in zip(extent, sizes, strict=True))
    return origin, extent, rings


def _shortest_span(values: Int64Array, size: int, ring: bool) -> tuple[int, int]:
    """Return the start and length of the shortest interval, or arc of a ring, that contains sorted values."""
    if not ring or len(values) == size:
        return int(values[0]), int(values[-1] - values[0] + 1)
    gaps = np.diff(values, append=values[0] + size)
    widest = int(np.argmax(gaps))
    return int(values[(widest + 1) % len(values)]), int(size - gaps[widest] + 1)
