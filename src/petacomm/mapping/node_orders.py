"""Orders of the nodes of a network in which nearby nodes are close: recursive bisection and lines."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.topology import Allocation, CliqueHierarchy, FatTree, Network, Torus


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
    nodes, full = _full_network(network)
    if isinstance(full, Torus):
        return _bisect_grid(full, nodes)
    return _bisect_groups(_group_sizes(full), nodes)


def line_order(network: Network) -> Int64Array:
    """Return the nodes in an order in which each is near the next; boustrophedon on grids."""
    nodes, full = _full_network(network)
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


def _full_network(network: Network) -> tuple[Int64Array, Network]:
    """Return the nodes of an allocation in its complete network, and that network."""
    nodes, full = np.arange(network.n_nodes), network
    while isinstance(full, Allocation):
        nodes, full = full.nodes[nodes], full.network
    return nodes, full


def _bisect_grid(grid: Torus, nodes: Int64Array) -> Bisection:
    coordinates = grid.coordinates(nodes)
    order = np.arange(len(nodes))
    cuts: list[tuple[int, ...]] = []
    parts = deque([(0, len(nodes))])
    while parts:
        low, high = parts.popleft()
        if high - low < 2:
            continue
        part = order[low:high]
        extents = np.ptp(coordinates[part], axis=0)
        along = int(np.argmax(extents))
        part = part[np.argsort(coordinates[part, along], kind="stable")]
        order[low:high] = part
        middle = low + _even_cut(coordinates[part, along])
        centres = [_central(coordinates, order[a:b]) for a, b in ((low, middle), (middle, high))]
        cuts.append((low, middle, high, *centres))
        parts += [(low, middle), (middle, high)]
    return _make_bisection(order, cuts)


def _even_cut(sorted_coordinates: Int64Array) -> int:
    """Return the position of a cut: between different coordinates if possible near the middle."""
    n = len(sorted_coordinates)
    borders = np.flatnonzero(np.diff(sorted_coordinates)) + 1
    if not len(borders):
        return n // 2
    nearest = int(borders[np.argmin(np.abs(borders - n / 2))])
    return nearest if abs(nearest - n / 2) <= n / 4 else n // 2


def _central(coordinates: Int64Array, part: Int64Array) -> int:
    """Return the node of a part that is nearest to its mean coordinates."""
    distance = np.abs(coordinates[part] - coordinates[part].mean(axis=0)).sum(axis=1)
    return int(part[np.argmin(distance)])


def _group_sizes(network: Network) -> list[int]:
    """Return the number of nodes of a group of each level, from the smallest up."""
    if isinstance(network, FatTree):
        sizes = np.cumprod(network.children)
    elif isinstance(network, CliqueHierarchy):
        sizes = network.nodes_per_vertex * np.cumprod([1, *(level.size for level in network.levels)])
    else:
        sizes = np.array([1])
    return [int(size) for size in sizes if size > 1]


def _bisect_groups(sizes: list[int], nodes: Int64Array) -> Bisection:
    order = np.argsort(nodes, kind="stable")
    nodes = nodes[order]
    cuts: list[tuple[int, ...]] = []
    parts = deque([(0, len(nodes))])
    while parts:
        low, high = parts.popleft()
        if high - low < 2:
            continue
        middle = low + _group_cut(nodes[low:high], sizes)
        cuts.append((low, middle, high, int(order[(low + middle) // 2]), int(order[(middle + high) // 2])))
        parts += [(low, middle), (middle, high)]
    return _make_bisection(order, cuts)


def _group_cut(numbers: Int64Array, sizes: list[int]) -> int:
    """Return the position of a cut between groups of the highest level at which the nodes differ."""
    for size in [*reversed(sizes), 1]:
        groups = numbers // size
        if groups[0] != groups[-1]:
            borders = np.flatnonzero(np.diff(groups)) + 1
            return int(borders[np.argmin(np.abs(borders - len(numbers) / 2))])
    raise AssertionError("nodes are distinct")


def _make_bisection(order: Int64Array, cuts: list[tuple[int, ...]]) -> Bisection:
    table = np.array(cuts, np.int32).reshape(-1, 5).T
    return Bisection(order.astype(np.int32), np.ascontiguousarray(table))
