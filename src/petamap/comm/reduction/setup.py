"""Finding out who shares which keys: the ways to build a `SharingGraph`, by name.

``gather-sift`` is the published way: every rank sees the keys of all ranks and picks out its own; its work
grows with the number of ranks. ``rendezvous`` sends each key to a directory rank that its hash names, which
answers with the key's owner and multiplicity; its work does not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from petamap.base.timers import Timers
from petamap.base.typing import Int32Array, Int64Array
from petamap.comm.mpi.communicator import Communicator
from petamap.comm.reduction.chunks import Union, chunks_of, key_offsets
from petamap.comm.reduction.graph import (
    SharingGraph,
    by_rank,
    counting_order,
    expand,
    hash_numbers,
    offsets_of,
    ranks_of,
)
from petamap.comm.reduction.index_map import find
from petamap.comm.reduction.owners import choose_owners

Setup: TypeAlias = Callable[[Communicator, Int64Array, bool, int, Timers], SharingGraph]


def gather_sift(
    comm: Communicator, keys: Int64Array, want_overlaps: bool, buffer_keys: int, timers: Timers
) -> SharingGraph:
    """Gather the keys of all ranks piece by piece, and sift out those that this rank holds too.

    Phases of `timers`: "allgather", "sift" and "initialise", as in Cantalupo et al., section 3.3.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_keys,)
        Sorted and distinct.
    want_overlaps : bool
        Whether to keep the pairwise overlaps.
    buffer_keys : int
        Keys of all ranks together that are gathered at once.
    """
    per_rank = max(1, buffer_keys // comm.size)
    positions, ranks = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for begin in range(0, int(comm.max(len(keys))), per_rank):
        with timers.phase("allgather"):
            gathered, counts = comm.allgather_rows(keys[begin : begin + per_rank])
        with timers.phase("sift"):
            found = find(keys, gathered)
            hits = np.flatnonzero(found >= 0)
            positions.append(found[hits])
            ranks.append(ranks_of(counts)[hits])
    with timers.phase("initialise"):
        return _sifted_graph(comm, keys, np.concatenate(positions), np.concatenate(ranks), want_overlaps)


def _sifted_graph(
    comm: Communicator, keys: Int64Array, positions: Int32Array, ranks: Int32Array, want_overlaps: bool
) -> SharingGraph:
    """Make the graph from the holders of this rank's keys, itself among them."""
    in_order, counts = by_rank(positions, ranks, len(keys), comm.size)
    order, offsets = counting_order(in_order, len(keys))

    def add(tallies: Int64Array) -> Int64Array:
        # Holders of this rank's keys are counted by themselves.
        tallies[np.arange(comm.size) != comm.rank] = 0
        return comm.allreduce(tallies)

    owner, tally = choose_owners(keys, offsets, ranks_of(counts)[order], comm.size, add)
    multiplicity = np.diff(offsets).astype(np.int32)
    if not want_overlaps:
        return SharingGraph(owner, multiplicity, tally.n_keys)
    others = np.repeat(np.arange(comm.size) != comm.rank, counts)
    counts[comm.rank] = 0
    return SharingGraph(owner, multiplicity, tally.n_keys, in_order[others], counts)


def rendezvous(
    comm: Communicator, keys: Int64Array, want_overlaps: bool, buffer_keys: int, timers: Timers
) -> SharingGraph:
    """Meet at a directory: the rank that the hash of a key's chunk names learns all its holders.

    Phases of `timers`: "ask" (chunks to the directory), "choose" (the owners), "answer" (owners and
    multiplicities, and holders if `want_overlaps`). Parameters as in `gather_sift`; `buffer_keys` is not
    needed.
    """
    with timers.phase("ask"):
        chunks = chunks_of(keys)
        meeting = _Meeting(comm, chunks, (hash_numbers(chunks[:, 0]) % np.uint64(comm.size)).astype(np.int32))
    with timers.phase("choose"):
        order, offsets = counting_order(meeting.union.places, len(meeting.union.keys))
        holders = ranks_of(meeting.arrived_counts)[order]
        owners, tally = choose_owners(meeting.union.keys, offsets, holders, comm.size, comm.allreduce)
    with timers.phase("answer"):
        answer = meeting.answer(np.stack([owners, np.diff(offsets).astype(np.int32)], axis=1))
        owner, multiplicity = np.ascontiguousarray(answer.T)
        if not want_overlaps:
            return SharingGraph(owner, multiplicity, tally.n_keys)
        overlaps = meeting.overlaps(offsets, holders, multiplicity)
        return SharingGraph(owner, multiplicity, tally.n_keys, *overlaps)


class _Meeting:
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
        arrived, counts = comm.sparse_alltoallv(chunks[order], np.diff(bounds))
        # The local positions of the keys in the order in which they were sent.
        self.positions = expand(order, key_offsets(chunks))
        self.arrived_counts = np.diff(key_offsets(arrived)[offsets_of(counts)])
        self.union = Union.of(arrived)

    def answer(self, rows: Int32Array) -> Int32Array:
        """Return, for each of this rank's keys, the row that its directory has of it."""
        received, _ = self.comm.sparse_alltoallv(rows[self.union.places], self.arrived_counts)
        answer = np.empty_like(received)
        answer[self.positions] = received
        return answer

    def overlaps(
        self, offsets: Int64Array, holders: Int32Array, multiplicity: Int32Array
    ) -> tuple[Int32Array, Int64Array]:
        """Return `shared_positions` and `overlaps` of the graph, from the holders of the keys here."""
        shared = np.where(np.diff(offsets) > 1, np.diff(offsets), 0)[self.union.places]
        per_rank = np.diff(offsets_of(shared)[offsets_of(self.arrived_counts)])
        lists, _ = self.comm.sparse_alltoallv(
            holders[expand(self.union.places[shared > 0], offsets)], per_rank
        )
        sent = multiplicity[self.positions]
        positions = np.repeat(self.positions, np.where(sent > 1, sent, 0))
        others = lists != self.comm.rank
        return by_rank(positions[others], lists[others], len(multiplicity), self.comm.size)


SETUPS: dict[str, Setup] = {"gather-sift": gather_sift, "rendezvous": rendezvous}
