"""Reduction on each node, then between nodes by an algorithm that depends on how many nodes hold a key.

Keys that nearly all nodes hold are all-reduced densely, which wastes few bytes on them and needs no lists.
Keys of few nodes are exchanged by pairs of nodes, in one step and, for two nodes, with no more bytes than
through an owner. Other keys are reduced by the nodes of their owners. Sudarsan, Borrill, Cantalupo et al.
2011, section 3.3, names a part of this as future work.
"""

from __future__ import annotations

import abc
import functools

import numpy as np
import numpy.typing as npt

from petacomm.base.timers import Timers
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import HybridTables, SendVolume, hybrid_loads
from petacomm.costs.options import ReductionOptions
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.network import RankLoad
from petacomm.reduction.algorithms.base import MemoryUser, ReductionAlgorithm, register_algorithm
from petacomm.reduction.algorithms.hierarchical import Hierarchical
from petacomm.reduction.node_exchange import NodeExchange
from petacomm.reduction.node_keys import KeySlots, NodeKeys
from petacomm.reduction.node_union import NodeUnion
from petacomm.reduction.node_vectors import NodeVectors
from petacomm.reduction.row_exchange import CallSteps
from petacomm.reduction.row_runs import NodeValues, RowRuns
from petacomm.reduction.striped_allreduce import StripedAllreduce
from petacomm.sharing.node_classes import classify_keys
from petacomm.sharing.setup import SETUPS
from petacomm.sharing.sharing_graph import offsets_from_counts, ranks_from_counts


@register_algorithm("hybrid")
class Hybrid(ReductionAlgorithm):
    """Algorithm that reduces on each node, then between nodes in three classes of keys at the same time.

    Keys that at least a fraction `theta` of the nodes hold are reduced densely, keys of at most `mu` nodes by
    pairs of nodes, others by owners. `reduce` and `broadcast` are those of "hierarchical".
    """

    allreduce_only = True

    def _set_up(self) -> None:
        comm, graph = self.comm, self.graph
        # Keys that are not shared are left out.
        groups = np.where(graph.multiplicity > 1, comm.node_of[graph.owner], -1).astype(np.int32)
        union = NodeUnion(comm, self.keys, groups)
        self._vectors = NodeVectors.from_union(comm, union, graph, self.options.n_threads)
        self._dense: _DenseKeys | None = None
        self._pairs: _PairKeys | None = None
        self._by_owners: _OwnerKeys | None = None
        self._has_nodes = int(comm.node_of.max()) > 0
        if not self._has_nodes:
            self._local = RowRuns.from_runs(union.length, union.n_holders, union.rows)
            return
        keys = NodeKeys.from_union(union, self._vectors.n_rows)
        # One rank of each node has a key in its range, so the holders in this graph stand for nodes.
        node_graph = SETUPS["rendezvous"](comm, keys.key, False, self.options.buffer_keys, Timers())
        classes = classify_keys(
            node_graph.multiplicity, int(comm.node_of.max()) + 1, self.options.theta, self.options.mu
        )
        dense, pairs, owners = (np.flatnonzero(mask) for mask in classes)
        self._local = keys.table(np.flatnonzero(node_graph.multiplicity == 1))
        n_dense, n_pairs, n_owners = comm.allreduce(np.array([len(dense), len(pairs), len(owners)]))
        if n_dense:
            self._dense = _DenseKeys(comm, keys, dense, node_graph.owner[dense], self.options)
        if n_pairs:
            self._pairs = _PairKeys(comm, keys, pairs, self.options)
        if n_owners:
            self._by_owners = _OwnerKeys(comm, keys, owners, self.options)

    @property
    def _classes(self) -> list[_KeyClass]:
        return [keys for keys in (self._dense, self._pairs, self._by_owners) if keys is not None]

    def _memory_users(self) -> list[MemoryUser]:
        hierarchical = [self._hierarchical] if "_hierarchical" in vars(self) else []
        return [*super()._memory_users(), self._vectors, *self._classes, *hierarchical]

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._local.nbytes

    @functools.cached_property
    def _hierarchical(self) -> Hierarchical:
        # Made in the first call that needs it, which is collective as well.
        return Hierarchical(self.comm, self.keys, self.graph, self.options, node_vectors=self._vectors)

    @property
    def partners(self) -> Int64Array:
        partners = [keys.exchange.partners for keys in self._classes]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *partners]))

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        rows = sum(float(np.sum(load.rows)) for load in self.rank_loads(self.comm.node_of))
        return int(rows) * k * itemsize

    def rank_loads(self, node_of: Int32Array) -> tuple[RankLoad, ...]:
        """Return the load of this rank in each phase, with copies of vectors to shared memory and back."""
        rank, n_shared = self.comm.rank, float(self.graph.n_shared)
        n_runs = float(self.graph.n_runs(self.keys))
        nothing = np.zeros(self.comm.size, np.int64)
        dense, pairs, owners = self._dense, self._pairs, self._by_owners
        tables = HybridTables(
            float(self._local.n_rows),
            float(dense.table.n_rows) if dense else 0.0,
            float(pairs.table.n_rows) if pairs else 0.0,
            float(owners.owned.n_rows) if owners else 0.0,
            float(owners.sent.n_rows) if owners else 0.0,
        )
        counts = (
            (owners.exchange.send_counts, owners.exchange.receive_counts) if owners else (nothing, nothing)
        )
        to_owner_nodes, from_owner_nodes = (SendVolume.from_counts(rows, rank, node_of) for rows in counts)
        by_pairs = SendVolume.from_counts(pairs.exchange.send_counts if pairs else nothing, rank, node_of)
        volumes = to_owner_nodes, from_owner_nodes, by_pairs
        n_dense = dense.exchange.n_slots if dense else 0
        return hybrid_loads(n_shared, n_runs, tables, volumes, n_dense, node_of, rank)

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        return self._vectors.empty(shape, dtype)

    def allreduce(self, values: AnyArray, op: Operation) -> CallSteps:
        """Reduce the values of all holders of each key, onto all of them."""
        self._vectors.begin(values)
        if not self._has_nodes:
            yield
        node_values = self._vectors.gather(values)
        pending = [keys.steps(node_values, op) for keys in self._classes]
        if self._has_nodes:
            pending = _advance(pending)
            self._vectors.barrier()
            pending = _advance(pending)
            yield
        self._local.reduce("everywhere", node_values, op, self.options.n_threads)
        while pending := _advance(pending):
            self._vectors.barrier()
        self._vectors.finish(values)

    def reduce(self, values: AnyArray, op: Operation) -> CallSteps:
        """Reduce the values of all holders onto the owners; values of ghosts do not change."""
        yield from self._hierarchical.reduce(values, op)

    def broadcast(self, values: AnyArray) -> CallSteps:
        """Overwrite the values of ghosts with those of their owners."""
        yield from self._hierarchical.broadcast(values)


