"""Distributed directories of keys: the directory rank of a key learns all ranks that hold it."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.mpi.communicator import Communicator
from petacomm.sharing import _sharing
from petacomm.sharing.key_chunks import KeyUnion, key_offsets
from petacomm.sharing.sharing_graph import (
    counting_sort,
    expand_groups,
    hash_numbers,
    offsets_from_counts,
    ranks_from_counts,
    sort_by_rank,
)

# Bits of a word of a mask of the ranks of a node.
_WORD_BITS = 64

# Offsets of the holders of each key, int64 (n_keys + 1,), and the holders, in the order of (node, rank).
Holders: TypeAlias = tuple[Int64Array, Int32Array]


class KeyDirectory:
    """Keys of all ranks, sent to their directory ranks. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    chunks : int64 (n, 2)
        Chunks of this rank's keys.
    directory : int32 (n,)
        Directory rank of each chunk.

    Attributes
    ----------
    union : KeyUnion
        Keys of which this rank is the directory.
    arrived_counts : int64 (size,)
        Keys received from each rank.
    """

    def __init__(self, comm: Communicator, chunks: Int64Array, directory: Int32Array) -> None:
        self.comm = comm
        order, bounds = counting_sort(directory, comm.size)
        sent = chunks[order]
        self._sent_counts = np.diff(key_offsets(sent)[bounds])
        # Positions of this rank's keys in the order in which they were sent.
        self.positions = expand_groups(order, key_offsets(chunks))
        arrived, counts = comm.sparse_alltoallv(sent, np.diff(bounds))
        self.arrived_counts = np.diff(key_offsets(arrived)[offsets_from_counts(counts)])
        self.union = KeyUnion.from_chunks(arrived)

    def send(self, rows: Int64Array) -> Int64Array:
        """Send a row (k,) for each of this rank's keys to the directories; return the rows received."""
        sent = np.empty_like(rows)
        _sharing.pack(rows, self.positions, sent, 1)
        arrived, _ = self.comm.sparse_alltoallv(sent, self._sent_counts)
        return arrived

    def reply(self, rows: Int64Array) -> Int64Array:
        """Send the row (k,) of each directory key to all its holders; return those of this rank's keys."""
        sent = np.empty((len(self.union.positions), rows.shape[1]), np.int64)
        _sharing.pack(rows, self.union.positions, sent, 1)
        received, _ = self.comm.sparse_alltoallv(sent, self.arrived_counts)
        replies = np.empty_like(received)
        _sharing.unpack(received, self.positions, replies, 1)
        return replies

    def overlaps(self, holders: Holders, multiplicity: Int32Array) -> tuple[Int32Array, Int64Array]:
        """Return `shared_positions` and `overlaps` of the graph, from the holders of the directory keys."""
        sizes = np.diff(holders[0])
        sizes = np.where(sizes > 1, sizes, 0)[self.union.positions]
        per_rank = np.diff(offsets_from_counts(sizes)[offsets_from_counts(self.arrived_counts)])
        lists = holders[1][expand_groups(self.union.positions[sizes > 0], holders[0])]
        ranks, _ = self.comm.sparse_alltoallv(lists, per_rank)
        sizes = multiplicity[self.positions]
        positions = np.repeat(self.positions, np.where(sizes > 1, sizes, 0))
        others = ranks != self.comm.rank
        return sort_by_rank(positions[others], ranks[others], len(multiplicity), self.comm.size)


def group_holders(positions: Int32Array, ranks: Int32Array, n_keys: int, node_of: Int32Array) -> Holders:
    """Return the holders of each key, in the order of (node, rank).

    Parameters
    ----------
    positions, ranks : int32 (n,)
        Position of a key, and a rank that holds it.
    n_keys : int
        Number of keys.
    node_of : int32 (size,)
        Node of each rank.
    """
    ranks_by_node, _ = _sort_by_node(node_of)
    rank_positions = ranks
    if np.any(np.diff(ranks_by_node) < 0):  # ranks of a node do not all follow each other
        sorted_position = np.empty_like(ranks_by_node)
        sorted_position[ranks_by_node] = np.arange(len(ranks_by_node), dtype=np.int32)
        rank_positions = sorted_position[ranks]
    if np.any(rank_positions[1:] < rank_positions[:-1]):
        order, _ = counting_sort(rank_positions, len(ranks_by_node))
        positions, ranks = positions[order], ranks[order]
    order, offsets = counting_sort(positions, n_keys)
    return offsets, ranks[order]


