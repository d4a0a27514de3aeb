"""Sums on each node, then between nodes each key by the way that suits the number of nodes that hold it.

Keys that nearly all nodes hold go by a dense all-reduce, which wastes little on them and needs no lists; keys
of a pair of nodes go by pairs, in one step and with no more bytes than through an owner; the rest through the
nodes of their owners. Source: Sudarsan, Borrill, Cantalupo et al. 2011, section 3.3, names a part of it as
future work.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from petacomm.base.timers import Timers
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import HybridTables, Volume, hybrid_shares
from petacomm.costs.options import Options
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.network import Share
from petacomm.reduction._reduction import Flow
from petacomm.reduction.algorithms.base import Algorithm, Kept, register
from petacomm.reduction.algorithms.hierarchical import Hierarchical
from petacomm.reduction.node_exchange import Crossing
from petacomm.reduction.node_keys import NodeKeys, Slots
from petacomm.reduction.node_union import NodeUnion
from petacomm.reduction.node_vectors import NodeRows
from petacomm.reduction.row_exchange import Steps
from petacomm.reduction.row_runs import RowRuns, Values
from petacomm.reduction.striped_allreduce import Lanes
from petacomm.sharing.node_classes import classify
from petacomm.sharing.setup import SETUPS
from petacomm.sharing.sharing_graph import offsets_of, ranks_of


@register("hybrid")
class Hybrid(Algorithm):
    """Reduce on each node; then keys on at least a share `theta` of the nodes dense, those on at most `mu` by
    pairs of nodes, others by owners.

    All three are on their way at the same time. Halves, which are about owners, go as in "hierarchical".
    """

    def _prepare(self) -> None:
        comm, graph = self.comm, self.graph
        # Keys of a rank alone are nobody else's business.
        groups = np.where(graph.multiplicity > 1, comm.node_of[graph.owner], -1).astype(np.int32)
        union = NodeUnion(comm, self.keys, groups)
        self._rows = NodeRows.of(comm, union, graph, self.options.n_threads)
        self._dense: _Densely | None = None
        self._pairs: _ByPairs | None = None
        self._by_owners: _ByOwners | None = None
        self._several = int(comm.node_of.max()) > 0
        if not self._several:
            self._local = RowRuns.of(union.length, union.n_holders, union.rows)
            return
        keys = NodeKeys.of(union, self._rows.n_rows)
        # One rank of each node has a key: ranks that have it now are nodes.
        found = SETUPS["rendezvous"](comm, keys.key, False, self.options.buffer_keys, Timers())
        classes = classify(
            found.multiplicity, int(comm.node_of.max()) + 1, self.options.theta, self.options.mu
        )
        dense, pairs, owners = (np.flatnonzero(mask) for mask in classes)
        self._local = keys.table(np.flatnonzero(found.multiplicity == 1))
        n_dense, n_pairs, n_owners = comm.allreduce(np.array([len(dense), len(pairs), len(owners)]))
        if n_dense:
            self._dense = _Densely(comm, keys, dense, found.owner[dense], self.options)
        if n_pairs:
            self._pairs = _ByPairs(comm, keys, pairs, self.options)
        if n_owners:
            self._by_owners = _ByOwners(comm, keys, owners, self.options)

    @property
    def _ways(self) -> list[_Densely | _ByPairs | _ByOwners]:
        return [way for way in (self._dense, self._pairs, self._by_owners) if way is not None]

    def _kept(self) -> list[Kept]:
        halves = [self._halves] if "_halves" in vars(self) else []
        return [*super()._kept(), self._rows, *self._ways, *halves]

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._local.nbytes

    @functools.cached_property
    def _halves(self) -> Hierarchical:
        # Built in the first call that needs it, which is collective as well.
        return Hierarchical(self.comm, self.keys, self.graph, self.options, node_rows=self._rows)

    @property
    def partners(self) -> Int64Array:
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(way.partners for way in self._ways)]))

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        rows = sum(float(np.sum(share.rows)) for share in self.shares(self.comm.node_of))
        return int(rows) * k * itemsize

    def shares(self, node_of: Int32Array) -> tuple[Share, ...]:
        """As the values of plain vectors are moved, which are copied in and out."""
        rank, n_shared = self.comm.rank, float(self.graph.n_shared)
        n_runs = float(self.graph.n_runs(self.keys))
        nothing = np.zeros(self.comm.size, np.int64)
        dense, pairs, owners = self._dense, self._pairs, self._by_owners
        tables = HybridTables(
            float(self._local.n_rows),
            float(dense.table.n_rows) if dense else 0.0,
            float(pairs.table.n_rows) if pairs else 0.0,
            float(owners.met.n_rows) if owners else 0.0,
            float(owners.sent.n_rows) if owners else 0.0,
        )
        there, home = (
            Volume.of(rows, rank, node_of)
            for rows in ((owners.crossing.sent, owners.crossing.received) if owners else (nothing, nothing))
        )
        by_pairs = Volume.of(pairs.crossing.sent if pairs else nothing, rank, node_of)
        n_dense = dense.lanes.n_slots if dense else 0
        return hybrid_shares(n_shared, n_runs, tables, (there, home, by_pairs), n_dense, node_of, rank)

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        return self._rows.empty(shape, dtype)

    def allreduce(self, values: AnyArray, op: Operation) -> Steps:
        """Reduce the values of all holders, onto all of them."""
        self._rows.arrive(values)
        if not self._several:
            yield
        every = self._rows.together(values)
        ways = [way.steps(every, op) for way in self._ways]
        if self._several:
            ways = _advanced(ways)
            self._rows.barrier()
            ways = _advanced(ways)
            yield
        self._local.run(Flow.everywhere, every, op, self.options.n_threads)
        while ways := _advanced(ways):
            self._rows.barrier()
        self._rows.leave(values)

    def reduce(self, values: AnyArray, op: Operation) -> Steps:
        """Reduce the values of all holders onto the owners; ghosts keep theirs."""
        yield from self._halves.reduce(values, op)

    def broadcast(self, values: AnyArray) -> Steps:
        """Overwrite ghosts with the values of their owners."""
        yield from self._halves.broadcast(values)


def _advanced(ways: list[Steps]) -> list[Steps]:
    """Bring all ways to the next point where the ranks of a node meet; return those that have not ended."""
    ended = object()
    return [way for way in ways if next(way, ended) is not ended]


class _Densely:
    """Keys that nearly all nodes hold. As for each way, its steps end where the node's ranks must meet: when
    slots are filled, when messages are off, when they have come, and so on. Collective.

    Parameters
    ----------
    comm : Communicator
    keys : NodeKeys
    which : int64 (n,)
        The positions of those that go this way.
    owner : integer (n,)
        A rank that has each in its range.
    options : Options
    """

    def __init__(
        self,
        comm: Communicator,
        keys: NodeKeys,
        which: Int64Array,
        owner: npt.NDArray[np.integer],
        options: Options,
    ) -> None:
        self.lanes = Lanes(comm, keys.key[which], owner, options)
        slots = Slots(np.arange(len(which)), np.ones(len(which), np.int64), self.lanes.slots)
        self.table = keys.table(which, slots)
        del self.lanes.slots  # the table has them
        self._n_threads = options.n_threads

    @property
    def nbytes(self) -> int:
        """Bytes of what this rank keeps."""
        return self.table.nbytes + self.lanes.nbytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of this rank's part of the slots."""
        return self.lanes.buffer_bytes

    @property
    def partners(self) -> Int64Array:
        return self.lanes.partners

    def steps(self, every: Values, op: Operation) -> Steps:
        """Reduce these keys over all nodes."""
        slots = self.lanes.open(every.rows, op)
        self.table.run(Flow.onto_slots, every, op, self._n_threads, out_slots=slots)
        yield
        yield
        self.lanes.allreduce(slots, op)
        yield
        self.table.run(Flow.from_slots, every, "or", self._n_threads, in_slots=slots)


