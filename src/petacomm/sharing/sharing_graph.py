"""Who shares which keys with whom, and who owns them: what every algorithm starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.sharing import _sharing

# Neighbouring keys are hashed together, so that messages come in runs.
RUN_BITS = 6


@dataclass(frozen=True)
class SharingGraph:
    """The sharing of keys between ranks, as one rank sees it.

    Attributes
    ----------
    owner : integer (n_keys,)
        The one rank that owns each of this rank's keys; one of its holders.
    multiplicity : integer (n_keys,)
        How many ranks hold each key, this one included.
    n_global : int
        Distinct keys on all ranks.
    shared_positions : int32 (sum of overlaps,) or None
        Local positions of the keys shared with each other rank, in the order of (rank, key); both ranks
        of a pair see the same keys in the same order. None where no algorithm asked for it.
    overlaps : int64 (size,) or None
        How many keys this rank shares with each other rank; 0 for itself.
    """

    owner: npt.NDArray[np.integer]
    multiplicity: npt.NDArray[np.integer]
    n_global: int
    shared_positions: Int32Array | None = None
    overlaps: Int64Array | None = None

    @property
    def n_shared(self) -> int:
        """Keys of this rank that any other holds."""
        return int(np.count_nonzero(self.multiplicity > 1))

    def n_runs(self, keys: Int64Array) -> int:
        """Return in how many runs the shared ones of these keys, this rank's, lie.

        A run is consecutive keys on as many ranks, within 64 keys from a multiple of 64 on: so a sample of
        such pieces tells it too.
        """
        shared = self.multiplicity > 1
        keys, holders = keys[shared], self.multiplicity[shared]
        begins = (np.diff(keys) != 1) | (keys[1:] % (1 << RUN_BITS) == 0) | (holders[1:] != holders[:-1])
        return int(np.count_nonzero(begins)) + (len(keys) > 0)

    def n_lent(self, rank: int) -> int:
        """Keys that `rank`, this one, owns and any other holds."""
        return int(np.count_nonzero((self.owner == rank) & (self.multiplicity > 1)))

    def kept(self, size: int) -> SharingGraph:
        """Return what a plan of `size` ranks keeps: no pairs, and numbers of as few bytes as they need."""
        few = np.min_scalar_type(size)
        owner, multiplicity = self.owner.astype(few, copy=False), self.multiplicity.astype(few, copy=False)
        return replace(self, owner=owner, multiplicity=multiplicity, shared_positions=None)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = self.owner, self.multiplicity, self.shared_positions, self.overlaps
        return sum(array.nbytes for array in arrays if array is not None)

    @staticmethod
    def alone(n_keys: int) -> SharingGraph:
        """Return the graph of a single rank, which shares nothing."""
        owner, multiplicity = np.zeros(n_keys, np.int32), np.ones(n_keys, np.int32)
        return SharingGraph(owner, multiplicity, n_keys, np.zeros(0, np.int32), np.zeros(1, np.int64))


def hash_runs(keys: Int64Array) -> npt.NDArray[np.uint64]:
    """Hash the run of 64 neighbouring keys that each key belongs to."""
    return hash_numbers(keys >> RUN_BITS)


def hash_numbers(numbers: Int64Array) -> npt.NDArray[np.uint64]:
    """Hash numbers such that neighbours are spread (the finalizer of splitmix64)."""
    word = numbers.astype(np.uint64)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def offsets_of(counts: npt.NDArray[np.integer | np.bool_]) -> Int64Array:
    """Return the begin of each of consecutive groups, and the end of the last one."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def ranks_of(counts: Int64Array) -> Int32Array:
    """Return the rank that each of the rows belongs to, of `counts[r]` rows a rank."""
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts)


def counting_order(labels: Int32Array, n_labels: int) -> tuple[Int32Array, Int64Array]:
    """Sort small numbers by counting, stably.

    Parameters
    ----------
    labels : int32 (n,)
        0 to `n_labels` - 1.
    n_labels : int

    Returns
    -------
    order : int32 (n,)
        The indices of label 0 in increasing order, then those of label 1 and so on.
    offsets : int64 (n_labels + 1,)
        Where each label begins in `order`.
    """
    order, offsets = np.empty(len(labels), np.int32), np.empty(n_labels + 1, np.int64)
    _sharing.counting_order(labels, n_labels, order, offsets)
    return order, offsets


def expand(groups: Int32Array, offsets: Int64Array) -> Int32Array:
    """Return the ranges ``offsets[g]`` to ``offsets[g + 1]`` of the groups g, one after another."""
    positions = np.empty(int((offsets[groups + 1] - offsets[groups]).sum()), np.int32)
    _sharing.expand_groups(groups, offsets, positions)
    return positions


def by_rank(
    positions: Int32Array, ranks: Int32Array, n_positions: int, size: int
) -> tuple[Int32Array, Int64Array]:
    """Sort shared positions by (rank, position), and count them by rank."""
    order, _ = counting_order(positions, n_positions)
    again, offsets = counting_order(ranks[order], size)
    return positions[order][again], np.diff(offsets)
