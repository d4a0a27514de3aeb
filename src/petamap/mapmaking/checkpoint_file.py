"""Files of rows with keys, written by all ranks together and read by any number of them.

A file is a sequence of parts, then a head in JSON, its SHA-256, its length and a magic number. A part holds
keys and rows of one rank; the head tells kind, length and SHA-256 of each, so that every byte is under a sum.
Ranks write what they own, one beside the other, without a message; whoever reads deals out the parts, and
rows are sent to the ranks that own their keys then.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import require_file
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator, agree, agree_on_errors
from petamap.mapmaking.row_delivery import RowDelivery
from petamap.mapmaking.shared_files import open_part, replaced_file

_MAGIC = b"petamap checkpoint 1\n\0\0\0"
_TAIL = struct.Struct(f"<32sQ{len(_MAGIC)}s")
_PART_BYTES = 1 << 23
_WORD = 8

Head: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class KeyedRows:
    """Rows that this rank owns, by key.

    Attributes
    ----------
    keys : int64 (n_owned,)
        Distinct over all ranks.
    columns : sequence of float64 (n_owned, k)
        Values of a row, side by side.
    """

    keys: Int64Array
    columns: Sequence[FloatArray]

    @property
    def width(self) -> int:
        """Values of a row."""
        return sum(column.shape[1] for column in self.columns)

    def parts(self) -> Iterator[tuple[int, bytes]]:
        """Yield number of rows and bytes of each part: keys, then rows."""
        step = max(1, _PART_BYTES // (_WORD * (1 + self.width)))
        for first in range(0, len(self.keys), step):
            rows = slice(first, first + step)
            keys = np.ascontiguousarray(self.keys[rows], "<i8")
            values = np.concatenate([np.zeros((len(keys), 0)), *(one[rows] for one in self.columns)], axis=1)
            yield len(keys), keys.tobytes() + values.astype("<f8", copy=False).tobytes()

    @property
    def n_bytes(self) -> int:
        """Bytes of all parts."""
        return len(self.keys) * _WORD * (1 + self.width)


def write_rows(path: Path, comm: Communicator, head: Head, kinds: Mapping[str, KeyedRows]) -> None:
    """Write rows of several kinds and a head into a file, whole or not at all. Collective.

    Parameters
    ----------
    path : Path
        On a file system that all ranks see; its folder is made.
    head : mapping
        What JSON can hold, the same on all ranks.
    kinds : dict of str to KeyedRows
        The same kinds with rows of the same width on all ranks.

    Raises
    ------
    ResourceError
        On all ranks, if the file cannot be written; one that was at `path` is untouched.
    """
    sizes = comm.allgather(sum(rows.n_bytes for rows in kinds.values()))
    place = sum(sizes[: comm.rank])
    with replaced_file(comm, path) as temporary:
        table: list[tuple[str, int, str]] = []
        with agree_on_errors(comm), open_part(temporary, path) as file:
            file.seek(place)
            for kind, rows in kinds.items():
                for n, content in rows.parts():
                    file.write(content)
                    table.append((kind, n, hashlib.sha256(content).hexdigest()))
        tables = comm.gather(table)
        with agree_on_errors(comm):
            if tables is not None:
                widths = {kind: rows.width for kind, rows in kinds.items()}
                parts = [part for some in tables for part in some]
                text = json.dumps({**head, "widths": widths, "parts": parts}).encode()
                with open_part(temporary, path) as file:
                    file.seek(sum(sizes))
                    file.write(text + _TAIL.pack(hashlib.sha256(text).digest(), len(text), _MAGIC))


def read_head(path: Path, mend: str) -> Head:
    """Return the head of a file.

    Raises
    ------
    DataError
        If the file cannot be read, or is not whole; with the remedy `mend`.
    """
    try:
        with open(require_file(path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _TAIL.size, 0))
            tail = file.read(_TAIL.size)
            if len(tail) < _TAIL.size or not tail.endswith(_MAGIC):
                raise DataError("is no whole checkpoint", where=str(path), mend=mend)
            digest, length, _ = _TAIL.unpack(tail)
            place = size - _TAIL.size - length
            file.seek(max(place, 0))
            text = file.read(length) if place >= 0 else b""
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path), mend=mend) from error
    if place < 0 or hashlib.sha256(text).digest() != digest:
        raise DataError(
            "is damaged: its head has not the sum that it was written with", where=str(path), mend=mend
        )
    head: Head = json.loads(text)
    if place != sum(_part_bytes(head, part) for part in head["parts"]):
        raise DataError("is damaged: its length is not that of its parts", where=str(path), mend=mend)
    return head


def read_rows(
    path: Path, comm: Communicator, head: Head, keys: Mapping[str, Int64Array], mend: str
) -> dict[str, FloatArray]:
    """Return the rows of the keys that this rank owns, float64 (n_owned, width), by kind. Collective.

    Parameters
    ----------
    path : Path
    head : mapping
        As `read_head` has it, on all ranks.
    keys : dict of str to int64 (n_owned,)
        Over all ranks, the keys that were written, each once.
    mend : str
        Remedy of a file that is not right.

    Raises
    ------
    DataError
        On all ranks, if a part is damaged, or the file has other keys.
    """
    found: dict[str, FloatArray] = {}
    for kind, mine in keys.items():
        width = int(head["widths"][kind])
        rows, seen = np.zeros((len(mine), width)), np.zeros(len(mine), bool)
        delivery, known = RowDelivery(comm, mine), True
        for part_keys, values in _dealt_parts(path, comm, head, kind, mend):
            positions, arrived, all_known = delivery.deliver(part_keys, values)
            rows[positions], seen[positions] = arrived, True
            known &= all_known
        wrong = None if known and seen.all() else DataError("has other rows", where=str(path), mend=mend)
        agree(comm, wrong)
        found[kind] = rows
    return found


def _part_bytes(head: Head, part: tuple[str, int, str]) -> int:
    return _WORD * part[1] * (1 + int(head["widths"][part[0]]))


def _dealt_parts(
    path: Path, comm: Communicator, head: Head, kind: str, mend: str
) -> Iterator[tuple[Int64Array, FloatArray]]:
    """Yield keys and rows of one part a round on each rank, or none where fewer are left."""
    places = np.cumsum([0, *(_part_bytes(head, part) for part in head["parts"])])
    chosen = [number for number, part in enumerate(head["parts"]) if part[0] == kind]
    width = int(head["widths"][kind])
    for first in range(0, len(chosen), comm.size):
        keys, values = np.zeros(0, np.int64), np.zeros((0, width))
        with agree_on_errors(comm):
            if first + comm.rank < len(chosen):
                number = chosen[first + comm.rank]
                _, n, digest = head["parts"][number]
                content = _read(path, int(places[number]), int(places[number + 1]), mend)
                if hashlib.sha256(content).hexdigest() != digest:
                    what = f"is damaged: part {number + 1} of {len(head['parts'])} has another sum"
                    raise DataError(what, where=str(path), mend=mend)
                keys = np.frombuffer(content, "<i8", n).astype(np.int64)
                values = np.frombuffer(content, "<f8", n * width, n * _WORD).reshape(n, width)
        yield keys, values.astype(np.float64, copy=False)


def _read(path: Path, start: int, stop: int, mend: str) -> bytes:
    try:
        with open(require_file(path), "rb") as file:
            file.seek(start)
            return file.read(stop - start)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path), mend=mend) from error
