"""Defensive reading of HDF5 files: sizes are checked before allocation, and all errors are DataError."""

from __future__ import annotations

import mmap
import os
import struct
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from petacomm.base.errors import DataError, ResourceError
from petacomm.base.files import require_file
from petacomm.base.threads import available_threads
from petacomm.base.typing import AnyArray
from petamap.data.formats.hdf5_text import TEXT_DIGESTS, changed_text
from petamap.data.read_ahead import Place

# Largest compression ratio: deflate compresses zeros 1032 to 1.
_MAX_COMPRESSION = 1100

DAMAGED = "copy or make the file anew"
_NO_MEMORY = "use more nodes, fewer processes on each, or fewer threads; or the file is damaged"

# Files that are open at once: each takes a descriptor, of which many systems give a process 1024, and most of
# a megabyte.
_MOST_OPEN = 64

# what h5py says, what it means and its remedy
_REASONS = (
    (
        "filter returned failure",
        "a chunk of its values does not pass its checksum or cannot be unpacked: the file is damaged",
        DAMAGED,
    ),
    ("truncated file", "the file is cut short", DAMAGED),
    ("file signature not found", "it is no HDF5 file", "name an HDF5 file, or copy it again"),
    (
        "required filter",
        "it is compressed by a filter that is not installed",
        "repack it with gzip: h5repack -f GZIP=4 OLD NEW",
    ),
)

_HEAP_SIGNATURE = b"GCOL\x01\0\0\0"  # of a collection of the global heap
_HEAPS_WITHIN = 1 << 22  # bytes at the beginning of the file


def load_flacarray() -> Any:
    """Return ``flacarray.hdf5``, imported without MPI, which it would start in a process of its own.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    asked = "MPI_DISABLE" in os.environ
    os.environ.setdefault("MPI_DISABLE", "1")
    try:
        from flacarray import hdf5
    finally:
        if not asked:
            del os.environ["MPI_DISABLE"]
    return hdf5


class ArrayInFile(NamedTuple):
    """What is known of a dataset without its values."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None
    n_bytes: int


