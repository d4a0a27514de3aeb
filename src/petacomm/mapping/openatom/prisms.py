"""Division of the torus into prisms, one for each plane of GSpace."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.text import shape_text
from petacomm.base.typing import Int64Array
from petacomm.mapping.cliques import dividing_blocks
from petacomm.topology import TopologyManager


@dataclass(frozen=True, eq=False)
class Prisms:
    """Boxes of ranks that extend over the full length of one dimension of the torus.

    Attributes
    ----------
    axis : int
        The long dimension.
    ranks : tuple of int64 (n,)
        Ranks of each prism, in increasing order along the axis.
    prism_of_plane : int64 (n_planes,)
        Prism of each plane; planes share prisms if they are more than the columns of ranks.
    """

    axis: int
    ranks: tuple[Int64Array, ...]
    prism_of_plane: Int64Array


def cut_prisms(manager: TopologyManager, n_planes: int, axis: int) -> Prisms:
    """Return prisms for the planes, of equal size, as square as possible, that fill a box-shaped allocation.

    Parameters
    ----------
    manager : TopologyManager
    n_planes : int
    axis : int
        Dimension of the torus along which the prisms extend.

    Raises
    ------
    ConfigError
        If the allocation does not fill its box, or the planes cannot have prisms of equal size.
    """
    sizes = (*manager.shape, manager.ranks_per_node)
    if manager.n_ranks != math.prod(sizes):
        raise ConfigError(
            f"{manager.n_ranks} ranks do not fill a box of {shape_text(sizes)}",
            mend="prisms need a rectangular allocation, all cores of each node used",
        )
    across = [d for d in range(len(sizes)) if d != axis]
    widths = [sizes[d] for d in across]
    columns = math.prod(widths)
    n_prisms = math.gcd(n_planes, columns) if n_planes > columns else n_planes
    cuts = min(dividing_blocks(widths, n_prisms), key=lambda parts: _extent(widths, parts), default=None)
    if cuts is None or n_planes % n_prisms:
        raise ConfigError(
            f"{n_planes} planes cannot have prisms of one size in a cross-section of {shape_text(widths)}",
            mend="give a number of planes that divides it, or another axis",
        )
    coordinates = manager.rank_to_coordinates(np.arange(manager.n_ranks))
    index = np.zeros(manager.n_ranks, np.int64)
    for d, width, n in zip(across, widths, cuts, strict=True):
        index = index * n + coordinates[:, d] // (width // n)
    order = np.lexsort((*(coordinates[:, d] for d in reversed(across)), coordinates[:, axis], index))
    ranks = tuple(order.reshape(n_prisms, -1))
    return Prisms(axis, ranks, np.arange(n_planes) * n_prisms // n_planes)


def _extent(widths: list[int], cuts: tuple[int, ...]) -> float:
    """Return the extent of the cross-section of a prism, without the last width (the cores of a node)."""
    return sum(width / part for width, part in zip(widths[:-1], cuts[:-1], strict=True))
