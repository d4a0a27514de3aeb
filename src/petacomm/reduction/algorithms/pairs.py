"""By pairs, the published improvement: each pair of ranks exchanges only the keys that both hold.

Source: Sudarsan, Borrill, Cantalupo et al. 2011, section 3.3.
"""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import Volume, pairwise_shares
from petacomm.costs.run_counts import graph_runs
from petacomm.mpi.communicator import Operation
from petacomm.network import Share
from petacomm.reduction.algorithms.base import Algorithm, Kept, register
from petacomm.reduction.row_exchange import Exchange, Steps


@register("pairwise")
class Pairwise(Algorithm):
    """Exchange the shared keys of each pair of ranks in one all-to-all, then reduce locally."""

    needs_overlaps = True

    def _prepare(self) -> None:
        shared, overlaps = self.graph.shared_positions, self.graph.overlaps
        assert shared is not None and overlaps is not None
        self._exchange = Exchange(self.comm, shared, overlaps, overlaps, self.options)

    def _kept(self) -> list[Kept]:
        return [*super()._kept(), self._exchange]

    @property
    def partners(self) -> Int64Array:
        return np.flatnonzero(self._exchange.send_counts)

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        return self._exchange.rows.n_rows * k * itemsize

    def shares(self, node_of: Int32Array) -> tuple[Share, ...]:
        runs, _, _ = graph_runs(self.graph, self.keys, self.comm.rank)
        pairs = Volume.of(self._exchange.send_counts, self.comm.rank, node_of, runs)
        return pairwise_shares(pairs, self.graph.n_shared)

    def allreduce(self, values: AnyArray, op: Operation) -> Steps:
        received = yield from self._exchange.run(values)
        # Both of a pair list the same keys: what goes out says where what comes in belongs.
        self._exchange.rows.combine(received, self.comm.rank, op, values, self.options.n_threads)
