"""Maps as FITS binary tables: full and partial HEALPix maps, and numbered pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import FloatArray, Int64Array
from petamap.sky.healpix import Healpix
from petamap.sky.map_conventions import UNSEEN
from petamap.sky.map_units import unit_card
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization

_INDEX_NAMES = ("PIXEL", "PIXELS", "PIX", "INDEX")


# `BinTableHDU` would make all cards as far as EXTNAME, but imports astropy's tables for it.
_BEGIN = (
    ("XTENSION", "BINTABLE", "binary table extension"),
    ("BITPIX", 8, "array data type"),
    ("NAXIS", 2, "number of array dimensions"),
)


def table_header(
    pixelization: Pixelization, names: tuple[str, ...], units: tuple[str, ...], n_observed: int | None
) -> Any:
    """Return the header of the table of a map; `n_observed` is the row count of a partial map."""
    from astropy.io import fits

    header = fits.Header(_BEGIN)
    partial = n_observed is not None
    _add_columns(header, names, units, pixelization.n_pix if n_observed is None else n_observed, partial)
    if isinstance(pixelization, Healpix):
        header["PIXTYPE"] = ("HEALPIX", "HEALPix pixels")
        header["ORDERING"] = ("NESTED" if pixelization.nest else "RING", "ordering of pixels")
        header["NSIDE"] = (int(pixelization.n_side), "resolution of HEALPix")
        header["OBJECT"] = ("FULLSKY" if n_observed is None else "PARTIAL", "coverage")
    else:
        header["PIXTYPE"] = ("NUMBERED", "pixels without directions")
    header["FIRSTPIX"] = (0, "first pixel, counted from 0")
    header["LASTPIX"] = (pixelization.n_pix - 1, "last pixel, counted from 0")
    header["INDXSCHM"] = ("IMPLICIT" if n_observed is None else "EXPLICIT", "explicit: PIXEL gives the pixel")
    if n_observed is not None:
        header["OBS_NPIX"] = (n_observed, "pixels observed")
    header["BAD_DATA"] = (UNSEEN, "value of pixels not observed")
    return header


def _add_columns(
    header: Any, names: tuple[str, ...], units: tuple[str, ...], n_rows: int, partial: bool
) -> None:
    """Add the size of the table and its columns: pixel numbers, int32, of a partial map, then float64."""
    columns = [("PIXEL", "J", "")] if partial else []
    columns += [(name, "D", unit) for name, unit in zip(names, units, strict=True)]
    header["NAXIS1"] = (8 * len(names) + 4 * partial, "length of dimension 1")
    header["NAXIS2"] = (n_rows, "length of dimension 2")
    header["PCOUNT"] = (0, "number of group parameters")
    header["GCOUNT"] = (1, "number of groups")
    header["TFIELDS"] = (len(columns), "number of table fields")
    for number, (name, kind, unit) in enumerate(columns, 1):
        header[f"TTYPE{number}"], header[f"TFORM{number}"] = name, kind
        if unit:
            header[f"TUNIT{number}"] = unit_card(unit)
    header["EXTNAME"] = ("MAP", "extension name")


def is_map_table(hdu: Any) -> bool:
    """Return whether an HDU is a table of HEALPix or numbered pixels."""
    if hdu.header.get("XTENSION", "").strip() != "BINTABLE":
        return False
    return hdu.header.get("PIXTYPE", "").strip() in ("HEALPIX", "NUMBERED") or "NSIDE" in hdu.header


def table_columns(hdu: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and the units of the columns of values.

    TOAST numbers the units of columns from TUNIT0, unlike all other writers.
    """
    header = hdu.header
    first = 0 if "TUNIT0" in header else 1
    _, numbers = _columns(hdu)
    names = tuple(str(header.get(f"TTYPE{i + 1}", f"COLUMN_{i + 1}")).strip() for i in numbers)
    return names, tuple(str(header.get(f"TUNIT{i + first}", "")).strip() for i in numbers)


