"""Polarization angles that stand in arrays of samples, read in every pass in the place of response angles."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import FloatArray, Int64Array, UInt32Array
from petamap.mapmaking.sample_pointing import Piece
from petamap.mapmaking.time_layout import TimeLayout
from petamap.pointing._pointing import response_angles


class PsiRows:
    """Polarization angles of the detector of each segment.

    Parameters
    ----------
    rows : list of float64 (n_samp,)
        Of each segment, radians.
    layout : TimeLayout
    streams : int64 (n_segment, 6)
        As `Projection.stream_table`.

    Attributes
    ----------
    table : PsiTable
        For passes, which have the same bits by it.
    """

    def __init__(self, rows: list[FloatArray], layout: TimeLayout, streams: Int64Array) -> None:
        self.table = _mapmaking.PsiTable(rows, streams)
        self._rows, self._layout = rows, layout

    def angles(self, piece: Piece) -> UInt32Array:
        """Return the response angles of a piece; 0 where nothing was recorded."""
        found = np.zeros(piece.stop - piece.start, np.uint32)
        start, stop = self._layout.streams[piece.segment.stream].recorded_range(piece.start, piece.stop)
        if start < stop:
            own = found[start - piece.start : stop - piece.start]
            response_angles(self._rows[piece.number][start:stop], own)
        return found

    def angles_of_all(self, pieces: Iterable[Piece], n_held: int) -> UInt32Array:
        """Return the response angles of all held samples, for who cannot read polarization angles."""
        found = np.zeros(n_held, np.uint32)
        for piece in pieces:
            found[piece.offset : piece.offset + piece.stop - piece.start] = self.angles(piece)
        return found
