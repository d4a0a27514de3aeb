"""FITS tables with a row for each sample, read in pieces on demand."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import DataError, did_you_mean, printable
from petacomm.base.files import require_file
from petacomm.base.typing import AnyArray
from petamap.sky.checked_fits import fits_faults, fits_units


class FitsTable:
    """Table of a FITS file; columns are mapped to memory and read where they are used, on any rank.

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
        self.path, self._table = path, table
        try:
            with require_file(path).open("rb") as file:
                begin = file.read(6)
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from error
        if begin != b"SIMPLE":
            raise DataError("is no FITS file", where=str(path), mend="unpack it, if it is compressed")
        _, columns, self.where = self._opened
        self.names = tuple(str(name) for name in columns.names)
        self._units = {name: str(columns[name].unit or "").strip() for name in self.names}

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("_opened", "_known")}

    @cached_property
    def _opened(self) -> tuple[Any, Any, str]:
        return _open_table(self.path, self._table)

    @cached_property
    def _known(self) -> dict[str, AnyArray]:
        return {}

    def unit(self, name: str) -> str:
        """Return the unit of a column (TUNIT), empty if the file tells none."""
        return self._units[name]

    def place(self, row: int, name: str) -> str:
        """Return file, extension, row from 1 and column of a number, for messages."""
        return f"{self.where}, row {row + 1}, column {printable(name)}"

    def read_columns(self, names: Sequence[str]) -> FitsColumns:
        """Return columns by name, of numbers or bool (n_rows,); nan where a number is TNULL.

        Raises
        ------
        DataError
            If a column holds text, or several values a row.
        """
        for name in names:
            self.column(name)
        return FitsColumns(self, tuple(names))

    def column(self, name: str) -> AnyArray:
        """Return a column; see `read_columns`."""
        if name not in self._known:
            self._known[name] = self._checked(name)
        return self._known[name]

    def _checked(self, name: str) -> AnyArray:
        data, columns, _ = self._opened
        try:
            values = np.asarray(data.field(name))
        except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
            raise DataError(f"cannot be read: {error}", where=f"{self.where}, column {name}") from error
        if values.ndim != 1 or values.dtype.kind not in "fiub":
            kind = "text" if values.dtype.kind in "SU" else f"values of shape {values.shape[1:]}"
            where = f"{self.where}, column {printable(name)}"
            raise DataError(f"holds {kind}", where=where, mend="one number a row is needed")
        null = columns[name].null
        if null in (None, "") or values.dtype.kind == "f":
            return values
        return np.where(values == int(null), np.nan, values)


class FitsColumns(Mapping[str, AnyArray]):
    """Columns of a FITS table by name, (n_rows,)."""

    def __init__(self, table: FitsTable, names: tuple[str, ...]) -> None:
        self._table, self._names = table, names

    def __getitem__(self, name: str) -> AnyArray:
        return self._table.column(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _open_table(path: Path, table: str) -> tuple[Any, Any, str]:
    """Return rows, columns and place of a table."""
    from astropy.io import fits

    faults: tuple[type[BaseException], ...] = (*fits_faults(), MemoryError)
    try:
        with warnings.catch_warnings(), fits_units(path, memmap=True) as file:
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message=".*truncated")
            tables = [hdu for hdu in file if isinstance(hdu, fits.BinTableHDU | fits.TableHDU)]
            hdu = next((hdu for hdu in tables if table.upper() in ("", hdu.name)), None)
            if hdu is None:
                raise _no_table(path, table, [hdu.name for hdu in tables])
            return hdu.data, hdu.columns, f"{path}[{hdu.name or 'table'}]"
    except faults as error:
        raise DataError(f"is no readable FITS table: {error}", where=str(path)) from error


def _no_table(path: Path, table: str, known: list[str]) -> DataError:
    what = f"has no table '{printable(table)}'" if table else "has no table"
    return DataError(what, where=str(path), mend=did_you_mean(table, known) or "name a file with a table")
