"""Keys of several ranks meet at directory ranks, which learn who holds them; directly, or node by node."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.mpi.communicator import Communicator
from petacomm.sharing import _sharing
from petacomm.sharing.key_chunks import Union, key_offsets
from petacomm.sharing.sharing_graph import (
    by_rank,
    counting_order,
    expand,
    hash_numbers,
    offsets_of,
    ranks_of,
)

# Ranks of a node are bits of words of so many.
_WORD_BITS = 64

# Where the holders of each key begin, int64 (n_keys + 1,), and the holders, in the order of (node, rank).
Holders: TypeAlias = tuple[Int64Array, Int32Array]


class Meeting:
    """Keys of all ranks at their directory ranks. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    chunks : int64 (n, 2)
        Of this rank's keys.
    directory : int32 (n,)
        The rank that each chunk is sent to.

    Attributes
    ----------
    union : Union
        The keys that arrived here.
    arrived_counts : int64 (size,)
        Keys that arrived from each rank.
    """

    def __init__(self, comm: Communicator, chunks: Int64Array, directory: Int32Array) -> None:
        self.comm = comm
        order, bounds = counting_order(directory, comm.size)
        sent = chunks[order]
        self.asked_counts = np.diff(key_offsets(sent)[bounds])
        # The positions of this rank's keys in the order in which they were sent.
        self.positions = expand(order, key_offsets(chunks))
        arrived, counts = comm.sparse_alltoallv(sent, np.diff(bounds))
        self.arrived_counts = np.diff(key_offsets(arrived)[offsets_of(counts)])
        self.union = Union.of(arrived)

    def send(self, rows: Int64Array) -> Int64Array:
        """Send a row (k,) for each of this rank's keys to the directories; return those that arrived."""
        sent = np.empty_like(rows)
        _sharing.pack(rows, self.positions, sent, 1)
        arrived, _ = self.comm.sparse_alltoallv(sent, self.asked_counts)
        return arrived

    def answer(self, rows: Int64Array) -> Int64Array:
        """Return, for each of this rank's keys, the row (k,) that its directory has of it."""
        sent = np.empty((len(self.union.places), rows.shape[1]), np.int64)
        _sharing.pack(rows, self.union.places, sent, 1)
        received, _ = self.comm.sparse_alltoallv(sent, self.arrived_counts)
        answer = np.empty_like(received)
        _sharing.unpack(received, self.positions, answer, 1)
        return answer

    def overlaps(self, holders: Holders, multiplicity: Int32Array) -> tuple[Int32Array, Int64Array]:
        """Return `shared_positions` and `overlaps` of the graph, from the holders of the keys here."""
        sizes = np.diff(holders[0])
        sizes = np.where(sizes > 1, sizes, 0)[self.union.places]
        per_rank = np.diff(offsets_of(sizes)[offsets_of(self.arrived_counts)])
        lists = holders[1][expand(self.union.places[sizes > 0], holders[0])]
        ranks, _ = self.comm.sparse_alltoallv(lists, per_rank)
        sizes = multiplicity[self.positions]
        positions = np.repeat(self.positions, np.where(sizes > 1, sizes, 0))
        others = ranks != self.comm.rank
        return by_rank(positions[others], ranks[others], len(multiplicity), self.comm.size)


def holders_of(places: Int32Array, ranks: Int32Array, n_keys: int, node_of: Int32Array) -> Holders:
    """Group the ranks that hold each key.

    Parameters
    ----------
    places, ranks : int32 (n,)
        A key, and a rank that holds it.
    n_keys : int
    node_of : int32 (size,)
        The node of each rank.
    """
    turns, _ = _by_node(node_of)
    turn_of = np.empty_like(turns)
    turn_of[turns] = np.arange(len(turns), dtype=np.int32)
    in_turn = turn_of[ranks]
    if np.any(in_turn[1:] < in_turn[:-1]):
        order, _ = counting_order(in_turn, len(turns))
        places, ranks = places[order], ranks[order]
    order, offsets = counting_order(places, n_keys)
    return offsets, ranks[order]


