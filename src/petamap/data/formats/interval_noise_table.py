"""1/f noise of intervals from columns of a table: a row an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray, FloatArray
from petamap.data.formats.table_columns import TableFile, find_column
from petamap.data.observation import Observation
from petamap.noise.model import NoiseModel, OneOverF

# The parameters, and what they are where there is no column of them.
PARAMETERS = {"net": 0.0, "fknee": 0.0, "fmin": 0.0, "alpha": -1.0}
_DUE = {"net": "a positive number", "alpha": "a negative number"}


@dataclass(frozen=True, eq=False)
class NoiseByInterval:
    """1/f noise of each detector in each interval (implements `Noise`).

    Attributes
    ----------
    net, fknee, fmin, alpha : float64 (n_intervals, n_det)
        Parameters of `OneOverF`, which are checked as noise of them is made.
    """

    net: FloatArray
    fknee: FloatArray
    fmin: FloatArray
    alpha: FloatArray

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the model of a detector in an interval."""
        at = interval, detector
        return OneOverF(
            float(self.net[at]), float(self.fknee[at]), float(self.fmin[at]), float(self.alpha[at])
        )


def read_interval_noise(
    table: TableFile,
    observations: Sequence[Observation],
    patterns: Mapping[str, str],
    scale: float,
    places: Mapping[str, str],
) -> list[NoiseByInterval]:
    """Return the noise of observations from a table with a row for each interval of each, in their order.

    Where there are as many rows as one observation has intervals, all observations have them.

    Parameters
    ----------
    table : TableFile
    observations : sequence of Observation
    patterns : mapping of str to str
        Columns of the `PARAMETERS` that there are; ``*`` stands for the detector.
    scale : float
        Factor on the PSD.
    places : mapping of str to str
        Place of each option that the configuration sets.

    Raises
    ------
    ConfigError, DataError
        If a column is missing, there are too many or too few rows, or a number is no parameter of noise.
    """
    columns = {
        (key, name): find_column(table, key, pattern, name if "*" in pattern else "", places)
        for key, pattern in patterns.items()
        for name in dict.fromkeys(name for one in observations for name in one.detectors)
    }
    values = {
        column: one.astype(np.float64)
        for column, one in table.read_columns(list(dict.fromkeys(columns.values()))).items()
    }
    for (key, _), column in columns.items():
        _check_parameters(table, key, column, values[column])

    def parameter(key: str, one: Observation, rows: slice) -> FloatArray:
        if key not in patterns:
            return np.full((rows.stop - rows.start, one.n_det), PARAMETERS[key])
        found = np.stack([values[columns[key, name]][rows] for name in one.detectors], axis=1)
        return found * np.sqrt(scale) if key == "net" else found

    parts = _rows_of(table, len(next(iter(values.values()))), observations)
    return [
        NoiseByInterval(*(parameter(key, one, rows) for key in PARAMETERS))
        for one, rows in zip(observations, parts, strict=True)
    ]


def _rows_of(table: TableFile, n_rows: int, observations: Sequence[Observation]) -> list[slice]:
    """Return the rows of each observation."""
    counts = [max(1, len(one.intervals)) for one in observations]
    if n_rows == sum(counts):
        ends = np.cumsum(counts).tolist()
    elif set(counts) == {n_rows}:
        ends = [n_rows] * len(counts)
    else:
        what = f"has {n_rows} rows for {sum(counts)} intervals of {len(counts)} observations"
        raise DataError(what, where=str(table.path), mend="a row an interval, or one an interval of each")
    return [slice(end - n, end) for n, end in zip(counts, ends, strict=True)]


def _check_parameters(table: TableFile, key: str, column: str, values: AnyArray) -> None:
    """Raise an error that names the first row that is no parameter of 1/f noise."""
    signed = -values if key == "alpha" else values
    holds = np.isfinite(values) & ((signed >= 0) if key in ("fknee", "fmin") else (signed > 0))
    if not holds.all():
        row = int(np.argmin(holds))
        due = _DUE.get(key, "a frequency")
        raise DataError(f"is {values[row]:g}, not {due}", where=table.place(row, column))