def _advance(pending: list[CallSteps]) -> list[CallSteps]:
    """Advance all calls to their next barrier of the node; return those that have not ended."""
    ended = object()
    return [steps for steps in pending if next(steps, ended) is not ended]


class _KeyClass(abc.ABC):
    """Keys of a class, and their reduction between nodes.

    `steps` yields where the ranks of the node need a barrier: after filling slots, after starting messages,
    after receiving them, and so on.

    Attributes
    ----------
    exchange : StripedAllreduce or NodeExchange
    tables : list of RowRuns
        Tables of the rows of the keys.
    """

    exchange: StripedAllreduce | NodeExchange
    tables: list[RowRuns]

    @property
    def nbytes(self) -> int:
        """Bytes of the lists of this rank."""
        return self.exchange.nbytes + sum(table.nbytes for table in self.tables)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of this rank's part of the slots."""
        return self.exchange.buffer_bytes

    @abc.abstractmethod
    def steps(self, node_values: NodeValues, op: Operation) -> CallSteps:
        """Reduce these keys over the nodes that hold them."""


class _DenseKeys(_KeyClass):
    """Keys that nearly all nodes hold. Collective.

    Parameters
    ----------
    comm : Communicator
    keys : NodeKeys
    selected : int64 (n,)
        Positions of the keys of the class.
    owner : integer (n,)
        A rank that has each key in its range, the same on all nodes.
    options : ReductionOptions
    """

    def __init__(
        self,
        comm: Communicator,
        keys: NodeKeys,
        selected: Int64Array,
        owner: npt.NDArray[np.integer],
        options: ReductionOptions,
    ) -> None:
        self.exchange: StripedAllreduce = StripedAllreduce(comm, keys.key[selected], owner, options)
        slots = KeySlots(np.arange(len(selected)), np.ones(len(selected), np.int64), self.exchange.slots)
        self.table = keys.table(selected, slots)
        self.tables = [self.table]
        del self.exchange.slots  # they are in the table
        self._n_threads = options.n_threads

    def steps(self, node_values: NodeValues, op: Operation) -> CallSteps:
        slots = self.exchange.slots_for(node_values.rows, op)
        self.table.reduce("onto_slots", node_values, op, self._n_threads, out_slots=slots)
        yield
        yield
        self.exchange.allreduce(slots, op)
        yield
        self.table.reduce("from_slots", node_values, "or", self._n_threads, in_slots=slots)


