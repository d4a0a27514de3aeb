"""Holders of all keys, from which the counts of all ranks are computed by one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.distinct import first_of_equal
from petacomm.base.typing import BoolArray, Int32Array, Int64Array
from petacomm.sharing.index_map import ReductionError
from petacomm.sharing.owners import choose_owners
from petacomm.sharing.sharing_graph import expand_groups, offsets_from_counts


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Ranks that hold each key.

    Attributes
    ----------
    keys : int64 (n,)
        Distinct keys.
    offsets : int64 (n + 1,)
    holders : int32 (offsets[n],)
        ``holders[offsets[i]:offsets[i + 1]]`` are the ranks that hold key i, increasing.
    size : int
        Number of ranks; some may hold nothing.
    """

    keys: Int64Array
    offsets: Int64Array
    holders: Int32Array
    size: int

    @staticmethod
    def from_rank_keys(keys: Sequence[Int64Array]) -> Occupancy:
        """Return the occupancy of ranks with these keys, an array of increasing keys for each rank.

        Raises
        ------
        ReductionError
            If a key and a rank do not fit into 62 bits.
        """
        bits = max(1, len(keys) - 1).bit_length()
        largest = max((int(part[-1]) for part in keys if len(part)), default=0)
        if largest >> (62 - bits):
            raise ReductionError(
                f"key {largest} of {len(keys)} ranks is too large", mend="number the keys more tightly"
            )
        # Key and rank in one word, which sorts several times faster than two arrays.
        parts = [(part << bits) | rank for rank, part in enumerate(keys)]
        codes = np.concatenate([*parts, np.zeros(0, np.int64)])
        codes.sort()
        return Occupancy.from_codes(codes, bits, len(keys))

    @staticmethod
    def from_codes(codes: Int64Array, bits: int, size: int) -> Occupancy:
        """Return the occupancy of increasing words ``key << bits | rank``, int64 (n,), of `size` ranks."""
        keys = codes >> bits
        starts = np.flatnonzero(first_of_equal(keys))
        holders = (codes & ((1 << bits) - 1)).astype(np.int32)
        return Occupancy(keys[starts], np.append(starts, len(codes)), holders, size)

    @cached_property
    def multiplicity(self) -> Int64Array:
        """Number of ranks that hold each key, int64 (n,)."""
        return np.diff(self.offsets)

    @cached_property
    def key_of(self) -> Int32Array:
        """Position of the key of each entry of `holders`, int32 (offsets[n],)."""
        return np.repeat(np.arange(len(self.keys), dtype=np.int32), self.multiplicity)

    @cached_property
    def owner(self) -> Int32Array:
        """Owner of each key, int32 (n,); exact if these are all keys, else a similar choice."""
        owner, _ = choose_owners(self.keys, self.offsets, self.holders, self.size)
        return owner

    def merge_ranks(self, number: int) -> Occupancy:
        """Return the occupancy in which each `number` consecutive ranks are one rank."""
        if number == 1:
            return self
        holders = self.holders // np.int32(number)
        first: BoolArray = np.ones(len(holders), np.bool_)
        first[1:] = holders[1:] != holders[:-1]
        first[self.offsets[:-1]] = True
        counts = np.add.reduceat(first, self.offsets[:-1]) if len(self.keys) else np.zeros(0, np.int64)
        merged: Int32Array = holders[first]
        return Occupancy(self.keys, offsets_from_counts(counts), merged, -(-self.size // number))

    def key_range(self, first: int, last: int) -> Occupancy:
        """Return the occupancy of the keys at positions [first, last), with the same owners."""
        begin, end = self.offsets[first], self.offsets[last]
        offsets = self.offsets[first : last + 1] - begin
        part = Occupancy(self.keys[first:last], offsets, self.holders[begin:end], self.size)
        part.__dict__["owner"] = self.owner[first:last]
        return part

    def select(self, positions: Int32Array) -> Occupancy:
        """Return the occupancy of the keys at these positions."""
        offsets = offsets_from_counts(self.multiplicity[positions])
        return Occupancy(
            self.keys[positions], offsets, self.holders[expand_groups(positions, self.offsets)], self.size
        )
