"""Reduction by pairs of ranks, each of which exchanges the keys that both hold.

Reference: Sudarsan, Borrill, Cantalupo et al. 2011, section 3.3.
"""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import SendVolume, pairwise_loads
from petacomm.costs.run_counts import graph_runs
from petacomm.mpi.communicator import Operation
from petacomm.network import RankLoad
from petacomm.reduction.algorithms.base import MemoryUser, ReductionAlgorithm, register_algorithm
from petacomm.reduction.row_exchange import CallSteps, RowExchange


@register_algorithm("pairwise")
class Pairwise(ReductionAlgorithm):
    """Algorithm that exchanges the shared keys of all pairs of ranks, and reduces locally."""

    needs_overlaps = True
    allreduce_only = True

    def _set_up(self) -> None:
        shared, overlaps = self.graph.shared_positions, self.graph.overlaps
        assert shared is not None and overlaps is not None
        self._exchange = RowExchange(self.comm, shared, overlaps, overlaps, self.options)

    def _memory_users(self) -> list[MemoryUser]:
        return [*super()._memory_users(), self._exchange]

    @property
    def partners(self) -> Int64Array:
        return np.flatnonzero(self._exchange.send_counts)

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        return self._exchange.rows.n_rows * k * itemsize

    def rank_loads(self, node_of: Int32Array) -> tuple[RankLoad, ...]:
        runs, _, _ = graph_runs(self.graph, self.keys, self.comm.rank)
        pairs = SendVolume.from_counts(self._exchange.send_counts, self.comm.rank, node_of, runs)
        return pairwise_loads(pairs, self.graph.n_shared)

    def allreduce(self, values: AnyArray, op: Operation) -> CallSteps:
        received = yield from self._exchange.run(values)
        # Both ranks of a pair list the same keys: the rows sent are those to which received values are added.
        self._exchange.rows.combine(received, self.comm.rank, op, values, self.options.n_threads)
