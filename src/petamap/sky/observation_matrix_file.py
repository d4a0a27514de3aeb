"""Files of observation matrices: what a filter-and-bin map has of each pixel of the sky."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array
from petamap.sky.checked_fits import open_checked, write_checked

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix

_TABLE = "OBSERVATION"


def write_observation_matrix(
    path: str | os.PathLike[str],
    rows: Int64Array,
    columns: Int64Array,
    values: FloatArray,
    n_unknowns: int,
    run_id: str,
) -> None:
    """Write a matrix atomically: a FITS table OBSERVATION with ROW, COLUMN and VALUE of each entry.

    Parameters
    ----------
    path : path
    rows, columns : int64 (n,)
        Unknown (s, p), of Stokes parameter s and pixel p, is s n_pix + p; HEALPix pixels are nested.
    values : float64 (n,)
    n_unknowns : int
        Stokes parameters times pixels.
    run_id : str

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    from astropy.io import fits

    formats = {"ROW": ("K", rows), "COLUMN": ("K", columns), "VALUE": ("D", values)}
    hdu = fits.BinTableHDU.from_columns(
        [fits.Column(name, code, array=array) for name, (code, array) in formats.items()], name=_TABLE
    )
    hdu.header["NUNKNOWN"] = (n_unknowns, "rows and columns")
    hdu.header["RUNID"] = (run_id, "run that made this table")
    hdu.header["CREATOR"] = "petamap"
    write_checked(path, [fits.PrimaryHDU(), hdu])


def read_observation_matrix(path: str | os.PathLike[str]) -> csc_matrix:
    """Return the observation matrix of a file, float64 (n, n), sparse.

    The filter-and-bin map of a sky is its product with that sky: all pixels of I, then of Q and U, nested for
    HEALPix. Rows of pixels that are not solved for are empty.

    Raises
    ------
    DataError
        If the file is damaged, or none of an observation matrix.
    """
    with open_checked(path, "observation matrix") as units:
        n, table = int(units[_TABLE].header["NUNKNOWN"]), units[_TABLE].data
        rows, columns = np.asarray(table["ROW"], np.int64), np.asarray(table["COLUMN"], np.int64)
        return observation_matrix(rows, columns, np.asarray(table["VALUE"], np.float64), n)


def observation_matrix(
    rows: Int64Array, columns: Int64Array, values: FloatArray, n_unknowns: int
) -> csc_matrix:
    """Return the matrix of entries, float64 (n_unknowns, n_unknowns), sparse."""
    from scipy.sparse import csc_matrix

    return csc_matrix((values, (rows, columns)), (n_unknowns, n_unknowns))
