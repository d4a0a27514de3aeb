"""SHA-256 of a map: of the hashes of its slabs, which any number of processes make side by side."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array, UInt8Array

# Pixels that are hashed together: no choice of ranks, but part of what the digest of a map is.
SLAB = 1 << 12
_ROW = 8 + hashlib.sha256().digest_size


def map_sha256(values: FloatArray) -> str:
    """Return the SHA-256 of a map, (n_columns, n_pix), equal on all machines and for any number of ranks.

    It is that of numbers of columns and pixels and, for each slab of 4096 consecutive pixels that has a
    value, of its number and the SHA-256 of its values, column by column; all are 64 bits, the lowest byte
    first. A slab without values counts nothing, so maps of few pixels are quickly hashed.
    """
    return joined_sha256(slab_hashes(values.T, 0, values.shape[1]), *values.shape)


def slab_hashes(rows: FloatArray, pixels: Int64Array | int, n_pix: int) -> UInt8Array:
    """Return number and hash of each slab that has a value, uint8 (n, 40).

    Parameters
    ----------
    rows : float64 (n, n_columns)
        Of whole slabs, but for pixels without values.
    pixels : int64 (n,) or int
        Of the rows, increasing; or the first of consecutive ones, with which a slab begins.
    n_pix : int
        Of the map.
    """
    table = [np.zeros((0, _ROW), np.uint8)]
    for number, block in _blocks(rows, pixels, n_pix):
        if not np.isnan(block).all():
            digest = hashlib.sha256(block.astype("<f8", order="C", copy=False).data).digest()
            table.append(np.frombuffer(struct.pack("<q", number) + digest, np.uint8)[None])
    return np.concatenate(table)


def joined_sha256(hashes: UInt8Array, n_columns: int, n_pix: int) -> str:
    """Return the SHA-256 of a map, of the hashes of its slabs in their order."""
    return hashlib.sha256(struct.pack("<qq", n_columns, n_pix) + hashes.tobytes()).hexdigest()


def _blocks(rows: FloatArray, pixels: Int64Array | int, n_pix: int) -> Iterator[tuple[int, FloatArray]]:
    """Yield number and values, (n_columns, up to SLAB), of the slabs that have rows."""
    if isinstance(pixels, int):
        for begin in range(0, len(rows), SLAB):
            yield (pixels + begin) // SLAB, np.ascontiguousarray(rows[begin : begin + SLAB].T)
        return
    firsts = np.flatnonzero(np.diff(pixels // SLAB, prepend=-1))
    for begin, end in pairwise([*firsts.tolist(), len(pixels)]):
        number = int(pixels[begin]) // SLAB
        block = np.full((rows.shape[1], min(SLAB, n_pix - number * SLAB)), np.nan)
        block[:, pixels[begin:end] - number * SLAB] = rows[begin:end].T
        yield number, block
