"""Sums in the memory that the ranks of a node share, then between nodes: the fewest messages and copies.

On each node, a key that several ranks hold is reduced by one of them, straight out of all holders' rows and
back to all of them. A key on several nodes has an owner node, that of its owner: the others send it what they
have, in one message a pair of nodes, and get the result back.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import Volume, hierarchical_shares
from petacomm.costs.options import Options
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.network import Share
from petacomm.reduction._reduction import INTERVAL_WORDS, Flow, cut_intervals
from petacomm.reduction.algorithms.base import Algorithm, Kept, register
from petacomm.reduction.node_exchange import Crossing, Lane
from petacomm.reduction.node_union import NodeUnion, merged
from petacomm.reduction.node_vectors import NodeRows
from petacomm.reduction.row_exchange import Steps
from petacomm.reduction.row_runs import RowRuns, UInt32Array, Values, chosen
from petacomm.sharing.sharing_graph import SharingGraph, offsets_of


@register("hierarchical")
class Hierarchical(Algorithm):
    """Reduce in place on each node, then onto the nodes of the owners and back.

    Three tables say what this rank reduces, in its range of its node's keys: keys on this node alone, keys
    that this node owns and others hold, and keys that go to the nodes that own them.

    Parameters are those of `Algorithm`, and `node_rows`, if another algorithm on the same keys has made them.
    """

    def __init__(
        self,
        comm: Communicator,
        keys: Int64Array,
        graph: SharingGraph,
        options: Options,
        node_rows: NodeRows | None = None,
    ) -> None:
        self._given_rows = node_rows
        super().__init__(comm, keys, graph, options)

    def _prepare(self) -> None:
        comm, graph = self.comm, self.graph
        self._here = int(comm.node_of[comm.rank])
        # Keys of a rank alone are nobody else's business.
        groups = np.where(graph.multiplicity > 1, comm.node_of[graph.owner], -1).astype(np.int32)
        union = NodeUnion(comm, self.keys, groups)
        self._rows = self._given_rows or NodeRows.of(comm, union, graph, self.options.n_threads)
        self._crossing = None
        self._sent = self._met = RowRuns.of(*(np.zeros(0, np.int64),) * 2, np.zeros(0, np.uint32))
        runs, rows = union.runs, union.rows
        if int(comm.node_of.max()) > 0:
            self._crossing = self._cross(union)
            runs, rows = self._with_others(union, self._crossing)
            self._crossing.arrived.clear()
        self._split(runs, rows)

    def _kept(self) -> list[Kept]:
        crossing = [] if self._crossing is None else [self._crossing]
        rows = [] if self._given_rows else [self._rows]
        return [*super()._kept(), *rows, *crossing]

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(table.nbytes for table in (self._local, self._met, self._sent))

    def _cross(self, union: NodeUnion) -> Crossing:
        """Prepare messages for the keys that other nodes own."""
        away = np.flatnonzero(union.group != self._here)
        away = away[np.argsort(union.group[away], kind="stable")]
        keys, lengths = union.key[away], union.length[away]
        offsets = offsets_of(lengths)
        every = np.repeat(keys - offsets[:-1], lengths) + np.arange(offsets[-1])
        n_nodes = int(self.comm.node_of.max()) + 1
        of_node = np.searchsorted(union.group[away], np.arange(n_nodes + 1))
        bounds = offsets[of_node]
        crossing = Crossing(self.comm, [every[begin:end] for begin, end in pairwise(bounds)])
        slots = offsets[:-1] + (crossing.out_begins - bounds[:-1])[union.group[away]]
        counts, rows = chosen(away, union.n_holders, union.rows)
        self._sent = RowRuns.of(lengths, counts + 1, self._ending(rows, counts, slots))
        return crossing

    def _ending(self, rows: UInt32Array, counts: Int64Array, slots: Int64Array) -> UInt32Array:
        """Return the rows of runs with a slot after those of each."""
        entries = np.insert(rows.astype(np.int64), offsets_of(counts)[1:], self._rows.n_rows + slots)
        return entries.astype(np.uint32)

    def _with_others(self, union: NodeUnion, crossing: Crossing) -> tuple[Int64Array, UInt32Array]:
        """Merge the keys of this node that it owns with what other nodes send it."""
        lists = [
            _between(union.intervals[begin:end], union.low, union.high)
            for begin, end in pairwise(union.lists)
        ]
        for keys, slot in crossing.arrived:
            begin, end = np.searchsorted(keys, [union.low, union.high])
            lists.append(_intervals(keys[begin:end], self._rows.n_rows + slot + int(begin)))
        offsets = offsets_of(np.array([len(part) for part in lists]))
        runs, rows = merged(np.concatenate(lists), offsets, union.low, union.high)
        here = np.flatnonzero(runs[:, 3] == self._here)
        _, rows = chosen(here, runs[:, 2], rows)
        return runs[here], rows

    def _split(self, runs: Int64Array, rows: UInt32Array) -> None:
        """Make the tables of keys on this node alone, and of those that it owns and others hold."""
        lengths, counts = runs[:, 1], runs[:, 2]
        if self._crossing is None:
            self._local = RowRuns.of(lengths, counts, rows)
            return
        met = rows[offsets_of(counts)[1:] - 1] >= self._rows.n_rows
        self._local, self._met = (
            RowRuns.of(lengths[which], *chosen(which, counts, rows))
            for which in (np.flatnonzero(~met), np.flatnonzero(met))
        )

    @property
    def partners(self) -> Int64Array:
        return np.zeros(0, np.int64) if self._crossing is None else self._crossing.partners

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        if self._crossing is None:
            return 0
        return int(self._crossing.sent.sum() + self._crossing.received.sum()) * k * itemsize

    def shares(self, node_of: Int32Array) -> tuple[Share, ...]:
        """As the values of plain vectors are moved, which are copied in and out."""
        n_runs = float(self.graph.n_runs(self.keys))
        tables = float(self._local.n_rows), float(self._met.n_rows), float(self._sent.n_rows)
        nothing = np.zeros(self.comm.size, np.int64)
        crossing = self._crossing
        there, home = (
            Volume.of(rows, self.comm.rank, node_of)
            for rows in ((crossing.sent, crossing.received) if crossing else (nothing, nothing))
        )
        return hierarchical_shares(float(self.graph.n_shared), n_runs, tables, there, home, crossing is None)

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        return self._rows.empty(shape, dtype)

    def allreduce(self, values: AnyArray, op: Operation) -> Steps:
        """Reduce the values of all holders, onto all of them."""
        every, lane = yield from self._meet(values, op)
        self._run(self._local, Flow.everywhere, every, op)
        if lane is not None:
            self._arrived(lane)
            self._run(self._met, Flow.everywhere, every, op, lane.in_, lane.reply)
            self._go_home(lane)
            yield
            self._come_home(lane, every)
        self._rows.leave(values)

    def reduce(self, values: AnyArray, op: Operation) -> Steps:
        """Reduce the values of all holders onto the owners; ghosts keep theirs."""
        every, lane = yield from self._meet(values, op)
        self._run(self._local, Flow.onto_owners, every, op)
        if lane is not None:
            self._arrived(lane)
            self._run(self._met, Flow.onto_owners, every, op, lane.in_)
        self._rows.leave(values)

    def broadcast(self, values: AnyArray) -> Steps:
        """Overwrite ghosts with the values of their owners."""
        self._rows.arrive(values)
        if self._crossing is None:
            yield
        every = self._rows.together(values)
        lane = None if self._crossing is None else self._crossing.lane(values)
        if lane is not None:
            self._run(self._met, Flow.from_owners, every, "or", out_slots=lane.reply)
            self._go_home(lane)
            yield
        self._run(self._local, Flow.from_owners, every, "or")
        if lane is not None:
            self._come_home(lane, every)
        self._rows.leave(values)

    def _meet(self, values: AnyArray, op: Operation) -> Generator[None, None, tuple[Values, Lane | None]]:
        """Bring all values of the node together, and send off what other nodes own."""
        self._rows.arrive(values)
        if self._crossing is None:
            yield
            return self._rows.together(values), None
        every, lane = self._rows.together(values), self._crossing.lane(values)
        self._run(self._sent, Flow.onto_slots, every, op, out_slots=lane.out)
        self._rows.barrier()
        lane.there.start()
        yield
        return every, lane

    def _arrived(self, lane: Lane) -> None:
        lane.there.wait()
        self._rows.barrier()

    def _go_home(self, lane: Lane) -> None:
        self._rows.barrier()
        lane.home.start()

    def _come_home(self, lane: Lane, every: Values) -> None:
        lane.home.wait()
        self._rows.barrier()
        self._run(self._sent, Flow.from_slots, every, "or", in_slots=lane.back)

    def _run(
        self,
        table: RowRuns,
        flow: Flow,
        every: Values,
        op: Operation,
        in_slots: AnyArray | None = None,
        out_slots: AnyArray | None = None,
    ) -> None:
        table.run(flow, every, op, self.options.n_threads, in_slots, out_slots)


def _between(intervals: Int64Array, low: int, high: int) -> Int64Array:
    """Return the intervals of a list that have keys in a range."""
    begin = np.searchsorted(intervals[:, 0] + intervals[:, 1], low, side="right")
    return intervals[begin : np.searchsorted(intervals[:, 0], high)]


def _intervals(keys: Int64Array, first_row: int) -> Int64Array:
    intervals = np.empty((cut_intervals(keys, None, first_row, None), INTERVAL_WORDS), np.int64)
    cut_intervals(keys, None, first_row, intervals)
    return intervals
