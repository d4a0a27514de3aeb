"""Pixel numbers and responses to I, Q, U that a table gives for each sample of each detector."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import BoolArray, Float32Array, FloatArray, Int32Array, UInt32Array
from petamap.data.formats.table_columns import TableLayout
from petamap.data.formats.table_pointing import AngleConvention, table_angles
from petamap.data.formats.table_rows import TableRows
from petamap.data.formats.table_samples import TableSamples
from petamap.pointing.stokes_weights import SAME_EFFICIENCY, response_angles
from petamap.sky.pixelization import Pixelization

_TURN = 2**32


class TableResponses:
    """Response of each sample to (I, Q, U): (wI, wQ, wU) = gain (1, e cos phi, e sin phi).

    Hence gain = wI, e = (wQ^2 + wU^2)^1/2 / |wI|, which is one number a detector, and
    phi = atan2(wU, wQ), turned by half a turn where wI < 0. Samples with wI = wQ = wU = 0 see nothing.

    Parameters
    ----------
    rows : TableRows
    layout : TableLayout
        Its columns `response_i`, `response_q`, `response_u`, or `psi` of detectors.
    convention : AngleConvention
        Whether angles count from north to east (IAU): then U changes its sign.
    samples : TableSamples
        Says which samples are bad: their responses are not looked at.
    """

    def __init__(
        self, rows: TableRows, layout: TableLayout, convention: AngleConvention, samples: TableSamples
    ) -> None:
        self._rows, self._layout, self._convention, self._samples = rows, layout, convention, samples
        self._efficiencies: dict[int, float] = {}

    @property
    def has_gains(self) -> bool:
        """Whether there are columns of wI."""
        return bool(self._layout.response_i)

    @property
    def has_angles(self) -> bool:
        """Whether there are columns of wQ and wU, or of angles."""
        return bool(self._layout.response_q or self._layout.psi_each)

    def gains(self, detector: int, start: int, stop: int) -> Float32Array:
        """Return wI of samples [start, stop), float32; 0 where it is not finite, in samples that are bad."""
        gains = self._read("response_i", detector, start, stop)
        return np.where(np.isfinite(gains), gains, 0.0).astype(np.float32)

    def angles(self, detector: int, start: int, stop: int) -> UInt32Array:
        """Return response angles of samples [start, stop), uint32 in units of 2 pi / 2^32."""
        if self._layout.response_q:
            q, u = (self._read(f"response_{key}", detector, start, stop) for key in "qu")
            named = bool(self._layout.response_i)
            phi = response_angles(self._read("response_i", detector, start, stop) if named else 1.0, q, u)
        else:
            name = self._layout.psi_each[detector]
            phi = 2 * table_angles(self._rows, name, self._convention.unit, start, stop)
        phi = np.where(np.isfinite(phi), -phi if self._convention.iau else phi, 0.0)
        turns = np.round(phi * (_TURN / (2 * np.pi))).astype(np.int64) % _TURN
        return turns.astype(np.uint32)

    def efficiency(self, detector: int) -> float:
        """Return the polarization efficiency of a detector: the median over its good samples.

        Raises
        ------
        DataError
            If a response of a good sample is not finite, or efficiencies of samples differ, or exceed 1.
        """
        if not self._layout.response_q:
            return 1.0 if self.has_angles else 0.0
        if detector not in self._efficiencies:
            self._efficiencies[detector] = self._common_efficiency(detector)
        return self._efficiencies[detector]

    def _common_efficiency(self, detector: int) -> float:
        n_samp = self._rows.n_samp
        q, u = (self._read(f"response_{key}", detector, 0, n_samp) for key in "qu")
        i = np.ones(n_samp)
        if self._layout.response_i:
            i = self._read("response_i", detector, 0, n_samp)
        flags = np.zeros(n_samp, np.uint8)
        self._samples.or_flags(detector, 0, n_samp, flags)
        good = flags == 0
        for key, values in (("i", i), ("q", q), ("u", u)):
            if key != "i" or self._layout.response_i:
                self._require(
                    np.isfinite(values) | ~good, detector, key, values, "is {:g}", "flag such samples"
                )
        polarized = np.hypot(q, u)
        good &= (i != 0) | (polarized != 0)
        mend = "a difference of detectors, which does not see I, cannot be mapped: give the detectors"
        self._require((i != 0) | ~good, detector, "i", i, "is {:g} where that to Q or U is not", mend)
        each = np.divide(polarized, np.abs(i), out=np.zeros(n_samp), where=good)
        return self._one_number(detector, each, good)

    def _one_number(self, detector: int, each: FloatArray, good: BoolArray) -> float:
        """Return the efficiency that all good samples have."""
        common = float(np.median(each[good])) if good.any() else 0.0
        same = np.abs(each - common) <= SAME_EFFICIENCY
        what = f"makes a polarization efficiency of {{:.7g}}, that of the detector is {common:.7g}"
        mend = "one number a detector: map samples of another efficiency as a detector of their own"
        self._require(same | ~good, detector, "q", each, what, mend)
        if common > 1 + SAME_EFFICIENCY:
            name = self._layout.detectors[detector]
            raise DataError(
                f"a polarization efficiency (wQ^2 + wU^2)^1/2 / |wI| of {common:.7g}, more than 1",
                where=f"{self._rows.path}, detector {name}", mend="check the columns of responses",
            )  # fmt: skip
        return min(common, 1.0)

    def _require(
        self, valid: BoolArray, detector: int, key: str, values: FloatArray, what: str, mend: str
    ) -> None:
        bad = np.flatnonzero(~valid)
        if len(bad):
            column = getattr(self._layout, f"response_{key}")[detector]
            name, sample = self._layout.detectors[detector], int(bad[0])
            where = f"{self._rows.place(sample, column)}, detector {name}, sample {sample}"
            raise DataError("the response " + what.format(values[sample]), where=where, mend=mend)

    def _read(self, key: str, detector: int, start: int, stop: int) -> FloatArray:
        name = getattr(self._layout, key)[detector]
        return self._rows.column(name)[start:stop].astype(np.float64)


class TablePixels:
    """Pixel numbers of a table.

    Parameters
    ----------
    rows : TableRows
    layout : TableLayout
        Its columns `pixel`.
    pixelization : Pixelization
        Pixelization of the numbers.
    """

    def __init__(self, rows: TableRows, layout: TableLayout, pixelization: Pixelization) -> None:
        self._rows, self._layout, self.pixelization = rows, layout, pixelization

    def read(self, detector: int, start: int, stop: int) -> Int32Array:
        """Return the pixel numbers of samples [start, stop), int32, -1 for none.

        Raises
        ------
        DataError
            If a number is no integer, or none of the pixels.
        """
        name = self._layout.pixel[detector]
        values = self._rows.column(name)[start:stop].astype(np.float64)
        n_pix = self.pixelization.n_pix
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(~((values == np.trunc(values)) & (values >= -1) & (values < n_pix)))
        if len(bad):
            what = f"pixel {values[bad[0]]:.12g} of {n_pix}"
            where = self._rows.place(start + int(bad[0]), name)
            raise DataError(what, where=where, mend=f"write 0 to {n_pix - 1}, or -1 for no pixel")
        return values.astype(np.int32)
