"""The file of a Monte Carlo: laid out whole at once, then filled in place, row by row.

What the file holds depends on configuration and data alone: nothing in it tells ranks, batches or time. The
rows of a realization are on the disk before the byte that says so; whatever moment a run is killed at, a row
that is said to be done is whole, and all others are written again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import replacing, writing
from petacomm.base.typing import AnyArray, Int64Array, UInt8Array

FORMAT, VERSION = "petamap-montecarlo", 1
TO_DO, DONE, FAILED = 0, 1, 2
ERROR_BYTES, HASH_BYTES = 240, 64
# HDF5's own part of the file: headers, names, attributes.
_HEAD_BYTES = 1 << 16

Attributes: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Layout:
    """What a file is to hold.

    Attributes
    ----------
    numbers : (n,) int64
        The realizations, increasing.
    rows : dict of str to (shape, dtype)
        What each realization has: the shape of its row.
    whole : dict of str to array
        What all have in common, known beforehand.
    later : dict of str to (shape, dtype)
        What all have in common, found in the run.
    attributes : dict
        Of the file; ``run_id`` stands for the configuration.
    groups : dict of str to dict
        Attributes of groups.
    """

    numbers: Int64Array
    rows: Mapping[str, tuple[tuple[int, ...], Any]]
    whole: Mapping[str, AnyArray]
    later: Mapping[str, tuple[tuple[int, ...], Any]]
    attributes: Attributes
    groups: Mapping[str, Attributes]

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        n = len(self.numbers)
        each = sum(_bytes(shape, kind) for shape, kind in self.rows.values())
        once = sum(_bytes(shape, kind) for shape, kind in self.later.values())
        return n * (each + 9) + once + sum(array.nbytes for array in self.whole.values())


def _bytes(shape: tuple[int, ...], kind: Any) -> int:
    return int(np.prod(shape, dtype=np.int64)) * int(np.dtype(kind).itemsize)


def lay_out(path: Path, layout: Layout, old: Store | None = None) -> None:
    """Make the file, with the rows of an older one of the same configuration. Whole or not at all.

    Raises
    ------
    ResourceError
        If there is no room for it; what stood at `path` is untouched.
    """
    import h5py

    with replacing(path) as temporary:
        with open(temporary, "r+b") as file:
            # a full disk is told by HDF5 in many lines, and late
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
            for name, (shape, kind) in layout.later.items():
                _array(file, name, shape, kind)
            for name, array in layout.whole.items():
                _array(file, name, array.shape, array.dtype)[...] = array
        if old is not None:
            with Store(temporary) as new:
                new.take(old)


def _attributes(place: Any, attributes: Attributes) -> None:
    for name, value in attributes.items():
        if isinstance(value, str):
            value = np.array(value.encode(), f"S{max(len(value.encode()), 1)}")
        elif isinstance(value, tuple):
            value = np.array([word.encode() for word in value])
        place.attrs.create(name, value)


def _plain(value: Any) -> Any:
    """Return an attribute as it was given."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray) and value.dtype.kind == "S":
        return tuple(word.decode() for word in value.tolist())
    return value


def _array(file: Any, name: str, shape: tuple[int, ...], kind: Any) -> Any:
    """Make an array that has its place in the file at once, without a time; reals are nan at first."""
    import h5py

    place = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    place.set_layout(h5py.h5d.CONTIGUOUS)
    place.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    place.set_fill_time(h5py.h5d.FILL_TIME_ALLOC)
    place.set_obj_track_times(False)
    if np.dtype(kind).kind == "f":
        place.set_fill_value(np.array(np.nan, kind))
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    space, stored = h5py.h5s.create_simple(shape), h5py.h5t.py_create(np.dtype(kind), logical=True)
    return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), stored, space, place, links))


@dataclass(frozen=True)
class _Place:
    offset: int
    shape: tuple[int, ...]
    kind: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        return _bytes(self.shape[1:], self.kind)


