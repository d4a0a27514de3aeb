"""FITS files of dense pixel-pixel noise covariance matrices, for maps of few pixels."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import atomic_write, require_file
from petacomm.base.typing import FloatArray, Int64Array


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
    image.header["BUNIT"] = covariance.unit
    image.header["STOKES"] = (covariance.stokes, "all pixels of the first come first")
    image.header["NSIDE"] = covariance.n_side
    image.header["POLCCONV"] = "COSMO"
    image.header["RUNID"] = (covariance.run_id, "run that made this covariance")
    image.header["CREATOR"] = "petamap"
    table = fits.BinTableHDU.from_columns([fits.Column("PIXEL", "K", array=covariance.pixels)], name="PIXELS")
    table.header["ORDERING"] = "RING"
    hdus = fits.HDUList([fits.PrimaryHDU(), image, table])
    hdus.update_extend()
    for hdu in hdus:
        hdu.add_checksum(when="")  # else the bytes would tell the time
    with atomic_write(path) as temporary:
        hdus.writeto(temporary, overwrite=True)


def read_pixel_covariance(path: str | os.PathLike[str]) -> PixelCovariance:
    """Read a file written by `write_pixel_covariance`.

    Raises
    ------
    DataError
        If the file is missing, damaged, or contains no pixel covariance.
    """
    from astropy.io import fits

    where = os.fspath(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # astropy only warns about wrong checksums
            with fits.open(require_file(path), memmap=False, checksum=True) as hdus:
                image = hdus["COVARIANCE"]
                return PixelCovariance(
                    np.array(image.data, np.float64),
                    np.array(hdus["PIXELS"].data["PIXEL"], np.int64),
                    int(image.header["NSIDE"]),
                    str(image.header["STOKES"]),
                    str(image.header["BUNIT"]),
                    str(image.header["RUNID"]),
                )
    except FileNotFoundError as error:
        raise DataError("no such file", where=where) from error
    except (OSError, KeyError, IndexError, ValueError, TypeError, Warning) as error:
        raise DataError(f"is no covariance of pixels: {error}", where=where) from error
