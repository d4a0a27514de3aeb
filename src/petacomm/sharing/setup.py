"""Finding out who shares which keys: the ways to build a `SharingGraph`, by name.

``gather-sift`` is the published way: every rank sees the keys of all ranks and picks out its own; its work
grows with the number of ranks. ``rendezvous`` sends each key to a directory rank that its hash names, which
answers with the key's owner and multiplicity; its work does not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from petacomm.base.timers import Timers
from petacomm.base.typing import Int32Array, Int64Array
from petacomm.mpi.communicator import Communicator
from petacomm.sharing.directory import DirectMeeting, holders_of, meet
from petacomm.sharing.index_map import find
from petacomm.sharing.key_chunks import chunks_of
from petacomm.sharing.owners import choose_owners
from petacomm.sharing.sharing_graph import SharingGraph, by_rank, ranks_of

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

    def add(tallies: Int64Array) -> Int64Array:
        # Other holders of this rank's keys are counted by themselves.
        tallies[np.arange(comm.size) != comm.rank] = 0
        return comm.allreduce(tallies)

    offsets, holders = holders_of(positions, ranks, len(keys), comm.node_of)
    owner, tally = choose_owners(keys, offsets, holders, comm.size, add)
    multiplicity = np.diff(offsets).astype(np.int32)
    if not want_overlaps:
        return SharingGraph(owner, multiplicity, tally.n_keys)
    others = ranks != comm.rank
    overlaps = by_rank(positions[others], ranks[others], len(keys), comm.size)
    return SharingGraph(owner, multiplicity, tally.n_keys, *overlaps)


def rendezvous(
    comm: Communicator, keys: Int64Array, want_overlaps: bool, buffer_keys: int, timers: Timers
) -> SharingGraph:
    """Meet at directories: the rank that the hash of a key names learns all its holders.

    Phases of `timers`: "ask" (keys to the directories), "choose" (the owners), "answer" (owners and
    multiplicities, and holders if `want_overlaps`). Parameters as in `gather_sift`; `buffer_keys` is not
    needed.
    """
    with timers.phase("ask"):
        chunks = chunks_of(keys)
        direct = DirectMeeting(comm, chunks) if want_overlaps else None
        meeting = direct or meet(comm, chunks)
    with timers.phase("choose"):
        offsets, holders = meeting.holders
        owners, tally = choose_owners(meeting.keys, offsets, holders, comm.size, comm.allreduce)
    with timers.phase("answer"):
        # Both in one word.
        words = (owners.astype(np.int64) << 32) | np.diff(offsets)
        words = meeting.answer(words[:, None])[:, 0]
        owner, multiplicity = (words >> 32).astype(np.int32), words.astype(np.int32)
        overlaps = () if direct is None else direct.overlaps(multiplicity)
        return SharingGraph(owner, multiplicity, tally.n_keys, *overlaps)


SETUPS: dict[str, Setup] = {"gather-sift": gather_sift, "rendezvous": rendezvous}
