"""Reduction in the shared memory of each node, then between nodes, with few messages and copies.

A key that several ranks of a node hold is reduced by one of them, directly from and to the rows of all
holders. A key on several nodes has an owner node, that of its owner: the other nodes send it their sums, in
one message for each pair of nodes, and receive the result.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import SendVolume, hierarchical_loads
from petacomm.costs.options import ReductionOptions
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.network import RankLoad
from petacomm.reduction._reduction import INTERVAL_WORDS, cut_intervals
from petacomm.reduction.algorithms.base import MemoryUser, ReductionAlgorithm, register_algorithm
from petacomm.reduction.node_exchange import NodeBuffers, NodeExchange
from petacomm.reduction.node_union import NodeUnion, merge_intervals
from petacomm.reduction.node_vectors import NodeVectors
from petacomm.reduction.row_exchange import CallSteps
from petacomm.reduction.row_runs import Flow, NodeValues, RowRuns, UInt32Array, select_runs
from petacomm.sharing.sharing_graph import SharingGraph, offsets_from_counts


@register_algorithm("hierarchical")
class Hierarchical(ReductionAlgorithm):
    """Algorithm that reduces in place on each node, then onto the nodes of owners, and broadcasts back.

    Three tables define what this rank reduces in its range of its node's keys: keys on this node only, keys
    that this node owns and other nodes hold, and keys that other nodes own.

    Parameters are those of `ReductionAlgorithm`, and `node_vectors` of another algorithm on the same keys, if
    any.
    """

    def __init__(
        self,
        comm: Communicator,
        keys: Int64Array,
        graph: SharingGraph,
        options: ReductionOptions,
        node_vectors: NodeVectors | None = None,
    ) -> None:
        self._shared_vectors = node_vectors
        super().__init__(comm, keys, graph, options)

    def _set_up(self) -> None:
        comm, graph = self.comm, self.graph
        self._node = int(comm.node_of[comm.rank])
        # Keys that are not shared are left out.
        groups = np.where(graph.multiplicity > 1, comm.node_of[graph.owner], np.int32(-1))
        union = NodeUnion(comm, self.keys, groups)
        self._vectors = self._shared_vectors or NodeVectors.from_union(
            comm, union, graph, self.options.n_threads
        )
        self._exchange = None
        self._sent = self._owned = RowRuns.from_runs(*(np.zeros(0, np.int64),) * 2, np.zeros(0, np.uint32))
        runs, rows = union.runs, union.rows
        if int(comm.node_of.max()) > 0:
            self._exchange = self._make_exchange(union)
            runs, rows = self._with_received(union, self._exchange)
            self._exchange.received_keys.clear()
        self._make_tables(runs, rows)

    def _memory_users(self) -> list[MemoryUser]:
        exchange = [] if self._exchange is None else [self._exchange]
        vectors = [] if self._shared_vectors else [self._vectors]
        return [*super()._memory_users(), *vectors, *exchange]

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(table.nbytes for table in (self._local, self._owned, self._sent))

    def _make_exchange(self, union: NodeUnion) -> NodeExchange:
        """Return the exchange of the keys that other nodes own, and make their table."""
        remote = np.flatnonzero(union.group != self._node)
        remote = remote[np.argsort(union.group[remote], kind="stable")]
        keys, lengths = union.key[remote], union.length[remote]
        offsets = offsets_from_counts(lengths)
        all_keys = np.repeat(keys - offsets[:-1], lengths) + np.arange(offsets[-1])
        n_nodes = int(self.comm.node_of.max()) + 1
        node_begins = np.searchsorted(union.group[remote], np.arange(n_nodes + 1))
        bounds = offsets[node_begins]
        exchange = NodeExchange(self.comm, [all_keys[begin:end] for begin, end in pairwise(bounds)])
        slots = offsets[:-1] + (exchange.send_begins - bounds[:-1])[union.group[remote]]
        counts, rows = select_runs(remote, union.n_holders, union.rows)
        self._sent = RowRuns.from_runs(lengths, counts + 1, self._with_slots(rows, counts, slots))
        return exchange

    def _with_slots(self, rows: UInt32Array, counts: Int64Array, slots: Int64Array) -> UInt32Array:
        """Return the rows of runs, with a slot after the rows of each run."""
        entries = np.insert(
            rows.astype(np.int64), offsets_from_counts(counts)[1:], self._vectors.n_rows + slots
        )
        return entries.astype(np.uint32)

    def _with_received(self, union: NodeUnion, exchange: NodeExchange) -> tuple[Int64Array, UInt32Array]:
        """Return runs and rows of the keys that this node owns, with slots of what other nodes send."""
        lists = [
            _intervals_in_range(union.intervals[begin:end], union.low, union.high)
            for begin, end in pairwise(union.lists)
        ]
        for keys, slot in exchange.received_keys:
            begin, end = np.searchsorted(keys, [union.low, union.high])
            lists.append(_make_intervals(keys[begin:end], self._vectors.n_rows + slot + int(begin)))
        offsets = offsets_from_counts(np.array([len(part) for part in lists]))
        runs, rows = merge_intervals(np.concatenate(lists), offsets, union.low, union.high)
        owned = np.flatnonzero(runs[:, 3] == self._node)
        _, rows = select_runs(owned, runs[:, 2], rows)
        return runs[owned], rows

    def _make_tables(self, runs: Int64Array, rows: UInt32Array) -> None:
        """Make the tables of keys on this node only, and of those that it owns and other nodes hold."""
        lengths, counts = runs[:, 1], runs[:, 2]
        if self._exchange is None:
            self._local = RowRuns.from_runs(lengths, counts, rows)
            return
        has_slots = rows[offsets_from_counts(counts)[1:] - 1] >= self._vectors.n_rows
        self._local, self._owned = (
            RowRuns.from_runs(lengths[selected], *select_runs(selected, counts, rows))
            for selected in (np.flatnonzero(~has_slots), np.flatnonzero(has_slots))
        )

    @property
    def partners(self) -> Int64Array:
        return np.zeros(0, np.int64) if self._exchange is None else self._exchange.partners

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        if self._exchange is None:
            return 0
        return int(self._exchange.send_counts.sum() + self._exchange.receive_counts.sum()) * k * itemsize

    def rank_loads(self, node_of: Int32Array) -> tuple[RankLoad, ...]:
        """Return the load of this rank in each phase, with copies of vectors to shared memory and back."""
        n_runs = float(self.graph.n_runs(self.keys))
        tables = float(self._local.n_rows), float(self._owned.n_rows), float(self._sent.n_rows)
        nothing = np.zeros(self.comm.size, np.int64)
        exchange = self._exchange
        to_owner_nodes, from_owner_nodes = (
            SendVolume.from_counts(rows, self.comm.rank, node_of)
            for rows in ((exchange.send_counts, exchange.receive_counts) if exchange else (nothing, nothing))
        )
        n_shared = float(self.graph.n_shared)
        return hierarchical_loads(
            n_shared, n_runs, tables, to_owner_nodes, from_owner_nodes, exchange is None
        )

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        return self._vectors.empty(shape, dtype)

    def allreduce(self, values: AnyArray, op: Operation) -> CallSteps:
        """Reduce the values of all holders of each key, onto all of them."""
        node_values, buffers = yield from self._gather(values, op)
        self._run(self._local, "everywhere", node_values, op)
        if buffers is not None:
            self._wait_forward(buffers)
            self._run(self._owned, "everywhere", node_values, op, buffers.receive, buffers.reply)
            self._start_backward(buffers)
            yield
            self._finish_backward(buffers, node_values)
        self._vectors.finish(values)

    def reduce(self, values: AnyArray, op: Operation) -> CallSteps:
        """Reduce the values of all holders onto the owners; values of ghosts do not change."""
        node_values, buffers = yield from self._gather(values, op)
        self._run(self._local, "onto_owners", node_values, op)
        if buffers is not None:
            self._wait_forward(buffers)
            self._run(self._owned, "onto_owners", node_values, op, buffers.receive)
        self._vectors.finish(values)

    def broadcast(self, values: AnyArray) -> CallSteps:
        """Overwrite the values of ghosts with those of their owners."""
        self._vectors.begin(values)
        if self._exchange is None:
            yield
        node_values = self._vectors.gather(values)
        buffers = None if self._exchange is None else self._exchange.buffers_for(values)
        if buffers is not None:
            self._run(self._owned, "from_owners", node_values, "or", out_slots=buffers.reply)
            self._start_backward(buffers)
            yield
        self._run(self._local, "from_owners", node_values, "or")
        if buffers is not None:
            self._finish_backward(buffers, node_values)
        self._vectors.finish(values)

    def _gather(
        self, values: AnyArray, op: Operation
    ) -> Generator[None, None, tuple[NodeValues, NodeBuffers | None]]:
        """Gather the values of the node, and start to send the sums of keys that other nodes own."""
        self._vectors.begin(values)
        if self._exchange is None:
            yield
            return self._vectors.gather(values), None
        node_values, buffers = self._vectors.gather(values), self._exchange.buffers_for(values)
        self._run(self._sent, "onto_slots", node_values, op, out_slots=buffers.send)
        self._vectors.barrier()
        buffers.forward.start()
        yield
        return node_values, buffers

    def _wait_forward(self, buffers: NodeBuffers) -> None:
        buffers.forward.wait()
        self._vectors.barrier()

    def _start_backward(self, buffers: NodeBuffers) -> None:
        self._vectors.barrier()
        buffers.backward.start()

    def _finish_backward(self, buffers: NodeBuffers, node_values: NodeValues) -> None:
        buffers.backward.wait()
        self._vectors.barrier()
        self._run(self._sent, "from_slots", node_values, "or", in_slots=buffers.result)

    def _run(
        self,
        table: RowRuns,
        flow: Flow,
        node_values: NodeValues,
        op: Operation,
        in_slots: AnyArray | None = None,
        out_slots: AnyArray | None = None,
    ) -> None:
        table.reduce(flow, node_values, op, self.options.n_threads, in_slots, out_slots)


def _intervals_in_range(intervals: Int64Array, low: int, high: int) -> Int64Array:
    """Return the intervals that have keys in a range."""
    begin = np.searchsorted(intervals[:, 0] + intervals[:, 1], low, side="right")
    return intervals[begin : np.searchsorted(intervals[:, 0], high)]


def _make_intervals(keys: Int64Array, first_row: int) -> Int64Array:
    """Return the intervals of consecutive keys, whose rows are numbered from `first_row`."""
    intervals = np.empty((cut_intervals(keys, None, first_row, None), INTERVAL_WORDS), np.int64)
    cut_intervals(keys, None, first_row, intervals)
    return intervals
