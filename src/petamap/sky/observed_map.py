"""Maps of which the pixels in the file alone are in memory: small patches of very many pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array
from petamap.sky.map_digest import joined_sha256, map_sha256, slab_hashes
from petamap.sky.pixelization import Pixelization
from petamap.sky.sky_map import SkyMap
from petamap.sky.stokes import Stokes


@dataclass(frozen=True, eq=False)
class ObservedMap:
    """Map as its file has it.

    Attributes
    ----------
    pixels : int64 (n_row,) or None
        Those of the columns of values, increasing; None where these are all pixels of the sky.
    values : float64 (n_columns, n_row)
        nan where a pixel was not observed.
    pixelization, names, units, frame, polarization, warnings
        As of `SkyMap`.
    """

    pixels: Int64Array | None
    values: FloatArray
    pixelization: Pixelization
    names: tuple[str, ...]
    units: tuple[str, ...]
    frame: str | None = None
    polarization: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def stokes(self) -> Stokes | None:
        """Stokes parameters of the columns; None if the columns are not Stokes parameters."""
        return Stokes.of_names(self.names)

    @property
    def sky_map(self) -> SkyMap:
        """The map with all pixels of the sky."""
        values = self.values
        if self.pixels is not None:
            values = np.full((len(values), self.pixelization.n_pix), np.nan)
            values[:, self.pixels] = self.values
        return SkyMap(
            values, self.pixelization, self.names, self.units, self.frame, self.polarization, self.warnings
        )

    def values_at(self, pixels: Int64Array | None) -> FloatArray:
        """Return the values of all columns at pixels, (n_columns, n), or at all of the sky."""
        if pixels is None:
            return self.values if self.pixels is None else self.sky_map.values
        return np.stack([self.at(column, pixels) for column in range(len(self.values))])

    def at(self, column: int, pixels: Int64Array) -> FloatArray:
        """Return the values of a column at pixels, nan where the file has none."""
        if self.pixels is None:
            return np.asarray(self.values[column, pixels], np.float64)
        rows = np.minimum(np.searchsorted(self.pixels, pixels), max(len(self.pixels) - 1, 0))
        there = self.pixels[rows] == pixels if len(self.pixels) else np.zeros(len(pixels), np.bool_)
        values = np.full(len(pixels), np.nan)
        values[there] = self.values[column, rows[there]]
        return values

    def sha256(self, pixels: Int64Array | None = None) -> str:
        """Return `map_sha256` of the map, with other numbers of its pixels if given, (n_row,)."""
        n_pix, own = self.pixelization.n_pix, self.pixels if pixels is None else pixels
        if own is None:
            return map_sha256(self.values)
        order = np.argsort(own)
        return joined_sha256(slab_hashes(self.values[:, order].T, own[order], n_pix), len(self.values), n_pix)
