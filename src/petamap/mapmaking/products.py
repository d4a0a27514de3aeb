"""Products of a run: map files written by all ranks together, whole or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.exact import add_exactly, round_limbs, zero_limbs
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator, agree_on_errors
from petamap.data.run_summary import Product
from petamap.mapmaking.binning import triangle
from petamap.mapmaking.maps_in_memory import KeptProducts
from petamap.mapmaking.slabs import Slabs, is_partial, write_slabs
from petamap.mapmaking.system import MapmakingSystem
from petamap.sky.healpix import Healpix
from petamap.sky.map_conventions import iau_to_cosmo_signs
from petamap.sky.map_file import read_observed
from petamap.sky.map_header import MapHeader, make_map_header
from petamap.sky.numbered import ImageLayout, NumberedPixels
from petamap.sky.partial_healpix import PartialHealpix
from petamap.sky.pixelization import Pixelization
from petamap.sky.sky_map import SkyMap
from petamap.sky.stokes import Stokes

# Pixels of the sky beyond which a map in memory has those alone that are observed, if these are few.
_MOST_WHOLE = 1 << 23
_OF_STOKES = (
    "map", "sky", "binned", "filtered", "demodulated", "residual", "part_map", "part_binned", "null",
)  # fmt: skip


def product_cards(kind: str) -> dict[str, object]:
    """Return what the header of a product says of what it is."""
    cards: dict[str, object] = {"PRODUCT": (kind, "what the map is")}
    if kind == "covariance":
        cards["NOISE"] = ("white", "covariance of the white part of the noise only")
    return cards


def covariance_names(stokes: Stokes) -> list[str]:
    """Return the names of the upper triangle: II, IQ, IU, QQ, QU, UU."""
    letters = stokes.value
    return [a + b for i, a in enumerate(letters) for b in letters[i:]]


@dataclass(frozen=True)
class MapWriter:
    """Writer of maps. Collective: each rank writes a part of each file.

    Attributes
    ----------
    comm : Communicator
    sky : Pixelization
        That was solved for.
    keys : int64 (n_owned,)
        Pixels that this rank owns.
    frame : str, optional
        None of offsets.
    run_id : str
    ordering : str
        "ring" or "nest" of HEALPix files.
    cards : mapping
        What all files say in their headers.
    kept : KeptProducts, optional
        Takes the maps, on rank 0, in the place of files.
    """

    comm: Communicator
    sky: Pixelization
    keys: Int64Array
    frame: str | None
    run_id: str
    ordering: str
    cards: Mapping[str, object] = field(default_factory=dict)
    kept: KeptProducts | None = None

    def write(
        self, kind: str, path: Path, title: str, values: FloatArray, names: list[str], unit: str
    ) -> Product | None:
        """Write one product, (n_owned, n_columns), and return its entry in the summary on rank 0."""
        return self._write(kind, path, title, names, unit, lambda slabs: slabs.collect(values))

    def write_null(
        self, path: Path, title: str, values: FloatArray, other: MapWriter, others: FloatArray, *,
        names: list[str], unit: str,
    ) -> Product | None:  # fmt: skip
        """Write half the difference from the map that another writer has, (n_owned there, n_columns)."""

        def collected(slabs: Slabs) -> FloatArray:
            if slabs.held is None:
                same = other._by_row if slabs is self._by_row else other._by_pixel
                return (slabs.collect(values) - same.collect(others)) / 2
            same = Slabs(self.comm, slabs.n_rows, other._pixels(), True, slabs.bounds)
            return (slabs.collect(values) - same.collect_as(slabs, same.collect(others))) / 2

        return self._write("null", path, title, names, unit, collected)

    def _write(
        self, kind: str, path: Path, title: str, names: list[str], unit: str,
        collected: Callable[[Slabs], FloatArray],
    ) -> Product | None:  # fmt: skip
        if self.kept is None:
            slab = collected(self._by_row)
            write_slabs(path, self._header(kind, names, unit), self._by_row, slab)
            if self._by_pixel is not self._by_row:
                slab = collected(self._by_pixel)
            digest = self._by_pixel.sha256(slab)
        else:
            digest = self._keep(path, collected(self._by_pixel), names, unit)
        if self.comm.rank != 0:
            return None
        stokes = "".join(names) if kind in _OF_STOKES else ""
        file = path.name if self.kept is None else ""
        return Product(name=title, file=file, kind=kind, unit=unit, stokes=stokes, sha256=digest)

    @property
    def _map_frame(self) -> str | None:
        return None if isinstance(self._pixelization, NumberedPixels) else self.frame

    def _header(self, kind: str, names: list[str], unit: str) -> MapHeader | None:
        """Return the header of a file, on rank 0."""
        n_observed = self._n_owned if self._by_pixel.held is not None else None
        with agree_on_errors(self.comm):
            if self.comm.rank == 0:
                return make_map_header(
                    self._pixelization, names=names, unit=unit, run_id=self.run_id, frame=self._map_frame,
                    n_observed=n_observed, cards={**product_cards(kind), **self.cards},
                )  # fmt: skip
        return None

    def _keep(self, path: Path, slab: FloatArray, names: list[str], unit: str) -> str:
        """Gather a map on rank 0, which keeps it; return its digest there."""
        assert self.kept is not None, "products stay in memory"
        values, pixelization = self._gathered(slab)
        digest = self._by_pixel.sha256(slab)
        if self.comm.rank != 0:
            return ""
        columns = tuple(names)
        convention = "COSMO" if (iau_to_cosmo_signs(columns) < 0).any() else None
        units = (unit,) * len(columns)
        self.kept.keep(path, SkyMap(values, pixelization, columns, units, self._map_frame, convention))
        return digest

    def _gathered(self, slab: FloatArray) -> tuple[FloatArray, Pixelization]:
        """Return a map and its pixels on rank 0, none on others: those that the slabs have."""
        slabs, grid = self._by_pixel, self._pixelization
        few = slabs.held is not None
        n_pix = self.comm.sum(slabs.height) if few else grid.n_pix
        values, pixels = np.empty((0, 0)), np.empty(0, np.int64)
        with agree_on_errors(self.comm):
            if self.comm.rank == 0:
                values, pixels = np.empty((slab.shape[1], n_pix)), np.empty(n_pix * few, np.int64)
        begin = end = 0
        for column, rows, piece in slabs.stream(slab):
            if not few:
                values[column, rows] = piece
                continue
            if column == 0:
                begin, end = end, end + len(rows)
                pixels[begin:end] = rows
            values[column, begin:end] = piece
        if few and self.comm.rank == 0:
            assert isinstance(grid, Healpix), "other maps have all pixels"
            return values, PartialHealpix(grid.n_side, pixels, grid.nest)
        return values, grid

    def require_reference(self, path: Path, n_columns: int) -> None:
        """Raise the error of a file with which `compare` could not compare such a map. Collective."""
        with agree_on_errors(self.comm):
            if self.comm.rank == 0:
                _Reference(path, self._pixelization, n_columns)

    def compare(self, path: Path, values: FloatArray) -> tuple[float, float] | None:
        """Return the largest and the rms difference from a map file, on rank 0. Collective.

        Rank 0 holds the map of the file, and of this one a piece at a time.
        """
        comm = self.comm
        reference: _Reference | None = None
        with agree_on_errors(comm):
            if comm.rank == 0:
                reference = _Reference(path, self._pixelization, values.shape[1])
        for column, pixels, piece in self._by_pixel.stream(self._by_pixel.collect(values)):
            assert reference is not None, "rank 0 has read it"
            reference.compare(column, pixels, piece)
        found: tuple[float, float] | None = None
        with agree_on_errors(comm):
            if reference is not None:
                found = reference.difference()
        return found

    @cached_property
    def _pixelization(self) -> Pixelization:
        if isinstance(self.sky, Healpix) and self.ordering != "nest":
            return Healpix(self.sky.n_side, nest=False)
        return self.sky

    def _pixels(self) -> Int64Array:
        """Return the numbers in the files of the pixels that this rank owns."""
        if isinstance(self.sky, Healpix) and self.sky != self._pixelization:
            return self.sky.reordered(self.keys)
        return self.keys

    @cached_property
    def _by_pixel(self) -> Slabs:
        few = self.kept is None or self._pixelization.n_pix > _MOST_WHOLE
        partial = few and is_partial(self._pixelization, self._n_owned)
        return Slabs(self.comm, self._pixelization.n_pix, self._pixels(), partial)

    @cached_property
    def _n_owned(self) -> int:
        """Number of pixels that ranks own."""
        return int(self.comm.sum(len(self.keys)))

    @cached_property
    def _by_row(self) -> Slabs:
        """Slabs in the order of the rows of the files: by pixel, unless pixels have places in an image."""
        layout = _layout(self._pixelization)
        if layout is None:
            return self._by_pixel
        return Slabs(self.comm, math.prod(layout.shape), layout.index[self._pixels()])


def covariance_columns(system: MapmakingSystem) -> FloatArray:
    """Return the covariance with nan where a pixel is not solved for."""
    columns = system.statistics.covariance.copy()
    columns[system.statistics.dead] = np.nan
    assert columns.shape[1] == triangle(system.projection.stokes.n)
    return columns


def _layout(pixelization: Pixelization) -> ImageLayout | None:
    return pixelization.layout if isinstance(pixelization, NumberedPixels) else None


class _Reference:
    """A map file that a map is compared with, piece by piece."""

    def __init__(self, path: Path, pixelization: Pixelization, n_columns: int) -> None:
        self.path = path
        self.pixelization = pixelization
        self.map = read_observed(path)
        self.largest = 0.0
        self.squares = zero_limbs()
        self.n = 0
        there = (min(n_columns, len(self.map.values)), self.map.pixelization.n_pix)
        layout = _layout(pixelization)
        if layout is not None and there[1] == math.prod(layout.shape):
            there = (there[0], pixelization.n_pix)
        if there != (n_columns, pixelization.n_pix):
            raise ConfigError(
                f"has other pixels or components than the map: {there} against "
                f"{(n_columns, pixelization.n_pix)}",
                where=str(path), mend="compare with a map of the same pixelization and Stokes parameters",
            )  # fmt: skip

    def compare(self, column: int, pixels: Int64Array, values: FloatArray) -> None:
        """Accumulate the difference of some pixels."""
        there = self.map.at(column, self._pixels(pixels))
        difference = (values - there)[np.isfinite(values) & np.isfinite(there)]
        self.largest = max(self.largest, float(np.abs(difference).max(initial=0.0)))
        add_exactly(difference**2, self.squares)
        self.n += len(difference)

    def _pixels(self, pixels: Int64Array) -> Int64Array:
        """Return the numbers that pixels of the map have in the file."""
        mine, other = self.pixelization, self.map.pixelization
        layout = _layout(mine)
        if layout is not None and other.n_pix != mine.n_pix:
            return layout.index[pixels]
        if isinstance(mine, Healpix) and isinstance(other, Healpix) and mine.nest != other.nest:
            return mine.reordered(pixels)
        return pixels

    def difference(self) -> tuple[float, float]:
        """Return the largest and the rms difference."""
        if self.n == 0:
            raise ConfigError("has no pixel in common with the map", where=str(self.path))
        return self.largest, math.sqrt(round_limbs(self.squares) / self.n)
