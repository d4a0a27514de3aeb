"""Sorted keys as bit masks of chunks of 64 consecutive keys, whose unions need no sorting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.sharing import _sharing


def chunk_keys(keys: Int64Array) -> Int64Array:
    """Return the chunks of sorted, distinct keys, int64 (n, 2): key // 64, and the mask of present keys."""
    chunks = np.empty((_sharing.count_chunks(keys), 2), np.int64)
    _sharing.chunk_keys(keys, chunks)
    return chunks


def key_offsets(chunks: Int64Array) -> Int64Array:
    """Return the number of keys before each chunk, and of all keys: int64 (n + 1,)."""
    offsets = np.empty(len(chunks) + 1, np.int64)
    _sharing.key_offsets(chunks, offsets)
    return offsets


def unchunk_keys(chunks: Int64Array) -> Int64Array:
    """Return the keys of chunks, in their order."""
    keys = np.empty(key_offsets(chunks)[-1], np.int64)
    _sharing.unchunk_keys(chunks, keys)
    return keys


@dataclass(frozen=True)
class KeyUnion:
    """Union of the keys of several ranks.

    Attributes
    ----------
    chunks : int64 (n, 2)
        Chunks in the order of their first arrival.
    keys : int64 (n_keys,)
        Keys of the chunks.
    positions : int32 (n_arrived,)
        Position in `keys` of each key of the arguments.
    """

    chunks: Int64Array
    keys: Int64Array
    positions: Int32Array

    @classmethod
    def from_chunks(cls, chunks: Int64Array) -> KeyUnion:
        """Return the union of chunks, int64 (n, 2), in which keys may occur several times."""
        groups, united = np.empty(len(chunks), np.int32), np.empty_like(chunks)
        united = united[: _sharing.unite_chunks(chunks, groups, united)].copy()
        positions = np.empty(key_offsets(chunks)[-1], np.int32)
        _sharing.places_of_keys(chunks, groups, united, positions)
        return cls(united, unchunk_keys(united), positions)
