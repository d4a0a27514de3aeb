"""Reduction by nested groups of ranks, with few messages per rank for any number of ranks.

A group of ranks is split into `radix` parts of almost equal size, and the hashes of its keys into
proportional ranges. Each rank sends the keys of each other part to one rank of that part, and adds what it
receives, so that equal keys are added early. The parts are split again until a part is one rank, which then
has the sums of its keys; these are broadcast back through the layers in reverse order.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import LayerVolume, SendVolume, butterfly_loads
from petacomm.costs.options import ReductionOptions
from petacomm.costs.run_counts import moved_run_begins, run_begins
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.network import RankLoad
from petacomm.redistribution.row_lists import RowLists
from petacomm.reduction.algorithms.base import MemoryUser, ReductionAlgorithm, register_algorithm
from petacomm.reduction.row_exchange import CallSteps, GrowingBuffer, RowExchange
from petacomm.sharing.index_map import rows_of_keys
from petacomm.sharing.nested_groups import final_ranks, layer_targets


@register_algorithm("butterfly")
class Butterfly(ReductionAlgorithm):
    """Algorithm that reduces through nested groups, and broadcasts back through them."""

    allreduce_only = True

    def _set_up(self) -> None:
        # Keys that are not shared do not take part.
        shared = np.flatnonzero(self.graph.multiplicity > 1)
        keys, rows = self.keys[shared], shared.astype(np.int32)
        self._layers: list[_Layer] = []
        for targets in layer_targets(self.comm.rank, self.comm.size, self.options.radix):
            layer = _Layer(self.comm, keys, rows, targets, self.options)
            self._layers.append(layer)
            keys, rows = layer.next_keys, layer.next_rows
            del layer.next_keys, layer.next_rows

    def _memory_users(self) -> list[MemoryUser]:
        return [*super()._memory_users(), *self._layers]

    @property
    def _exchanges(self) -> list[RowExchange]:
        return [exchange for layer in self._layers for exchange in (layer.out, layer.back)]

    @property
    def partners(self) -> Int64Array:
        counts = [exchange.send_counts for exchange in self._exchanges]
        return np.flatnonzero(np.sum(counts, axis=0)) if counts else np.zeros(0, np.int64)

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        return sum(exchange.rows.n_rows for exchange in self._exchanges) * k * itemsize

    def rank_loads(self, node_of: Int32Array) -> tuple[RankLoad, ...]:
        return butterfly_loads([layer.volume(self.comm.rank, node_of) for layer in self._layers])

    def allreduce(self, values: AnyArray, op: Operation) -> CallSteps:
        sums = [values]
        for layer in self._layers:
            sums.append((yield from layer.reduce(sums[-1], op)))
        for layer in reversed(self._layers):
            layer_sums = sums.pop()
            yield from layer.broadcast(layer_sums, sums[-1])


class _Layer:
    """Layer in which a rank keeps the keys of its own part of the group, and sends all others. Collective.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n,)
        Keys of this rank in this layer, increasing.
    rows : int32 (n,)
        Rows of their values.
    targets : int32 (size,)
        For each final rank of a key, the rank that this one sends it to; itself for keys that it keeps.
    options : ReductionOptions
    """

    def __init__(
        self,
        comm: Communicator,
        keys: Int64Array,
        rows: Int32Array,
        targets: Int32Array,
        options: ReductionOptions,
    ) -> None:
        target = targets[final_ranks(keys, comm.size)]
        kept = np.flatnonzero(target == comm.rank)
        sent = np.flatnonzero(target != comm.rank)
        sent = sent[np.argsort(target[sent], kind="stable")]
        counts = np.bincount(target[sent], minlength=comm.size).astype(np.int64)
        arrived, arrived_counts = comm.alltoallv(keys[sent], counts)
        # A rank that is a group by itself has nothing to do in this layer.
        self._idle = not len(sent) and not len(arrived)
        self.next_keys = distinct(np.concatenate((keys[kept], arrived)))
        self.next_rows = rows if self._idle else np.arange(len(self.next_keys), dtype=np.int32)
        positions, kept_positions = (
            rows_of_keys(self.next_keys, arrived),
            rows_of_keys(self.next_keys, keys[kept]),
        )
        self._own = np.zeros(len(self.next_keys), np.bool_)
        self._own[kept_positions] = True
        self._kept = RowLists.from_positions(rows[kept])
        self._kept_targets = RowLists.from_positions(kept_positions)
        self._n_summed = int(np.count_nonzero(np.bincount(positions)))
        self._n_runs = (
            int(np.count_nonzero(run_begins(target[sent], keys[sent], sent))),
            int(
                np.count_nonzero(
                    run_begins(np.repeat(np.arange(comm.size), arrived_counts), arrived, positions)
                )
            ),
            int(np.count_nonzero(moved_run_begins(np.zeros_like(kept), keys[kept], kept, kept_positions))),
        )
        self._rank, self._n_threads = comm.rank, options.n_threads
        self.out = RowExchange(comm, rows[sent], counts, arrived_counts, options)
        self.back = RowExchange(comm, positions, arrived_counts, counts, options)
        self._sums = GrowingBuffer()

    @property
    def nbytes(self) -> int:
        """Bytes of the lists of rows."""
        parts = self.out, self.back, self._own, self._kept, self._kept_targets
        return sum(part.nbytes for part in parts)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the message buffers and the sums."""
        return self.out.buffer_bytes + self.back.buffer_bytes + self._sums.nbytes

    def volume(self, rank: int, node_of: Int32Array) -> LayerVolume:
        """Return the volumes of the layer."""
        out_runs, back_runs, kept_runs = self._n_runs
        out = SendVolume.from_counts(self.out.send_counts, rank, node_of, out_runs)
        back = SendVolume.from_counts(self.back.send_counts, rank, node_of, back_runs)
        if self._idle:
            return LayerVolume(out, back, 0, self._n_summed, 0)
        return LayerVolume(out, back, self._kept.n_rows, self._n_summed, kept_runs)

    def reduce(self, values: AnyArray, op: Operation) -> Generator[None, None, AnyArray]:
        """Return the sums of the values that this rank kept and received."""
        received = yield from self.out.run(values)
        if self._idle:
            return values
        sums = self._sums.rows(len(self._own), values)
        self._kept.move(values, sums, self._kept_targets, self._n_threads)
        self.back.rows.combine(received, self._rank, op, sums, self._n_threads, self._own)
        return sums

    def broadcast(self, sums: AnyArray, values: AnyArray) -> CallSteps:
        """Overwrite the values of this layer with the sums of the next layer."""
        received = yield from self.back.run(sums)
        if self._idle:
            return
        self.out.rows.put(received, values, self._n_threads)
        self._kept_targets.move(sums, values, self._kept, self._n_threads)
