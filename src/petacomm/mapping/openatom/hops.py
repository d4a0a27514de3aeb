"""Hops between many ranks of a torus or mesh, from one table per dimension."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import Int64Array
from petacomm.topology import TopologyManager


class HopTable:
    """Hops between ranks of a torus or mesh.

    Parameters
    ----------
    manager : TopologyManager

    Attributes
    ----------
    coordinates : int64 (n_ranks, n_dimensions)
        Coordinates of the node of each rank.
    tables : list of int16 (size, size)
        Hops between coordinates, for each dimension.
    """

    def __init__(self, manager: TopologyManager) -> None:
        self.coordinates = manager.rank_to_coordinates(np.arange(manager.n_ranks))[:, :-1]
        self.tables: list[npt.NDArray[np.int16]] = []
        for size, ring in zip(manager.shape, manager.wrap, strict=True):
            distance = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
            self.tables.append((np.minimum(distance, size - distance) if ring else distance).astype(np.int16))

    def from_rank(self, rank: int, ranks: Int64Array) -> Int64Array:
        """Return the hops from one rank to others: int64 (len(ranks),)."""
        parts = [
            table[x][self.coordinates[ranks, d]]
            for d, (table, x) in enumerate(zip(self.tables, self.coordinates[rank], strict=True))
        ]
        return np.asarray(sum(parts[1:], start=parts[0]), np.int64)

    def between(self, a: Int64Array, b: Int64Array) -> npt.NDArray[np.int16]:
        """Return the hops from each of `a` to each of `b`: int16 (len(a), len(b))."""
        parts = [
            table[self.coordinates[a, d][:, None], self.coordinates[b, d][None]]
            for d, table in enumerate(self.tables)
        ]
        return np.asarray(sum(parts[1:], start=parts[0]), np.int16)

    def of_pairs(self, a: Int64Array, b: Int64Array) -> Int64Array:
        """Return the hops of each pair of ranks: int64 (n,)."""
        parts = [table[self.coordinates[a, d], self.coordinates[b, d]] for d, table in enumerate(self.tables)]
        return np.asarray(sum(parts[1:], start=parts[0]), np.int64)

    def group_sums(self, ranks: Int64Array, groups: Int64Array) -> Int64Array:
        """Return the sums of hops from each rank to all ranks of each group: int64 (n_groups, len(ranks))."""
        total = np.zeros((len(groups), len(ranks)), np.int64)
        for d, table in enumerate(self.tables):
            size = len(table)
            bins = self.coordinates[groups, d] + size * np.arange(len(groups))[:, None]
            counts = np.bincount(bins.ravel(), minlength=size * len(groups)).reshape(-1, size)
            total += (counts @ table)[:, self.coordinates[ranks, d]]
        return total
