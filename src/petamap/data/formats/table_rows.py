"""Rows of a table without gaps in time, of each of which an observation is made."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray, FloatArray
from petamap.data.formats.table_columns import TableFile

_GAP = 1.5  # sample periods beyond which samples are missing, and within which they are not
_SAME_RATE = 0.01  # relative difference of the rate of the times and that of the configuration
_EPOCHS = {"unix": (1.0, 0.0), "mjd": (86400.0, 40587.0), "jd": (86400.0, 2440587.5)}  # unit, 1970
_END = 4102444800.0  # Unix seconds, 2100


@dataclass(frozen=True, eq=False)
class TableRows:
    """Consecutive rows of a table.

    Attributes
    ----------
    table : TableFile
    first : int
        Number of the first of the rows in the table.
    columns : mapping of str to array (n_rows,)
        Columns of the table.
    sample_rate : float
        Hz.
    start_time : float
        Unix seconds of the first of the rows.
    seconds : float64 (n_samp,)
        Since then.
    """

    table: TableFile
    first: int
    columns: Mapping[str, AnyArray]
    sample_rate: float
    start_time: float
    seconds: FloatArray

    @property
    def n_samp(self) -> int:
        """Number of rows."""
        return len(self.seconds)

    @property
    def path(self) -> Path:
        """File of the table."""
        return self.table.path

    def column(self, name: str) -> AnyArray:
        """Return a column of these rows, (n_samp,)."""
        return self.columns[name][self.first : self.first + self.n_samp]

    def place(self, row: int, name: str) -> str:
        """Return the place of a number in one of these rows, for messages."""
        return self.table.place(self.first + row, name)


def split_rows(
    table: TableFile,
    columns: Mapping[str, AnyArray],
    name: str,
    *,
    sample_rate: float,
    start: float,
    time_format: str,
) -> list[TableRows]:
    """Return the rows of a table, in ranges that end where rows are missing.

    They are missing where the distance of times is more than 1.5 periods. Without times, rows are
    1 / `sample_rate` apart.

    Parameters
    ----------
    table, columns
        Table and its columns.
    name : str
        Column of the times; empty for none.
    sample_rate : float
        Hz; 0 for that of the times.
    start : float
        Unix seconds of time zero in the format "unix".
    time_format : {"unix", "mjd", "jd"}

    Raises
    ------
    DataError
        If the table has no rows, no rate is known, or times are not finite, do not increase, are not at equal
        distances, or are no dates.
    """
    n_rows = len(next(iter(columns.values())))
    if n_rows == 0:
        raise DataError("has no rows", where=str(table.path), mend="name a table with a row for each sample")
    if not name:
        if not sample_rate:
            raise DataError("has no column of times", where=str(table.path), mend="give sample_rate")
        return [TableRows(table, 0, columns, sample_rate, start, np.arange(n_rows) / sample_rate)]
    unit, epoch = _EPOCHS[time_format]
    times = columns[name].astype(np.float64)
    _check_table_times(table, name, times)
    rate, edges = _rate_and_gaps(table, name, (times - times[0]) * unit, sample_rate)
    zero = start if time_format == "unix" else 0.0
    if time_format != "unix" and not 0 <= (times[0] - epoch) * unit < _END:
        what, where = f"{times[0]:g} is no {time_format.upper()} of 1970 to 2100", table.place(0, name)
        raise DataError(what, where=where, mend="check time and time_format")
    return [
        TableRows(
            table,
            a,
            columns,
            rate,
            float(times[a] - epoch) * unit + zero,
            (times[a:b] - times[a]) * unit,
        )
        for a, b in itertools.pairwise(edges)
    ]


def _check_table_times(table: TableFile, name: str, times: FloatArray) -> None:
    bad = np.flatnonzero(~np.isfinite(times))
    if len(bad):
        raise DataError("the time is not finite", where=table.place(int(bad[0]), name), mend="remove the row")
    back = np.flatnonzero(~(np.diff(times) > 0))
    if len(back):
        row = int(back[0]) + 1
        what = f"times do not increase: {times[row - 1]} is followed by {times[row]}"
        raise DataError(what, where=table.place(row, name), mend="sort the rows by time")


def _rate_and_gaps(
    table: TableFile, name: str, seconds: FloatArray, sample_rate: float
) -> tuple[float, list[int]]:
    """Return the rate in Hz, and the edges of ranges without missing rows."""
    if len(seconds) == 1:
        if not sample_rate:
            raise DataError(
                "has one row, which tells no rate", where=str(table.path), mend="give sample_rate"
            )
        return sample_rate, [0, 1]
    steps = np.diff(seconds)
    period = float(np.median(steps))
    short = np.flatnonzero(steps < period * (2 - _GAP))
    if len(short):
        what = f"is {steps[short[0]]:.6g} s after the row before, most are {period:.6g} s"
        mend = "resample to equal distances"
        raise DataError(what, where=table.place(int(short[0]) + 1, name), mend=mend)
    gap = steps > period * _GAP
    rate = float(1 / steps[~gap].mean())
    if sample_rate and abs(rate / sample_rate - 1) > _SAME_RATE:
        what = f"its times tell a rate of {rate:.6g} Hz, sample_rate is {sample_rate:.6g} Hz"
        raise DataError(what, where=str(table.path), mend="leave sample_rate out, or mend time_format")
    return rate, [0, *(np.flatnonzero(gap) + 1).tolist(), len(seconds)]