class DirectMeeting:
    """All ranks meet at once. Collective on `comm`; parameters as in `Meeting`."""

    def __init__(self, comm: Communicator, chunks: Int64Array) -> None:
        directory = hash_numbers(chunks[:, 0]) % np.uint64(comm.size)
        self.meeting = Meeting(comm, chunks, directory.astype(np.int32))
        ranks = ranks_of(self.meeting.arrived_counts)
        self.keys = self.meeting.union.keys
        self.holders = holders_of(self.meeting.union.places, ranks, len(self.keys), comm.node_of)

    def answer(self, rows: Int64Array) -> Int64Array:
        """Return, for each of this rank's keys, the row that its directory has of it."""
        return self.meeting.answer(rows)

    def overlaps(self, multiplicity: Int32Array) -> tuple[Int32Array, Int64Array]:
        """Return `shared_positions` and `overlaps` of the graph of this rank's keys."""
        return self.meeting.overlaps(self.holders, multiplicity)


class NodeMeeting:
    """Ranks meet within their nodes, then one entry a node and key goes to the directories.

    A rank speaks to the ranks of its node, and to about one of each other node. Collective on `comm`;
    parameters as in `Meeting`.
    """

    def __init__(self, comm: Communicator, chunks: Int64Array) -> None:
        node, node_of = comm.node(), comm.node_of
        turns, firsts = _by_node(node_of)
        sizes = np.diff(firsts)
        places = hash_numbers(chunks[:, 0]) % np.uint64(node.size)
        self._inner = Meeting(node, chunks, places.astype(np.int32))
        inner = self._inner.union
        masks = np.zeros((len(inner.keys), -(-int(sizes.max()) // _WORD_BITS)), np.int64)
        _sharing.mark_holders(inner.places, offsets_of(self._inner.arrived_counts), masks)
        self._outer = Meeting(comm, inner.chunks, _across_nodes(inner.chunks[:, 0], turns, firsts))
        arrived = self._outer.send(masks)
        union = self._outer.union
        self.keys = union.keys
        offsets = np.empty(len(union.keys) + 1, np.int64)
        _sharing.count_holders(union.places, arrived, offsets)
        holders = np.empty(offsets[-1], np.int32)
        entries = offsets_of(self._outer.arrived_counts)
        first_of = firsts[node_of].astype(np.int32)
        _sharing.list_holders(union.places, arrived, entries, turns, first_of, turns, offsets, holders)
        self.holders = offsets, holders

    def answer(self, rows: Int64Array) -> Int64Array:
        """Return, for each of this rank's keys, the row that its directory has of it."""
        return self._inner.answer(self._outer.answer(rows))


def _by_node(node_of: Int32Array) -> tuple[Int32Array, Int64Array]:
    """Return the ranks in the order of (node, rank), and where each node begins among them."""
    return counting_order(node_of, int(node_of.max()) + 1)


def _across_nodes(numbers: Int64Array, turns: Int32Array, firsts: Int64Array) -> Int32Array:
    """Return the directory of each chunk: in any node, the rank with the place that it has in this one."""
    words = hash_numbers(numbers)
    nodes = ((words >> np.uint64(32)) % np.uint64(len(firsts) - 1)).astype(np.int64)
    places = words % np.diff(firsts).astype(np.uint64)[nodes]
    return turns[firsts[nodes] + places.astype(np.int64)]


def meet(comm: Communicator, chunks: Int64Array) -> DirectMeeting | NodeMeeting:
    """Let all ranks meet: node by node where several ranks share one of several nodes. Collective."""
    n_nodes = int(comm.node_of.max()) + 1
    return (NodeMeeting if 1 < n_nodes < comm.size else DirectMeeting)(comm, chunks)
