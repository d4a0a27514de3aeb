"""Digest of a vector of the solver that does not depend on ranks."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petacomm.sharing.sharing_graph import hash_numbers
from petamap.mapmaking.vectors import SharedUnknowns, Unknowns

_ROWS = 1 << 13  # hashed at once, in the nearest caches
_SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)  # digits of pi: two sums of 64 bits


def vector_digest(shared: SharedUnknowns, vector: Unknowns) -> str:
    """Return a digest of the rows of a vector with their keys, in hexadecimal. Collective.

    Sums of hashes modulo 2^64, so that no order of rows matters. It tells data apart that happen to differ,
    not data that someone made to look the same.

    Parameters
    ----------
    shared : SharedUnknowns
    vector : Unknowns
        At the owners, (n, k).
    """
    sums = np.zeros(len(_SEEDS) + 2, np.uint64)
    _add(sums, shared.pixels.keys, vector.pixels, 0)
    if shared.gaps.comm is shared.pixels.comm:
        _add(sums, shared.gaps.keys, vector.gaps, 1)
    return "".join(f"{int(word):016x}" for word in shared.comm.allreduce(sums))


def _add(sums: AnyArray, keys: Int64Array, values: FloatArray, kind: int) -> None:
    """Add the number of rows and the hashes of their values."""
    sums[len(_SEEDS) + kind] += np.uint64(len(keys))
    for first in range(0, len(keys), _ROWS):
        rows = slice(first, first + _ROWS)
        bits = np.ascontiguousarray(values[rows]).view(np.int64)
        for column in range(values.shape[1]):
            places = hash_numbers(keys[rows] * 8 + 4 * kind + column)
            for number, seed in enumerate(_SEEDS):
                words = (hash_numbers(bits[:, column]) + places) ^ np.uint64(seed)
                # An array of one wraps around; a scalar would warn.
                sums[number : number + 1] += hash_numbers(words.view(np.int64)).sum(dtype=np.uint64)
