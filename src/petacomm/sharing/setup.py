"""Set-up of sharing graphs, by name.

``gather-sift`` is the published algorithm: each rank receives the keys of all ranks and selects those that it
holds; its work grows with the number of ranks. ``rendezvous`` sends each key to the directory rank of its
hash, which replies with the key's owner and multiplicity; its work does not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from petacomm.base.timers import Timers
from petacomm.base.typing import Int32Array, Int64Array
from petacomm.mpi.communicator import Communicator
from petacomm.sharing.directory import FlatDirectory, build_directory, group_holders
from petacomm.sharing.index_map import rows_of_keys
from petacomm.sharing.key_chunks import chunk_keys
from petacomm.sharing.owners import choose_owners
from petacomm.sharing.sharing_graph import SharingGraph, ranks_from_counts, sort_by_rank

Setup: TypeAlias = Callable[[Communicator, Int64Array, bool, int, Timers], SharingGraph]


def gather_sift(
    comm: Communicator, keys: Int64Array, want_overlaps: bool, buffer_keys: int, timers: Timers
) -> SharingGraph:
    """Return the sharing graph by gathering the keys of all ranks in pieces. Collective.

    While a piece is sifted, the next one is on its way. Phases of `timers`: "allgather", which is the time
    that is waited for it, "sift" and "initialise", as in Cantalupo et al., section 3.3.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_keys,)
        Sorted and distinct.
    want_overlaps : bool
        Whether the graph has the pairwise overlaps.
    buffer_keys : int
        Number of keys of all ranks that are held at once, of two pieces.
    timers : Timers
    """
    per_rank = max(1, buffer_keys // (2 * comm.size))
    positions, ranks = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    with timers.phase("allgather"):
        lengths, _ = comm.allgather_rows(np.array([len(keys)], np.int64))
        begins = range(0, int(lengths.max()), per_rank)
        pieces = (_Piece(comm, keys, lengths, begin, per_rank) for begin in begins)
        arriving = next(pieces, None)
    while arriving is not None:
        with timers.phase("allgather"):
            piece = arriving
            piece.exchange.wait()
            arriving = next(pieces, None)
        with timers.phase("sift"):
            rows = rows_of_keys(keys, piece.keys)
            held = np.flatnonzero(rows >= 0)
            positions.append(rows[held])
            ranks.append(ranks_from_counts(piece.counts)[held])
    with timers.phase("initialise"):
        return _graph_from_holders(
            comm, keys, np.concatenate(positions), np.concatenate(ranks), want_overlaps
        )


class _Piece:
    """Keys [begin, begin + n) of each rank, which are on their way. Collective.

    Attributes
    ----------
    keys : int64 (sum of counts,)
        There when `exchange` has ended.
    counts : int64 (size,)
        Of each rank.
    exchange : PersistentExchange
    """

    def __init__(self, comm: Communicator, keys: Int64Array, lengths: Int64Array, begin: int, n: int) -> None:
        self.counts = np.clip(lengths - begin, 0, n)
        self.keys = np.empty(int(self.counts.sum()), np.int64)
        self.exchange = comm.gather_exchange(keys[begin : begin + n], self.counts, self.keys)
        self.exchange.start()


def _graph_from_holders(
    comm: Communicator, keys: Int64Array, positions: Int32Array, ranks: Int32Array, want_overlaps: bool
) -> SharingGraph:
    """Return the graph from the holders of this rank's keys, itself included."""

    def add(tallies: Int64Array) -> Int64Array:
        # Each rank counts its own keys.
        tallies[np.arange(comm.size) != comm.rank] = 0
        return comm.allreduce(tallies)

    offsets, holders = group_holders(positions, ranks, len(keys), comm.node_of)
    owner, tally = choose_owners(keys, offsets, holders, comm.size, add)
    multiplicity = np.diff(offsets).astype(np.int32)
    if not want_overlaps:
        return SharingGraph(owner, multiplicity, tally.n_keys)
    others = ranks != comm.rank
    overlaps = sort_by_rank(positions[others], ranks[others], len(keys), comm.size)
    return SharingGraph(owner, multiplicity, tally.n_keys, *overlaps)


def rendezvous(
    comm: Communicator, keys: Int64Array, want_overlaps: bool, buffer_keys: int, timers: Timers
) -> SharingGraph:
    """Return the sharing graph by a distributed directory of all keys. Collective.

    Phases of `timers`: "ask" (keys to the directories), "choose" (the owners), "answer" (owners and
    multiplicities, and holders if `want_overlaps`). Parameters as in `gather_sift`; `buffer_keys` is unused.
    """
    with timers.phase("ask"):
        chunks = chunk_keys(keys)
        flat = FlatDirectory(comm, chunks) if want_overlaps else None
        directory = flat or build_directory(comm, chunks)
    with timers.phase("choose"):
        offsets, holders = directory.holders
        owners, tally = choose_owners(directory.keys, offsets, holders, comm.size, comm.allreduce)
    with timers.phase("answer"):
        # Owner and multiplicity in one word.
        words = owners.astype(np.int64)
        words <<= 32
        words |= np.diff(offsets)
        words = directory.reply(words[:, None])[:, 0]
        multiplicity = words.astype(np.int32)
        words >>= 32
        owner = words.astype(np.int32)
        overlaps = () if flat is None else flat.overlaps(multiplicity)
        return SharingGraph(owner, multiplicity, tally.n_keys, *overlaps)


SETUPS: dict[str, Setup] = {"gather-sift": gather_sift, "rendezvous": rendezvous}