def load_table(
    hdu: Any, chosen: list[int], ordering: str | None, where: str
) -> tuple[FloatArray, Pixelization, Int64Array | None]:
    """Return the values of the chosen columns, the pixelization, and the pixels; None for all of the sky.

    Parameters
    ----------
    hdu : astropy.io.fits.BinTableHDU
    chosen : list of int
        Columns, numbered without the index column.
    ordering : str, optional
        ring or nested, if the header has no ORDERING.
    where : str
        File and HDU, for messages.

    Raises
    ------
    DataError
        If pixel numbers, their count or the ordering are not valid.
    """
    index, numbers = _columns(hdu)
    columns = [np.asarray(hdu.data.field(numbers[i])).reshape(-1) for i in chosen]
    explicit = None if index is None else np.asarray(hdu.data.field(index), np.int64).reshape(-1)
    n_given = len(columns[0])
    pixelization = _pixelization(hdu.header, n_given, explicit is None, ordering, where)
    pixels = _pixels(hdu.header, explicit, n_given, pixelization.n_pix, where)
    values = np.empty((len(columns), n_given))
    order = slice(None) if pixels is None or (np.diff(pixels) > 0).all() else np.argsort(pixels)
    for out, column in zip(values, columns, strict=True):
        out[:] = column[order]
        out[_unseen(out, hdu.header)] = np.nan
    return values, pixelization, pixels if pixels is None else pixels[order]


def _unseen(values: FloatArray, header: Any) -> Any:
    """Return the mask of values that stand for unobserved pixels, in single or double precision."""
    bad = float(header.get("BAD_DATA", UNSEEN))
    with np.errstate(invalid="ignore"):
        return (np.abs(values - bad) <= 1e-5 * abs(bad)) | (np.abs(values - UNSEEN) <= 1e-5 * abs(UNSEEN))


def _columns(hdu: Any) -> tuple[int | None, list[int]]:
    """Return the number of the column of pixel numbers, None if implicit, and those of the values."""
    scheme, coverage = (str(hdu.header.get(key, "")).strip() for key in ("INDXSCHM", "OBJECT"))
    numbers = list(range(int(hdu.header["TFIELDS"])))
    if scheme != "EXPLICIT" and coverage != "PARTIAL":
        return None, numbers
    names = [str(hdu.header.get(f"TTYPE{i + 1}", "")).strip().upper() for i in numbers]
    index = next((i for i, name in enumerate(names) if name in _INDEX_NAMES), 0)
    return index, [i for i in numbers if i != index]


def _pixelization(
    header: Any, n_given: int, implicit: bool, ordering: str | None, where: str
) -> Healpix | NumberedPixels:
    if str(header.get("PIXTYPE", "")).strip() == "NUMBERED":
        return NumberedPixels(n_given)
    n_side = header.get("NSIDE", round((n_given / 12) ** 0.5) if implicit else None)
    in_file = str(header.get("ORDERING", "")).strip().upper()
    name = in_file or (ordering or "").upper()
    if name not in ("RING", "NESTED", "NEST"):
        raise DataError(
            f"ORDERING is '{in_file}', neither RING nor NESTED",
            where=where,
            mend="say ordering='ring' or 'nested'",
        )
    try:
        return Healpix(int(n_side), nest=name != "RING")
    except (ConfigError, TypeError, ValueError) as error:
        raise DataError(f"NSIDE is {n_side!r}: {error}", where=where) from error


def _pixels(
    header: Any, explicit: Int64Array | None, n_given: int, n_pix: int, where: str
) -> Int64Array | None:
    """Return the pixel numbers of rows; None if they are all in their order."""
    if explicit is None:
        first = int(header.get("FIRSTPIX", 0))
        if n_given == n_pix:
            return None
        end = int(header.get("LASTPIX", -1)) + 1
        if not 0 <= first < end <= n_pix or end - first != n_given:
            raise DataError(f"{n_given} values for {n_pix} pixels", where=where)
        return np.arange(first, end)
    if len(explicit) and not (explicit.min() >= 0 and explicit.max() < n_pix):
        row = int(np.flatnonzero((explicit < 0) | (explicit >= n_pix))[0])
        raise DataError(f"row {row} has pixel {explicit[row]}, outside 0 to {n_pix - 1}", where=where)
    if len(distinct(explicit.copy())) != len(explicit):
        raise DataError("a pixel occurs twice", where=where)
    return explicit
