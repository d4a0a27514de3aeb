"""File of a Monte Carlo: allocated at once, then filled in place, row by row.

The content of the file depends only on configuration and data, not on ranks, batches or time. The row of a
realization is on the disk before its checksum and its status are: if a run is killed, rows with the status
"done" are complete, and all others are written again. So are rows that do not have their checksum.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from petacomm.base.errors import DataError, UserError
from petacomm.base.files import atomic_write, require_file, reserve_space, write_errors
from petacomm.base.typing import AnyArray, Int64Array, UInt8Array
from petamap.montecarlo.store_checksums import (
    COMPUTED,
    CONSTANT,
    ROWS,
    StoredArray,
    array_bytes,
    constant_checksums,
    row_checksum,
)

FORMAT, VERSION = "petamap-montecarlo", 3
TO_DO, DONE, FAILED, DAMAGED = 0, 1, 2, 3  # no file has the last as a status
ERROR_BYTES, HASH_BYTES = 240, 64
_FIXED = "fixed/status"
_COMPARED = 1 << 24  # bytes at once
_HEAD_BYTES = 1 << 16  # for headers, names and attributes of HDF5

Attributes: TypeAlias = Mapping[str, Any]
Content: TypeAlias = bytes | memoryview


@dataclass(frozen=True)
class StoreLayout:
    """Layout of a file.

    Attributes
    ----------
    numbers : (n,) int64
        Realization numbers, increasing.
    rows : dict of str to (shape, dtype)
        Arrays with a row for each realization: shape and type of a row.
    common : dict of str to array
        Arrays common to all realizations, known in advance.
    computed : dict of str to (shape, dtype)
        Arrays common to all realizations, computed in the run.
    attributes : dict
        Attributes of the file; ``run_id`` identifies the configuration.
    groups : dict of str to dict
        Attributes of groups.
    """

    numbers: Int64Array
    rows: Mapping[str, tuple[tuple[int, ...], Any]]
    common: Mapping[str, AnyArray]
    computed: Mapping[str, tuple[tuple[int, ...], Any]]
    attributes: Attributes
    groups: Mapping[str, Attributes]

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        n = len(self.numbers)
        each = sum(array_bytes(shape, kind) for shape, kind in self.rows.values())
        once = sum(array_bytes(shape, kind) for shape, kind in self.computed.values())
        own = 17  # number, status and checksum of a row
        return n * (each + own) + once + sum(array.nbytes for array in self.common.values())


def create_store(path: Path, layout: StoreLayout, old: Store | None = None) -> None:
    """Create a file atomically, with the finished rows of an older one of the same configuration.

    Raises
    ------
    ResourceError
        If there is not enough disk space; an existing file at `path` is not changed.
    """
    import h5py

    with atomic_write(path) as temporary:
        with open(temporary, "r+b") as file:
            # HDF5 reports a full disk late and in many lines.
            reserve_space(file, layout.n_bytes + _HEAD_BYTES)
        with h5py.File(temporary, "w", libver=("earliest", "v108")) as file:
            _attributes(file, {"format": FORMAT, "version": VERSION, "rows": tuple(layout.rows)})
            _attributes(file, layout.attributes)
            for name, attributes in layout.groups.items():
                _attributes(file.require_group(name), attributes)
            n = len(layout.numbers)
            _array(file, "numbers", (n,), np.int64)[...] = layout.numbers
            _array(file, "status", (n,), np.uint8)
            for name, (shape, kind) in layout.rows.items():
                _array(file, name, (n, *shape), kind)
            for name, (shape, kind) in layout.computed.items():
                _array(file, name, shape, kind)
            for name, array in layout.common.items():
                _array(file, name, array.shape, array.dtype)[...] = array
            _array(file, ROWS, (n,), "<u8")
            _array(file, COMPUTED, (1,), "<u8")
            _array(file, CONSTANT, (len(layout.common) + 2,), "<u8")  # the numbers and the header, too
        with Store(temporary) as new:
            new.seal()
            if old is not None:
                new.copy_finished(old)


def _attributes(item: Any, attributes: Attributes) -> None:
    for name, value in attributes.items():
        if isinstance(value, str):
            value = np.array(value.encode(), f"S{max(len(value.encode()), 1)}")
        elif isinstance(value, tuple):
            value = np.array([word.encode() for word in value])
        item.attrs.create(name, value)


def plain_attribute(value: Any) -> Any:
    """Return an attribute in the form in which it was written."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray) and value.dtype.kind in "SO":
        return tuple(plain_attribute(word) for word in value.tolist())
    return value


