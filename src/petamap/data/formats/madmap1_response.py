"""What pairs of weight and number in a MADmap v1 stream of I, Q and U say: pixel and response."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from petacomm.base.typing import AnyArray, BoolArray, FloatArray, Int32Array, UInt32Array
from petamap.pointing.angles import fractions_of_turns
from petamap.pointing.stokes_weights import SAME_EFFICIENCY, polarization_efficiencies, response_angles


class UnknownNumbers(NamedTuple):
    """Numbers of the unknowns of `n_pix` pixels.

    Of pixel p, I is unknown `stride` p; Q and U follow in steps of `step`. A stream of I alone has step 0.
    """

    n_pix: int
    stride: int = 1
    step: int = 0

    def pixels(self, numbers: AnyArray) -> Int32Array:
        """Return the pixels of samples, (n,), of the numbers of their unknowns, (n, 1 or 3)."""
        first: Int32Array = numbers[:, 0]
        # the numbers of samples that see nothing may be any, so that Q or U stands first
        return first // self.stride % self.n_pix if self.step else first

    def of_one_pixel(self, numbers: AnyArray) -> BoolArray:
        """Return whether the unknowns of samples, (n, 3), are I, Q and U of one pixel."""
        i, q, u = numbers.T
        found: BoolArray = (i % self.stride == 0) & (q - i == self.step) & (u - q == self.step)
        return found


def stokes_numbers(n_pix: int, numbers: AnyArray) -> UnknownNumbers | None:
    """Return the order of I, Q and U that numbers of a sample, (n, 3), have; None if they have none.

    They stand in blocks, p, p + n_pix, p + 2 n_pix, or interleaved, 3 p, 3 p + 1, 3 p + 2. One sample tells
    which, since both are the same for a single pixel alone.
    """
    orders = UnknownNumbers(n_pix, 1, n_pix), UnknownNumbers(n_pix, 3, 1)
    return next((order for order in orders if order.of_one_pixel(numbers).all()), None)


class DetectorResponse(NamedTuple):
    """Response of a detector to (I, Q, U): gain (intensity, efficiency cos phi, efficiency sin phi)."""

    intensity: float
    efficiency: float


def detector_response(weights: AnyArray) -> DetectorResponse:
    """Return the response of a detector, of weights of I, Q and U of its first samples, float32 (n, 3).

    A detector without I is a stream of polarization alone. The efficiency has the digits of the weights: it
    is 1 where rounded sines and cosines are not quite, and may be more, which is no detector's.
    """
    i, q, u = np.array(weights.T, np.float64)
    if not len(i):
        return DetectorResponse(1.0, 0.0)
    if np.median(np.abs(i)) == 0:
        return DetectorResponse(0.0, 1.0)
    efficiency = float(np.float32(np.median(polarization_efficiencies(i, q, u))))
    return DetectorResponse(1.0, 1.0 if 1 < efficiency <= 1 + SAME_EFFICIENCY else efficiency)


class SampleWeights:
    """Weights of I, Q and U of samples, float32 (n, 3); U of the IAU's convention changes its sign."""

    def __init__(self, weights: AnyArray, iau: bool) -> None:
        self._i, self._q, self._u = (weights[:, stokes].astype(np.float64) for stokes in range(3))
        if iau:
            self._u *= -1

    @property
    def finite(self) -> BoolArray:
        """Whether all weights of samples are finite."""
        return np.isfinite(self._i + self._q + self._u)

    @property
    def seen(self) -> BoolArray:
        """Whether samples see anything: their weights are not all 0."""
        found: BoolArray = (self._i != 0) | (self._q != 0) | (self._u != 0)
        return found

    def differ(self, response: DetectorResponse) -> BoolArray:
        """Return whether samples have another response than the detector, apart from gain and angle."""
        if response.intensity == 0:
            return np.not_equal(self._i, 0)
        gain, polarized = np.abs(self._i), np.sqrt(self._q**2 + self._u**2)
        found: BoolArray = np.abs(polarized - response.efficiency * gain) > SAME_EFFICIENCY * gain
        return found

    def gains(self, response: DetectorResponse) -> FloatArray:
        """Return the gains of samples."""
        return self._i if response.intensity else np.hypot(self._q, self._u)

    def angles(self) -> UInt32Array:
        """Return the response angles of samples, in units of 2 pi / 2^32."""
        return fractions_of_turns(response_angles(self._i, self._q, self._u))
