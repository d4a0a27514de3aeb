"""Finding out who shares which keys: the ways to build a `SharingGraph`, by name.

``gather-sift`` is the published way: every rank sees the keys of all ranks and picks out its own; its work
grows with the number of ranks. ``rendezvous`` sends each key to a directory rank that its hash names, which
tells every holder about the others; its work does not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from petamap.base.timers import Timers
from petamap.base.typing import Int32Array, Int64Array
from petamap.comm.mpi.communicator import Communicator
from petamap.comm.reduction.graph import (
    SharingGraph,
    by_rank,
    choose_owners,
    hash_runs,
    offsets_of,
    rank_ordered,
    ranks_of,
)
from petamap.comm.reduction.index_map import find

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
            found, holder = find(keys, gathered), ranks_of(counts)
            hits = (found >= 0) & (holder != comm.rank)
            positions.append(found[hits])
            ranks.append(holder[hits])
    with timers.phase("initialise"):
        return _sifted_graph(comm, keys, np.concatenate(positions), np.concatenate(ranks), want_overlaps)


def _sifted_graph(
    comm: Communicator, keys: Int64Array, positions: Int32Array, ranks: Int32Array, want_overlaps: bool
) -> SharingGraph:
    shared, offsets, holders, _ = rank_ordered(positions, ranks, comm.rank)
    owner = np.full(len(keys), comm.rank, np.int32)
    owner[shared] = choose_owners(keys[shared], offsets, holders)
    multiplicity = np.ones(len(keys), np.int32)
    multiplicity[shared] = np.diff(offsets)
    n_global = comm.sum(int(np.count_nonzero(owner == comm.rank)))
    if not want_overlaps:
        return SharingGraph(owner, multiplicity, n_global)
    return SharingGraph(owner, multiplicity, n_global, *by_rank(positions, ranks, comm.size))


def rendezvous(
    comm: Communicator, keys: Int64Array, want_overlaps: bool, buffer_keys: int, timers: Timers
) -> SharingGraph:
    """Meet at a directory: the rank that a key's hash names learns all its holders and tells them.

    Phases of `timers`: "ask" (keys to the directory), "answer" (owners, and holders if `want_overlaps`) and
    "initialise". Parameters as in `gather_sift`; `buffer_keys` is not needed.
    """
    with timers.phase("ask"):
        directory = (hash_runs(keys) % np.uint64(comm.size)).astype(np.int32)
        order = np.argsort(directory, kind="stable")
        asked = np.bincount(directory, minlength=comm.size)
        arrived, arrived_counts = comm.alltoallv(keys[order], asked)
    with timers.phase("answer"):
        groups = _Groups(arrived, ranks_of(arrived_counts))
        answer, _ = comm.alltoallv(groups.owners_and_multiplicities(), arrived_counts)
        holders = None
        if want_overlaps:
            holders, _ = comm.alltoallv(*groups.holder_lists(arrived_counts))
    with timers.phase("initialise"):
        owner, multiplicity = np.empty((2, len(keys)), np.int32)
        owner[order], multiplicity[order] = answer.T
        n_global = comm.sum(int(np.count_nonzero(owner == comm.rank)))
        if holders is None:
            return SharingGraph(owner, multiplicity, n_global)
        listed = np.where(answer[:, 1] > 1, answer[:, 1], 0)
        positions = np.repeat(order.astype(np.int32), listed)
        others = holders != comm.rank
        overlaps = by_rank(positions[others], holders[others], comm.size)
        return SharingGraph(owner, multiplicity, n_global, *overlaps)


class _Groups:
    """The keys that arrived at a directory rank, grouped: one group a distinct key.

    Parameters
    ----------
    keys : int64 (n,)
        In the order of the ranks that sent them.
    ranks : int32 (n,)
        The senders.
    """

    def __init__(self, keys: Int64Array, ranks: Int32Array) -> None:
        # Stable: the holders of a key stay in rank order.
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]
        self.holders = ranks[self.order]
        first = np.ones(len(keys), np.bool_)
        first[1:] = self.keys[1:] != self.keys[:-1]
        self.offsets = np.append(np.flatnonzero(first), len(keys)).astype(np.int64)
        # The group of each key in the order of arrival.
        self.group = np.empty(len(keys), np.int64)
        self.group[self.order] = np.cumsum(first) - 1

    def owners_and_multiplicities(self) -> Int32Array:
        """Return owner and multiplicity, int32 (n, 2), in the order of arrival."""
        owners = choose_owners(self.keys[self.offsets[:-1]], self.offsets, self.holders)
        both = np.stack([owners, np.diff(self.offsets).astype(np.int32)], axis=1)
        return both[self.group]

    def holder_lists(self, arrived_counts: Int64Array) -> tuple[Int32Array, Int64Array]:
        """Return the holders of each shared key in the order of arrival, and how many go to each rank."""
        sizes = np.diff(self.offsets)[self.group]
        sizes[sizes == 1] = 0
        ends = offsets_of(sizes)
        begins = np.repeat(self.offsets[self.group] - ends[:-1], sizes)
        per_rank = np.diff(ends[offsets_of(arrived_counts)])
        return self.holders[begins + np.arange(ends[-1])], per_rank


SETUPS: dict[str, Setup] = {"gather-sift": gather_sift, "rendezvous": rendezvous}