class _PairKeys(_KeyClass):
    """Keys of few nodes, each of which sends its sums to all others; parameters as in `_DenseKeys`."""

    def __init__(
        self, comm: Communicator, keys: NodeKeys, selected: Int64Array, options: ReductionOptions
    ) -> None:
        # Overlaps of these keys only: for all keys they would take as much memory as this class avoids.
        graph = SETUPS["rendezvous"](comm, keys.key[selected], True, options.buffer_keys, Timers())
        assert graph.overlaps is not None and graph.shared_positions is not None
        node = comm.node_of[ranks_from_counts(graph.overlaps)]
        order = np.lexsort([graph.shared_positions, node])
        key, node = graph.shared_positions[order].astype(np.int64), node[order]
        # Both nodes of a pair send the same keys, so a key has the same slot in sending and receiving.
        self.exchange: NodeExchange
        self.exchange, slot = _make_exchange(comm, keys.key[selected[key]], node)
        slots = KeySlots(key, node.astype(np.int64) - comm.node_of[comm.rank], slot)
        self.table = keys.table(selected, slots)
        self.tables = [self.table]
        self.exchange.received_keys.clear()
        self._n_threads = options.n_threads

    def steps(self, node_values: NodeValues, op: Operation) -> CallSteps:
        buffers = self.exchange.buffers_for(node_values.rows)
        self.table.reduce("onto_slots", node_values, op, self._n_threads, out_slots=buffers.send)
        yield
        buffers.forward.start()
        yield
        buffers.forward.wait()
        yield
        self.table.reduce("in_node_order", node_values, op, self._n_threads, in_slots=buffers.receive)


class _OwnerKeys(_KeyClass):
    """Other keys, reduced by the nodes of their owners; parameters as in `_DenseKeys`."""

    def __init__(
        self, comm: Communicator, keys: NodeKeys, selected: Int64Array, options: ReductionOptions
    ) -> None:
        owner_node, own_node = keys.group[selected], int(comm.node_of[comm.rank])
        remote = np.flatnonzero(owner_node != own_node)
        remote = remote[np.argsort(owner_node[remote], kind="stable")]
        self.exchange: NodeExchange
        self.exchange, slot = _make_exchange(comm, keys.key[selected[remote]], owner_node[remote])
        ones = np.ones(len(remote), np.int64)
        self.sent = keys.table(selected[remote], KeySlots(np.arange(len(remote)), ones, slot))
        owned = selected[owner_node == own_node]
        self.owned = keys.table(owned, self._received_slots(keys.key[owned]))
        self.tables = [self.sent, self.owned]
        self.exchange.received_keys.clear()
        self._n_threads = options.n_threads

    def _received_slots(self, keys: Int64Array) -> KeySlots:
        """Return the slots of keys that other nodes send, node after node."""
        parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        low, high = (keys[0], keys[-1]) if len(keys) else (0, -1)
        for received, first in self.exchange.received_keys:
            begin, end = np.searchsorted(received, low), np.searchsorted(received, high, side="right")
            # All keys that other nodes send in this rank's range are keys that this node owns and holds.
            parts.append((np.searchsorted(keys, received[begin:end]), first + np.arange(begin, end)))
        key, slot = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return KeySlots(key, np.ones(len(key), np.int64), slot)

    def steps(self, node_values: NodeValues, op: Operation) -> CallSteps:
        buffers = self.exchange.buffers_for(node_values.rows)
        self.sent.reduce("onto_slots", node_values, op, self._n_threads, out_slots=buffers.send)
        yield
        buffers.forward.start()
        yield
        buffers.forward.wait()
        yield
        self.owned.reduce("everywhere", node_values, op, self._n_threads, buffers.receive, buffers.reply)
        yield
        buffers.backward.start()
        buffers.backward.wait()
        yield
        self.sent.reduce("from_slots", node_values, "or", self._n_threads, in_slots=buffers.result)


def _make_exchange(
    comm: Communicator, keys: Int64Array, node: npt.NDArray[np.integer]
) -> tuple[NodeExchange, Int64Array]:
    """Return the exchange of keys with nodes, sorted by (node, key), and the slot of each key."""
    n_nodes = int(comm.node_of.max()) + 1
    bounds = offsets_from_counts(np.bincount(node, minlength=n_nodes))
    exchange = NodeExchange(comm, [keys[bounds[i] : bounds[i + 1]] for i in range(n_nodes)])
    return exchange, np.arange(len(keys)) + (exchange.send_begins - bounds[:-1])[node]
