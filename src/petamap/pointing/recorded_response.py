"""Recorded responses: angles and gains of all samples, on lines of sight that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy.typing as npt

from petacomm.base.typing import Float32Array, FloatArray, Int32Array, UInt32Array
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.recorded import Reader
from petamap.sky.pixelization import Pixelization


class RecordedResponse:
    """Pointing whose response to (I, Q, U) is recorded for each sample: gain (1, e cos phi, e sin phi).

    Implements `Pointing`. It is not compressed: pixels, angles and gains are kept in memory.

    Parameters
    ----------
    sight : CompressedPointing
        Lines of sight. Recorded angles are added to its own, so they turn with it into other frames.
    gains : callable, optional
        Function (detector, start, stop) that returns gains, float32.
    angles : callable, optional
        Function (detector, start, stop) that returns response angles, uint32 in units of 2 pi / 2^32.
    efficiency : callable
        Function of a detector that returns its polarization efficiency.

    Attributes
    ----------
    sight : CompressedPointing

    Raises
    ------
    DataError
        From what reads gains and angles.
    """

    def __init__(
        self,
        sight: CompressedPointing,
        gains: Reader | None,
        angles: Reader | None,
        efficiency: Callable[[int], float],
    ) -> None:
        self.sight, self._gains, self._angles, self._efficiency = sight, gains, angles, efficiency

    @property
    def n_samp(self) -> int:
        """Number of samples."""
        return self.sight.n_samp

    @property
    def n_det(self) -> int:
        """Number of detectors."""
        return self.sight.n_det

    @property
    def has_gains(self) -> bool:
        """Whether gains are recorded."""
        return self._gains is not None

    def intensity(self, detector: int) -> float:
        """Return the intensity weight of a detector: 1."""
        return 1.0

    def efficiency(self, detector: int) -> float:
        """Return the polarization efficiency of a detector."""
        return self._efficiency(detector)

    def rotated(self, rotation: npt.ArrayLike) -> RecordedResponse:
        """Return the pointing in another sky frame, given the quaternion from this one to it."""
        return RecordedResponse(self.sight.rotated(rotation), self._gains, self._angles, self._efficiency)

    def turned(self, rotations: Callable[[FloatArray], FloatArray]) -> RecordedResponse:
        """Return the pointing in a frame that moves (see `CompressedPointing.turned`)."""
        return RecordedResponse(self.sight.turned(rotations), self._gains, self._angles, self._efficiency)

    def of_detectors(self, numbers: Sequence[int]) -> RecordedResponse:
        """Return the pointing of some of the detectors."""
        rows = list(numbers)
        return RecordedResponse(
            self.sight.of_detectors(rows),
            _of_rows(self._gains, rows),
            _of_rows(self._angles, rows),
            lambda detector: self._efficiency(rows[detector]),
        )

    def expand(
        self,
        pixelization: Pixelization,
        detector: int,
        start: int,
        stop: int,
        pixels: Int32Array,
        angles: UInt32Array | None,
        gains: Float32Array | None = None,
    ) -> None:
        """Write pixel numbers, response angles and gains of samples [start, stop)."""
        self.sight.expand(pixelization, detector, start, stop, pixels, angles, gains)
        if angles is not None and self._angles is not None:
            angles += self._angles(detector, start, stop)
        if gains is not None and self._gains is not None:
            gains[:] = self._gains(detector, start, stop)

    def directions(self, detector: int, start: int, stop: int) -> tuple[FloatArray, UInt32Array]:
        """Return unit vectors (n, 3) and response angles (n,)."""
        vectors, angles = self.sight.directions(detector, start, stop)
        if self._angles is not None:
            angles += self._angles(detector, start, stop)
        return vectors, angles


def _of_rows(read: Reader | None, rows: list[int]) -> Reader | None:
    if read is None:
        return None
    return lambda detector, start, stop: read(rows[detector], start, stop)
