"""By nested groups: few messages a rank, whatever the number of ranks.

A group of ranks is cut into `radix` parts, as equal as may be, and the hashes of its keys into ranges in
proportion. Each rank sends the keys of every other part to one rank there and adds up what comes to it, so
that equal keys meet early. The parts are cut again until a part is one rank, which then has the whole sum of
its keys; they go back the way they came. Any number of ranks will do.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import Hop, Volume, butterfly_shares
from petacomm.costs.options import Options
from petacomm.costs.run_counts import begins, moved_begins
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.network import Share
from petacomm.redistribution.row_lists import RowLists
from petacomm.reduction.algorithms.base import Algorithm, Kept, register
from petacomm.reduction.row_exchange import Buffer, Exchange, Steps
from petacomm.sharing.index_map import find
from petacomm.sharing.nested_groups import homes, hops


@register("butterfly")
class Butterfly(Algorithm):
    """Sum on the way through nested groups, then send back the same way."""

    def _prepare(self) -> None:
        # What one rank holds alone stays where it is.
        shared = np.flatnonzero(self.graph.multiplicity > 1)
        keys, rows = self.keys[shared], shared.astype(np.int32)
        self._layers: list[_Layer] = []
        for targets in hops(self.comm.rank, self.comm.size, self.options.radix):
            layer = _Layer(self.comm, keys, rows, targets, self.options)
            self._layers.append(layer)
            keys, rows = layer.next_keys, layer.next_rows
            del layer.next_keys, layer.next_rows

    def _kept(self) -> list[Kept]:
        return [*super()._kept(), *self._layers]

    @property
    def _exchanges(self) -> list[Exchange]:
        return [exchange for layer in self._layers for exchange in (layer.out, layer.back)]

    @property
    def partners(self) -> Int64Array:
        counts = [exchange.send_counts for exchange in self._exchanges]
        return np.flatnonzero(np.sum(counts, axis=0)) if counts else np.zeros(0, np.int64)

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        return sum(exchange.rows.n_rows for exchange in self._exchanges) * k * itemsize

    def shares(self, node_of: Int32Array) -> tuple[Share, ...]:
        return butterfly_shares([layer.hop(self.comm.rank, node_of) for layer in self._layers])

    def allreduce(self, values: AnyArray, op: Operation) -> Steps:
        sums = [values]
        for layer in self._layers:
            sums.append((yield from layer.reduce(sums[-1], op)))
        for layer in reversed(self._layers):
            total = sums.pop()
            yield from layer.broadcast(total, sums[-1])


class _Layer:
    """One hop: a rank keeps the keys of its own part of the group, and sends all others away. Collective.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n,)
        What this rank has at this layer, increasing.
    rows : int32 (n,)
        Where their values stand.
    targets : int32 (size,)
        For each home of a key, the rank that this one sends it to: itself for those it keeps.
    options : Options
    """

    def __init__(
        self, comm: Communicator, keys: Int64Array, rows: Int32Array, targets: Int32Array, options: Options
    ) -> None:
        target = targets[homes(keys, comm.size)]
        kept = np.flatnonzero(target == comm.rank)
        sent = np.flatnonzero(target != comm.rank)
        sent = sent[np.argsort(target[sent], kind="stable")]
        counts = np.bincount(target[sent], minlength=comm.size).astype(np.int64)
        arrived, arrived_counts = comm.alltoallv(keys[sent], counts)
        # A rank whose group is itself alone waits for the others.
        self._alone = not len(sent) and not len(arrived)
        self.next_keys = distinct(np.concatenate((keys[kept], arrived)))
        self.next_rows = rows if self._alone else np.arange(len(self.next_keys), dtype=np.int32)
        places, stay = find(self.next_keys, arrived), find(self.next_keys, keys[kept])
        self._own = np.zeros(len(self.next_keys), np.bool_)
        self._own[stay] = True
        self._kept, self._stay = RowLists.of(rows[kept]), RowLists.of(stay)
        self._n_summed = int(np.count_nonzero(np.bincount(places)))
        self._n_runs = (
            int(np.count_nonzero(begins(target[sent], keys[sent], sent))),
            int(np.count_nonzero(begins(np.repeat(np.arange(comm.size), arrived_counts), arrived, places))),
            int(np.count_nonzero(moved_begins(np.zeros_like(kept), keys[kept], kept, stay))),
        )
        self._rank, self._n_threads = comm.rank, options.n_threads
        self.out = Exchange(comm, rows[sent], counts, arrived_counts, options)
        self.back = Exchange(comm, places, arrived_counts, counts, options)
        self._sums = Buffer()

    @property
    def nbytes(self) -> int:
        """Bytes of the lists that it keeps."""
        parts = self.out, self.back, self._own, self._kept, self._stay
        return sum(part.nbytes for part in parts)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of its messages and of its sums."""
        return self.out.buffer_bytes + self.back.buffer_bytes + self._sums.nbytes

    def hop(self, rank: int, node_of: Int32Array) -> Hop:
        """Return what the ways there and back are made of."""
        out_runs, back_runs, kept_runs = self._n_runs
        out = Volume.of(self.out.send_counts, rank, node_of, out_runs)
        back = Volume.of(self.back.send_counts, rank, node_of, back_runs)
        if self._alone:
            return Hop(out, back, 0, self._n_summed, 0)
        return Hop(out, back, self._kept.n_rows, self._n_summed, kept_runs)

    def reduce(self, values: AnyArray, op: Operation) -> Generator[None, None, AnyArray]:
        """Return the sums over what this rank kept and what arrived."""
        received = yield from self.out.run(values)
        if self._alone:
            return values
        sums = self._sums.rows(len(self._own), values)
        self._kept.move(values, sums, self._stay, self._n_threads)
        self.back.rows.combine(received, self._rank, op, sums, self._n_threads, self._own)
        return sums

    def broadcast(self, sums: AnyArray, values: AnyArray) -> Steps:
        """Overwrite the values of this layer with those of the next one."""
        received = yield from self.back.run(sums)
        if self._alone:
            return
        self.out.rows.put(received, values, self._n_threads)
        self._stay.move(sums, values, self._kept, self._n_threads)
