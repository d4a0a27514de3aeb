"""Messages between nodes: one in each direction for each pair of nodes, sent from shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.mpi.communicator import Communicator
from petacomm.mpi.persistent import AlltoallvBuffers, PersistentExchange
from petacomm.sharing.sharing_graph import offsets_from_counts


@dataclass(frozen=True)
class NodePairs:
    """Ranks of this node and of the other nodes that send the messages of each pair of nodes.

    Attributes
    ----------
    own_ranks, peer_ranks : int32 (n_nodes,)
        Rank of this node that exchanges messages with each other node, and its partner there; the entries of
        this node itself are not used.
    order : int64 (n_nodes - 1,)
        Other nodes in an order in which the messages of a rank are contiguous and in the order of partners.
    """

    own_ranks: Int32Array
    peer_ranks: Int32Array
    order: Int64Array

    @classmethod
    def of_rank(cls, node_of: Int32Array, rank: int) -> NodePairs:
        """Return the pairs of the node of `rank`, distributed over the ranks of the node."""
        members = [np.flatnonzero(node_of == node) for node in range(int(node_of.max()) + 1)]
        n_nodes, own_node = len(members), int(node_of[rank])

        def sender(source: int, destination: int) -> int:
            number = (destination - source) % n_nodes - 1
            return int(members[source][number % len(members[source])])

        own_ranks = np.array([sender(own_node, node) for node in range(n_nodes)], np.int32)
        peer_ranks = np.array([sender(node, own_node) for node in range(n_nodes)], np.int32)
        order = np.lexsort([peer_ranks, own_ranks])
        return cls(own_ranks, peer_ranks, order[order != own_node])

    def begins(self, counts: Int64Array) -> Int64Array:
        """Return the begin of the part of each node, int64 (n_nodes,), if parts are in `order`."""
        begins = np.zeros(len(counts), np.int64)
        begins[self.order] = offsets_from_counts(counts[self.order])[:-1]
        return begins


class NodeBuffers(NamedTuple):
    """Message slots for rows of one width and dtype in the memory of the node, and their exchanges.

    Attributes
    ----------
    send, receive : array (n_slots, k)
        Slots of the exchange to the nodes of owners.
    reply, result : array (n_slots, k)
        Slots of the exchange back from them: sent, and received.
    forward, backward : PersistentExchange
    """

    send: AnyArray
    receive: AnyArray
    reply: AnyArray
    result: AnyArray
    forward: PersistentExchange
    backward: PersistentExchange


class NodeExchange:
    """Exchange of the values of keys with the nodes that own them, and back. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    keys : list of int64 arrays
        For each node, the keys of this rank's range that it owns, sorted; none for this node. The ranges of
        the ranks of a node are consecutive.

    Attributes
    ----------
    send_begins : int64 (n_nodes,)
        First slot of this rank's keys that each other node owns.
    received_keys : list of (int64 array, int)
        For each other node that sends anything: the keys that this node owns and the other one holds, sorted,
        and the slot of the first one.
    send_counts, receive_counts : int64 (size,)
        Rows that this rank sends to each other rank, and receives, in the exchange to the nodes of owners.
    """

    def __init__(self, comm: Communicator, keys: list[Int64Array]) -> None:
        self.comm = comm
        node = comm.node()
        self._pairs = pairs = NodePairs.of_rank(comm.node_of, comm.rank)
        counts = np.zeros((node.size, len(keys)), np.int64)
        counts[node.rank] = [len(part) for part in keys]
        counts = node.allreduce(counts)
        n_send = counts.sum(axis=0)
        begins = pairs.begins(n_send)
        self.send_begins = begins + counts[: node.rank].sum(axis=0)
        own_nodes = pairs.order[pairs.own_ranks[pairs.order] == comm.rank]
        self._first_send = int(begins[own_nodes[0]]) if len(own_nodes) else 0
        self.send_counts = np.zeros(comm.size, np.int64)
        self.send_counts[pairs.peer_ranks[own_nodes]] = n_send[own_nodes]
        self.n_send = int(n_send.sum())
        received = self._exchange_keys(keys)
        n_receive = np.zeros(len(keys), np.int64)
        n_receive[own_nodes] = self.receive_counts[pairs.peer_ranks[own_nodes]]
        n_receive = node.allreduce(n_receive)
        begins = pairs.begins(n_receive)
        self._first_receive = int(begins[own_nodes[0]]) if len(own_nodes) else 0
        self.n_receive = int(n_receive.sum())
        self.largest = int(comm.max(max(self.send_counts.sum(), self.receive_counts.sum())))
        self.received_keys = self._share_keys(received, begins, n_receive)
        del self._window
        self._memory, self._row_bytes = np.empty(0, np.uint8), 0
        self._buffers: dict[tuple[int, str], NodeBuffers] = {}

    def _exchange_keys(self, keys: list[Int64Array]) -> Int64Array:
        """Send keys to the nodes of their owners, and return those that this rank receives."""
        slots = self._shared(self.n_send)
        for begin, part in zip(self.send_begins, keys, strict=True):
            slots[begin : begin + len(part)] = part
        self._window.barrier()
        rows = slots[self._first_send : self._first_send + int(self.send_counts.sum())]
        received, self.receive_counts = self.comm.alltoallv(rows, self.send_counts)
        return received

    def _share_keys(
        self, received: Int64Array, begins: Int64Array, n_receive: Int64Array
    ) -> list[tuple[Int64Array, int]]:
        """Return the keys that the node receives from each other node, and their first slot."""
        slots = self._shared(self.n_receive)
        slots[self._first_receive : self._first_receive + len(received)] = received
        self._window.barrier()
        return [
            (slots[begins[other] : begins[other] + n_receive[other]], int(begins[other]))
            for other in range(len(n_receive))
            if n_receive[other]
        ]

    def _shared(self, n: int) -> Int64Array:
        self._window = self.comm.shared_window(8 * n if self.comm.node().rank == 0 else 0)
        return self._window.bytes[: 8 * n].view(np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the counts that are kept."""
        counts: list[AnyArray] = [self.send_counts, self.receive_counts, self.send_begins]
        return sum(array.nbytes for array in counts)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of this rank's part of the slots of its node."""
        return self._memory.nbytes // self.comm.node().size

    @property
    def partners(self) -> Int64Array:
        """Ranks with which this rank exchanges messages."""
        return np.flatnonzero(self.send_counts + self.receive_counts)

    def buffers_for(self, values: AnyArray) -> NodeBuffers:
        """Return slots for rows like those of `values` (any, k). Collective for the first rows of a kind."""
        kind = (values.shape[1], values.dtype.str)
        if kind not in self._buffers:
            row_bytes = values.shape[1] * values.itemsize
            if row_bytes > self._row_bytes:
                # All kinds share the memory of the widest rows; all ranks drop the old memory when it grows.
                n_bytes = 2 * (self.n_send + self.n_receive) * row_bytes
                first = self.comm.node().rank == 0
                self._memory = self.comm.shared_window(n_bytes if first else 0).bytes
                self._buffers, self._row_bytes = {}, row_bytes
            self._buffers[kind] = self._make_buffers(values)
        return self._buffers[kind]

    def _make_buffers(self, values: AnyArray) -> NodeBuffers:
        k = values.shape[1]
        n_rows = 2 * (self.n_send + self.n_receive)
        rows = self._memory[: n_rows * k * values.itemsize].view(values.dtype).reshape(n_rows, k)
        send, receive, reply, result = np.split(
            rows, np.cumsum([self.n_send, self.n_receive, self.n_receive])
        )
        own_send = slice(self._first_send, self._first_send + int(self.send_counts.sum()))
        own_receive = slice(self._first_receive, self._first_receive + int(self.receive_counts.sum()))

        def exchange(
            source: AnyArray, send_counts: Int64Array, target: AnyArray, receive_counts: Int64Array
        ) -> PersistentExchange:
            flat = source.reshape(-1), send_counts * k, target.reshape(-1), receive_counts * k
            return self.comm.persistent_exchange("persistent", AlltoallvBuffers(*flat, self.largest * k))

        forward = exchange(send[own_send], self.send_counts, receive[own_receive], self.receive_counts)
        backward = exchange(reply[own_receive], self.receive_counts, result[own_send], self.send_counts)
        return NodeBuffers(send, receive, reply, result, forward, backward)
