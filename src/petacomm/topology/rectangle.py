"""Rectangular sets of nodes: where lines can be straight and a deposit bit reaches all (Almasi et al., 3)."""

from __future__ import annotations

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
    machine : Torus
        What it lies in.
    origin : tuple of int
        Its lowest corner; it may reach over the seam of a ring.
    grid : Torus
        The box as a network of its own: its rings are those of the machine that it fills.
    """

    machine: Torus
    origin: tuple[int, ...]
    grid: Torus

    @property
    def nodes(self) -> Int64Array:
        """The machine's number of each node of the box, in the order of `grid`: int64 (grid.n_nodes,)."""
        places = self.grid.coordinates(np.arange(self.grid.n_nodes)) + np.array(self.origin)
        return self.machine.rank_of(places)


def whole(machine: Torus) -> Rectangle:
    """Return all nodes of a machine."""
    return Rectangle(machine, (0,) * machine.n_dimensions, machine)


def find_rectangle(machine: Torus, nodes: npt.ArrayLike) -> Rectangle | None:
    """Return the rectangle that a set of nodes fills, or None where it fills none.

    Parameters
    ----------
    machine : Torus
    nodes : int (n,)
        In any order, each once.

    Raises
    ------
    ConfigError
        If there are no nodes, or one is outside the machine or named twice.
    """
    chosen = _checked_nodes(machine, nodes)
    places = machine.coordinates(chosen)
    spans = [
        shortest_span(np.unique(places[:, dimension]), size, ring)
        for dimension, (size, ring) in enumerate(zip(machine.shape, machine.wrap, strict=True))
    ]
    extent = tuple(length for _, length in spans)
    if np.prod(extent, dtype=np.int64) != len(chosen):
        return None
    full = [
        ring and length == size
        for ring, length, size in zip(machine.wrap, extent, machine.shape, strict=True)
    ]
    return Rectangle(machine, tuple(first for first, _ in spans), Torus(extent, full))


def _checked_nodes(machine: Torus, nodes: npt.ArrayLike) -> Int64Array:
    chosen = np.asarray(nodes, np.int64).ravel()
    if not len(chosen):
        raise ConfigError("a set of no nodes", mend="name at least one")
    if chosen.min() < 0 or chosen.max() >= machine.n_nodes:
        raise ConfigError(f"a node is not among the {machine.n_nodes} of {machine}", mend="count from 0")
    if len(np.unique(chosen)) < len(chosen):
        raise ConfigError("a node is named twice", mend="name each once")
    return chosen


def shortest_span(values: Int64Array, size: int, ring: bool) -> tuple[int, int]:
    """Return the start and length of the shortest interval, or arc of a ring, that holds sorted values."""
    if not ring or len(values) == size:
        return int(values[0]), int(values[-1] - values[0] + 1)
    gaps = np.diff(values, append=values[0] + size)
    widest = int(np.argmax(gaps))
    return int(values[(widest + 1) % len(values)]), int(size - gaps[widest] + 1)
