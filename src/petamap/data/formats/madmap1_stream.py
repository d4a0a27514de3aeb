"""Stream file of MADmap version 1: its header, and access to its samples.

A header of four int64 (first sample, last sample, ``n_stokes``, ``n_unknown``) is followed by a record for
each sample: its signal, float64, and ``n_stokes`` pairs {float32 weight, int32 number}. What it sees is the
sum of weights times the unknowns of these numbers, of 0 to ``n_unknown`` - 1.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import require_file
from petacomm.base.typing import AnyArray, UInt8Array
from petamap.data.formats.madmap1_filters import NoiseFilter, detect_byte_order
from petamap.data.formats.madmap1_response import UnknownNumbers, stokes_numbers
from petamap.data.node_reads import Read
from petamap.data.read_ahead import Place, ReadAhead

_HEADER_BYTES = 32
_OPEN_COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
_UNPACKED_LIMIT = 2**31  # largest uncompressed size of a compressed stream, bytes
_FIRST = 256  # samples that are looked at for what all have in common


def sample_dtype(order: str, n_stokes: int = 1) -> np.dtype[np.void]:
    """Return the dtype of a sample of `n_stokes` pairs in byte order `order` (">" or "<")."""
    pair = np.dtype([("weight", order + "f4"), ("number", order + "i4")])
    return np.dtype([("signal", order + "f8"), ("pairs", pair, (n_stokes,))])


def _open(path: Path) -> BinaryIO:
    """Open a file to be read, unpacked by its suffix."""
    opened: BinaryIO = _OPEN_COMPRESSED.get(path.suffix, open)(require_file(path), "rb")
    return opened


class Madmap1Stream:
    """Stream file: its header, and access to its samples.

    A sample has one pair, of I of a pixel, or three, of I, Q and U of one. A plain file is read in pieces; a
    file compressed by gzip or xz is decompressed to memory.

    Parameters
    ----------
    path : Path
    byte_order : {"auto", "big", "little"}

    Raises
    ------
    DataError
        If the header is not valid or does not match the size of the file, or the first sample that sees
        anything has unknowns that are not I, Q and U of a pixel.
    """

    def __init__(self, path: Path, byte_order: str = "auto") -> None:
        self.path = path
        self._content: UInt8Array | None = None
        self._ranges: list[tuple[int, int]] = []
        try:
            with _open(path) as file:
                header = file.read(_HEADER_BYTES)
            size = path.stat().st_size
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise DataError(f"cannot be read: {error}", where=str(path)) from error
        if len(header) < _HEADER_BYTES:
            raise DataError(f"cut short: {size} bytes are less than a header", where=str(path))
        order = detect_byte_order(header, byte_order, str(path))
        numbers = np.frombuffer(header, order + "i8")
        self.first, last, self.n_stokes, self.n_unknown = (int(number) for number in numbers)
        self.stop = last + 1
        self._check_header()
        self._record = sample_dtype(order, self.n_stokes)
        if path.suffix in _OPEN_COMPRESSED:
            self._content = self._unpacked()
            size = len(self._content)
        self._check_size(size)
        self.numbers = self._found_numbers()

    @property
    def n_pix(self) -> int:
        """Number of pixels."""
        return self.n_unknown // self.n_stokes

    @property
    def _bytes(self) -> int:
        """Size of the uncompressed file according to the header."""
        return _HEADER_BYTES + (self.stop - self.first) * self._record.itemsize

    def _unpacked(self) -> UInt8Array:
        """Return the bytes of the uncompressed content, with at most one byte more than the header says."""
        if self._bytes > _UNPACKED_LIMIT:
            what = f"unpacks to more than {_UNPACKED_LIMIT >> 20} MiB"
            raise DataError(what, where=str(self.path), mend="unpack it and name the file")
        try:
            with _open(self.path) as file:
                return np.frombuffer(file.read(self._bytes + 1), np.uint8)
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise DataError(f"cannot be unpacked: {error}", where=str(self.path)) from error

    def _check_header(self) -> None:
        if self.n_stokes not in (1, 3):
            raise DataError(
                f"{self.n_stokes} pairs of weight and number a sample",
                where=str(self.path),
                mend="one is supported, of I, or three, of I, Q and U of a pixel",
            )
        if not 1 <= self.n_unknown < 2**31:
            raise DataError(f"the header says {self.n_unknown} pixels", where=str(self.path))
        if self.n_unknown % self.n_stokes:
            raise DataError(
                f"the header says {self.n_unknown} unknowns, which are not I, Q and U of some pixels",
                where=str(self.path),
            )

    def _check_size(self, size: int) -> None:
        expected = self._bytes
        if size < expected:
            n_complete = (size - _HEADER_BYTES) // self._record.itemsize
            n_samp = self.stop - self.first
            raise DataError(
                f"cut short in sample {self.first + n_complete}, the header says {n_samp} samples",
                where=str(self.path),
            )
        if size > expected:
            raise DataError(f"{size} bytes where the header asks for {expected}", where=str(self.path))

    def _found_numbers(self) -> UnknownNumbers:
        """Return the numbers of unknowns: of I, Q and U, as the first sample that sees anything has them."""
        if self.n_stokes == 1:
            return UnknownNumbers(self.n_pix)
        sample, pairs = self.first_pairs(self.first, self.stop)
        found = stokes_numbers(self.n_pix, pairs["number"][:1])
        if found is None:
            names, n_pix = ", ".join(map(str, pairs["number"][0])), self.n_pix
            raise DataError(
                f"the unknowns {names} of {self.n_unknown} are not I, Q and U of one pixel",
                where=f"{self.path}, sample {sample}",
                mend=f"read are p, p + {n_pix}, p + {2 * n_pix}, and 3 p, 3 p + 1, 3 p + 2",
            )
        return found

    def first_pairs(self, start: int, stop: int) -> tuple[int, AnyArray]:
        """Return the first of samples [start, stop) that sees anything, and pairs of some that do."""
        for begin in range(start, stop, _FIRST):
            end = min(begin + _FIRST, stop)
            pairs = self._read(begin - self.first, end - self.first)["pairs"]
            seen = np.isfinite(pairs["weight"]).all(axis=1) & (pairs["weight"] != 0).any(axis=1)
            if seen.any():
                return begin + int(seen.argmax()), pairs[seen]
        return stop, np.empty((0, self.n_stokes), self._record["pairs"].base)

    def parts(self, field: str, start: int, stop: int) -> Iterator[tuple[slice, AnyArray]]:
        """Yield "signal", (n,), or "pairs", (n, n_stokes), of samples [start, stop) in parts."""
        for part, records in self._samples.parts(0, start - self.first, stop - self.first):
            yield part, records[field]

    def reads(self, start: int, stop: int) -> list[Read]:
        """Return what is read for samples [start, stop)."""
        return [Read(self._samples, 0, start - self.first, stop - self.first)]

    @cached_property
    def _samples(self) -> ReadAhead:
        name, size = str(self.path), self._record.itemsize
        return ReadAhead(self._records, 1, self.stop - self.first, self._ranges, name, sample_bytes=size)

    def _records(self, place: Place) -> AnyArray:
        """Read records, (1, n)."""
        return self._read(place.start, place.stop)[None]

    def _read(self, start: int, stop: int) -> AnyArray:
        """Read records [start, stop) of the file."""
        begin, n = _HEADER_BYTES + start * self._record.itemsize, stop - start
        if self._content is not None:
            return np.frombuffer(self._content, self._record, n, begin)
        try:
            records = np.fromfile(self.path, self._record, n, offset=begin)
        except OSError as error:
            raise DataError(f"cannot be read: {error}", where=str(self.path)) from error
        if len(records) < n:
            what = f"has become shorter: sample {self.first + start + len(records)} is not there"
            raise DataError(what, where=str(self.path))
        return records

    def check_coverage(self, filters: Sequence[NoiseFilter]) -> None:
        """Check that sorted filters cover each sample once.

        Raises
        ------
        DataError
            If a sample has no filter or two; names the first.
        """
        covered = self.first
        for item in filters:
            where = f"{self.path}, {item.where}"
            if item.start > covered:
                raise DataError(f"sample {covered} has no inverse-noise file", where=where)
            if item.start < covered:
                raise DataError(f"samples from {item.start} have two inverse-noise files", where=where)
            covered = item.stop
        if covered < self.stop:
            raise DataError(f"sample {covered} has no inverse-noise file", where=where)
        self._ranges = [(item.start - self.first, item.stop - self.first) for item in filters]
        if covered > self.stop:
            fault = f"covers samples up to {covered - 1}, the stream ends with {self.stop - 1}"
            raise DataError(fault, where=where)