class _ByPairs:
    """Keys of few nodes, each of which sends its sums to all others. Collective; parameters as before."""

    def __init__(self, comm: Communicator, keys: NodeKeys, which: Int64Array, options: Options) -> None:
        # Only these keys: a list of pairs for all would be as long as what this way avoids.
        graph = SETUPS["rendezvous"](comm, keys.key[which], True, options.buffer_keys, Timers())
        assert graph.overlaps is not None and graph.shared_positions is not None
        node = comm.node_of[ranks_of(graph.overlaps)]
        order = np.lexsort([graph.shared_positions, node])
        key, node = graph.shared_positions[order].astype(np.int64), node[order]
        # Both nodes of a pair send the same keys: a key comes in where it goes out.
        self.crossing, slot = _crossing(comm, keys.key[which[key]], node)
        self.table = keys.table(which, Slots(key, node.astype(np.int64) - comm.node_of[comm.rank], slot))
        self.crossing.arrived.clear()
        self._n_threads = options.n_threads

    @property
    def nbytes(self) -> int:
        """Bytes of what this rank keeps."""
        return self.table.nbytes + self.crossing.nbytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of this rank's part of the slots."""
        return self.crossing.buffer_bytes

    @property
    def partners(self) -> Int64Array:
        return self.crossing.partners

    def steps(self, every: Values, op: Operation) -> Steps:
        """Reduce these keys over the nodes that hold them."""
        lane = self.crossing.lane(every.rows)
        self.table.run(Flow.onto_slots, every, op, self._n_threads, out_slots=lane.out)
        yield
        lane.there.start()
        yield
        lane.there.wait()
        yield
        self.table.run(Flow.in_node_order, every, op, self._n_threads, in_slots=lane.in_)


