"""Inverse-noise files of MADmap v1, in a folder or an archive, and the blocks of detectors they define."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import require_file
from petacomm.base.typing import FloatArray
from petamap.noise.model import InverseLags

BYTE_ORDERS = {"big": ">", "little": "<"}
_NAME = re.compile(r"(.+)\.\d+")
_HEADER_BYTES = 24
_FILTER_LIMIT = 2**26  # bytes of one inverse-noise file
_ARCHIVE_LIMIT = 2**30  # bytes of an uncompressed archive
_OTHERS_LIMIT = 1000  # entries of an archive that are no filters
_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class NoiseFilter:
    """Inverse-noise file: a sample range [start, stop) of the stream, and its inverse noise."""

    where: str
    start: int
    stop: int
    noise: InverseLags

    @property
    def n_samp(self) -> int:
        """Number of samples."""
        return self.stop - self.start


def read_noise_filters(path: Path, byte_order: str = "auto") -> list[NoiseFilter]:
    """Return all inverse-noise files of a folder or an archive (.tar, .tar.gz, .tar.xz), by first sample.

    Files with equal content share an `InverseLags`.

    Raises
    ------
    DataError
        If there are none, or a file cannot be read, has the wrong size, or is not positive at lag 0.
    """
    contents = _in_folder(path) if path.is_dir() else _in_archive(path)
    shared: dict[bytes, InverseLags] = {}
    filters = [_parse(where, content, byte_order, shared) for where, content in contents]
    if not filters:
        raise DataError(
            "no inverse-noise files here", where=str(path), mend="they are called NAME.0, NAME.1, ..."
        )
    return sorted(filters, key=lambda item: item.start)


def detect_byte_order(header: bytes, byte_order: str, where: str) -> str:
    """Return the NumPy prefix of the byte order in which a header of int64 has valid values.

    In the wrong byte order, small positive numbers become huge or negative.

    Raises
    ------
    DataError
        If no byte order, or not the given one, gives valid numbers.
    """
    orders = list(BYTE_ORDERS.values()) if byte_order == "auto" else [BYTE_ORDERS[byte_order]]
    numbers = {order: np.frombuffer(header, order + "i8") for order in orders}
    for order, n in sorted(numbers.items(), key=lambda item: int(item[1].max())):
        if n.min() >= 0 and n.max() < 2**48 and n[1] >= n[0]:
            return order
    tried = "either byte order" if byte_order == "auto" else f"{byte_order}-endian order"
    raise DataError(
        f"the header makes no sense in {tried}",
        where=where,
        mend="is it a MADmap version 1 file?",
    )


def split_blocks(filters: Sequence[NoiseFilter], n_detectors: int = 0) -> list[list[NoiseFilter]]:
    """Split sorted filters into blocks with one filter per detector, all of equal length.

    A sequence of filters of equal length is split after each `n_detectors` of them. With 0, it is split where
    filters repeat after some number of detectors, as for noise that is stationary over the whole stream; else
    it is one block.

    Raises
    ------
    DataError
        If the length of a sequence is not a multiple of `n_detectors`.
    """
    blocks: list[list[NoiseFilter]] = []
    for _, members in groupby(filters, key=lambda item: item.n_samp):
        run = list(members)
        size = n_detectors or _period(run)
        if len(run) % size:
            raise DataError(
                f"{len(run)} filters of {run[0].n_samp} samples are no multiple of {size} detectors",
                where=run[0].where,
                mend="mend n_detectors, or leave it out",
            )
        blocks.extend(run[begin : begin + size] for begin in range(0, len(run), size))
    return blocks


def _period(run: Sequence[NoiseFilter]) -> int:
    """Return the period of the filters; their number if they do not repeat or are all equal."""
    kinds = [id(item.noise) for item in run]
    if len(set(kinds)) > 1:
        for size in range(2, len(run) // 2 + 1):
            if len(run) % size == 0 and kinds[size:] == kinds[:-size]:
                return size
    return len(run)


def _parse(where: str, content: bytes, byte_order: str, shared: dict[bytes, InverseLags]) -> NoiseFilter:
    if len(content) < _HEADER_BYTES + 8:
        raise DataError(f"cut short: {len(content)} bytes are no inverse-noise file", where=where)
    order = detect_byte_order(content[:_HEADER_BYTES], byte_order, where)
    first, last, n_corr = (int(number) for number in np.frombuffer(content[:_HEADER_BYTES], order + "i8"))
    expected = _HEADER_BYTES + 8 * (n_corr + 1)
    if len(content) != expected:
        raise DataError(
            f"{len(content)} bytes where a header that says n_corr = {n_corr} asks for {expected}",
            where=where,
        )
    key = order.encode() + content[_HEADER_BYTES:]
    if key not in shared:
        shared[key] = InverseLags(_valid(np.frombuffer(content, order + "f8", offset=_HEADER_BYTES), where))
    return NoiseFilter(where, first, last + 1, shared[key])


def _valid(lags: FloatArray, where: str) -> FloatArray:
    bad = np.flatnonzero(~np.isfinite(lags))
    if bad.size:
        raise DataError(
            f"{bad.size} inverse-noise values are not finite, the first at lag {bad[0]}", where=where
        )
    if lags[0] <= 0:
        raise DataError(f"the inverse noise at lag 0 is {lags[0]:g}, which is not positive", where=where)
    return lags.astype(np.float64)


def _in_folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    files = [file for file in folder.iterdir() if _NAME.fullmatch(file.name) and file.is_file()]
    _one_stem(str(folder), [file.name for file in files])
    for file in files:
        try:
            _check_size(file.stat().st_size, str(file))
            yield str(file), file.read_bytes()
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", where=str(file)) from error


def _in_archive(path: Path) -> Iterator[tuple[str, bytes]]:
    names, n_others = [], 0
    with _archive(path) as archive:
        for member in archive:
            name = Path(member.name).name
            if not (member.isfile() and _NAME.fullmatch(name)):
                n_others += 1
                if n_others > _OTHERS_LIMIT:
                    what = f"has more than {_OTHERS_LIMIT} entries that are no filters"
                    raise DataError(what, where=str(path), mend="name an archive of filters")
                continue
            names.append(name)
            _check_size(member.size, f"{path}:{member.name}")
            content = archive.extractfile(member)
            yield f"{path}:{member.name}", content.read() if content else b""
    _one_stem(str(path), names)


@contextmanager
def _archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive as a stream of limited uncompressed size."""
    try:
        with require_file(path).open("rb") as raw:
            bounded = _Bounded(_unpacked(raw), str(path))
            with tarfile.open(fileobj=bounded, mode="r|") as archive:
                yield archive
            while bounded.read(_AT_ONCE):  # behind the last entry is the checksum of what is packed
                pass
    except (
        tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError, ValueError, OverflowError,
    ) as error:  # fmt: skip
        raise DataError(
            f"is no readable archive: {error}", where=str(path), mend="a .tar, .tar.gz or .tar.xz"
        ) from error


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    """Return the stream of what a file has packed by gzip or xz, or of the file itself."""
    magic = raw.read(6)
    raw.seek(0)
    if magic[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    return lzma.LZMAFile(raw) if magic == b"\xfd7zXZ\0" else raw


class _Bounded(io.RawIOBase):
    """Stream of at most `_ARCHIVE_LIMIT` bytes."""

    def __init__(self, stream: IO[bytes], where: str) -> None:
        self._stream, self._where, self._left = stream, where, _ARCHIVE_LIMIT

    def read(self, size: int = -1) -> bytes:
        self._left -= size
        if size < 0 or self._left < 0:
            raise DataError(
                f"unpacks to more than {_ARCHIVE_LIMIT >> 20} MiB",
                where=self._where,
                mend="unpack it and name the folder",
            )
        return self._stream.read(size)


def _check_size(size: int, where: str) -> None:
    if size > _FILTER_LIMIT:
        raise DataError(f"{size} bytes are too many for an inverse-noise file", where=where)


def _one_stem(where: str, names: Sequence[str]) -> None:
    stems = sorted({name.rpartition(".")[0] for name in names})
    if len(stems) > 1:
        raise DataError(
            f"holds more than one set of filters: {', '.join(stems[:5])}",
            where=where,
            mend="keep each set in a folder of its own",
        )
