"""Layout of the values of a map in its file, for writing any range of rows independently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petamap.sky.map_conventions import UNSEEN

FITS_BLOCK = 2880  # bytes; the length of a FITS file is a multiple of it
PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class MapDataLayout:
    """Layout of the values of a map in its file: big-endian float64, padded with zeros.

    Attributes
    ----------
    begin : int
        Offset of the first value, in bytes.
    n_rows : int
        Number of pixels of the table or of the image.
    n_columns : int
    table : bool
        True: row-major table in which UNSEEN stands for nan. False: image of one plane per column, with nan.
    explicit : bool
        Whether each row of the table begins with its pixel number, as int32.
    """

    begin: int
    n_rows: int
    n_columns: int
    table: bool
    explicit: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, all columns included."""
        return 8 * self.n_columns + 4 * self.explicit

    @property
    def end(self) -> int:
        """Offset of the first byte after the last value."""
        return self.begin + self.n_rows * self.row_bytes

    @property
    def file_bytes(self) -> int:
        """Length of the file in bytes."""
        return -(-self.end // FITS_BLOCK) * FITS_BLOCK

    def pieces(
        self, first: int, rows: FloatArray, pixels: Int64Array | None = None
    ) -> Iterator[tuple[int, memoryview]]:
        """Yield the encoded bytes of rows, each piece with its offset in the file.

        Parameters
        ----------
        first : int
            Number of the first row.
        rows : float64 (n, n_columns)
        pixels : int64 (n,), optional
            Pixel numbers of the rows, if they are explicit.

        Yields
        ------
        offset : int
            Offset of the piece in the file, in bytes.
        piece : memoryview
            About `PIECE_BYTES` bytes at most.
        """
        step = max(1, PIECE_BYTES // self.row_bytes)
        if self.table:
            for i in range(0, len(rows), step):
                numbers = None if pixels is None else pixels[i : i + step]
                yield (
                    self.begin + (first + i) * self.row_bytes,
                    _table_rows(rows[i : i + step], numbers).data,
                )
            return
        for plane in range(self.n_columns):
            for i in range(0, len(rows), step):
                offset = self.begin + 8 * (plane * self.n_rows + first + i)
                yield offset, rows[i : i + step, plane].astype(">f8").data


def _table_rows(rows: FloatArray, pixels: Int64Array | None) -> AnyArray:
    """Return rows in the binary format of the table, with UNSEEN for nan."""
    values = np.where(np.isfinite(rows), rows, UNSEEN)
    if pixels is None:
        return values.astype(">f8", order="C")
    table = np.empty(len(rows), [("pixel", ">i4"), ("values", ">f8", (rows.shape[1],))])
    table["pixel"] = pixels
    table["values"] = values
    return table.view(np.uint8)
