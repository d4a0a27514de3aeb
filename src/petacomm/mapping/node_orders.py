"""Orders of the nodes of a network in which nearby nodes are close: recursive bisection and lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.topology import Network, Torus, full_network, network_shape


class Bisection(NamedTuple):
    """Recursive bisection of a network down to single nodes.

    Attributes
    ----------
    order : int32 (n_nodes,)
        The nodes, such that each part is contiguous.
    cuts : int32 (5, n_cuts)
        For each bisection, parents before children: the begin of the part in `order`, the position of the
        cut, the end of the part; and a central node of each half.
    """

    order: Int32Array
    cuts: Int32Array


def bisect_network(network: Network) -> Bisection:
    """Return the bisection of a network: of grids across the longest side, else between groups."""
    nodes, full = full_network(network)
    if isinstance(full, Torus):
        return _bisect_grid(full, nodes)
    return _bisect_groups(full, nodes)


def line_order(network: Network) -> Int64Array:
    """Return the nodes in an order in which each is near the next; boustrophedon on grids."""
    nodes, full = full_network(network)
    if not isinstance(full, Torus):
        return np.argsort(nodes, kind="stable")
    coordinates = full.coordinates(nodes)
    number = np.zeros(len(nodes), np.int64)
    for dimension, size in enumerate(full.shape):
        # The direction alternates with the parity of the number in the dimensions before.
        column = coordinates[:, dimension]
        column = np.where(number % 2 == 1, size - 1 - column, column)
        number = number * size + column
    return np.argsort(number, kind="stable")


def _bisect(
    order: Int64Array,
    cut: Callable[[Int64Array], tuple[Int64Array, int]],
    centre: Callable[[Int64Array], int],
) -> Bisection:
    """Return the bisection by functions of a part: its order and the size of its first half; its centre."""
    cuts: list[tuple[int, ...]] = []
    parts = deque([(0, len(order))])
    while parts:
        low, high = parts.popleft()
        if high - low < 2:
            continue
        order[low:high], size = cut(order[low:high])
        middle = low + size
        cuts.append((low, middle, high, centre(order[low:middle]), centre(order[middle:high])))
        parts += [(low, middle), (middle, high)]
    table = np.array(cuts, np.int32).reshape(-1, 5).T
    return Bisection(order.astype(np.int32), np.ascontiguousarray(table))


def _bisect_grid(grid: Torus, nodes: Int64Array) -> Bisection:
    coordinates = grid.coordinates(nodes)

    def cut(part: Int64Array) -> tuple[Int64Array, int]:
        along = int(np.argmax(np.ptp(coordinates[part], axis=0)))
        ordered = part[np.argsort(coordinates[part, along], kind="stable")]
        return ordered, _even_cut(coordinates[ordered, along])

    def centre(part: Int64Array) -> int:
        """Return the node of a part that is nearest to its mean coordinates."""
        distance = np.abs(coordinates[part] - coordinates[part].mean(axis=0)).sum(axis=1)
        return int(part[np.argmin(distance)])

    return _bisect(np.arange(len(nodes)), cut, centre)


def _even_cut(sorted_coordinates: Int64Array) -> int:
    """Return the position of a cut: between different coordinates if possible near the middle."""
    n = len(sorted_coordinates)
    borders = np.flatnonzero(np.diff(sorted_coordinates)) + 1
    if not len(borders):
        return n // 2
    nearest = int(borders[np.argmin(np.abs(borders - n / 2))])
    return nearest if abs(nearest - n / 2) <= n / 4 else n // 2


def _bisect_groups(network: Network, nodes: Int64Array) -> Bisection:
    # The number of nodes of a group of each level, from the largest down.
    sizes = [*np.cumprod(network_shape(network)[::-1])[::-1].tolist(), 1]
    return _bisect(
        np.argsort(nodes, kind="stable"),
        lambda part: (part, _group_cut(nodes[part], sizes)),
        lambda part: int(part[len(part) // 2]),
    )


def _group_cut(numbers: Int64Array, sizes: list[int]) -> int:
    """Return the position of a cut between groups of the highest level at which the nodes differ."""
    for size in sizes:
        groups = numbers // size
        if groups[0] != groups[-1]:
            borders = np.flatnonzero(np.diff(groups)) + 1
            return int(borders[np.argmin(np.abs(borders - len(numbers) / 2))])
    raise AssertionError("nodes are distinct")
