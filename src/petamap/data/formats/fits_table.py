"""FITS tables with a row for each sample, read in pieces on demand."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import DataError, did_you_mean, printable
from petacomm.base.files import require_file
from petacomm.base.typing import AnyArray


class FitsTable:
    """Table of a FITS file; columns are mapped to memory and read where they are used.

    Parameters
    ----------
    path : Path
    table : str
        Name of the extension; empty for the first table.

    Raises
    ------
    DataError
        If the file is no FITS file, is cut short, or has no such table.
    """

    def __init__(self, path: Path, table: str = "") -> None:
        self.path = path
        try:
            with require_file(path).open("rb") as file:
                begin = file.read(6)
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from error
        if begin != b"SIMPLE":
            raise DataError("is no FITS file", where=str(path), mend="unpack it, if it is compressed")
        self._data, self._columns, self.where = _open_table(path, table)
        self.names = tuple(str(name) for name in self._columns.names)

    def unit(self, name: str) -> str:
        """Return the unit of a column (TUNIT), empty if the file tells none."""
        return str(self._columns[name].unit or "").strip()

    def place(self, row: int, name: str) -> str:
        """Return file, extension, row from 1 and column of a number, for messages."""
        return f"{self.where}, row {row + 1}, column {printable(name)}"

    def read_columns(self, names: Sequence[str]) -> dict[str, AnyArray]:
        """Return columns by name, of numbers or bool (n_rows,); nan where a number is TNULL.

        Raises
        ------
        DataError
            If a column holds text, or several values a row.
        """
        return {name: self._column(name) for name in names}

    def _column(self, name: str) -> AnyArray:
        try:
            values = np.asarray(self._data.field(name))
        except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
            raise DataError(f"cannot be read: {error}", where=f"{self.where}, column {name}") from error
        if values.ndim != 1 or values.dtype.kind not in "fiub":
            kind = "text" if values.dtype.kind in "SU" else f"values of shape {values.shape[1:]}"
            where = f"{self.where}, column {printable(name)}"
            raise DataError(f"holds {kind}", where=where, mend="one number a row is needed")
        null = self._columns[name].null
        if null in (None, "") or values.dtype.kind == "f":
            return values
        return np.where(values == int(null), np.nan, values)


def _open_table(path: Path, table: str) -> tuple[Any, Any, str]:
    """Return rows, columns and place of a table."""
    from astropy.io import fits

    faults = (
        OSError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        OverflowError,
        MemoryError,
        Warning,
    )
    try:
        with warnings.catch_warnings(), fits.open(path, memmap=True) as file:
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message=".*truncated")
            tables = [hdu for hdu in file if isinstance(hdu, fits.BinTableHDU | fits.TableHDU)]
            hdu = next((hdu for hdu in tables if table.upper() in ("", hdu.name)), None)
            if hdu is None:
                raise _no_table(path, table, [hdu.name for hdu in tables])
            return hdu.data, hdu.columns, f"{path}[{hdu.name or 'table'}]"
    except (*faults, fits.VerifyError) as error:
        raise DataError(f"is no readable FITS table: {error}", where=str(path)) from error


def _no_table(path: Path, table: str, known: list[str]) -> DataError:
    what = f"has no table '{printable(table)}'" if table else "has no table"
    return DataError(what, where=str(path), mend=did_you_mean(table, known) or "name a file with a table")
