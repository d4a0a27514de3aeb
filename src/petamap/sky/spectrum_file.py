"""Files of power spectra: text in the format of CAMB, FITS tables in the format of HEALPix and healpy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import atomic_write, require_file
from petacomm.base.typing import FloatArray
from petamap.sky.checked_fits import fits_faults, fits_units, with_checksums
from petamap.sky.map_units import to_kelvin
from petamap.sky.power_spectra import Spectra, cl_to_dl_factor

SPECTRUM_NAMES = ("TT", "EE", "BB", "TE", "EB", "TB")
# by number of columns: spectra in CAMB's files without a comment that names them
_CAMB_COLUMNS = {2: ("TT",), 4: ("TT", "EE", "TE"), 5: ("TT", "EE", "BB", "TE")}
_FITS_NAMES = {
    "TEMPERATURE": "TT", "GRADIENT": "EE", "CURL": "BB", "TG": "TE", "G-T": "TE", "E-T": "TE", "C-G": "EB",
    "C-T": "TB", "G-B": "EB", "T-B": "TB",
}  # fmt: skip
_COLUMNS = {
    "TT": "TEMPERATURE", "EE": "GRADIENT", "BB": "CURL", "TE": "G-T", "EB": "C-G", "TB": "C-T",
    "ET": "T-G", "BT": "T-C", "BE": "G-C",
}  # fmt: skip
_NAMES = {column: name for name, column in _COLUMNS.items()} | _FITS_NAMES
# healpy names columns by position, which swaps the names of EB and TB in its own order
_HEALPY_SWAPS = {"EB": "TB", "TB": "EB"}


def read_spectrum_file(path: str | os.PathLike[str], unit: str | None = None) -> Spectra:
    """Read power spectra C_l from a file.

    Parameters
    ----------
    path : path
        ``.fits``, ``.fits.gz``: table of C_l in the format of HEALPix, healpy or petamap. Otherwise text in
        the format of CAMB: l, then D_l = l (l + 1) C_l / 2 pi, in the order of a comment such as
        ``# L TT EE BB TE``. Without a comment, two columns are L TT, four L TT EE TE, five L TT EE BB TE.
    unit : str, optional
        Unit such as ``uK^2`` of a file that does not give one; without it such values are not scaled.

    Returns
    -------
    Spectra
        In K_CMB^2 if the unit is the square of kelvin with any prefix. Multipoles start at 0; those before
        the first one of the file are zero.

    Raises
    ------
    DataError
        If the file cannot be read or is no table of spectra; names the line of a text file.
    ConfigError
        If `unit` is not a square of kelvin.
    """
    where = os.fspath(path)
    if unit is not None and to_kelvin(unit)[1] != "K_CMB^2":
        raise ConfigError(f"unknown unit '{unit}' of spectra", where=where, mend='such as "uK^2"')
    is_fits = where.endswith((".fits", ".fits.gz"))
    columns, in_file = _read_fits(where) if is_fits else _read_text(where)
    factor, name = to_kelvin(in_file or unit or "")
    return Spectra(np.stack(list(columns.values())) * factor, tuple(columns), name)


def write_spectrum_file(path: str | os.PathLike[str], spectra: Spectra) -> None:
    """Write C_l to ``.fits`` in the format of healpy, else D_l to text in the format of CAMB, atomically.

    Text is in uK^2, or in the unit of the spectra if that is not K_CMB^2. D_0 is zero by definition: text
    does not preserve C_0.

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    with atomic_write(path) as temporary:
        if os.fspath(path).endswith((".fits", ".fits.gz")):
            _write_fits(temporary, spectra)
        else:
            _write_text(temporary, spectra)


# --- text


def _read_text(path: str) -> tuple[dict[str, FloatArray], str]:
    names, unit = None, ""
    rows: list[list[float]] = []
    for where, line in _lines(path):
        text, _, comment = line.partition("#")
        if comment and not rows and comment.split()[:1] in (["L"], ["ELL"], ["l"], ["ell"]):
            names = [word.upper() for word in comment.split()[1:]]
        if comment.strip().startswith("unit "):
            unit = comment.split()[1]
        if text.strip():
            rows.append(_numbers(text, where, names, len(rows[0]) if rows else None))
            if rows[-1][0] != rows[0][0] + len(rows) - 1 or rows[0][0] not in (0, 1, 2):
                raise DataError("multipoles do not count up from 0, 1 or 2", where=where)
    if not rows:
        raise DataError("is no table of spectra: it has no numbers", where=path)
    table = np.array(rows).T
    names = names or list(_CAMB_COLUMNS.get(len(table), ()))
    if not names:
        raise DataError(
            f"has {len(table)} columns without names", where=path, mend='a first line "# L TT EE BB TE"'
        )
    l = np.arange(int(table[0, -1]) + 1.0)  # noqa: E741
    scale = np.divide(2 * np.pi, l * (l + 1), out=np.zeros_like(l), where=l > 0)
    columns = np.zeros((len(names), len(l)))
    columns[:, int(table[0, 0]) :] = table[1:]
    return dict(zip(names, columns * scale, strict=True)), unit


