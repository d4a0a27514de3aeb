"""Messages between nodes: one each way for each pair of nodes, straight out of shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.mpi.communicator import Communicator
from petacomm.mpi.persistent import Channel
from petacomm.sharing.sharing_graph import offsets_of


@dataclass(frozen=True)
class Pairs:
    """Which rank of this node, and which of the other, carry the messages of each pair of nodes.

    Attributes
    ----------
    mine, theirs : int32 (n_nodes,)
        Ranks that carry, of this node and of each other one; what stands for this node itself is not used.
    order : int64 (n_nodes - 1,)
        The other nodes, such that what a rank sends lies together, in the order of the ranks it goes to.
    """

    mine: Int32Array
    theirs: Int32Array
    order: Int64Array

    @classmethod
    def of(cls, node_of: Int32Array, rank: int) -> Pairs:
        """Spread the pairs of the node of `rank` over its ranks."""
        members = [np.flatnonzero(node_of == node) for node in range(int(node_of.max()) + 1)]
        n_nodes, here = len(members), int(node_of[rank])

        def carrier(a: int, b: int) -> int:
            return int(members[a][((b - a) % n_nodes - 1) % len(members[a])])

        mine = np.array([carrier(here, node) for node in range(n_nodes)], np.int32)
        theirs = np.array([carrier(node, here) for node in range(n_nodes)], np.int32)
        order = np.lexsort([theirs, mine])
        return cls(mine, theirs, order[order != here])

    def begins(self, counts: Int64Array) -> Int64Array:
        """Return where the part of each node begins, int64 (n_nodes,), if they lie in `order`."""
        begins = np.zeros(len(counts), np.int64)
        begins[self.order] = offsets_of(counts[self.order])[:-1]
        return begins


class Lane(NamedTuple):
    """The slots of messages of one kind: out and in on the way there, reply and back on the way back."""

    out: AnyArray
    in_: AnyArray
    reply: AnyArray
    back: AnyArray
    there: Channel
    home: Channel


class Crossing:
    """Values of keys that other nodes own, sent to these and back. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    keys : list of int64 arrays
        For each node, the keys of this rank's range that it owns, sorted; none for this node itself. Ranges
        of the ranks of a node follow each other.

    Attributes
    ----------
    out_begins : int64 (n_nodes,)
        The first slot of this rank's keys that each other node owns.
    arrived : list of (int64 array, int)
        For each other node that sends anything: the keys that this node owns and that one holds, sorted,
        and the slot of the first one.
    sent, received : int64 (size,)
        Rows that this rank sends to each other on the way there, and receives.
    """

    def __init__(self, comm: Communicator, keys: list[Int64Array]) -> None:
        self.comm = comm
        node = comm.node()
        self._pairs = pairs = Pairs.of(comm.node_of, comm.rank)
        counts = np.zeros((node.size, len(keys)), np.int64)
        counts[node.rank] = [len(part) for part in keys]
        counts = node.allreduce(counts)
        n_out = counts.sum(axis=0)
        begins = pairs.begins(n_out)
        self.out_begins = begins + counts[: node.rank].sum(axis=0)
        carried = pairs.order[pairs.mine[pairs.order] == comm.rank]
        self._first_out = int(begins[carried[0]]) if len(carried) else 0
        self.sent = np.zeros(comm.size, np.int64)
        self.sent[pairs.theirs[carried]] = n_out[carried]
        self.n_out = int(n_out.sum())
        arrived = self._exchange_keys(keys)
        n_in = np.zeros(len(keys), np.int64)
        n_in[carried] = self.received[pairs.theirs[carried]]
        n_in = node.allreduce(n_in)
        begins = pairs.begins(n_in)
        self._first_in = int(begins[carried[0]]) if len(carried) else 0
        self.n_in = int(n_in.sum())
        self.largest = int(comm.max(max(self.sent.sum(), self.received.sum())))
        self.arrived = self._share_keys(arrived, begins, n_in)
        del self._window
        self._memory, self._row_bytes = np.empty(0, np.uint8), 0
        self._lanes: dict[tuple[int, str], Lane] = {}

    def _exchange_keys(self, keys: list[Int64Array]) -> Int64Array:
        """Send the keys of this node to their owners' nodes, and return those that arrive at this rank."""
        out = self._shared(self.n_out)
        for begin, part in zip(self.out_begins, keys, strict=True):
            out[begin : begin + len(part)] = part
        self._window.barrier()
        rows = out[self._first_out : self._first_out + int(self.sent.sum())]
        arrived, self.received = self.comm.alltoallv(rows, self.sent)
        return arrived

    def _share_keys(
        self, arrived: Int64Array, begins: Int64Array, n_in: Int64Array
    ) -> list[tuple[Int64Array, int]]:
        everything = self._shared(self.n_in)
        everything[self._first_in : self._first_in + len(arrived)] = arrived
        self._window.barrier()
        return [
            (everything[begins[other] : begins[other] + n_in[other]], int(begins[other]))
            for other in range(len(n_in))
            if n_in[other]
        ]

    def _shared(self, n: int) -> Int64Array:
        self._window = self.comm.shared(8 * n if self.comm.node().rank == 0 else 0)
        return self._window.bytes[: 8 * n].view(np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the counts that it keeps."""
        counts: list[AnyArray] = [self.sent, self.received, self.out_begins]
        return sum(array.nbytes for array in counts)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of this rank's part of the slots of its node."""
        return self._memory.nbytes // self.comm.node().size

    @property
    def partners(self) -> Int64Array:
        """Ranks that this one exchanges messages with."""
        return np.flatnonzero(self.sent + self.received)

    def lane(self, like: AnyArray) -> Lane:
        """Return the slots for rows as those of `like` (any, k). Collective when they are the first ones."""
        kind = (like.shape[1], like.dtype.str)
        if kind not in self._lanes:
            row_bytes = like.shape[1] * like.itemsize
            if row_bytes > self._row_bytes:
                # All kinds share the memory of the largest; where it grows, ranks let go of the old one.
                n_bytes = 2 * (self.n_out + self.n_in) * row_bytes
                first = self.comm.node().rank == 0
                self._memory = self.comm.shared(n_bytes if first else 0).bytes
                self._lanes, self._row_bytes = {}, row_bytes
            self._lanes[kind] = self._open(like)
        return self._lanes[kind]

    def _open(self, like: AnyArray) -> Lane:
        k = like.shape[1]
        n_rows = 2 * (self.n_out + self.n_in)
        rows = self._memory[: n_rows * k * like.itemsize].view(like.dtype).reshape(n_rows, k)
        out, in_, reply, back = np.split(rows, np.cumsum([self.n_out, self.n_in, self.n_in]))
        mine_out = slice(self._first_out, self._first_out + int(self.sent.sum()))
        mine_in = slice(self._first_in, self._first_in + int(self.received.sum()))
        largest = self.largest * k

        def channel(send: AnyArray, counts: Int64Array, receive: AnyArray, others: Int64Array) -> Channel:
            return self.comm.channel(
                "persistent", send.reshape(-1), counts * k, receive.reshape(-1), others * k, largest
            )

        there = channel(out[mine_out], self.sent, in_[mine_in], self.received)
        home = channel(reply[mine_in], self.received, back[mine_out], self.sent)
        return Lane(out, in_, reply, back, there, home)
