"""Tables by their suffixes: text or FITS."""

from __future__ import annotations

from pathlib import Path

from petamap.data.formats.csv_table import CsvTable
from petamap.data.formats.fits_table import FitsTable

FITS_SUFFIXES = (".fits", ".fit")
TEXT_SUFFIXES = (".csv", ".txt", ".tsv", ".dat")


def open_table(path: Path, kind: str, table: str, delimiter: str) -> CsvTable | FitsTable:
    """Return a table whose columns can be read.

    Parameters
    ----------
    path : Path
    kind : {"auto", "text", "fits"}
        "auto" is "fits" where the suffix says so.
    table : str
        Name of the extension of FITS; empty for the first table.
    delimiter : str
        Of text: "auto", or one of `petamap.data.formats.csv_table.DELIMITERS`.

    Raises
    ------
    DataError
        If it is no file, or no such table.
    """
    is_fits = path.suffix.lower() in FITS_SUFFIXES if kind == "auto" else kind == "fits"
    return FitsTable(path, table) if is_fits else CsvTable(path, delimiter)
