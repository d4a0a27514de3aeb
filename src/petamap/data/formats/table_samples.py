"""Signal, flags and noise of a table."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import BoolArray, FloatArray, UInt8Array
from petamap.data.formats.table_columns import TableLayout
from petamap.data.formats.table_rows import TableRows
from petamap.noise.model import OneOverF

_SAME_WEIGHT = 1e-3  # relative difference of weights of the same noise


class TableSamples:
    """Signal, flags and white noise of the detectors of a table (implements `Signal`, `Flags`, `Noise`).

    Parameters
    ----------
    rows : TableRows
    layout : TableLayout
        What the columns are.
    mask : int
        Bits of the flags that say bad; 0 for all.
    """

    def __init__(self, rows: TableRows, layout: TableLayout, mask: int = 0) -> None:
        self._rows, self._layout, self._mask = rows, layout, mask

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, divided by the gain if there is one."""
        values = self._read(self._layout.signal[detector], start, stop)
        if self._layout.gain:
            with np.errstate(divide="ignore", invalid="ignore"):
                values = values / self._read(self._layout.gain[detector], start, stop)
        out += values

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out` to 1 for samples whose flags have a bit of the mask, or whose weight is 0.

        Raises
        ------
        DataError
            If a flag is no integer.
        """
        if self._layout.flags:
            name = self._layout.flags[detector]
            flags = self._read(name, start, stop)
            with np.errstate(invalid="ignore"):
                self._require(np.abs(flags) <= 2**53, flags, name, start, "a flag", "write 0 or an integer")
                self._require(flags == np.trunc(flags), flags, name, start, "a flag", "write an integer")
            out |= (flags.astype(np.int64) & (self._mask or -1)) != 0
        if self._layout.weight:
            out |= self._weights(detector, start, stop) == 0

    def noise_model(self, detector: int, interval: int) -> OneOverF:
        """Return the white noise that the weights tell: net = (weight * rate)^-1/2.

        Raises
        ------
        DataError
            If the weights of samples that are not flagged differ: the noise is stationary.
        """
        weights = self._weights(detector, 0, self._rows.n_samp)
        good = np.flatnonzero(weights)
        first = float(weights[good[0]]) if len(good) else 1.0
        same = (weights == 0) | (np.abs(weights - first) <= _SAME_WEIGHT * first)
        mend = "weigh by one number, or leave weight out"
        name = self._layout.weight[detector]
        self._require(same, weights, name, 0, f"after {first:g} a weight", mend)
        return OneOverF((first * self._rows.sample_rate) ** -0.5, 0.0, 0.0, -1.0)

    def _weights(self, detector: int, start: int, stop: int) -> FloatArray:
        name = self._layout.weight[detector]
        weights = self._read(name, start, stop)
        valid = np.isfinite(weights) & (weights >= 0)
        self._require(valid, weights, name, start, "a weight", "write 1 / variance, or 0 for a bad sample")
        return weights

    def _read(self, name: str, start: int, stop: int) -> FloatArray:
        return self._rows.column(name)[start:stop].astype(np.float64)

    def _require(
        self, valid: BoolArray, values: FloatArray, name: str, start: int, what: str, mend: str
    ) -> None:
        bad = np.flatnonzero(~valid)
        if len(bad):
            where = self._rows.place(start + int(bad[0]), name)
            raise DataError(f"{what} of {values[bad[0]]:g}", where=where, mend=mend)
