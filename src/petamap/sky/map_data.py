"""The values of a map as its file holds them, any rows of it by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petamap.sky.sky_map import UNSEEN

BLOCK = 2880  # bytes: FITS files are made of whole blocks
PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class MapData:
    """Where and how the values of a map stand in its file: big-endian float64, zeros after them.

    Attributes
    ----------
    begin : int
        Byte of the first value.
    n_rows : int
        Pixels, or places of an image.
    n_columns : int
    table : bool
        Row by row, UNSEEN for nan; else plane by plane, one for each column, with nan as it is.
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
        """Bytes of one row in all columns."""
        return 8 * self.n_columns + 4 * self.explicit

    @property
    def end(self) -> int:
        """Byte after the last value."""
        return self.begin + self.n_rows * self.row_bytes

    @property
    def file_bytes(self) -> int:
        """Length of the file."""
        return -(-self.end // BLOCK) * BLOCK

    def pieces(
        self, first: int, rows: FloatArray, pixels: Int64Array | None = None
    ) -> Iterator[tuple[int, memoryview]]:
        """Yield the rows from row `first` on in pieces of the file, each after the byte where it begins.

        Parameters
        ----------
        rows : (n, n_columns)
        pixels : (n,)
            Their numbers, where they are explicit.
        """
        step = max(1, PIECE_BYTES // self.row_bytes)
        if self.table:
            for i in range(0, len(rows), step):
                numbers = None if pixels is None else pixels[i : i + step]
                yield (
                    self.begin + (first + i) * self.row_bytes,
                    _interleaved(rows[i : i + step], numbers).data,
                )
            return
        for plane in range(self.n_columns):
            for i in range(0, len(rows), step):
                place = self.begin + 8 * (plane * self.n_rows + first + i)
                yield place, rows[i : i + step, plane].astype(">f8").data


def _interleaved(rows: FloatArray, pixels: Int64Array | None) -> AnyArray:
    seen = np.where(np.isfinite(rows), rows, UNSEEN)
    if pixels is None:
        return seen.astype(">f8", order="C")
    table = np.empty(len(rows), [("pixel", ">i4"), ("values", ">f8", (rows.shape[1],))])
    table["pixel"] = pixels
    table["values"] = seen
    return table.view(np.uint8)
