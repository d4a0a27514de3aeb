"""Checksums in the file of a Monte Carlo: of each row, of what is computed once, and of all else.

They are 8 bytes of BLAKE2b each. The checksum of a row says what state the row is in: it is 0 before
anything is written, and covers the status afterwards. What never changes once the file is made, the headers
of HDF5, attributes, and arrays known in advance, has a checksum for each array and one for the rest.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_PIECE_BYTES = 1 << 24
ROWS, COMPUTED, CONSTANT = "checksums/rows", "checksums/computed", "checksums/constant"
HEADER = "header"


@dataclass(frozen=True)
class StoredArray:
    """Position, shape and type of an array in the file."""

    name: str
    offset: int
    shape: tuple[int, ...]
    kind: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, which is an element of the first axis."""
        return array_bytes(self.shape[1:], self.kind)

    @property
    def n_bytes(self) -> int:
        """Bytes of the array."""
        return array_bytes(self.shape, self.kind)

    @property
    def row_fill(self) -> bytes:
        """Bytes of a row that nothing was written to: nan in floats, else zeros."""
        shape = self.shape[1:]
        empty = np.full(shape, np.nan, self.kind) if self.kind.kind == "f" else np.zeros(shape, self.kind)
        return empty.tobytes()


def array_bytes(shape: tuple[int, ...], kind: Any) -> int:
    """Return the bytes of an array of a shape and a type."""
    return math.prod(shape) * int(np.dtype(kind).itemsize)


def row_checksum(name: str, status: int, parts: Iterable[tuple[StoredArray, bytes | memoryview]]) -> int:
    """Return the checksum of a row: of its name and status, and of name, type and bytes in each array.

    Parameters
    ----------
    name : str
        What the row is of, by run and number.
    status : int
    parts : iterable of (StoredArray, bytes or memoryview)
        The arrays that the row is in, and the bytes of the row in each.
    """
    digest = hashlib.blake2b(f"{name} {status}".encode(), digest_size=8)
    for item, content in parts:
        digest.update(f" {item.name} {item.kind.str} {item.shape[1:]} ".encode())
        digest.update(content)
    return _nonzero(digest)


def constant_checksums(
    read: Callable[[int, int], bytes],
    file_bytes: int,
    arrays: Mapping[str, StoredArray],
    constant: Iterable[str],
) -> dict[str, int]:
    """Return the checksum of each constant array, and that of all bytes outside of arrays, by name.

    Parameters
    ----------
    read : callable
        Returns the bytes from an offset on, by offset and number of bytes.
    file_bytes : int
        Size of the file.
    arrays : dict of str to StoredArray
        All arrays of the file.
    constant : iterable of str
        Names of those that do not change.

    Returns
    -------
    dict of str to int
        Those of the arrays in the order of their names, then that of the `HEADER`.
    """
    extents = {name: [(arrays[name].offset, arrays[name].n_bytes)] for name in sorted(constant)}
    extents[HEADER] = list(_gaps(file_bytes, arrays.values()))
    return {name: _checksum(read, pieces) for name, pieces in extents.items()}


def _gaps(file_bytes: int, arrays: Iterable[StoredArray]) -> Iterator[tuple[int, int]]:
    """Yield offset and size of the parts of the file that are in none of the arrays."""
    end = 0
    for item in sorted((one for one in arrays if one.n_bytes), key=lambda one: one.offset):
        if item.offset > end:
            yield end, item.offset - end
        end = max(end, item.offset + item.n_bytes)
    if file_bytes > end:
        yield end, file_bytes - end


def _checksum(read: Callable[[int, int], bytes], extents: Iterable[tuple[int, int]]) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for offset, n_bytes in extents:
        digest.update(f"{offset} {n_bytes} ".encode())
        for begin in range(offset, offset + n_bytes, _PIECE_BYTES):
            digest.update(read(begin, min(_PIECE_BYTES, offset + n_bytes - begin)))
    return _nonzero(digest)


def _nonzero(digest: hashlib.blake2b) -> int:
    return int.from_bytes(digest.digest(), "little") or 1
