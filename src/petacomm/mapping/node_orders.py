"""Nodes of a network in halves, and halves of halves: near ones stay together."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.topology import Allocation, CliqueHierarchy, FatTree, Network, Torus


class Halving(NamedTuple):
    """A network cut into halves down to single nodes.

    Attributes
    ----------
    order : int32 (n_nodes,)
        The nodes such that each part is a stretch.
    cuts : int32 (5, n_cuts)
        Of each cut, a part after the one that it comes from: where the part begins in `order`, where it is
        cut, where it ends; a node in the middle of either half.
    """

    order: Int32Array
    cuts: Int32Array


def halved(network: Network) -> Halving:
    """Return the network cut into halves: grids across the longest side, trees and cliques between groups."""
    at = np.arange(network.n_nodes)
    whole = network
    while isinstance(whole, Allocation):
        at, whole = whole.nodes[at], whole.network
    if isinstance(whole, Torus):
        return _halved_grid(whole, at)
    return _halved_groups(_group_sizes(whole), at)


def line_order(network: Network) -> Int64Array:
    """Return the nodes in an order in which each is near the next: grids to and fro, others as numbered."""
    at = np.arange(network.n_nodes)
    whole = network
    while isinstance(whole, Allocation):
        at, whole = whole.nodes[at], whole.network
    if not isinstance(whole, Torus):
        return np.argsort(at, kind="stable")
    places = whole.coordinates(at)
    number = np.zeros(len(at), np.int64)
    for dimension, size in enumerate(whole.shape):
        # Where what is above has an odd number, this dimension is gone backwards.
        column = places[:, dimension]
        column = np.where(number % 2 == 1, size - 1 - column, column)
        number = number * size + column
    return np.argsort(number, kind="stable")


def _halved_grid(grid: Torus, at: Int64Array) -> Halving:
    places = grid.coordinates(at)
    order = np.arange(len(at))
    cuts: list[tuple[int, ...]] = []
    parts = deque([(0, len(at))])
    while parts:
        low, high = parts.popleft()
        if high - low < 2:
            continue
        part = order[low:high]
        extents = np.ptp(places[part], axis=0)
        along = int(np.argmax(extents))
        part = part[np.argsort(places[part, along], kind="stable")]
        order[low:high] = part
        middle = low + _even_cut(places[part, along])
        cuts.append(
            (low, middle, high, *(_central(places, order[a:b]) for a, b in ((low, middle), (middle, high))))
        )
        parts += [(low, middle), (middle, high)]
    return _halving(order, cuts)


def _even_cut(sorted_places: Int64Array) -> int:
    """Return where to cut: between two places rather than within one, if that is nearly the middle."""
    n = len(sorted_places)
    borders = np.flatnonzero(np.diff(sorted_places)) + 1
    if not len(borders):
        return n // 2
    nearest = int(borders[np.argmin(np.abs(borders - n / 2))])
    return nearest if abs(nearest - n / 2) <= n / 4 else n // 2


def _central(places: Int64Array, part: Int64Array) -> int:
    """Return the node of a part that is nearest to its mean place."""
    away = np.abs(places[part] - places[part].mean(axis=0)).sum(axis=1)
    return int(part[np.argmin(away)])


def _group_sizes(network: Network) -> list[int]:
    """Return the nodes of a group of each level, from the smallest up."""
    if isinstance(network, FatTree):
        sizes = np.cumprod(network.children)
    elif isinstance(network, CliqueHierarchy):
        sizes = network.nodes_per_vertex * np.cumprod([1, *(level.size for level in network.levels)])
    else:
        sizes = np.array([1])
    return [int(size) for size in sizes if size > 1]


def _halved_groups(sizes: list[int], at: Int64Array) -> Halving:
    order = np.argsort(at, kind="stable")
    at = at[order]
    cuts: list[tuple[int, ...]] = []
    parts = deque([(0, len(at))])
    while parts:
        low, high = parts.popleft()
        if high - low < 2:
            continue
        middle = low + _group_cut(at[low:high], sizes)
        cuts.append((low, middle, high, int(order[(low + middle) // 2]), int(order[(middle + high) // 2])))
        parts += [(low, middle), (middle, high)]
    return _halving(order, cuts)


def _group_cut(numbers: Int64Array, sizes: list[int]) -> int:
    """Return where to cut: between the largest groups that there are several of."""
    for size in [*reversed(sizes), 1]:
        groups = numbers // size
        if groups[0] != groups[-1]:
            borders = np.flatnonzero(np.diff(groups)) + 1
            return int(borders[np.argmin(np.abs(borders - len(numbers) / 2))])
    raise AssertionError("nodes are distinct")


def _halving(order: Int64Array, cuts: list[tuple[int, ...]]) -> Halving:
    table = np.array(cuts, np.int32).reshape(-1, 5).T
    return Halving(order.astype(np.int32), np.ascontiguousarray(table))
