"""Maps divided into slabs, one per rank: no rank holds a full map, and all write one file together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petacomm.mpi import Communicator, agree_on_errors
from petacomm.mpi.persistent import AlltoallvBuffers
from petamap.mapmaking.shared_files import open_part, replaced_file
from petamap.sky.checksum import fold_carries, word_sum
from petamap.sky.map_data import PIECE_BYTES, MapDataLayout
from petamap.sky.map_header import MapHeader

# Slabs begin at multiples of this many rows.
ALIGNMENT = 64
# Values of a column that rank 0 receives at once.
_STREAM = 1 << 18
# Bytes of headers and other small arrays.
_SMALL = 1 << 18


def slab_bounds(n_rows: int, size: int) -> Int64Array:
    """Return the first row of each rank's slab and, at the end, `n_rows`: (size + 1,)."""
    height = -(-n_rows // (size * ALIGNMENT)) * ALIGNMENT
    return np.minimum(np.arange(size + 1, dtype=np.int64) * height, n_rows)


def slab_bytes(n_rows: int, n_columns: int, size: int, n_owned: int) -> int:
    """Return the most bytes that a rank allocates to write a map, beside the map itself.

    Parameters
    ----------
    n_rows, n_columns : int
        Of the file.
    size : int
        Ranks.
    n_owned : int
        Pixels that the rank owns.
    """
    height = int(slab_bounds(n_rows, size)[1])
    received = min(height, size * n_owned)  # other ranks own about as many
    route = 8 * (n_owned + received)
    # during set-up: rows of pixels; ranks, order and sorted rows; rows received
    finding = 8 * (4 * n_owned + 2 * received)
    row = 8 * n_columns
    # values sent and received, then received and stored
    moving = row * (received + max(n_owned, height))
    streaming = 2 * 8 * _STREAM
    writing_pieces = 4 * PIECE_BYTES
    return _SMALL + max(finding, route + max(moving, row * height + max(streaming, writing_pieces)))


class Slabs:
    """Slabs of rows of a map, one per rank, and the way of rows from the owners of pixels. Collective.

    Parameters
    ----------
    comm : Communicator
    n_rows : int
    rows : (n_owned,) int64
        The row of each pixel that this rank owns; all distinct over all ranks.

    Attributes
    ----------
    bounds : (size + 1,) int64
        First row of each rank's slab.
    """

    def __init__(self, comm: Communicator, n_rows: int, rows: Int64Array) -> None:
        self.comm = comm
        self.n_rows = n_rows
        self.bounds = slab_bounds(n_rows, comm.size)
        self._sent = np.argsort(rows)
        sent = rows[self._sent]
        self._counts = np.diff(np.searchsorted(sent, self.bounds))
        received, _ = comm.alltoallv(sent, self._counts)
        self._received = received - self.first

    @property
    def first(self) -> int:
        """First row of this rank's slab."""
        return int(self.bounds[self.comm.rank])

    @property
    def height(self) -> int:
        """Rows of this rank's slab."""
        return int(self.bounds[self.comm.rank + 1]) - self.first

    def collect(self, values: AnyArray) -> FloatArray:
        """Return this rank's slab, float64 (height, n_columns), nan where no rank owns a row. Collective.

        Parameters
        ----------
        values : (n_owned, n_columns)
            Of the pixels that this rank owns.
        """
        # The sent copy is freed before the slab is allocated.
        received, _ = self.comm.alltoallv(values[self._sent].astype(np.float64, copy=False), self._counts)
        slab = np.full((self.height, values.shape[1]), np.nan)
        slab[self._received] = received
        return slab

    def stream(self, slab: FloatArray) -> Iterator[tuple[int, int, FloatArray]]:
        """Yield all values on rank 0, column by column: column, first row, some values. Collective.

        Other ranks yield nothing, but must iterate too.
        """
        rank, size = self.comm.rank, self.comm.size
        for column in range(slab.shape[1]):
            for begin in range(0, self.n_rows, _STREAM):
                parts = np.clip(self.bounds, begin, min(begin + _STREAM, self.n_rows))
                counts = np.diff(parts) if rank == 0 else np.zeros(size, np.int64)
                own = slab[parts[rank] - self.first : parts[rank + 1] - self.first, column]
                to_root = np.zeros(size, np.int64)
                to_root[0] = len(own)
                piece = np.empty(int(counts.sum()))
                sent = np.ascontiguousarray(own)
                self.comm.alltoallv_into(
                    AlltoallvBuffers(sent, to_root, piece, counts, int(parts[-1] - begin))
                )
                if rank == 0:
                    yield column, begin, piece


def write_slabs(path: Path, head: MapHeader | None, slabs: Slabs, slab: FloatArray) -> None:
    """Write a map file, each rank its slab, whole or not at all. Collective.

    Parameters
    ----------
    path : Path
        On a file system that all ranks see.
    head : MapHeader
        On rank 0.
    slab : (height, n_columns)

    Raises
    ------
    ResourceError
        On all ranks, if the file cannot be written. A file that was at `path` is untouched.
    """
    comm = slabs.comm
    data: MapDataLayout = comm.bcast(head.data if head is not None else None)
    with replaced_file(comm, path) as temporary:
        total = 0
        with agree_on_errors(comm), open_part(temporary, path) as file:
            for place, piece in data.pieces(slabs.first, slab):
                file.seek(place)
                file.write(piece)
                total += word_sum(piece)
        total = fold_carries(comm.sum(fold_carries(total)))
        with agree_on_errors(comm):
            if head is not None:
                with open_part(temporary, path) as file:
                    file.write(head.to_bytes(total))
                    file.truncate(data.file_bytes)