class FlatDirectory:
    """Directory to which all ranks send directly. Collective on `comm`; parameters as in `KeyDirectory`."""

    def __init__(self, comm: Communicator, chunks: Int64Array) -> None:
        directory = hash_numbers(chunks[:, 0]) % np.uint64(comm.size)
        self._directory = KeyDirectory(comm, chunks, directory.astype(np.int32))
        ranks = ranks_from_counts(self._directory.arrived_counts)
        self.keys = self._directory.union.keys
        self.holders = group_holders(self._directory.union.positions, ranks, len(self.keys), comm.node_of)

    def reply(self, rows: Int64Array) -> Int64Array:
        """Send the row of each directory key to all its holders; return those of this rank's keys."""
        return self._directory.reply(rows)

    def overlaps(self, multiplicity: Int32Array) -> tuple[Int32Array, Int64Array]:
        """Return `shared_positions` and `overlaps` of the graph of this rank's keys."""
        return self._directory.overlaps(self.holders, multiplicity)


class NodeDirectory:
    """Directory in two levels: keys are merged within nodes, then each node sends a key once.

    A rank communicates with the ranks of its node, and with about one rank of each other node. Collective on
    `comm`; parameters as in `KeyDirectory`.
    """

    def __init__(self, comm: Communicator, chunks: Int64Array) -> None:
        node, node_of = comm.node(), comm.node_of
        ranks_by_node, firsts = _sort_by_node(node_of)
        sizes = np.diff(firsts)
        node_ranks = hash_numbers(chunks[:, 0]) % np.uint64(node.size)
        self._inner = KeyDirectory(node, chunks, node_ranks.astype(np.int32))
        inner = self._inner.union
        masks = np.zeros((len(inner.keys), -(-int(sizes.max()) // _WORD_BITS)), np.int64)
        _sharing.mark_holders(inner.positions, offsets_from_counts(self._inner.arrived_counts), masks)
        self._outer = KeyDirectory(
            comm, inner.chunks, _directory_ranks(inner.chunks[:, 0], ranks_by_node, firsts)
        )
        arrived = self._outer.send(masks)
        union = self._outer.union
        self.keys = union.keys
        offsets = np.empty(len(union.keys) + 1, np.int64)
        _sharing.count_holders(union.positions, arrived, offsets)
        holders = np.empty(offsets[-1], np.int32)
        entries = offsets_from_counts(self._outer.arrived_counts)
        first_of = firsts[node_of].astype(np.int32)
        _sharing.list_holders(
            union.positions, arrived, entries, ranks_by_node, first_of, ranks_by_node, offsets, holders
        )
        self.holders = offsets, holders

    def reply(self, rows: Int64Array) -> Int64Array:
        """Send the row of each directory key to all its holders; return those of this rank's keys."""
        return self._inner.reply(self._outer.reply(rows))


def _sort_by_node(node_of: Int32Array) -> tuple[Int32Array, Int64Array]:
    """Return the ranks in the order of (node, rank), and the begin of each node among them."""
    return counting_sort(node_of, int(node_of.max()) + 1)


def _directory_ranks(numbers: Int64Array, ranks_by_node: Int32Array, firsts: Int64Array) -> Int32Array:
    """Return the directory rank of each chunk: its hash gives the node and the rank in the node."""
    words = hash_numbers(numbers)
    nodes = ((words >> np.uint64(32)) % np.uint64(len(firsts) - 1)).astype(np.int64)
    node_ranks = words % np.diff(firsts).astype(np.uint64)[nodes]
    return ranks_by_node[firsts[nodes] + node_ranks.astype(np.int64)]


def build_directory(comm: Communicator, chunks: Int64Array) -> FlatDirectory | NodeDirectory:
    """Return the directory of all keys, in two levels on several nodes of several ranks. Collective."""
    n_nodes = int(comm.node_of.max()) + 1
    return (NodeDirectory if 1 < n_nodes < comm.size else FlatDirectory)(comm, chunks)
