"""Who shares which keys with whom, and who owns them: what every algorithm starts from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from petamap.base.errors import ResourceError
from petamap.base.typing import Int32Array, Int64Array

# Neighbouring keys are hashed together, so that messages and owned keys come in runs.
_RUN_BITS = 6
# Rows of message buffers are counted in int32.
_MOST_ENTRIES = 2**31 - 1


@dataclass(frozen=True)
class SharingGraph:
    """The sharing of keys between ranks, as one rank sees it.

    Attributes
    ----------
    owner : int32 (n_keys,)
        The one rank that owns each of this rank's keys; one of its holders.
    multiplicity : int32 (n_keys,)
        How many ranks hold each key, this one included.
    n_global : int
        Distinct keys on all ranks.
    shared_positions : int32 (sum of overlaps,) or None
        Local positions of the keys shared with each other rank, in the order of (rank, key); both ranks
        of a pair see the same keys in the same order. None where no algorithm asked for it.
    overlaps : int64 (size,) or None
        How many keys this rank shares with each other rank; 0 for itself.
    """

    owner: Int32Array
    multiplicity: Int32Array
    n_global: int
    shared_positions: Int32Array | None = None
    overlaps: Int64Array | None = None

    @property
    def n_shared(self) -> int:
        """Keys of this rank that any other holds."""
        return int(np.count_nonzero(self.multiplicity > 1))

    def n_lent(self, rank: int) -> int:
        """Keys that `rank`, this one, owns and any other holds."""
        return int(np.count_nonzero((self.owner == rank) & (self.multiplicity > 1)))

    @staticmethod
    def alone(n_keys: int) -> SharingGraph:
        """Return the graph of a single rank, which shares nothing."""
        owner, multiplicity = np.zeros(n_keys, np.int32), np.ones(n_keys, np.int32)
        return SharingGraph(owner, multiplicity, n_keys, np.zeros(0, np.int32), np.zeros(1, np.int64))


def hash_runs(keys: Int64Array) -> npt.NDArray[np.uint64]:
    """Hash the run of 64 neighbouring keys that each key belongs to (the finalizer of splitmix64)."""
    word = (keys >> _RUN_BITS).astype(np.uint64)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def choose_owners(keys: Int64Array, offsets: Int64Array, holders: Int32Array) -> Int32Array:
    """Choose one holder for each key, the same one for most of a run of neighbours, evenly on the whole.

    Parameters
    ----------
    keys : int64 (n,)
    offsets : int64 (n + 1,)
        ``holders[offsets[i]:offsets[i + 1]]`` are the ranks that hold key i, in increasing order.
    holders : int32 (offsets[n],)
    """
    # The upper half of the hash: the lower one has dealt the runs to the directory's ranks.
    choice = (hash_runs(keys) >> np.uint64(32)) % np.diff(offsets).astype(np.uint64)
    return holders[offsets[:-1] + choice.astype(np.int64)]


def offsets_of(counts: npt.NDArray[np.integer | np.bool_]) -> Int64Array:
    """Return the begin of each of consecutive groups, and the end of the last one."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def ranks_of(counts: Int64Array) -> Int32Array:
    """Return the rank that each of the rows belongs to, of `counts[r]` rows a rank."""
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts)


def rank_ordered(
    positions: Int32Array, ranks: Int32Array, rank: int
) -> tuple[Int32Array, Int64Array, Int32Array, Int32Array]:
    """Group entries by key, with this rank's own value among them, in rank order.

    Parameters
    ----------
    positions, ranks : int32 (n,)
        Local position of a key, and another rank that holds it.
    rank : int
        This rank.

    Returns
    -------
    shared : int32 (n_shared,)
        The positions that occur, sorted.
    offsets : int64 (n_shared + 1,)
        The groups of the two following arrays.
    holders : int32 (n + n_shared,)
        Ranks holding each key, this one included, in increasing order.
    sources : int32 (n + n_shared,)
        The entry each came from; -1 stands for this rank.
    """
    if len(positions) > _MOST_ENTRIES:
        raise ResourceError(
            f"rank {rank} shares {len(positions)} values with others", mend="use the reduction 'owner'"
        )
    counts = np.bincount(positions)
    shared = np.flatnonzero(counts).astype(np.int32)
    every = np.concatenate([positions, shared])
    holders = np.concatenate([ranks, np.full(len(shared), rank, np.int32)])
    sources = np.concatenate([np.arange(len(positions), dtype=np.int32), np.full(len(shared), -1, np.int32)])
    order = np.argsort(_pairs(every, holders))
    return shared, offsets_of(counts[shared] + 1), holders[order], sources[order]


def by_rank(positions: Int32Array, ranks: Int32Array, size: int) -> tuple[Int32Array, Int64Array]:
    """Sort shared positions by (rank, position), and count them by rank."""
    pairs = np.sort(_pairs(ranks, positions))
    return (pairs & 0xFFFFFFFF).astype(np.int32), np.bincount(ranks, minlength=size).astype(np.int64)


def _pairs(major: Int32Array, minor: Int32Array) -> Int64Array:
    """Two int32 in an int64, which sorts several times faster than the two of them."""
    return (major.astype(np.int64) << 32) | minor
