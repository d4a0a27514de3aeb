"""Nested groups of ranks, each of which is split into parts in the next layer, until a part is one rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petacomm.sharing.sharing_graph import hash_runs


def final_ranks(keys: Int64Array, size: int) -> Int64Array:
    """Return the rank, of `size`, that has the sum of all values of each key after the last layer."""
    return (((hash_runs(keys) >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)).astype(np.int64)


class GroupParts(NamedTuple):
    """Parts of the groups of ranks in one layer, for each rank its part; all int64 (size,).

    Attributes
    ----------
    number : int64
        Number of the part in its group.
    begin, end : int64
        Ranks of the part.
    group_begin, group_end : int64
        Ranks of the group.
    """

    number: Int64Array
    begin: Int64Array
    end: Int64Array
    group_begin: Int64Array
    group_end: Int64Array

    def target(self, rank: Int64Array | int, final_rank: Int64Array) -> Int64Array:
        """Return the ranks to which ranks send keys with these final ranks of the same group.

        Keys whose final rank is in its own part stay on a rank.
        """
        begin = self.begin[final_rank]
        other = begin + (rank - self.begin[rank]) % (self.end[final_rank] - begin)
        return np.where(self.number[rank] == self.number[final_rank], rank, other)


def group_layers(size: int, radix: int) -> Iterator[GroupParts]:
    """Yield the parts of each layer; the first group is all ranks, the last parts are single ranks."""
    begin, end, largest = np.zeros(size, np.int64), np.full(size, size), size
    rank = np.arange(size)
    while largest > 1:
        number = np.zeros(size, np.int64)
        for part in range(1, radix):
            number += rank >= begin + (end - begin) * part // radix
        group_begin, group_end, n = begin, end, end - begin
        begin, end = begin + n * number // radix, begin + n * (number + 1) // radix
        yield GroupParts(number, begin, end, group_begin, group_end)
        largest = -(-largest // radix)


def layer_targets(rank: int, size: int, radix: int) -> Iterator[Int32Array]:
    """Yield for each layer the rank to which `rank` sends keys, by their final rank.

    Yields
    ------
    int32 (size,)
        `rank` itself for final ranks in its own part, and outside its group, of which it has no keys.
    """
    final_rank = np.arange(size)
    for parts in group_layers(size, radix):
        in_group = (final_rank >= parts.group_begin[rank]) & (final_rank < parts.group_end[rank])
        yield np.where(in_group, parts.target(rank, final_rank), rank).astype(np.int32)


def message_bounds(size: int, radix: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield for each layer the numbers of messages of each rank if it has keys of all final ranks.

    Yields
    ------
    out, back : float64 (size,)
        Messages sent in the reduction, and in the broadcast back.
    """
    rank = np.arange(size)
    for parts in group_layers(size, radix):
        out, back = np.zeros(size), np.zeros(size)
        n = parts.group_end - parts.group_begin
        for part in range(radix):
            begin, end = (parts.group_begin + n * (part + i) // radix for i in (0, 1))
            sends = (end > begin) & (part != parts.number)
            target = begin + (rank - parts.begin) % np.maximum(end - begin, 1)
            out += sends
            back += np.bincount(target[sends], minlength=size)
        yield out, back
