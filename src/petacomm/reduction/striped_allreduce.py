"""All-reduce between nodes of keys that nearly all nodes hold, of which each rank of a node does a stripe."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.costs.options import ReductionOptions
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.reduction.row_exchange import OwnerExchange, run_steps
from petacomm.sharing.sharing_graph import offsets_from_counts


class StripedAllreduce:
    """All-reduce over nodes of key slots in shared memory, in stripes. Collective on `comm`.

    The slots are divided into as many equal stripes as the smallest node has ranks. The ranks with number i
    in their nodes all-reduce stripe i.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n,)
        Sorted keys of this rank; at most one rank of a node has a key.
    owner : integer (n,)
        Rank that owns each key: one of its holders, the same on all nodes.
    options : ReductionOptions

    Attributes
    ----------
    slots : int64 (n,)
        Slot of each key of this rank, the same on all nodes.
    n_slots : int
        Number of keys on all nodes.
    """

    def __init__(
        self, comm: Communicator, keys: Int64Array, owner: npt.NDArray[np.integer], options: ReductionOptions
    ) -> None:
        self.comm = comm
        self.slots, firsts = number_keys(comm, keys, owner, options)
        self.n_slots = int(firsts[-1])
        node, n_stripes = comm.node(), int(np.bincount(comm.node_of).min())
        self._peers = comm.peers()
        self.stripe = slice(*(self.n_slots * np.minimum(node.rank + np.arange(2), n_stripes) // n_stripes))
        self._absent_slots = self._find_absent_slots()
        self._memory, self._row_bytes = np.empty(0, np.uint8), 0

    @property
    def nbytes(self) -> int:
        """Bytes of the lists of this rank."""
        return self._absent_slots.nbytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of this rank's part of the slots of its node."""
        return self._memory.nbytes // self.comm.node().size

    def _find_absent_slots(self) -> Int64Array:
        """Return the slots of keys that no rank of this node has, in this rank's equal part of all slots."""
        node = self.comm.node()
        window = self.comm.shared_window(self.n_slots if node.rank == 0 else 0)
        present = window.bytes[: self.n_slots]
        present[self.slots] = 1
        window.barrier()
        begin, end = self.n_slots * (node.rank + np.arange(2)) // node.size
        return begin + np.flatnonzero(present[begin:end] == 0)

    def slots_for(self, values: AnyArray, op: Operation) -> AnyArray:
        """Return slots for rows like those of `values` (any, k), with the identity of `op` for absent keys.

        Collective if the rows are larger than in all calls before.
        """
        k, row_bytes = values.shape[1], values.shape[1] * values.itemsize
        if row_bytes > self._row_bytes:
            first = self.comm.node().rank == 0
            self._memory = self.comm.shared_window(self.n_slots * row_bytes if first else 0).bytes
            self._row_bytes = row_bytes
        slots = self._memory[: self.n_slots * row_bytes].view(values.dtype).reshape(self.n_slots, k)
        slots[self._absent_slots] = operation_identity(values.dtype, op)
        return slots

    def allreduce(self, slots: AnyArray, op: Operation) -> None:
        """All-reduce this rank's stripe of the slots over all nodes."""
        if self.stripe.stop > self.stripe.start:
            self._peers.allreduce(slots[self.stripe], op)

    @property
    def partners(self) -> Int64Array:
        """Ranks with which this rank all-reduces."""
        if self.stripe.stop == self.stripe.start:
            return np.zeros(0, np.int64)
        return np.delete(self._peer_ranks(), self.comm.node_of[self.comm.rank])

    def _peer_ranks(self) -> Int64Array:
        node_of, number = self.comm.node_of, self.comm.node().rank
        order = np.argsort(node_of, kind="stable")
        firsts = np.searchsorted(node_of[order], np.arange(int(node_of.max()) + 1))
        return order[firsts + number]


def number_keys(
    comm: Communicator, keys: Int64Array, owner: npt.NDArray[np.integer], options: ReductionOptions
) -> tuple[Int64Array, Int64Array]:
    """Return consecutive numbers of all keys, in the order of their owners. Collective.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n,)
        Keys of this rank, sorted and distinct.
    owner : integer (n,)
        Rank that owns each key, the same on all its holders.
    options : ReductionOptions

    Returns
    -------
    numbers : int64 (n,)
        Number of each key.
    firsts : int64 (size + 1,)
        First number of the keys that each rank owns, and the number of all keys.
    """
    owned = owner == comm.rank
    counts = np.zeros(comm.size, np.int64)
    counts[comm.rank] = np.count_nonzero(owned)
    firsts = offsets_from_counts(comm.allreduce(counts))
    numbers = np.zeros(len(keys), np.int64)
    numbers[owned] = np.arange(firsts[comm.rank], firsts[comm.rank + 1])
    run_steps(OwnerExchange.of_sorted_keys(comm, keys, owner, options).broadcast(numbers[:, None]))
    return numbers, firsts


def operation_identity(dtype: np.dtype[Any], op: Operation) -> AnyArray:
    """Return the identity of an operation, an array () of this dtype."""
    if op in ("sum", "or"):
        return np.zeros((), dtype)
    sign = -1 if op == "max" else 1
    if dtype.kind == "f":
        return np.array(sign * np.inf, dtype)
    limits = np.iinfo(dtype)
    return np.array(limits.min if op == "max" else limits.max, dtype)
