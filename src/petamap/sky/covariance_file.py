"""FITS files of dense pixel-pixel noise covariance matrices, for maps of few pixels."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray, Int64Array
from petamap.sky.checked_fits import open_checked, write_checked
from petamap.sky.map_units import unit_card


@dataclass(frozen=True)
class PixelCovariance:
    """Pixel-pixel noise covariance matrix of a HEALPix map.

    Attributes
    ----------
    values : float64 (n_stokes * n_seen, n_stokes * n_seen)
        Stokes-major: all pixels of the first Stokes parameter come first. In the square of the map's unit.
    pixels : int64 (n_seen,)
        Pixel numbers in ring ordering, increasing.
    n_side : int
    stokes : str
        ``I``, ``QU`` or ``IQU``.
    unit : str
        Unit of `values`.
    run_id : str
        Run that made the matrix.
    """

    values: FloatArray
    pixels: Int64Array
    n_side: int
    stokes: str
    unit: str
    run_id: str = ""

    def __post_init__(self) -> None:
        n = len(self.stokes) * len(self.pixels)
        if self.values.shape != (n, n):
            raise DataError(f"{self.values.shape} numbers are no covariance of {n} unknowns")

    def submatrix(self, pixels: Int64Array) -> FloatArray:
        """Return the covariance of the given pixels (ring ordering), float64 (n_stokes n, n_stokes n).

        Raises
        ------
        DataError
            If the matrix does not contain one of the pixels.
        """
        places = np.searchsorted(self.pixels, pixels)
        known = places < len(self.pixels)
        known[known] = self.pixels[places[known]] == pixels[known]
        if not known.all():
            raise DataError(
                f"the covariance does not hold pixel {int(pixels[~known][0])}", mend="leave it out by a mask"
            )
        rows = (places + len(self.pixels) * np.arange(len(self.stokes))[:, None]).ravel()
        block: FloatArray = self.values[np.ix_(rows, rows)]
        return block


def write_pixel_covariance(path: str | os.PathLike[str], covariance: PixelCovariance) -> None:
    """Write a covariance atomically: an image COVARIANCE and a table PIXELS of pixel numbers.

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    from astropy.io import fits

    image = fits.ImageHDU(covariance.values, name="COVARIANCE")
    image.header["BUNIT"] = unit_card(covariance.unit)
    image.header["STOKES"] = (covariance.stokes, "all pixels of the first come first")
    image.header["NSIDE"] = covariance.n_side
    image.header["POLCCONV"] = "COSMO"
    image.header["RUNID"] = (covariance.run_id, "run that made this covariance")
    image.header["CREATOR"] = "petamap"
    table = fits.BinTableHDU.from_columns([fits.Column("PIXEL", "K", array=covariance.pixels)], name="PIXELS")
    table.header["ORDERING"] = "RING"
    write_checked(path, [fits.PrimaryHDU(), image, table])


def read_pixel_covariance(path: str | os.PathLike[str]) -> PixelCovariance:
    """Read a file written by `write_pixel_covariance`.

    Raises
    ------
    DataError
        If the file is missing, damaged, or contains no pixel covariance.
    """
    with open_checked(path, "covariance of pixels") as units:
        image = units["COVARIANCE"]
        return PixelCovariance(
            np.array(image.data, np.float64),
            np.array(units["PIXELS"].data["PIXEL"], np.int64),
            int(image.header["NSIDE"]),
            str(image.header["STOKES"]),
            str(image.header["BUNIT"]),
            str(image.header["RUNID"]),
        )
