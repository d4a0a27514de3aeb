"""Through owners: a key that m ranks hold moves 2 (m - 1) times, where pairs exchange it m (m - 1) times."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.costs.algorithm_loads import Volume, owner_shares
from petacomm.costs.run_counts import graph_runs
from petacomm.network import Share
from petacomm.reduction.algorithms.base import Algorithm, register


@register("owner")
class Owner(Algorithm):
    """Reduce onto owners, then broadcast: two all-to-alls of few bytes."""

    def _prepare(self) -> None:
        _ = self._owners

    @property
    def partners(self) -> Int64Array:
        return np.flatnonzero(self._owners.ghost_counts + self._owners.asked_counts)

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        return int(self._owners.ghost_counts.sum() + self._owners.asked_counts.sum()) * k * itemsize

    def shares(self, node_of: Int32Array) -> tuple[Share, ...]:
        rank = self.comm.rank
        _, ghost_runs, asked_runs = graph_runs(self.graph, self.keys, rank)
        ghosts = Volume.of(self._owners.ghost_counts, rank, node_of, ghost_runs)
        asked = Volume.of(self._owners.asked_counts, rank, node_of, asked_runs)
        return owner_shares(ghosts, asked, self.graph.n_lent(rank))
