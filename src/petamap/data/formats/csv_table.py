"""Text tables: a line of names, then a row of numbers for each sample; commas or the like between them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from petacomm.base.errors import DataError, printable
from petacomm.base.files import require_file
from petacomm.base.typing import FloatArray, Int64Array

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "blank": " "}
_LARGEST = 2**31  # bytes
_CHUNK = 1 << 16  # rows that are converted at once


class CsvTable:
    """Text table; names are read when it is opened, numbers by `read_columns`.

    Lines that begin with ``#`` and empty lines are left out; the names may stand in the last ``#`` line
    before the numbers.

    Parameters
    ----------
    path : Path
    delimiter : str
        "auto", or one of `DELIMITERS`.

    Raises
    ------
    DataError
        If the file cannot be read or has no names of columns.
    """

    def __init__(self, path: Path, delimiter: str = "auto") -> None:
        self.path = path
        self._lines: Int64Array = np.zeros(0, np.int64)
        with _reading(path):
            size = require_file(path).stat().st_size
        if size > _LARGEST:
            mend = "make a FITS table or a volume of it"
            raise DataError(f"is larger than {_LARGEST >> 20} MiB", where=str(path), mend=mend)
        head, self._first_line = self._head()
        self._delimiter = DELIMITERS.get(delimiter) or _delimiter_of(head)
        with _reading(path):
            self.names = tuple(name.strip() for name in next(self._split(iter([head]))))

    def unit(self, name: str) -> str:
        """Return an empty unit: text tables tell none."""
        return ""

    def place(self, row: int, name: str) -> str:
        """Return file, line and column of a number, for messages."""
        return f"{self.path}:{self._lines[row]}, column {printable(name)}"

    def read_columns(self, names: Sequence[str]) -> dict[str, FloatArray]:
        """Return columns by name, float64 (n_rows,); reads the whole file.

        Raises
        ------
        DataError
            If a row has more or fewer columns than there are names, or holds text in the place of a number;
            names the line and the column.
        """
        wanted = {name: self.names.index(name) for name in names}
        chunks: list[FloatArray] = []
        lines: list[int] = []
        rows: list[list[str]] = []
        with _reading(self.path), require_file(self.path).open(encoding="utf-8-sig", newline="") as file:
            for line, row in self._rows(file):
                lines.append(line)
                rows.append(row)
                if len(rows) == _CHUNK:
                    chunks.append(self._numbers(rows, lines, wanted))
                    rows = []
            chunks.append(self._numbers(rows, lines, wanted))
        self._lines = np.array(lines, np.int64)
        table = np.concatenate(chunks, axis=1)
        return dict(zip(wanted, table, strict=True))

    def _rows(self, file: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield line and words of each row after the names."""
        numbered = ((line, text) for line, text in enumerate(file, start=1) if line > self._first_line)
        last = [self._first_line]

        def kept() -> Iterator[str]:
            for line, text in numbered:
                if text.strip() and not text.lstrip().startswith("#"):
                    last[0] = line
                    yield text

        for row in self._split(kept()):
            if len(row) != len(self.names):
                what = f"{len(row)} columns where there are {len(self.names)} names"
                raise DataError(what, where=f"{self.path}:{last[0]}", mend="complete or remove the row")
            yield last[0], row

    def _split(self, lines: Iterator[str]) -> Iterator[list[str]]:
        if self._delimiter == " ":
            return (line.split() for line in lines)
        return csv.reader(lines, delimiter=self._delimiter, strict=True)

    def _numbers(self, rows: list[list[str]], lines: list[int], wanted: dict[str, int]) -> FloatArray:
        """Return the numbers of rows, (n_columns, n_rows); `lines` ends with the lines of these rows."""
        out = np.empty((len(wanted), len(rows)))
        for values, (name, k) in zip(out, wanted.items(), strict=True):
            try:
                values[:] = [float(row[k]) for row in rows]
            except ValueError:
                bad = next(i for i, row in enumerate(rows) if not _is_number(row[k]))
                where = f"{self.path}:{lines[bad - len(rows)]}, column {printable(name)}"
                what = f"'{printable(rows[bad][k])}' is no number"
                raise DataError(what, where=where, mend="write nan where there is none") from None
        return out

    def _head(self) -> tuple[str, int]:
        """Return the line of names, and its number."""
        comment = ("", 0)
        with _reading(self.path), require_file(self.path).open(encoding="utf-8-sig", newline="") as file:
            for line, text in enumerate(file, start=1):
                words = text.strip()
                if words.startswith("#"):
                    comment = (words.lstrip("# "), line)
                elif words and not _is_row(words):
                    return words, line
                elif words and comment[0]:
                    return comment
                elif words:
                    raise DataError(
                        "begins with numbers, not with the names of the columns",
                        where=f"{self.path}:{line}",
                        mend="write a line of names above, as time,ra,dec,psi,signal",
                    )
        raise DataError("is empty", where=str(self.path), mend="name a table with a row for each sample")


def _delimiter_of(head: str) -> str:
    return next((mark for mark in (",", ";", "\t") if mark in head), " ")


def _is_row(text: str) -> bool:
    """Return whether a line holds numbers alone."""
    for mark in (",", ";", "\t"):
        text = text.replace(mark, " ")
    return all(_is_number(word) for word in text.split())


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Make DataErrors of what can be wrong with the text of a file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise DataError("is no text in UTF-8", where=str(path), mend="name a text or FITS table") from error
    except csv.Error as error:
        raise DataError(f"is no table: {error}", where=str(path)) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from error
