"""Exchanges between arrays of objects: of groups, and of sums along trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mapping.openatom.hops import HopTable
from petacomm.network import Traffic


@dataclass(frozen=True, eq=False)
class GroupExchange:
    """Messages from each object of one kind to all objects of another that are in the same group, and back.

    Attributes
    ----------
    kinds : two of (int64 (n,), int64 (n,))
        Rank and group of each object, for the two kinds.
    n_groups : int
    n_bytes, n_bytes_back : float
        Bytes of one message, and of one back; 0 if there is none.
    """

    kinds: Sequence[tuple[Int64Array, Int64Array]]
    n_groups: int
    n_bytes: float
    n_bytes_back: float

    def traffic(self, n_ranks: int) -> tuple[Traffic, FloatArray]:
        """Return the traffic between ranks, none within one, and the messages that each sends."""
        from scipy.sparse import coo_array

        held = [
            coo_array((np.ones(len(ranks)), (ranks, groups)), shape=(n_ranks, self.n_groups)).tocsr()
            for ranks, groups in self.kinds
        ]
        pairs = (held[0] @ held[1].T).tocoo()
        remote = pairs.row != pairs.col
        ends = pairs.row[remote].astype(np.int64), pairs.col[remote].astype(np.int64)
        count = pairs.data[remote]
        ways = [way for way in ((*ends, self.n_bytes), (*ends[::-1], self.n_bytes_back)) if way[2]]
        messages = np.zeros(n_ranks)
        for source, _, _ in ways:
            messages += np.bincount(source, count, n_ranks)
        source, target = (np.concatenate([way[i] for way in ways]) for i in range(2))
        return Traffic(source, target, np.concatenate([count * way[2] for way in ways])), messages

    def hop_bytes(self, hops: HopTable) -> float:
        """Return the sum of bytes times hops, from counts of objects by group and coordinate."""
        total = 0
        for dimension, table in enumerate(hops.tables):
            counts = [
                np.bincount(
                    groups * len(table) + hops.coordinates[ranks, dimension],
                    minlength=self.n_groups * len(table),
                )
                for ranks, groups in self.kinds
            ]
            left, right = (count.reshape(self.n_groups, len(table)) for count in counts)
            total += int(np.sum((left @ table) * right))
        return total * (self.n_bytes + self.n_bytes_back)


def group_exchange(
    left: Int64Array,
    left_group: npt.ArrayLike,
    right: Int64Array,
    right_group: npt.ArrayLike,
    n_bytes: float,
    n_bytes_back: float = 0.0,
) -> GroupExchange:
    """Return the exchange of two arrays of objects, given ranks, and groups that may broadcast."""
    kinds = [
        (ranks.ravel(), np.broadcast_to(np.asarray(group, np.int64), ranks.shape).ravel())
        for ranks, group in ((left, left_group), (right, right_group))
    ]
    return GroupExchange(kinds, int(max(groups.max() for _, groups in kinds)) + 1, n_bytes, n_bytes_back)


@dataclass(frozen=True, eq=False)
class TreeExchange:
    """Messages along the edges of trees: sums towards roots, or copies away from them.

    Attributes
    ----------
    source, target : int64 (n,)
        Ranks of each edge.
    n_bytes : float
        Bytes of one message.
    """

    source: Int64Array
    target: Int64Array
    n_bytes: float

    def traffic(self, n_ranks: int) -> tuple[Traffic, FloatArray]:
        """Return the traffic between ranks, and the messages that each sends."""
        messages = np.bincount(self.source, minlength=n_ranks).astype(np.float64)
        return Traffic(self.source, self.target, np.full(len(self.source), self.n_bytes)), messages

    def hop_bytes(self, hops: HopTable) -> float:
        """Return the sum of bytes times hops."""
        return self.n_bytes * float(hops.of_pairs(self.source, self.target).sum())


def plane_trees(hops: HopTable, real_space: Int64Array, rho_r: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the edges of the trees by which planes of RealSpace are summed at RhoR, a tree a plane."""
    ends = [
        reduction_tree(hops, np.unique(np.append(held, rho)), int(rho[0]))
        for held, rho in zip(real_space.T, rho_r, strict=True)
    ]
    source, target = np.concatenate(ends, axis=1)
    return source, target


def reduction_tree(hops: HopTable, ranks: Int64Array, root: int) -> Int64Array:
    """Return the edges of a tree, int64 (2, n - 1): each rank and the nearest rank closer to the root."""
    order = ranks[np.lexsort((ranks, ranks != root, hops.from_rank(root, ranks)))]
    before = np.tri(len(order), k=-1, dtype=bool)
    distance = np.where(before, hops.between(order, order), np.iinfo(np.int16).max)
    return np.stack([order[1:], order[distance[1:].argmin(1)]])
