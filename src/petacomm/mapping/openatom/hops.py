"""Hops between ranks of a torus or mesh, many at a time, from a table for each dimension."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import Int64Array
from petacomm.topology import TopologyManager


class Hops:
    """Hops between ranks of a torus or mesh, many at a time."""

    def __init__(self, manager: TopologyManager) -> None:
        self.places = manager.rank_to_coordinates(np.arange(manager.n_ranks))[:, :-1]
        self.tables: list[npt.NDArray[np.int16]] = []
        for size, ring in zip(manager.shape, manager.wrap, strict=True):
            apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
            self.tables.append((np.minimum(apart, size - apart) if ring else apart).astype(np.int16))

    def from_one(self, rank: int, ranks: Int64Array) -> Int64Array:
        """Return the hops from one rank to others."""
        rows = [table[at] for table, at in zip(self.tables, self.places[rank], strict=True)]
        hops = rows[0][self.places[ranks, 0]]
        for d in range(1, len(rows)):
            hops = hops + rows[d][self.places[ranks, d]]
        return np.asarray(hops, np.int64)

    def between(self, a: Int64Array, b: Int64Array) -> npt.NDArray[np.int16]:
        """Return the hops from each of `a` to each of `b`: int16 (len(a), len(b))."""
        parts = [
            table[self.places[a, d][:, None], self.places[b, d][None]] for d, table in enumerate(self.tables)
        ]
        return np.asarray(sum(parts[1:], start=parts[0]), np.int16)

    def sums(self, ranks: Int64Array, groups: Int64Array) -> Int64Array:
        """Return the hops from each of `ranks` to all of each group, summed: int64 (n_groups, len(ranks))."""
        total = np.zeros((len(groups), len(ranks)), np.int64)
        for d, table in enumerate(self.tables):
            size = len(table)
            at = self.places[groups, d] + size * np.arange(len(groups))[:, None]
            counts = np.bincount(at.ravel(), minlength=size * len(groups)).reshape(-1, size)
            total += (counts @ table)[:, self.places[ranks, d]]
        return total
