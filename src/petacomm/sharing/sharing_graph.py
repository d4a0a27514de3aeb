"""Sharing graphs: the owner and the holders of each key."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.sharing import _sharing

# Runs of 2^RUN_BITS consecutive keys have one hash, so that messages consist of runs.
RUN_BITS = 6


@dataclass(frozen=True)
class SharingGraph:
    """Sharing of the keys of one rank with other ranks.

    Attributes
    ----------
    owner : integer (n_keys,)
        Rank that owns each of this rank's keys; one of its holders.
    multiplicity : integer (n_keys,)
        Number of ranks that hold each key, this one included.
    n_global : int
        Number of distinct keys on all ranks.
    shared_positions : int32 (sum of overlaps,) or None
        Local rows of the keys shared with each other rank, in the order of (rank, key), which is the same
        for both ranks of a pair. None if the set-up did not compute it.
    overlaps : int64 (size,) or None
        Number of keys shared with each other rank; 0 for this rank.
    """

    owner: npt.NDArray[np.integer]
    multiplicity: npt.NDArray[np.integer]
    n_global: int
    shared_positions: Int32Array | None = None
    overlaps: Int64Array | None = None

    @property
    def n_shared(self) -> int:
        """Number of keys of this rank that others hold, too."""
        return int(np.count_nonzero(self.multiplicity > 1))

    def n_runs(self, keys: Int64Array) -> int:
        """Return the number of runs of shared keys among `keys`, which are those of this rank.

        A run is consecutive keys of the same multiplicity within one block of 64 keys, so that the number can
        be estimated from a sample of blocks.
        """
        shared = self.multiplicity > 1
        keys, holders = keys[shared], self.multiplicity[shared]
        begins = (np.diff(keys) != 1) | (keys[1:] % (1 << RUN_BITS) == 0) | (holders[1:] != holders[:-1])
        return int(np.count_nonzero(begins)) + (len(keys) > 0)

    def n_owned_shared(self, rank: int) -> int:
        """Return the number of shared keys that `rank`, which must be this one, owns."""
        return int(np.count_nonzero((self.owner == rank) & (self.multiplicity > 1)))

    def compact(self, size: int) -> SharingGraph:
        """Return the graph without `shared_positions`, in the smallest integer dtype for `size` ranks."""
        dtype = np.min_scalar_type(size)
        owner = self.owner.astype(dtype, copy=False)
        multiplicity = self.multiplicity.astype(dtype, copy=False)
        return replace(self, owner=owner, multiplicity=multiplicity, shared_positions=None)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = self.owner, self.multiplicity, self.shared_positions, self.overlaps
        return sum(array.nbytes for array in arrays if array is not None)

    @staticmethod
    def single_rank(n_keys: int) -> SharingGraph:
        """Return the graph of a single rank, which shares nothing."""
        owner, multiplicity = np.zeros(n_keys, np.int32), np.ones(n_keys, np.int32)
        return SharingGraph(owner, multiplicity, n_keys, np.zeros(0, np.int32), np.zeros(1, np.int64))


def hash_runs(keys: Int64Array) -> npt.NDArray[np.uint64]:
    """Return the hash of the run of 64 consecutive keys that contains each key."""
    return hash_numbers(keys >> RUN_BITS)


def hash_numbers(numbers: Int64Array) -> npt.NDArray[np.uint64]:
    """Return a hash of each number, the finalizer of splitmix64."""
    word = numbers.astype(np.uint64)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def offsets_from_counts(counts: npt.NDArray[np.integer | np.bool_]) -> Int64Array:
    """Return the begins of consecutive groups with these counts, and the end of the last one."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def ranks_from_counts(counts: Int64Array) -> Int32Array:
    """Return the rank of each row, where rank r has the next `counts[r]` rows."""
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts)


def counting_sort(labels: Int32Array, n_labels: int) -> tuple[Int32Array, Int64Array]:
    """Return the order that sorts labels stably, by counting.

    Parameters
    ----------
    labels : int32 (n,)
        0 to `n_labels` - 1.
    n_labels : int

    Returns
    -------
    order : int32 (n,)
        Indices of label 0 in increasing order, then those of label 1 and so on.
    offsets : int64 (n_labels + 1,)
        Begin of each label in `order`, and the end.
    """
    order, offsets = np.empty(len(labels), np.int32), np.empty(n_labels + 1, np.int64)
    _sharing.counting_order(labels, n_labels, order, offsets)
    return order, offsets


def expand_groups(groups: Int32Array, offsets: Int64Array) -> Int32Array:
    """Return the concatenated ranges ``offsets[g]`` to ``offsets[g + 1]`` of the groups g."""
    positions = np.empty(int((offsets[groups + 1] - offsets[groups]).sum()), np.int32)
    _sharing.expand_groups(groups, offsets, positions)
    return positions


def sort_by_rank(
    positions: Int32Array, ranks: Int32Array, n_positions: int, size: int
) -> tuple[Int32Array, Int64Array]:
    """Return shared positions sorted by (rank, position), and their number for each rank."""
    order, _ = counting_sort(positions, n_positions)
    rank_order, offsets = counting_sort(ranks[order], size)
    return positions[order][rank_order], np.diff(offsets)