class Hdf5Reader:
    """HDF5 file that is opened when it is used, and can be read from several threads.

    References out of the file are rejected: external and soft links, external storage, virtual datasets. What
    was looked up and checked once is kept: the file is taken not to change. It stays open until so many
    others are used that the process would have too many files open; other ranks open it when they use it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._has_checked_heaps = False
        self._begin()

    def _begin(self) -> None:
        self._lock = RLock()
        self._objects: dict[str, Any] = {}
        self._checked: dict[tuple[str, str, tuple[int | None, ...] | None], Any] = {}
        self._groups: dict[str, bool] = {}
        self._hard_links: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_has_checked_heaps": self._has_checked_heaps}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    @cached_property
    def _file(self) -> Any:
        import h5py

        if not self._has_checked_heaps:
            _check_heaps(self.path)
            self._has_checked_heaps = True
        return h5py.File(self.path, "r", locking="best-effort")

    def close_if_idle(self) -> bool:
        """Close the file unless another thread uses it; return whether it is closed."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._objects.clear()
            self._checked.clear()
            if "_file" in vars(self):
                self.__dict__.pop("_file").close()
        finally:
            self._lock.release()
        return True

    def names(self, group: str = "/") -> list[str]:
        """Return the sorted names in a group; none if there is no such group."""
        with self._guard(group):
            return sorted(self._file[group]) if group in self._file else []

    def has(self, name: str) -> bool:
        """Return whether there is a dataset or group of this name."""
        with self._guard(name):
            return name in self._objects or name in self._file

    def is_group(self, name: str) -> bool:
        """Return whether `name` is a group."""
        import h5py

        if name not in self._groups:
            with self._guard(name):
                self._groups[name] = self._file.get(name, getclass=True) is h5py.Group
        return self._groups[name]

    def attribute(self, name: str, key: str, kind: type[Any], default: Any = None) -> Any:
        """Return an attribute as `kind` (str, int or float).

        Raises
        ------
        DataError
            If the attribute is missing without a default, or is of another type.
        """
        with self._guard(name):
            attributes = self._object(name).attrs
            if key not in attributes:
                if default is None:
                    raise DataError(f"has no attribute '{key}'", where=self.where(name))
                return default
            if not _is_scalar(attributes.get_id(key), kind is str):
                raise DataError(f"attribute '{key}' is no {kind.__name__}", where=self.where(name))
            value = attributes[key]
            if kind is str:
                # h5py represents invalid UTF-8 by lone surrogates; decode strictly.
                value = (value if isinstance(value, bytes) else value.encode()).decode()
            return kind(value)

    def dataset(self, name: str, kinds: str, shape: tuple[int | None, ...] | None = None) -> ArrayInFile:
        """Return what is known of a dataset, after checking its type, shape and storage.

        Parameters
        ----------
        name : str
            Path in the file.
        kinds : str
            Allowed NumPy kinds of data type; "V" for records.
        shape : tuple, optional
            Expected shape, with None for an axis of any length.

        Raises
        ------
        DataError
            If the dataset is missing, of another type or shape, declares more data than the file contains, or
            refers to other files.
        """
        with self._guard(name):
            data = self._dataset(name, kinds, shape)
            return ArrayInFile(data.shape, data.dtype, data.chunks, data.nbytes)

    def _dataset(self, name: str, kinds: str, shape: tuple[int | None, ...] | None) -> Any:
        """Return the open dataset, which is checked once."""
        found = self._checked.get((name, kinds, shape))
        if found is None:
            found = self._checked[name, kinds, shape] = self._checked_dataset(name, kinds, shape)
        return found

    def _checked_dataset(self, name: str, kinds: str, shape: tuple[int | None, ...] | None) -> Any:
        import h5py

        self._check_links(name)
        try:
            data = self._object(name)
        except KeyError:
            if name in self._file:  # but cannot be opened
                raise
            data = None
        if not isinstance(data, h5py.Dataset):
            raise DataError("is missing", where=self.where(name))
        known = data.dtype.kind in kinds and _is_safe(data.dtype) and data.shape is not None
        if not known or data.dtype.itemsize != data.id.get_type().get_size():
            raise DataError(f"is of type {data.dtype}, which does not belong here", where=self.where(name))
        if shape is not None and not _fits(data.shape, shape):
            wanted = tuple("any" if n is None else n for n in shape)
            raise DataError(f"has shape {data.shape} instead of {wanted}", where=self.where(name))
        self._check_storage(name, data)
        return data

    def _object(self, name: str) -> Any:
        """Return a group or dataset, which stays open, after its texts are compared with their digests."""
        if name not in self._objects:
            found = self._file[name]
            if (key := changed_text(found)) is not None:
                what = f"attribute '{key}' has changed since it was written"
                mend = f"copy the file again; or, if it was edited, remove the attribute {TEXT_DIGESTS}"
                raise DataError(what, where=self.where(name), mend=mend)
            self._objects[name] = found
        return self._objects[name]

    def array(self, name: str, kinds: str, shape: tuple[int | None, ...] | None = None) -> AnyArray:
        """Return all values of a dataset; see `dataset`."""
        with self._guard(name):
            values: AnyArray = self._dataset(name, kinds, shape)[()]
        return values

    def rows(
        self, name: str, kinds: str, shape: tuple[int | None, ...], selection: tuple[Any, ...], where: str
    ) -> AnyArray:
        """Return a selection of a dataset, see `dataset`; `where` describes it for messages."""
        with self._guard(name, where):
            values: AnyArray = self._dataset(name, kinds, shape)[selection]
        return values

    def check_flac(self, name: str) -> None:
        """Check a group of samples compressed with FLAC.

        Raises
        ------
        DataError
            If the package flacarray is not installed, or the group is not valid.
        """
        with self._guard(name):
            self._flac(name)

    def _flac(self, name: str) -> Any:
        """Return the open group, which is checked once."""
        if (name, "flac", None) not in self._checked:
            self._checked[name, "flac", None] = self._checked_flac(name)
        return self._checked[name, "flac", None]

    def _checked_flac(self, name: str) -> Any:
        import h5py

        try:
            load_flacarray()
        except ImportError as error:
            what = "is compressed with FLAC, which needs the package flacarray"
            raise DataError(what, where=self.where(name), mend="pip install flacarray") from error
        self._check_links(name)
        group = self._object(name)
        if not isinstance(group, h5py.Group):
            raise DataError("is no group", where=self.where(name))
        for part in group:
            self.dataset(f"{name}/{part}", "fiu")
        return group

    def flac_rows(self, name: str, n_rows: int, place: Place, where: str) -> AnyArray:
        """Return rows of samples of a FLAC group with `n_rows` rows."""
        first, last, start, stop = place
        keep = (np.arange(n_rows) >= first) & (np.arange(n_rows) < last)
        with self._guard(name, where):
            group, read_array = self._flac(name), load_flacarray().read_array
            try:
                values: AnyArray = read_array(group, keep=keep, stream_slice=slice(start, stop))
            except RuntimeError:
                # FLAC's decoder does not find all places of a stream that is very small; whole, it is read
                values = np.atleast_2d(read_array(group, keep=keep))[:, start:stop]
        shape = last - first, stop - start
        if values.size != shape[0] * shape[1]:
            what = f"holds {values.size} of {shape[0] * shape[1]} samples"
            raise DataError(what, where=self.where(name, where))
        return values.reshape(shape)

    def where(self, name: str, part: str = "") -> str:
        """Return file, name and part for an error message."""
        return f"{self.path}, {name}" + (f", {part}" if part else "")

    @contextmanager
    def _guard(self, name: str, part: str = "") -> Iterator[None]:
        """Use the file, and convert what h5py raises of damaged ones to DataError; want of memory is none."""
        try:
            with self._lock:
                _in_use.add(self)
                yield
        except MemoryError as error:
            raise ResourceError(
                f"there is no memory to read it: {error}", where=self.where(name, part), mend=_NO_MEMORY
            ) from error
        except (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError) as error:
            what, mend = _reason(error)
            raise DataError(f"cannot be read: {what}", where=self.where(name, part), mend=mend) from error

    def _check_links(self, name: str) -> None:
        import h5py

        parts = [part for part in name.split("/") if part]
        for depth in range(len(parts)):
            part = "/".join(parts[: depth + 1])
            if part in self._hard_links:
                continue
            link = self._file.get(part, getlink=True)
            if link is not None and not isinstance(link, h5py.HardLink):
                raise DataError("is a link that could lead out of the file", where=self.where(part))
            self._hard_links.add(part)

    def _check_storage(self, name: str, data: Any) -> None:
        if data.external or data.is_virtual:
            raise DataError("keeps its values in other files", where=self.where(name))
        stored = data.id.get_storage_size()
        most = stored * (_MAX_COMPRESSION if data.id.get_create_plist().get_nfilters() else 1)
        if data.nbytes > most or stored > self.path.stat().st_size:
            raise DataError(
                f"declares {data.size} values, the file holds {stored} bytes of them", where=self.where(name)
            )


