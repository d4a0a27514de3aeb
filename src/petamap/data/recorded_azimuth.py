"""Azimuth of the telescope as it was recorded, a number for each sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray, FloatArray


class RecordedAzimuth:
    """Recorded azimuth (implements `AzimuthTrack`).

    Parameters
    ----------
    read : callable
        Function (start, stop) that returns azimuths, (stop - start,), radians from north to east.
    place : callable
        Function of a sample that returns its place, for messages.
    """

    def __init__(self, read: Callable[[int, int], AnyArray], place: Callable[[int], str]) -> None:
        self._read, self._place = read, place

    def azimuths(self, start: int, stop: int) -> FloatArray:
        """Return the azimuth of samples [start, stop), float64 (stop - start,), radians.

        Raises
        ------
        DataError
            If one is not finite.
        """
        azimuths = np.asarray(self._read(start, stop), np.float64)
        bad = np.flatnonzero(~np.isfinite(azimuths))
        if len(bad):
            what = f"the azimuth is {azimuths[bad[0]]}"
            raise DataError(what, where=self._place(start + int(bad[0])), mend="mend or cut these samples")
        return azimuths
