"""Chunks of HDF5 datasets as they lie in the file, made beside HDF5: by any thread or rank."""

from __future__ import annotations

import zlib

import numpy as np

from petacomm.base.typing import AnyArray, UInt8Array

_LEVEL = 4  # of compression, h5py's own
_COLUMNS = 512  # whose sums of 16-bit words fit into 32 bits, as do those of rows of a chunk of 2^28 bytes


def encode_chunk(values: AnyArray, n_values: int, compressed: bool) -> UInt8Array:
    """Return a chunk of `n_values` as HDF5 stores it with ``fletcher32`` and, if asked for, ``gzip``.

    Parameters
    ----------
    values : contiguous array (n,)
        Of no more than `n_values`; the rest of the chunk is zeros, HDF5's fill value.
    n_values : int
    compressed : bool

    Returns
    -------
    uint8 (n_bytes,)
    """
    content = values.tobytes() + bytes((n_values - len(values)) * values.itemsize)
    if compressed:
        content = zlib.compress(content, _LEVEL)
    return np.frombuffer(content + fletcher32(content).to_bytes(4, "little"), np.uint8)


def fletcher32(content: bytes) -> int:
    """Return the Fletcher-32 of bytes as HDF5 has it: of big-endian words of 16 bits, modulo 65535."""
    words = np.frombuffer(content + bytes(-len(content) % (2 * _COLUMNS)), ">u2").reshape(-1, _COLUMNS)
    rows, columns = (words.sum(axis, np.uint32).astype(np.int64) for axis in (1, 0))
    n_words = (len(content) + 1) // 2
    # The second sum has each word as often as there are words from it on.
    sums = (
        int(rows.sum()),
        int(
            ((n_words - _COLUMNS * np.arange(len(rows))) * rows).sum() - (np.arange(_COLUMNS) * columns).sum()
        ),
    )
    first, second = ((value - 1) % 65535 + 1 if value else 0 for value in sums)
    return second << 16 | first
