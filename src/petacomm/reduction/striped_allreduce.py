"""Keys that nearly all nodes hold, all-reduced between nodes: each rank of a node does a part of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.costs.options import Options
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.reduction.row_exchange import OwnerExchange, finish
from petacomm.sharing.sharing_graph import offsets_of


class Lanes:
    """Slots of such keys in the memory of each node, and their all-reduce. Collective on `comm`.

    A lane is the ranks with the same number in their nodes; there are as many as the smallest node has
    ranks, and each reduces an equal part of the slots.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n,)
        Those of this rank, sorted; of the ranks of a node, one at most has a key.
    owner : integer (n,)
        The same rank for a key on all nodes, one that has it.
    options : Options

    Attributes
    ----------
    slots : int64 (n,)
        The slot of each of this rank's keys, the same on all nodes.
    n_slots : int
        Keys on all nodes.
    """

    def __init__(
        self, comm: Communicator, keys: Int64Array, owner: npt.NDArray[np.integer], options: Options
    ) -> None:
        self.comm = comm
        self.slots, firsts = numbered(comm, keys, owner, options)
        self.n_slots = int(firsts[-1])
        node, n_lanes = comm.node(), int(np.bincount(comm.node_of).min())
        self._peers = comm.peers()
        self.part = slice(*(self.n_slots * np.minimum(node.rank + np.arange(2), n_lanes) // n_lanes))
        self._absent = self._find_absent()
        self._memory, self._row_bytes = np.empty(0, np.uint8), 0

    @property
    def nbytes(self) -> int:
        """Bytes of what this rank keeps."""
        return self._absent.nbytes

    @property
    def buffer_bytes(self) -> int:
        """Bytes of this rank's part of the slots of its node."""
        return self._memory.nbytes // self.comm.node().size

    def _find_absent(self) -> Int64Array:
        """Return slots of keys that this node lacks: an equal part of them for each of its ranks."""
        node = self.comm.node()
        window = self.comm.shared(self.n_slots if node.rank == 0 else 0)
        present = window.bytes[: self.n_slots]
        present[self.slots] = 1
        window.barrier()
        begin, end = self.n_slots * (node.rank + np.arange(2)) // node.size
        return begin + np.flatnonzero(present[begin:end] == 0)

    def open(self, like: AnyArray, op: Operation) -> AnyArray:
        """Return the slots for rows as those of `like` (any, k), where absent keys change nothing.

        Collective where rows are larger than any before.
        """
        k, row_bytes = like.shape[1], like.shape[1] * like.itemsize
        if row_bytes > self._row_bytes:
            first = self.comm.node().rank == 0
            self._memory = self.comm.shared(self.n_slots * row_bytes if first else 0).bytes
            self._row_bytes = row_bytes
        slots = self._memory[: self.n_slots * row_bytes].view(like.dtype).reshape(self.n_slots, k)
        slots[self._absent] = identity(like.dtype, op)
        return slots

    def allreduce(self, slots: AnyArray, op: Operation) -> None:
        """Reduce this rank's part of the slots over all nodes."""
        if self.part.stop > self.part.start:
            self._peers.allreduce(slots[self.part], op)

    @property
    def partners(self) -> Int64Array:
        """Ranks that this one reduces with."""
        if self.part.stop == self.part.start:
            return np.zeros(0, np.int64)
        return np.delete(self._peers_of(), self.comm.node_of[self.comm.rank])

    def _peers_of(self) -> Int64Array:
        node_of, number = self.comm.node_of, self.comm.node().rank
        order = np.argsort(node_of, kind="stable")
        firsts = np.searchsorted(node_of[order], np.arange(int(node_of.max()) + 1))
        return order[firsts + number]


def numbered(
    comm: Communicator, keys: Int64Array, owner: npt.NDArray[np.integer], options: Options
) -> tuple[Int64Array, Int64Array]:
    """Number keys from 0 on, those of an owner together. Collective.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n,)
        Sorted and distinct.
    owner : integer (n,)
        The rank that owns each key, the same on all that have it.
    options : Options

    Returns
    -------
    numbers : int64 (n,)
    firsts : int64 (size + 1,)
        The first number of the keys that each rank owns, and how many keys there are.
    """
    owned = owner == comm.rank
    counts = np.zeros(comm.size, np.int64)
    counts[comm.rank] = np.count_nonzero(owned)
    firsts = offsets_of(comm.allreduce(counts))
    numbers = np.zeros(len(keys), np.int64)
    numbers[owned] = np.arange(firsts[comm.rank], firsts[comm.rank + 1])
    finish(OwnerExchange(comm, keys, owner, options).broadcast(numbers[:, None]))
    return numbers, firsts


def identity(dtype: np.dtype[Any], op: Operation) -> AnyArray:
    """The value that changes nothing under `op`."""
    if op in ("sum", "or"):
        return np.zeros((), dtype)
    sign = -1 if op == "max" else 1
    if dtype.kind == "f":
        return np.array(sign * np.inf, dtype)
    limits = np.iinfo(dtype)
    return np.array(limits.min if op == "max" else limits.max, dtype)