class _FilesInUse:
    """Files of this process that are open, the one used last at the end; those of long ago are closed."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._readers: OrderedDict[ref[Hdf5Reader], None] = OrderedDict()

    def add(self, reader: Hdf5Reader) -> None:
        """Take note that a file is used, and close others if they are too many."""
        own = ref(reader, self._forget)
        with self._lock:
            self._readers[own] = None
            self._readers.move_to_end(own)
            surplus = len(self._readers) - self._most
            for other in list(self._readers)[:surplus] if surplus > 0 else ():
                found = other()
                if found is None or (found is not reader and found.close_if_idle()):
                    self._forget(other)

    def _forget(self, reader: ref[Hdf5Reader]) -> None:
        self._readers.pop(reader, None)


_in_use = _FilesInUse(max(_MOST_OPEN, 2 * available_threads()))


@contextmanager
def add_location(location: str) -> Iterator[None]:
    """Prepend `location` to the location of a DataError raised in the context."""
    try:
        yield
    except DataError as error:
        where = f"{location}, {error.where}" if error.where else location
        raise DataError(error.what, where=where, mend=error.mend) from error


def _reason(error: Exception) -> tuple[str, str]:
    """Return what an error of h5py says, in words of the user, and the remedy."""
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return error.strerror, "check its path and permissions, or copy it again if the disk failed"
    said = " ".join(str(error.args[0] if error.args else type(error).__name__).split("\n")[0].split())
    known = (explained for words, *explained in _REASONS if words in said)
    what, mend = next(known, (said, DAMAGED))
    return what, mend


def _is_scalar(attribute: Any, text: bool) -> bool:
    """Return whether an attribute is a single text or number; HDF5 may crash for other types."""
    from h5py import h5t

    stored = attribute.get_type()
    number = isinstance(stored, h5t.TypeIntegerID | h5t.TypeFloatID) and stored.get_size() <= 8
    return attribute.shape == () and (isinstance(stored, h5t.TypeStringID) if text else number)


def _check_heaps(path: Path) -> None:
    """Raise DataError if a global heap is damaged: for inconsistent sizes HDF5 would loop forever.

    Heaps are created with the first attribute of variable length, hence they are near the beginning.
    """
    with require_file(path).open("rb") as file:
        size = min(file.seek(0, 2), _HEAPS_WITHIN)
        if not size:  # of which there is no map; HDF5 tells what is wrong
            return
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
            _check_heaps_of(content, path)


def _check_heaps_of(content: mmap.mmap, path: Path) -> None:
    begin = content.find(_HEAP_SIGNATURE)
    while begin >= 0:
        end = begin + int.from_bytes(content[begin + 8 : begin + 16], "little")
        offset = begin + 16
        while offset + 16 <= min(end, len(content)):
            index, _, _, size = struct.unpack_from("<HHIQ", content, offset)
            step = 16 + (size + 7) // 8 * 8 if index else size
            if step < 16 or offset + step > end:
                raise DataError(f"is damaged: a text of impossible size at byte {offset}", where=str(path))
            offset += step
        begin = content.find(_HEAP_SIGNATURE, begin + 8)


def _is_safe(dtype: np.dtype[Any]) -> bool:
    """Return whether a type consists of plain types that neither overlap nor exceed its size.

    HDF5 would convert others as well, and write out of the bounds of the NumPy array.
    """
    if dtype.subdtype is not None:
        return _is_safe(dtype.subdtype[0])
    if dtype.fields is not None:
        parts = sorted((offset, offset + part.itemsize, part) for part, offset, *_ in dtype.fields.values())
        ends = [0, *(end for _, end, _ in parts)]
        apart = all(begin >= end for (begin, _, _), end in zip(parts, ends, strict=False))
        return apart and max(ends) <= dtype.itemsize and all(_is_safe(part) for *_, part in parts)
    return dtype.kind == "S" or (dtype.kind in "fiu" and dtype.itemsize <= 8)


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(w in (None, n) for n, w in zip(shape, wanted, strict=True))
