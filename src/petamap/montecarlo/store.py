"""File of a Monte Carlo: allocated at once, then filled in place, row by row.

The content of the file depends only on configuration and data, not on ranks, batches or time. The row of a
realization is on the disk before its status is set: if a run is killed, rows with the status "done" are
complete, and all others are written again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import atomic_write, require_file, write_errors
from petacomm.base.typing import AnyArray, Int64Array, UInt8Array

FORMAT, VERSION = "petamap-montecarlo", 1
TO_DO, DONE, FAILED = 0, 1, 2
ERROR_BYTES, HASH_BYTES = 240, 64
_HEAD_BYTES = 1 << 16  # for headers, names and attributes of HDF5

Attributes: TypeAlias = Mapping[str, Any]


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
        each = sum(_bytes(shape, kind) for shape, kind in self.rows.values())
        once = sum(_bytes(shape, kind) for shape, kind in self.computed.values())
        return n * (each + 9) + once + sum(array.nbytes for array in self.common.values())


def _bytes(shape: tuple[int, ...], kind: Any) -> int:
    return int(np.prod(shape, dtype=np.int64)) * int(np.dtype(kind).itemsize)


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
            os.posix_fallocate(file.fileno(), 0, layout.n_bytes + _HEAD_BYTES)
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
        if old is not None:
            with Store(temporary) as new:
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


@dataclass(frozen=True)
class _ArrayInfo:
    """Position, shape and type of an array in the file."""

    offset: int
    shape: tuple[int, ...]
    kind: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        return _bytes(self.shape[1:], self.kind)


class Store:
    """File of a Monte Carlo, for reading and writing. Several processes may write different rows.

    Parameters
    ----------
    path : Path

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

    def __init__(self, path: Path) -> None:
        import h5py

        self.path = path
        self.attributes: dict[str, Any] = {}
        self._arrays: dict[str, _ArrayInfo] = {}
        self._file: int | None = None
        try:
            with h5py.File(require_file(path), "r") as file:
                for name, value in file.attrs.items():
                    self.attributes[name] = plain_attribute(value)
                file.visititems(self._note)
        except OSError as error:
            what = error.strerror or "is no HDF5 file"
            raise DataError(what, where=str(path), mend="choose another --out") from error
        if self.attributes.get("format") != FORMAT or self.attributes.get("version") != VERSION:
            raise DataError(
                f"is no file of format {FORMAT} {VERSION}", where=str(path), mend="choose another --out"
            )
        self._file = os.open(path, os.O_RDWR)
        self.numbers: Int64Array = self.read("numbers")

    def _note(self, name: str, item: Any) -> None:
        if hasattr(item, "shape"):
            offset = item.id.get_offset()
            self._arrays[name] = _ArrayInfo(0 if offset is None else offset, item.shape, item.dtype)

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

    def read(self, name: str) -> AnyArray:
        """Return the current content of an array."""
        item = self._arrays[name]
        content = self._read(item.offset, _bytes(item.shape, item.kind))
        return np.frombuffer(content, item.kind).reshape(item.shape)

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
        with self._writing():
            for name, value in values.items():
                item = self._arrays[name]
                data = np.ascontiguousarray(value, item.kind).tobytes()
                if len(data) != item.row_bytes:
                    raise ValueError(f"{name}: a row has {item.row_bytes} bytes, not {len(data)}")
                self._put(item.offset + row * item.row_bytes, data)
            self._done("status", row, status)

    def fail(self, number: int, error: str) -> None:
        """Record the failure of a realization and its error."""
        text = np.array(error.encode()[:ERROR_BYTES], f"S{ERROR_BYTES}")
        self.write(number, {"error": text}, FAILED)

    def write_once(self, values: Mapping[str, AnyArray]) -> None:
        """Write arrays common to all realizations, then ``fixed/status``."""
        with self._writing():
            for name, value in values.items():
                item = self._arrays[name]
                self._put(item.offset, np.ascontiguousarray(value, item.kind).tobytes())
            self._done("fixed/status", 0, DONE)

    def copy_finished(self, old: Store) -> None:
        """Copy the finished rows of another file of the same configuration."""
        finished = old.status
        for row, number in enumerate(old.numbers):
            if finished[row] != TO_DO:
                values = {name: old.read_row(name, row) for name in old.rows}
                self.write(int(number), values, int(finished[row]))
        if "fixed/status" in old._arrays and old.read("fixed/status")[0] == DONE:
            names = [name for name in old._arrays if name.startswith("fixed/") and name != "fixed/status"]
            self.write_once({name: old.read(name) for name in names})

    def read_row(self, name: str, row: int) -> AnyArray:
        """Return a row of an array."""
        item = self._arrays[name]
        content = self._read(item.offset + row * item.row_bytes, item.row_bytes)
        return np.frombuffer(content, item.kind).reshape(item.shape[1:])

    def _done(self, name: str, row: int, status: int) -> None:
        assert self._file is not None
        os.fsync(self._file)
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

    def _put(self, offset: int, data: bytes) -> None:
        assert self._file is not None
        view = memoryview(data)
        while view:
            n = os.pwrite(self._file, view, offset)
            view, offset = view[n:], offset + n

    def _writing(self) -> Any:
        return write_errors(self.path, mend="free space and run again: what is finished stays")


def open_store(path: Path, layout: StoreLayout, force: bool) -> Store:
    """Return the file of a layout: new, existing, or existing and extended by realizations.

    Raises
    ------
    ConfigError
        If there is a file of another configuration, or with realizations that are not in the layout.
    """
    old = existing_store(path, str(layout.attributes["run_id"]), layout.numbers, force)
    if old is not None:
        for name, array in layout.common.items():
            if not np.array_equal(old.read(name), array):
                raise ConfigError(
                    f"was made with other {name}: the data have changed", where=str(path),
                    mend="--force starts anew; or choose another --out",
                )  # fmt: skip
        if np.array_equal(old.numbers, layout.numbers):
            return old
    create_store(path, layout, old)
    if old is not None:
        old.close()
    return Store(path)


def existing_store(path: Path, run_id: str, numbers: Sequence[int] | Int64Array, force: bool) -> Store | None:
    """Return the existing file if it can be continued; None if there is none or `force` is set.

    Raises
    ------
    ConfigError
        If the file is of another configuration, or has realizations that are not in `numbers`.
    """
    if force or not path.exists():
        return None
    mend = "--force starts anew; or choose another --out"
    try:
        old = Store(path)
    except DataError as error:
        raise ConfigError(error.what, where=str(path), mend=mend) from None
    if old.attributes.get("run_id") != run_id:
        raise ConfigError("is of another configuration", where=str(path), mend=mend)
    if not np.isin(old.numbers, numbers).all():
        raise ConfigError(
            f"holds realizations {old.numbers[0]} to {old.numbers[-1]}", where=str(path),
            mend="ask for these and more, or choose another --out",
        )  # fmt: skip
    return old