class Store:
    """A file that was laid out, to be filled and read. Several processes may fill rows of their own.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    numbers : (n,) int64
    attributes : dict
        Text as str.

    Raises
    ------
    DataError
        If it is no such file.
    """

    def __init__(self, path: Path) -> None:
        import h5py

        self.path = path
        self.attributes: dict[str, Any] = {}
        self._places: dict[str, _Place] = {}
        self._file: int | None = None
        try:
            with h5py.File(path, "r") as file:
                for name, value in file.attrs.items():
                    self.attributes[name] = _plain(value)
                file.visititems(self._note)
        except OSError as error:
            raise DataError("is no HDF5 file", where=str(path), mend="choose another --out") from error
        if self.attributes.get("format") != FORMAT or self.attributes.get("version") != VERSION:
            raise DataError(
                f"is no file of format {FORMAT} {VERSION}", where=str(path), mend="choose another --out"
            )
        self._file = os.open(path, os.O_RDWR)
        self.numbers: Int64Array = self.read("numbers")

    def _note(self, name: str, item: Any) -> None:
        if hasattr(item, "shape"):
            offset = item.id.get_offset()
            self._places[name] = _Place(0 if offset is None else offset, item.shape, item.dtype)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def rows(self) -> tuple[str, ...]:
        """The arrays that have a row a realization, but for numbers and status."""
        found: tuple[str, ...] = self.attributes["rows"]
        return found

    def read(self, name: str) -> AnyArray:
        """Return a whole array as it is in the file now."""
        place = self._places[name]
        found = self._read(place.offset, _bytes(place.shape, place.kind))
        return np.frombuffer(found, place.kind).reshape(place.shape)

    @property
    def status(self) -> UInt8Array:
        """What became of each realization so far, (n,)."""
        found: UInt8Array = self.read("status")
        return found

    def row_of(self, number: int) -> int:
        """Return the row of a realization."""
        return int(np.searchsorted(self.numbers, number))

    def write(self, number: int, values: Mapping[str, AnyArray], status: int = DONE) -> None:
        """Write the row of a realization: when this returns it is on the disk.

        Raises
        ------
        ResourceError
            If it cannot be written; finished rows stay as they are.
        """
        row = self.row_of(number)
        with self._writing():
            for name, value in values.items():
                place = self._places[name]
                data = np.ascontiguousarray(value, place.kind).tobytes()
                if len(data) != place.row_bytes:
                    raise ValueError(f"{name}: a row has {place.row_bytes} bytes, not {len(data)}")
                self._put(place.offset + row * place.row_bytes, data)
            self._done("status", row, status)

    def fail(self, number: int, error: str) -> None:
        """Write that a realization failed, and why."""
        text = np.array(error.encode()[:ERROR_BYTES], f"S{ERROR_BYTES}")
        self.write(number, {"error": text}, FAILED)

    def write_once(self, values: Mapping[str, AnyArray]) -> None:
        """Write what all realizations have in common, ``fixed/status`` last."""
        with self._writing():
            for name, value in values.items():
                place = self._places[name]
                self._put(place.offset, np.ascontiguousarray(value, place.kind).tobytes())
            self._done("fixed/status", 0, DONE)

    def take(self, old: Store) -> None:
        """Copy what another file of the same configuration has finished."""
        finished = old.status
        for row, number in enumerate(old.numbers):
            if finished[row] != TO_DO:
                values = {name: old.read_row(name, row) for name in old.rows}
                self.write(int(number), values, int(finished[row]))
        if "fixed/status" in old._places and old.read("fixed/status")[0] == DONE:
            names = [name for name in old._places if name.startswith("fixed/") and name != "fixed/status"]
            self.write_once({name: old.read(name) for name in names})

    def read_row(self, name: str, row: int) -> AnyArray:
        """Return one row of an array."""
        place = self._places[name]
        found = self._read(place.offset + row * place.row_bytes, place.row_bytes)
        return np.frombuffer(found, place.kind).reshape(place.shape[1:])

    def _done(self, name: str, row: int, status: int) -> None:
        assert self._file is not None
        os.fsync(self._file)
        self._put(self._places[name].offset + row, bytes([status]))
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
        return writing(self.path, mend="free space and run again: what is finished stays")


def opened(path: Path, layout: Layout, force: bool) -> Store:
    """Return the file of a layout: made, found and gone on with, or grown.

    Raises
    ------
    ConfigError
        If there is a file of another configuration, or with realizations that are not asked for.
    """
    old = existing(path, str(layout.attributes["run_id"]), layout.numbers, force)
    if old is not None:
        same = np.array_equal(old.numbers, layout.numbers)
        for name, array in layout.whole.items():
            if not np.array_equal(old.read(name), array):
                raise ConfigError(
                    f"was made with other {name}: the data have changed", where=str(path),
                    mend="--force starts anew; or choose another --out",
                )  # fmt: skip
        if same:
            return old
    lay_out(path, layout, old)
    if old is not None:
        old.close()
    return Store(path)


def existing(path: Path, run_id: str, numbers: Sequence[int] | Int64Array, force: bool) -> Store | None:
    """Return the file that is there and can be gone on with; None where there is none or `force` is set.

    Raises
    ------
    ConfigError
        If it is of another configuration, or has realizations that are not among `numbers`.
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
