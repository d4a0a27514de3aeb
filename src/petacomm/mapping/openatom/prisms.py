"""The torus cut into prisms, one for each plane of GSpace."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array
from petacomm.topology import TopologyManager


@dataclass(frozen=True, eq=False)
class Prisms:
    """Boxes of processors along one dimension of the torus, from end to end.

    Attributes
    ----------
    axis : int
        The long dimension.
    processors : tuple of int64 (n,)
        The ranks of each prism, in increasing order along the axis.
    of_plane : int64 (n_planes,)
        The prism of each plane; where planes are more than columns of processors, some share one.
    """

    axis: int
    processors: tuple[Int64Array, ...]
    of_plane: Int64Array


def cut_prisms(manager: TopologyManager, n_planes: int, axis: int) -> Prisms:
    """Cut an allocation that fills a box into one prism for each plane, all alike and as square as can be.

    Parameters
    ----------
    manager : TopologyManager
    n_planes : int
    axis : int
        The dimension of the torus that all prisms run along.

    Raises
    ------
    ConfigError
        If the allocation does not fill its box, or the planes cannot have prisms of one size.
    """
    sizes = (*manager.shape, manager.ranks_per_node)
    if manager.n_ranks != math.prod(sizes):
        raise ConfigError(
            f"{manager.n_ranks} ranks do not fill a box of {'x'.join(map(str, sizes))}",
            mend="prisms need a rectangular allocation, all cores of each node used",
        )
    across = [d for d in range(len(sizes)) if d != axis]
    widths = [sizes[d] for d in across]
    columns = math.prod(widths)
    n_prisms = math.gcd(n_planes, columns) if n_planes > columns else n_planes
    cuts = min(_divisions(n_prisms, widths), key=lambda parts: _extent(widths, parts), default=None)
    if cuts is None or n_planes % n_prisms:
        raise ConfigError(
            f"{n_planes} planes cannot have prisms of one size in a cross-section of "
            f"{'x'.join(map(str, widths))}",
            mend="give a number of planes that divides it, or another axis",
        )
    places = manager.rank_to_coordinates(np.arange(manager.n_ranks))
    index = np.zeros(manager.n_ranks, np.int64)
    for d, width, n in zip(across, widths, cuts, strict=True):
        index = index * n + places[:, d] // (width // n)
    order = np.lexsort((*(places[:, d] for d in reversed(across)), places[:, axis], index))
    processors = tuple(order.reshape(n_prisms, -1))
    return Prisms(axis, processors, np.arange(n_planes) * n_prisms // n_planes)


def _divisions(n: int, widths: list[int]) -> Iterator[tuple[int, ...]]:
    """Iterate over the ways to write n as a product of divisors of the widths."""
    if not widths:
        if n == 1:
            yield ()
        return
    for part in range(1, widths[0] + 1):
        if widths[0] % part == 0 and n % part == 0:
            for rest in _divisions(n // part, widths[1:]):
                yield (part, *rest)


def _extent(widths: list[int], cuts: tuple[int, ...]) -> float:
    """Return how far it is across a prism; cores of a node, the last width, are no way at all."""
    return sum(width / part for width, part in zip(widths[:-1], cuts[:-1], strict=True))