class _ByOwners:
    """Keys of other numbers of nodes, to the nodes of their owners and back. Parameters as before."""

    def __init__(self, comm: Communicator, keys: NodeKeys, which: Int64Array, options: Options) -> None:
        node, here = keys.group[which], int(comm.node_of[comm.rank])
        away = np.flatnonzero(node != here)
        away = away[np.argsort(node[away], kind="stable")]
        self.crossing, slot = _crossing(comm, keys.key[which[away]], node[away])
        ones = np.ones(len(away), np.int64)
        self.sent = keys.table(which[away], Slots(np.arange(len(away)), ones, slot))
        home = which[node == here]
        self.met = keys.table(home, self._met_slots(keys.key[home]))
        self.crossing.arrived.clear()
        self._n_threads = options.n_threads

    def _met_slots(self, keys: Int64Array) -> Slots:
        """Return the slots of keys that other nodes send, node after node."""
        found = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        low, high = (keys[0], keys[-1]) if len(keys) else (0, -1)
        for arrived, first in self.crossing.arrived:
            begin, end = np.searchsorted(arrived, low), np.searchsorted(arrived, high, side="right")
            # A range has no key that it does not own and others send.
            found.append((np.searchsorted(keys, arrived[begin:end]), first + np.arange(begin, end)))
        key, slot = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Slots(key, np.ones(len(key), np.int64), slot)

    @property
    def nbytes(self) -> int:
        """Bytes of what this rank keeps."""
        return self.sent.nbytes + self.met.nbytes + self.crossing.nbytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of this rank's part of the slots."""
        return self.crossing.buffer_bytes

    @property
    def partners(self) -> Int64Array:
        return self.crossing.partners

    def steps(self, every: Values, op: Operation) -> Steps:
        """Reduce these keys on the nodes of their owners, and bring them back."""
        lane = self.crossing.lane(every.rows)
        self.sent.run(Flow.onto_slots, every, op, self._n_threads, out_slots=lane.out)
        yield
        lane.there.start()
        yield
        lane.there.wait()
        yield
        self.met.run(Flow.everywhere, every, op, self._n_threads, lane.in_, lane.reply)
        yield
        lane.home.start()
        lane.home.wait()
        yield
        self.sent.run(Flow.from_slots, every, "or", self._n_threads, in_slots=lane.back)


def _crossing(
    comm: Communicator, keys: Int64Array, node: npt.NDArray[np.integer]
) -> tuple[Crossing, Int64Array]:
    """Return what carries keys to nodes, sorted by (node, key), and the slot of each."""
    n_nodes = int(comm.node_of.max()) + 1
    bounds = offsets_of(np.bincount(node, minlength=n_nodes))
    crossing = Crossing(comm, [keys[bounds[i] : bounds[i + 1]] for i in range(n_nodes)])
    return crossing, np.arange(len(keys)) + (crossing.out_begins - bounds[:-1])[node]
