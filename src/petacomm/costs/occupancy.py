"""Which ranks hold which keys, seen from outside: what a plan's counts follow from, without its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.typing import BoolArray, Int32Array, Int64Array
from petacomm.sharing.index_map import ReductionError
from petacomm.sharing.owners import choose_owners
from petacomm.sharing.sharing_graph import expand, offsets_of


@dataclass(frozen=True, eq=False)
class Occupancy:
    """The holders of each key.

    Attributes
    ----------
    keys : int64 (n,)
        Distinct.
    offsets : int64 (n + 1,)
    holders : int32 (offsets[n],)
        ``holders[offsets[i]:offsets[i + 1]]`` are the ranks that hold key i, increasing.
    size : int
        Ranks; any of them may hold nothing.
    """

    keys: Int64Array
    offsets: Int64Array
    holders: Int32Array
    size: int

    @staticmethod
    def of(keys: Sequence[Int64Array]) -> Occupancy:
        """Return the occupancy of ranks that hold `keys`, an array of increasing keys each.

        Raises
        ------
        ReductionError
            If a key is so large that it does not fit into 62 bits together with a rank.
        """
        bits = max(1, len(keys) - 1).bit_length()
        largest = max((int(part[-1]) for part in keys if len(part)), default=0)
        if largest >> (62 - bits):
            raise ReductionError(
                f"key {largest} of {len(keys)} ranks is too large", mend="number the keys more tightly"
            )
        # key and rank in one word, which sorts several times faster than the two of them
        parts = [(part << bits) | rank for rank, part in enumerate(keys)]
        codes = np.concatenate([*parts, np.zeros(0, np.int64)])
        codes.sort()
        every = codes >> bits
        starts = np.flatnonzero(np.diff(every, prepend=-1))
        holders = (codes & ((1 << bits) - 1)).astype(np.int32)
        return Occupancy(every[starts], np.append(starts, len(every)), holders, len(keys))

    @cached_property
    def multiplicity(self) -> Int64Array:
        """How many ranks hold each key, (n,)."""
        return np.diff(self.offsets)

    @cached_property
    def key_of(self) -> Int32Array:
        """The position of the key of each holder, (offsets[n],)."""
        return np.repeat(np.arange(len(self.keys), dtype=np.int32), self.multiplicity)

    @cached_property
    def owner(self) -> Int32Array:
        """The owner of each key, (n,), if these are all keys; else about as in a choice among all."""
        owner, _ = choose_owners(self.keys, self.offsets, self.holders, self.size)
        return owner

    def merged(self, number: int) -> Occupancy:
        """Return the occupancy where each `number` consecutive ranks are one."""
        if number == 1:
            return self
        holders = self.holders // np.int32(number)
        first: BoolArray = np.ones(len(holders), np.bool_)
        first[1:] = holders[1:] != holders[:-1]
        first[self.offsets[:-1]] = True
        counts = np.add.reduceat(first, self.offsets[:-1]) if len(self.keys) else np.zeros(0, np.int64)
        merged: Int32Array = holders[first]
        return Occupancy(self.keys, offsets_of(counts), merged, -(-self.size // number))

    def part(self, first: int, last: int) -> Occupancy:
        """Return the occupancy of keys [first, last) alone, by position; their owners stay the same."""
        begin, end = self.offsets[first], self.offsets[last]
        offsets = self.offsets[first : last + 1] - begin
        part = Occupancy(self.keys[first:last], offsets, self.holders[begin:end], self.size)
        part.__dict__["owner"] = self.owner[first:last]
        return part

    def chosen(self, positions: Int32Array) -> Occupancy:
        """Return the occupancy of the keys at these positions alone."""
        offsets = offsets_of(self.multiplicity[positions])
        return Occupancy(
            self.keys[positions], offsets, self.holders[expand(positions, self.offsets)], self.size
        )