def _lines(path: str) -> Iterator[tuple[str, str]]:
    try:
        with open(require_file(path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield f"{path}:{number}", line
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "not text"
        raise DataError(f"is no table of spectra: {what}", where=path) from None


def _numbers(text: str, where: str, names: list[str] | None, width: int | None) -> list[float]:
    try:
        row = [float(word) for word in text.split()]
    except ValueError as error:
        raise DataError(f"is no table of spectra: {error}", where=where) from None
    expected = width or (len(names) + 1 if names else len(row))
    if len(row) != expected:
        raise DataError(f"has {len(row)} columns instead of {expected}", where=where)
    return row


def _write_text(path: Path, spectra: Spectra) -> None:
    kelvin = spectra.unit == "K_CMB^2"
    rows = np.vstack((spectra.multipoles, spectra.values * cl_to_dl_factor(spectra.multipoles)))
    rows[1:] *= 1e12 if kelvin else 1.0
    header = f"unit {'uK^2' if kelvin else spectra.unit or 'unknown'}\nL {' '.join(spectra.names)}"
    np.savetxt(path, rows.T, fmt=["%d"] + ["%.16e"] * len(spectra.names), header=header)


# --- FITS


def _read_fits(path: str) -> tuple[dict[str, FloatArray], str]:
    try:
        with warnings.catch_warnings():
            # Other warnings are of the files of others.
            warnings.filterwarnings("error", message=r"(Checksum|Datasum) verification failed")
            with fits_units(path, memmap=False, checksum=True) as hdus:
                if "BANDPOWERS" in hdus:
                    raise DataError(
                        "holds bandpowers, not power at each l", where=path,
                        mend="name a theory; petamap compare holds bandpowers against others",
                    )  # fmt: skip
                table = next((hdu for hdu in hdus[1:] if getattr(hdu, "columns", None) is not None), None)
                if table is None:
                    raise DataError("is no FITS table of spectra: no table", where=path)
                units = {(unit or "").strip() for unit in table.columns.units}
                columns = {
                    _spectrum_name(str(name)): np.array(table.data[name], np.float64).ravel()
                    for name in table.columns.names
                }
                healpy = str(table.header.get("CREATOR", "")).strip() == "healpy" and len(columns) >= 5
    except fits_faults() as error:
        what = error.strerror if isinstance(error, FileNotFoundError) else str(error) or "no table"
        raise DataError(f"is no FITS table of spectra: {what}", where=path) from None
    if healpy:
        columns = {_HEALPY_SWAPS.get(name, name): values for name, values in columns.items()}
    if len({len(values) for values in columns.values()}) != 1:
        raise DataError("columns have different lengths", where=path)
    if len(units) > 1:
        raise DataError(f"columns have different units: {', '.join(sorted(units))}", where=path)
    unit = units.pop()
    return columns, "" if unit in ("^2", "unknown") else unit


def _spectrum_name(column: str) -> str:
    word = column.strip().upper()
    return _NAMES.get(word, word)


def _write_fits(path: Path, spectra: Spectra) -> None:
    from astropy.io import fits

    ordered = [name for name in SPECTRUM_NAMES if name in spectra]
    ordered += [name for name in spectra.names if name not in SPECTRUM_NAMES]
    columns: list[Any] = [
        fits.Column(_COLUMNS.get(name, name), "D", spectra.unit, array=spectra[name]) for name in ordered
    ]
    table = fits.BinTableHDU.from_columns(columns, name="POWER SPECTRUM")
    table.header["CREATOR"] = "petamap"
    table.header["MAX-LPOL"] = (spectra.l_max, "last multipole")
    table.header["POLAR"] = "EE" in spectra
    with_checksums([fits.PrimaryHDU(), table]).writeto(path, overwrite=True)
