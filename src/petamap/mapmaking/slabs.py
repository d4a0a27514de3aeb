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
from petamap.sky.healpix import Healpix
from petamap.sky.map_data import PIECE_BYTES, MapDataLayout
from petamap.sky.map_digest import SLAB, joined_sha256, slab_hashes
from petamap.sky.map_header import MapHeader
from petamap.sky.pixelization import Pixelization

# Values of a column that rank 0 receives at once.
STREAMED_ROWS = 1 << 18
# Bytes of headers and other small arrays.
_SMALL = 1 << 18


def slab_bounds(n_rows: int, size: int) -> Int64Array:
    """Return the first row of each rank's slab and, at the end, `n_rows`: (size + 1,).

    They are multiples of what is hashed together (`petamap.sky.map_digest`).
    """
    return np.minimum(np.arange(size + 1, dtype=np.int64) * _slab_height(n_rows, size), n_rows)


def _slab_height(n_rows: int, size: int) -> int:
    return -(-n_rows // (size * SLAB)) * SLAB


def is_partial(pixelization: Pixelization, n_observed: int) -> bool:
    """Return whether a file has the observed pixels alone: where they are less than half of a HEALPix map."""
    return isinstance(pixelization, Healpix) and 2 * n_observed < pixelization.n_pix


def slab_bytes(n_rows: int, n_columns: int, size: int, n_owned: int, partial: bool = False) -> int:
    """Return the most bytes that a rank allocates to write a map, beside the map itself.

    Parameters
    ----------
    n_rows, n_columns : int
        Of the file; of a partial one, all pixels of the sky.
    size : int
        Ranks.
    n_owned : int
        Pixels that the rank owns.
    partial : bool
        Whether the file has the observed pixels alone.
    """
    height = min(_slab_height(n_rows, size), n_rows)
    received = min(height, size * n_owned)  # other ranks own about as many
    counts = 0
    if partial:
        height, counts = n_owned + SLAB, 3 * 8 * -(-n_rows // SLAB)
        received = height
    route = 8 * (n_owned + received * (1 + 2 * partial))
    # during set-up: rows of pixels; ranks, order and sorted rows; rows received
    finding = 8 * (4 * n_owned + 2 * received) + counts
    row = 8 * n_columns
    # values sent and received, then received and stored
    moving = row * (received + max(n_owned, height))
    streaming = 2 * 8 * STREAMED_ROWS
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
    partial : bool
        Hold the rows that some rank owns alone, about as many on each rank.
    bounds : (size + 1,) int64, optional
        Those of other slabs.

    Attributes
    ----------
    bounds : (size + 1,) int64
        First row of each rank's slab.
    held : (n_held,) int64 or None
        The rows of this rank's slab, increasing, where it is partial; else all.
    """

    def __init__(
        self, comm: Communicator, n_rows: int, rows: Int64Array, partial: bool = False,
        bounds: Int64Array | None = None,
    ) -> None:  # fmt: skip
        self.comm = comm
        self.n_rows = n_rows
        self._sent = np.argsort(rows)
        sent = rows[self._sent]
        self.bounds = slab_bounds(n_rows, comm.size)
        if bounds is not None:
            self.bounds = bounds
        elif partial:
            self.bounds = _even_bounds(comm, n_rows, rows)
        self._counts = np.diff(np.searchsorted(sent, self.bounds))
        received, _ = comm.alltoallv(sent, self._counts)
        self.held: Int64Array | None = None
        self._received = received - self.first
        if partial:
            order = np.argsort(received)
            self.held, self._received = received[order], np.empty_like(received)
            self._received[order] = np.arange(len(received))

    @property
    def first(self) -> int:
        """First row of this rank's slab."""
        return int(self.bounds[self.comm.rank])

    @property
    def height(self) -> int:
        """Rows of this rank's slab."""
        if self.held is not None:
            return len(self.held)
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

    def collect_as(self, other: Slabs, slab: FloatArray) -> FloatArray:
        """Return this slab, with the same bounds, in the rows of another: nan where it has none of them."""
        if self.held is None or other.held is None:
            return slab
        rows = np.full((other.height, slab.shape[1]), np.nan)
        _, there, here = np.intersect1d(other.held, self.held, assume_unique=True, return_indices=True)
        rows[there] = slab[here]
        return rows

    def sha256(self, slab: FloatArray) -> str:
        """Return `petamap.sky.map_digest.map_sha256` of the whole map, on rank 0. Collective."""
        held = self.first if self.held is None else self.held
        hashes = self.comm.gather_rows(slab_hashes(slab, held, self.n_rows))
        return "" if hashes is None else joined_sha256(hashes, slab.shape[1], self.n_rows)

    def stream(self, slab: FloatArray) -> Iterator[tuple[int, Int64Array, FloatArray]]:
        """Yield all values on rank 0, column by column: column, rows, their values. Collective.

        Other ranks yield nothing, but must iterate too.
        """
        rank, size, ends = self.comm.rank, self.comm.size, self.bounds
        rows = self.held
        if rows is not None:
            ends = np.cumsum([0, *self.comm.allgather(len(rows))])
        for begin in range(0, int(ends[-1]), STREAMED_ROWS):
            parts = np.clip(ends, begin, min(begin + STREAMED_ROWS, int(ends[-1])))
            counts = np.diff(parts) if rank == 0 else np.zeros(size, np.int64)
            own = slice(int(parts[rank] - ends[rank]), int(parts[rank + 1] - ends[rank]))

            def gathered(values: AnyArray, own: slice = own, counts: Int64Array = counts) -> AnyArray:
                sent = np.ascontiguousarray(values[own])
                to_root = np.zeros(size, np.int64)
                to_root[0] = len(sent)
                piece = np.empty(int(counts.sum()), values.dtype)
                self.comm.alltoallv_into(AlltoallvBuffers(sent, to_root, piece, counts, STREAMED_ROWS))
                return piece

            there = np.arange(begin, int(parts[-1])) if rows is None else gathered(rows)
            for column in range(slab.shape[1]):
                piece = gathered(slab[:, column])
                if rank == 0:
                    yield column, there, piece


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
    first = slabs.first if slabs.held is None else sum(comm.allgather(slabs.height)[: comm.rank])
    with replaced_file(comm, path) as temporary:
        total = 0
        with agree_on_errors(comm), open_part(temporary, path) as file:
            for place, piece in data.pieces(first, slab, slabs.held):
                file.seek(place)
                file.write(piece)
                total += word_sum(piece)
        total = fold_carries(comm.sum(fold_carries(total)))
        with agree_on_errors(comm):
            if head is not None:
                with open_part(temporary, path) as file:
                    file.write(head.to_bytes(total))
                    file.truncate(data.file_bytes)


def _even_bounds(comm: Communicator, n_rows: int, rows: Int64Array) -> Int64Array:
    """Return bounds between which about as many rows are owned by any rank. Collective."""
    counts = np.bincount(rows // SLAB, minlength=-(-n_rows // SLAB))
    ends = np.cumsum(comm.allreduce(counts, "sum"))
    parts = ends[-1] * np.arange(1, comm.size) / comm.size
    cuts = np.minimum((np.searchsorted(ends, parts) + 1) * SLAB, n_rows)
    return np.concatenate([[0], cuts, [n_rows]]).astype(np.int64)