def _array(file: Any, name: str, shape: tuple[int, ...], kind: Any) -> Any:
    """Create an array that is allocated at once, without a time stamp; floats are initialized with nan."""
    import h5py

    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_ALLOC)
    properties.set_obj_track_times(False)
    if np.dtype(kind).kind == "f":
        properties.set_fill_value(np.array(np.nan, kind))
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    space, stored = h5py.h5s.create_simple(shape), h5py.h5t.py_create(np.dtype(kind), logical=True)
    return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), stored, space, properties, links))


class Store:
    """File of a Monte Carlo, for reading and writing. Several processes may write different rows.

    Parameters
    ----------
    path : Path
    writes : bool, optional
        False opens the file for reading alone.

    Attributes
    ----------
    numbers : (n,) int64
    attributes : dict
        Attributes of the file, with text as str.

    Raises
    ------
    DataError
        If the file is not a Monte Carlo file.
    """

    def __init__(self, path: Path, writes: bool = True) -> None:
        import h5py

        self.path = path
        self.attributes: dict[str, Any] = {}
        self._arrays: dict[str, StoredArray] = {}
        self._file: int | None = None
        try:
            with h5py.File(require_file(path), "r") as file:
                for name, value in file.attrs.items():
                    self.attributes[name] = plain_attribute(value)
                file.visititems(self._note)
        except UserError:  # what a signal raises, too
            raise
        except Exception as error:  # of whatever kind HDF5, h5py and NumPy make of damaged headers
            what = getattr(error, "strerror", None) or "is no HDF5 file, or damaged"
            raise DataError(what, where=str(path), mend="choose another --out") from error
        if self.attributes.get("format") != FORMAT or self.attributes.get("version") != VERSION:
            raise DataError(
                f"is no file of format {FORMAT} {VERSION}", where=str(path), mend="choose another --out"
            )
        self._file = os.open(path, os.O_RDWR if writes else os.O_RDONLY)
        self._check_arrays()
        self.numbers: Int64Array = self.read("numbers")

    def _check_arrays(self) -> None:
        """Raise a DataError unless all arrays of the format are there and within the file."""
        rows = self.attributes.get("rows")
        names = (*rows, "numbers", "status", ROWS) if isinstance(rows, tuple) else ()
        missing = not {*names, COMPUTED, CONSTANT} <= set(self._arrays)
        n = None if missing else self._arrays["numbers"].shape
        uneven = not names or missing or any(self._arrays[name].shape[:1] != n for name in names)
        n_bytes = os.stat(self.path).st_size
        if uneven or any(
            one.offset + one.n_bytes > n_bytes or one.kind.hasobject for one in self._arrays.values()
        ):
            self.close()
            raise DataError("is damaged in its header", where=str(self.path), mend="choose another --out")

    def _note(self, name: str, item: Any) -> None:
        if not isinstance(name, str):
            raise ValueError("a name is no text")
        if hasattr(item, "shape"):
            offset = item.id.get_offset()
            self._arrays[name] = StoredArray(name, 0 if offset is None else offset, item.shape, item.dtype)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of the arrays with a row for each realization, except numbers and status."""
        names: tuple[str, ...] = self.attributes["rows"]
        return names

    @property
    def computed(self) -> tuple[str, ...]:
        """Names of the arrays common to all realizations that are computed in the run."""
        return tuple(sorted(name for name in self._arrays if name.startswith("fixed/") and name != _FIXED))

    @property
    def computed_status(self) -> int:
        """Current status of the arrays that are computed once: TO_DO or DONE."""
        return int(self.read(_FIXED)[0]) if _FIXED in self._arrays else TO_DO

    def seal(self) -> None:
        """Write the checksums of all that does not change from now on."""
        found = np.array(list(self._constant_checksums().values()), "<u8")
        self._put(self._arrays[CONSTANT].offset, found.tobytes())

    def damaged_constants(self) -> tuple[str, ...]:
        """Return the names of what should not have changed but has: arrays, or the ``header``."""
        stored = self.read(CONSTANT)
        found = self._constant_checksums()
        if len(stored) != len(found):
            return tuple(found)
        return tuple(name for name, old in zip(found, stored.tolist(), strict=True) if found[name] != old)

    def _constant_checksums(self) -> dict[str, int]:
        changing = {*self.rows, *self.computed, "status", _FIXED, ROWS, COMPUTED, CONSTANT}
        n_bytes = os.stat(self.path).st_size
        return constant_checksums(self._read, n_bytes, self._arrays, set(self._arrays) - changing)

    def verified_status(self) -> UInt8Array:
        """Return the status of each realization by the checksum of its row, uint8 (n,).

        A row whose checksum has been written is complete, whatever its status says. `DAMAGED` rows have
        changed since they were written.
        """
        # Another process may write: status is read first, as it is written last.
        status, stored = self.status, self.read(ROWS).tolist()
        found = [self._verified(row, int(status[row]), stored[row]) for row in range(len(stored))]
        return np.array(found, np.uint8)

    def _verified(self, row: int, status: int, checksum: int) -> int:
        if checksum == 0:
            return TO_DO if status == TO_DO else DAMAGED
        # one array after the other: a row of maps is as large as these
        name, of_row = self._row_name(int(self.numbers[row])), partial(self._row_parts, row)
        return next((one for one in (DONE, FAILED) if row_checksum(name, one, of_row()) == checksum), DAMAGED)

    def _row_parts(self, row: int) -> Iterator[tuple[StoredArray, bytes]]:
        for name in sorted(self.rows):
            item = self._arrays[name]
            yield item, self._read(item.offset + row * item.row_bytes, item.row_bytes)

    def verified_computed(self) -> int:
        """Return the status of the arrays that are computed once, by their checksum."""
        if _FIXED not in self._arrays:
            return TO_DO
        status, checksum = self.computed_status, int(self.read(COMPUTED)[0])
        if checksum == 0:
            return TO_DO if status == TO_DO else DAMAGED
        parts = [(self._arrays[name], self.read(name).tobytes()) for name in self.computed]
        return DONE if row_checksum(self._row_name("fixed"), DONE, parts) == checksum else DAMAGED

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def read(self, name: str) -> AnyArray:
        """Return the current content of an array."""
        item = self._arrays[name]
        return np.frombuffer(self.read_bytes(name), item.kind).reshape(item.shape)

    def read_pixels(self, name: str, pixels: Int64Array) -> AnyArray:
        """Return some pixels of a map, (n_rows, n), of which a piece is in memory at a time."""
        item = self._arrays[name]
        width, step = item.kind.itemsize, _COMPARED // item.kind.itemsize
        order = np.argsort(pixels)
        found = np.empty((item.shape[0], len(pixels)), item.kind)
        for begin in range(0, item.shape[1], step):
            end = min(begin + step, item.shape[1])
            numbers = self._pixel_numbers(begin, end)
            ends = numbers[0], numbers[-1] + 1
            inside = order[slice(*np.searchsorted(pixels, ends, sorter=order))]
            places = np.searchsorted(numbers, pixels[inside])
            for row in range(item.shape[0]):
                place = item.offset + row * item.row_bytes + begin * width
                piece = np.frombuffer(self._read(place, (end - begin) * width), item.kind)
                found[row, inside] = piece[places]
        return found

    def _pixel_numbers(self, begin: int, end: int) -> Int64Array:
        """Return the numbers of some pixels of the maps of the file: all, or those that it names."""
        if "pixels" not in self:
            return np.arange(begin, end)
        width = np.dtype(np.int64).itemsize
        piece = self._read(self._arrays["pixels"].offset + begin * width, (end - begin) * width)
        return np.frombuffer(piece, np.int64)

    def read_bytes(self, name: str) -> bytes:
        """Return the current bytes of an array."""
        item = self._arrays[name]
        return self._read(item.offset, item.n_bytes)

    def has_bytes(self, name: str, array: AnyArray) -> bool:
        """Return whether the current bytes of an array are those of another, C-contiguous one."""
        item, content = self._arrays[name], array.reshape(-1).view(np.uint8)
        starts = range(0, item.n_bytes, _COMPARED)
        return len(content) == item.n_bytes and all(
            np.array_equal(
                np.frombuffer(self._read(item.offset + at, min(_COMPARED, item.n_bytes - at)), np.uint8),
                content[at : at + _COMPARED],
            )
            for at in starts
        )

    @property
    def status(self) -> UInt8Array:
        """Current status of each realization, uint8 (n,): TO_DO, DONE or FAILED."""
        return self.read("status")

    def write(self, number: int, values: Mapping[str, AnyArray], status: int = DONE) -> None:
        """Write the row of a realization, and return after it is on the disk.

        Raises
        ------
        ResourceError
            If the row cannot be written; finished rows do not change.
        """
        row = int(np.searchsorted(self.numbers, number))
        parts = [(self._arrays[name], self._row_content(name, values)) for name in sorted(self.rows)]
        checksum = row_checksum(self._row_name(number), status, parts)
        with self._writing():
            for item, content in parts:
                self._put(item.offset + row * item.row_bytes, content)
            self._done(ROWS, row, checksum, "status", status)

    def _row_name(self, number: int | str) -> str:
        return f"{self.attributes.get('run_id')} {number}"

    def _row_content(self, name: str, values: Mapping[str, AnyArray]) -> Content:
        item = self._arrays[name]
        content = _content(values[name], item) if name in values else item.row_fill
        if len(content) != item.row_bytes:
            raise ValueError(f"{name}: a row has {item.row_bytes} bytes, not {len(content)}")
        return content

    def fail(self, number: int, error: str) -> None:
        """Record the failure of a realization and its error."""
        text = np.array(error.encode()[:ERROR_BYTES], f"S{ERROR_BYTES}")
        self.write(number, {"error": text}, FAILED)

    def write_once(self, values: Mapping[str, AnyArray]) -> None:
        """Write the `computed` arrays, all of them, then ``fixed/status``."""
        items = [self._arrays[name] for name in sorted(values)]
        parts = [(item, _content(values[item.name], item)) for item in items]
        with self._writing():
            for item, content in parts:
                self._put(item.offset, content)
            self._done(COMPUTED, 0, row_checksum(self._row_name("fixed"), DONE, parts), _FIXED, DONE)

    def copy_finished(self, old: Store) -> None:
        """Copy the finished rows of another file of the same configuration that have their checksums."""
        status = old.verified_status()
        for row in np.flatnonzero(np.isin(status, (DONE, FAILED)) & np.isin(old.numbers, self.numbers)):
            values = {name: old.read_row(name, int(row)) for name in self.rows}
            self.write(int(old.numbers[row]), values, int(status[row]))
        if old.verified_computed() == DONE:
            self.write_once({name: old.read(name) for name in old.computed})

    def read_row(self, name: str, row: int) -> AnyArray:
        """Return a row of an array."""
        item = self._arrays[name]
        content = self._read(item.offset + row * item.row_bytes, item.row_bytes)
        return np.frombuffer(content, item.kind).reshape(item.shape[1:])

    def _done(self, checksums: str, row: int, checksum: int, name: str, status: int) -> None:
        """Write checksum and status of what has been written, after that is on the disk."""
        assert self._file is not None
        os.fsync(self._file)
        self._put(self._arrays[checksums].offset + 8 * row, checksum.to_bytes(8, "little"))
        self._put(self._arrays[name].offset + row, bytes([status]))
        os.fsync(self._file)

    def _read(self, offset: int, n_bytes: int) -> bytes:
        assert self._file is not None
        parts = []
        while n_bytes:
            part = os.pread(self._file, min(n_bytes, 1 << 30), offset)
            if not part:
                raise DataError("ends too early", where=str(self.path))
            parts.append(part)
            offset, n_bytes = offset + len(part), n_bytes - len(part)
        return b"".join(parts)

    def _put(self, offset: int, data: Content) -> None:
        assert self._file is not None
        view = memoryview(data)
        while view:
            n = os.pwrite(self._file, view, offset)
            view, offset = view[n:], offset + n

    def _writing(self) -> Any:
        return write_errors(self.path, mend="free space and run again: what is finished stays")


def _content(values: AnyArray, item: StoredArray) -> memoryview:
    """Return the bytes of an array as it is stored, which is not copied where it is alike."""
    return np.ascontiguousarray(values, item.kind).reshape(-1).view(np.uint8).data
