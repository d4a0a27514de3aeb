"""Reduction by owners, which sends a key of m holders 2 (m - 1) times; by pairs it is m (m - 1) times."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.costs.algorithm_loads import SendVolume, owner_loads
from petacomm.costs.run_counts import graph_runs
from petacomm.network import RankLoad
from petacomm.reduction.algorithms.base import ReductionAlgorithm, register_algorithm


@register_algorithm("owner")
class Owner(ReductionAlgorithm):
    """Algorithm that reduces onto owners and broadcasts to ghosts, by two all-to-alls."""

    def _set_up(self) -> None:
        _ = self._owners

    @property
    def partners(self) -> Int64Array:
        return np.flatnonzero(self._owners.to_owner_counts + self._owners.to_ghost_counts)

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        return int(self._owners.to_owner_counts.sum() + self._owners.to_ghost_counts.sum()) * k * itemsize

    def rank_loads(self, node_of: Int32Array) -> tuple[RankLoad, ...]:
        rank = self.comm.rank
        _, to_owner_runs, to_ghost_runs = graph_runs(self.graph, self.keys, rank)
        to_owners = SendVolume.from_counts(self._owners.to_owner_counts, rank, node_of, to_owner_runs)
        to_ghosts = SendVolume.from_counts(self._owners.to_ghost_counts, rank, node_of, to_ghost_runs)
        return owner_loads(to_owners, to_ghosts, self.graph.n_owned_shared(rank))
