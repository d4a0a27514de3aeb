"""Files of bandpowers: FITS, text and sacc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.files import atomic_write
from petamap.sky.checked_fits import open_checked, with_checksums
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.sacc_files import SACC_ENDINGS, read_sacc, write_sacc


def write_bandpowers(path: str | os.PathLike[str], bandpowers: Bandpowers) -> None:
    """Write bandpowers, whole or not at all: ``.fits`` with covariance and windows, ``.sacc``, else text.

    FITS loses nothing. Text has values and errors alone, in uK^2 where they are in K_CMB^2. sacc (an optional
    package) has C_l, covariance, and the window of each spectrum in itself alone.

    Parameters
    ----------
    path : path
        Its ending chooses the format.
    bandpowers : Bandpowers

    Raises
    ------
    ConfigError
        If sacc is asked for and not installed.
    ResourceError
        If the file cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> from petamap.spectra.multipole_bins import Binning
    >>> found = petamap.Bandpowers(np.array([[1e-10, 2e-10]]), ("TT",), Binning.linear(2, 21, 10))
    >>> petamap.write_bandpowers("spectra.fits", found)
    >>> petamap.read_bandpowers("spectra.fits").names
    ('TT',)
    """
    name = os.fspath(path)
    write = _write_text
    if name.endswith(SACC_ENDINGS):
        write = write_sacc
    elif name.endswith((".fits", ".fits.gz")):
        write = _write_fits
    with atomic_write(path) as temporary:
        write(temporary, bandpowers)


def read_bandpowers(path: str | os.PathLike[str]) -> Bandpowers:
    """Read bandpowers from a ``.fits`` file of `write_bandpowers`, or from a ``.sacc`` file of anybody's.

    Parameters
    ----------
    path : path

    Returns
    -------
    Bandpowers

    Raises
    ------
    DataError
        If the file is missing, damaged, or holds no bandpowers.
    ConfigError
        If it is one of sacc, which is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> from petamap.spectra.multipole_bins import Binning
    >>> found = petamap.Bandpowers(np.array([[1e-10, 2e-10]]), ("TT",), Binning.linear(2, 21, 10))
    >>> petamap.write_bandpowers("spectra.fits", found)
    >>> petamap.read_bandpowers("spectra.fits")["TT"]
    array([1.e-10, 2.e-10])
    """
    if os.fspath(path).endswith(SACC_ENDINGS):
        return read_sacc(Path(path))
    with open_checked(path, "file of bandpowers") as units:
        table = units["BANDPOWERS"]
        names = tuple(str(table.header["SPECTRA"]).split())
        edges = np.append(table.data["L_FIRST"], table.data["L_LAST"][-1] + 1)
        values = np.array([table.data[name] for name in names], np.float64)
        parts = [
            np.array(units[part].data, np.float64) if part in units else None
            for part in ("COVARIANCE", "WINDOWS")
        ]
        binning = Binning(edges, str(table.header["POWER"]) == "D_l")
        return Bandpowers(values, names, binning, str(table.header["UNIT"]), *parts)


def _write_fits(path: Path, bandpowers: Bandpowers) -> None:
    from astropy.io import fits

    ranges = np.array(bandpowers.binning.ranges)
    columns: list[Any] = [
        fits.Column("L_FIRST", "K", array=ranges[:, 0]),
        fits.Column("L_LAST", "K", array=ranges[:, 1]),
        *(fits.Column(name, "D", bandpowers.unit, array=bandpowers[name]) for name in bandpowers.names),
    ]
    table = fits.BinTableHDU.from_columns(columns, name="BANDPOWERS")
    table.header["SPECTRA"] = " ".join(bandpowers.names)
    table.header["POWER"] = ("D_l" if bandpowers.binning.of_d else "C_l", "what is averaged in a bin")
    table.header["UNIT"] = bandpowers.unit
    table.header["CREATOR"] = "petamap"
    hdus = [fits.PrimaryHDU(), table]
    for name, array in (("COVARIANCE", bandpowers.covariance), ("WINDOWS", bandpowers.windows)):
        if array is not None:
            hdus.append(fits.ImageHDU(array, name=name))
    with_checksums(hdus).writeto(path, overwrite=True)


def _write_text(path: Path, bandpowers: Bandpowers) -> None:
    kelvin = bandpowers.unit == "K_CMB^2"
    errors = bandpowers.errors
    columns, words = [np.array(bandpowers.binning.ranges).T.astype(np.float64)], ["L_FIRST", "L_LAST"]
    for i, name in enumerate(bandpowers.names):
        columns.append(bandpowers.values[i : i + 1])
        words.append(name)
        if errors is not None:
            columns.append(errors[i : i + 1])
            words.append(f"{name}_ERROR")
    table = np.concatenate(columns)
    table[2:] *= 1e12 if kelvin else 1.0
    power = "D_l" if bandpowers.binning.of_d else "C_l"
    header = f"{power} in {'uK^2' if kelvin else bandpowers.unit or 'unknown units'}\n{' '.join(words)}"
    np.savetxt(path, table.T, fmt=["%d", "%d"] + ["%.10e"] * (len(words) - 2), header=header)
