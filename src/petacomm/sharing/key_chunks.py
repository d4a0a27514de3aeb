"""Sorted keys as chunks of 64 neighbours, which a directory unites without sorting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.sharing import _sharing


def chunks_of(keys: Int64Array) -> Int64Array:
    """Return the chunks of sorted, distinct keys, int64 (n, 2): key // 64, and the mask of the keys held."""
    chunks = np.empty((_sharing.count_chunks(keys), 2), np.int64)
    _sharing.chunk_keys(keys, chunks)
    return chunks


def key_offsets(chunks: Int64Array) -> Int64Array:
    """Return how many keys stand before each chunk, and in all of them: int64 (n + 1,)."""
    offsets = np.empty(len(chunks) + 1, np.int64)
    _sharing.key_offsets(chunks, offsets)
    return offsets


def keys_of(chunks: Int64Array) -> Int64Array:
    """Return the keys of chunks, chunk by chunk."""
    keys = np.empty(key_offsets(chunks)[-1], np.int64)
    _sharing.unchunk_keys(chunks, keys)
    return keys


@dataclass(frozen=True)
class Union:
    """Keys that arrived from several ranks, each of them once.

    Attributes
    ----------
    chunks : int64 (n, 2)
        In the order in which they first arrived.
    keys : int64 (n_keys,)
        The keys of the chunks.
    places : int32 (n_arrived,)
        The place in `keys` of each key that arrived.
    """

    chunks: Int64Array
    keys: Int64Array
    places: Int32Array

    @classmethod
    def of(cls, arrived: Int64Array) -> Union:
        """Unite chunks in which the same keys may occur several times."""
        groups, united = np.empty(len(arrived), np.int32), np.empty_like(arrived)
        united = united[: _sharing.unite_chunks(arrived, groups, united)].copy()
        places = np.empty(key_offsets(arrived)[-1], np.int32)
        _sharing.places_of_keys(arrived, groups, united, places)
        return cls(united, keys_of(united), places)
