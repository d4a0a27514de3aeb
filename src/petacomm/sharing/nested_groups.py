"""Nested groups of ranks: cut into parts, layer by layer, until each part is one rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petacomm.sharing.sharing_graph import hash_runs


def homes(keys: Int64Array, size: int) -> Int64Array:
    """Return the rank where all values of a key meet in the end, of `size`."""
    return (((hash_runs(keys) >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)).astype(np.int64)


class Parts(NamedTuple):
    """The parts that groups of ranks are cut into in one layer: int64 (size,), for the part of each rank.

    Attributes
    ----------
    number : int64
        Which of the parts of its group it is.
    begin, end : int64
        Its ranks.
    group_begin, group_end : int64
        Those of the group.
    """

    number: Int64Array
    begin: Int64Array
    end: Int64Array
    group_begin: Int64Array
    group_end: Int64Array

    def target(self, rank: Int64Array | int, home: Int64Array) -> Int64Array:
        """Return where ranks send keys of the same group's homes: to themselves, if that is their part."""
        begin = self.begin[home]
        there = begin + (rank - self.begin[rank]) % (self.end[home] - begin)
        targets: Int64Array = np.where(self.number[rank] == self.number[home], rank, there)
        return targets


def layers(size: int, radix: int) -> Iterator[Parts]:
    """Yield the parts of each layer, from all ranks to single ones."""
    begin, end, largest = np.zeros(size, np.int64), np.full(size, size), size
    rank = np.arange(size)
    while largest > 1:
        number = np.zeros(size, np.int64)
        for part in range(1, radix):
            number += rank >= begin + (end - begin) * part // radix
        group_begin, group_end, n = begin, end, end - begin
        begin, end = begin + n * number // radix, begin + n * (number + 1) // radix
        yield Parts(number, begin, end, group_begin, group_end)
        largest = -(-largest // radix)


def hops(rank: int, size: int, radix: int) -> Iterator[Int32Array]:
    """Yield for each layer the rank that keys go to from `rank`, by their home.

    Yields
    ------
    int32 (size,)
        `rank` itself for homes in its own part, and for those outside its group, of which it has no keys.
    """
    home = np.arange(size)
    for parts in layers(size, radix):
        with_me = (home >= parts.group_begin[rank]) & (home < parts.group_end[rank])
        yield np.where(with_me, parts.target(rank, home), rank).astype(np.int32)


def most_messages(size: int, radix: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield for each layer how many ranks each one sends to, and gets from, if it has keys of all homes.

    Yields
    ------
    out, back : float64 (size,)
    """
    rank = np.arange(size)
    for parts in layers(size, radix):
        out, back = np.zeros(size), np.zeros(size)
        n = parts.group_end - parts.group_begin
        for part in range(radix):
            begin, end = (parts.group_begin + n * (part + i) // radix for i in (0, 1))
            sends = (end > begin) & (part != parts.number)
            target = begin + (rank - parts.begin) % np.maximum(end - begin, 1)
            out += sends
            back += np.bincount(target[sends], minlength=size)
        yield out, back
