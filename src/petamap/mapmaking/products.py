"""The files of a run: gathered from the owners of the pixels, written whole or not at all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from petamap.base.errors import ConfigError, PetamapError
from petamap.base.summary import Product, pixels_sha256
from petamap.base.typing import AnyArray, FloatArray, Int64Array
from petamap.comm.mpi import agree
from petamap.mapmaking.binning import triangle
from petamap.mapmaking.system import System
from petamap.sky.healpix import Healpix
from petamap.sky.mapfile import read_map, write_map
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization
from petamap.sky.stokes import Stokes


def gather_map(system: System, values: AnyArray) -> FloatArray | None:
    """Return values of all pixels, (n_columns, n_pix) with nan where there are none, on rank 0. Collective.

    Parameters
    ----------
    values : (n_local, n_columns)
        The same on all holders of a pixel; sent by its owner.
    """
    owned = system.owned.pixels
    mine = slice(None) if owned is None else owned.astype(bool)
    comm = system.comm
    keys = comm.gather_rows(np.ascontiguousarray(system.keys[mine]))
    rows = comm.gather_rows(np.ascontiguousarray(values[mine].astype(np.float64)))
    if keys is None or rows is None:
        return None
    full = np.full((values.shape[1], system.projection.pixelization.n_pix), np.nan)
    full[:, keys] = rows.T
    return full


def covariance_names(stokes: Stokes) -> list[str]:
    """Return the names of the upper triangle: II, IQ, IU, QQ, QU, UU."""
    letters = stokes.value
    return [a + b for i, a in enumerate(letters) for b in letters[i:]]


@dataclass(frozen=True)
class MapWriter:
    """Writes the maps of a run. Collective, but only rank 0 writes.

    Attributes
    ----------
    folder : Path
    frame : str
    run_id : str
    ordering : str
        "ring" or "nest" of HEALPix files.
    """

    system: System
    folder: Path
    frame: str
    run_id: str
    ordering: str

    def write(
        self, kind: str, path: Path, title: str, values: FloatArray, names: list[str], unit: str
    ) -> Product | None:
        """Write one product, (n_local, n_columns), and return its entry in the summary on rank 0."""
        full = gather_map(self.system, values)
        product, error = None, None
        if full is not None:
            try:
                product = self._write(kind, path, title, full, names, unit)
            except PetamapError as caught:
                error = caught
        agree(self.system.comm, error)
        return product

    def _write(
        self, kind: str, path: Path, title: str, full: FloatArray, names: list[str], unit: str
    ) -> Product:
        pixelization, full = self._ordered(full)
        frame = None if isinstance(pixelization, NumberedPixels) else self.frame
        write_map(path, full, pixelization, names=names, unit=unit, run_id=self.run_id, frame=frame)
        stokes = "".join(names) if kind in ("map", "binned", "residual") else ""
        return Product(
            name=title, file=path.name, kind=kind, unit=unit, stokes=stokes, sha256=pixels_sha256(full)
        )

    def compare(self, path: Path, values: FloatArray) -> tuple[float, float] | None:
        """Return the largest and the rms difference from a map file, on rank 0. Collective."""
        full = gather_map(self.system, values)
        found, error = None, None
        if full is not None:
            try:
                found = _difference(full, self.system.projection.pixelization, path)
            except PetamapError as caught:
                error = caught
        agree(self.system.comm, error)
        return found

    def _ordered(self, full: FloatArray) -> tuple[Pixelization, FloatArray]:
        solved = self.system.projection.pixelization
        if not isinstance(solved, Healpix) or self.ordering == "nest":
            return solved, full
        ring = Healpix(solved.n_side, nest=False)
        order: Int64Array = ring.reordered(np.arange(ring.n_pix))
        return ring, np.ascontiguousarray(full[:, order])


def covariance_columns(system: System) -> FloatArray:
    """Return the covariance with nan where a pixel is not solved for."""
    columns = system.statistics.covariance.copy()
    columns[system.statistics.dead] = np.nan
    assert columns.shape[1] == triangle(system.projection.stokes.n)
    return columns


def _difference(full: FloatArray, pixelization: Pixelization, path: Path) -> tuple[float, float]:
    reference = read_map(path)
    there = reference.values[: len(full)]
    other = reference.pixelization
    if isinstance(pixelization, NumberedPixels) and pixelization.layout is not None:
        if other.n_pix == math.prod(pixelization.layout.shape):
            there = there[:, pixelization.layout.index]
    elif isinstance(pixelization, Healpix) and other == Healpix(pixelization.n_side, nest=False):
        there = there[:, pixelization.reordered(np.arange(pixelization.n_pix))]
    if there.shape != full.shape:
        raise ConfigError(
            f"has other pixels or components than the map: {there.shape} against {full.shape}",
            where=str(path), mend="compare with a map of the same pixelization and Stokes parameters",
        )  # fmt: skip
    difference = (full - there)[np.isfinite(full) & np.isfinite(there)]
    if difference.size == 0:
        raise ConfigError("has no pixel in common with the map", where=str(path))
    return float(np.abs(difference).max()), float(np.sqrt(np.mean(difference**2)))
