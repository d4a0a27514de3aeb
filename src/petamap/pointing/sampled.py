"""Pointing given for each sample of each detector, as angles or quaternions, and kept where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

import petamap.pointing._pointing as kernels
from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray, Float32Array, FloatArray, Int32Array, UInt32Array
from petamap.pointing import quaternion
from petamap.pointing.angles import fractions_of_turns
from petamap.pointing.boresight import NO_PLATE
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.recorded import Reader
from petamap.pointing.recorded_response import RecordedResponse
from petamap.sky.pixelization import Pixelization

_AT_ONCE = 1 << 12  # samples whose quaternions are in cache
_ALONG = np.array([[0.0, 0.0, 0.0, 1.0]])  # the quaternion of a detector that looks along the boresight


class SampledPointing:
    """Pointing of which each sample of each detector is given, expanded on demand (implements `Pointing`).

    A quaternion goes through the kernels that expand `CompressedPointing` with a knot at every sample, so
    pixels and response angles have the same bits. It is not compressed: map-making keeps pixels and angles.

    Parameters
    ----------
    attitudes : callable
        Function (detector, start, stop) that returns quaternions (n, 4) of the detector on the sky. A sample
        that is not finite is outside of all maps.
    n_det, n_samp : int
    efficiency : (n_det,) float64
        Polarization efficiencies.
    turns : callable, optional
        Function (detector, start, stop) that returns what a half-wave plate adds to response angles, radians.
    psi : callable, optional
        Function (detector) that returns the polarization angles (n_samp,) of the attitudes, radians. With it
        response angles are twice these.
    """

    has_gains = False

    def __init__(
        self,
        attitudes: Reader,
        n_det: int,
        n_samp: int,
        efficiency: FloatArray,
        turns: Reader | None = None,
        psi: Callable[[int], AnyArray] | None = None,
    ) -> None:
        self.n_det, self.n_samp = n_det, n_samp
        self._attitudes, self._efficiency, self._turns = attitudes, efficiency, turns
        self._psi = psi

    def intensity(self, detector: int) -> float:
        """Return the intensity weight of a detector: 1."""
        return 1.0

    def efficiency(self, detector: int) -> float:
        """Return the polarization efficiency of a detector."""
        return float(self._efficiency[detector])

    def psi(self, detector: int) -> FloatArray | None:
        """Return the polarization angles (n_samp,) of a detector, radians, if kernels can read them in place.

        None where response angles are not twice these, or these are not contiguous or not float64.
        """
        row = None if self._psi is None or self._turns is not None else self._psi(detector)
        return row if row is not None and row.dtype == np.float64 and row.flags.c_contiguous else None

    def rotated(self, rotation: npt.ArrayLike) -> SampledPointing:
        """Return the pointing in another sky frame, given the quaternion from this one to it."""
        turn = np.array(rotation, np.float64)
        return self.turned(lambda samples: turn)

    def turned(self, rotations: Callable[[FloatArray], FloatArray]) -> SampledPointing:
        """Return the pointing in a frame that moves (see `CompressedPointing.turned`)."""
        before = self._attitudes

        def attitudes(detector: int, start: int, stop: int) -> AnyArray:
            samples = np.arange(start, stop, dtype=np.float64)
            return quaternion.multiply(rotations(samples), before(detector, start, stop))

        return SampledPointing(attitudes, self.n_det, self.n_samp, self._efficiency, self._turns)

    def of_detectors(self, numbers: Sequence[int]) -> SampledPointing:
        """Return the pointing of some of the detectors."""
        rows, attitudes, turns, psi = list(numbers), self._attitudes, self._turns, self._psi
        return SampledPointing(
            lambda detector, start, stop: attitudes(rows[detector], start, stop),
            len(rows), self.n_samp, self._efficiency[rows],
            None if turns is None else lambda detector, start, stop: turns(rows[detector], start, stop),
            None if psi is None else lambda detector: psi(rows[detector]),
        )  # fmt: skip

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
        """Write pixel numbers and response angles of samples [start, stop); gains are 1."""
        self._check(detector, start, stop)
        for begin, end in _parts(start, stop):
            part = slice(begin - start, end - start)
            own = None if angles is None else angles[part]
            kernels.expand(self._arguments(detector, begin, end), pixelization.grid, 0, 0, pixels[part], own)
            if own is not None:
                self._finish(detector, begin, end, own)
        if gains is not None:
            gains[:] = 1

    def directions(self, detector: int, start: int, stop: int) -> tuple[FloatArray, UInt32Array]:
        """Return unit vectors (n, 3) and response angles (n,)."""
        self._check(detector, start, stop)
        vectors, angles = np.empty((stop - start, 3)), np.empty(stop - start, np.uint32)
        for begin, end in _parts(start, stop):
            part = slice(begin - start, end - start)
            kernels.directions(self._arguments(detector, begin, end), 0, 0, vectors[part], angles[part])
            self._finish(detector, begin, end, angles[part])
        return vectors, angles

    def _arguments(self, detector: int, start: int, stop: int) -> tuple[object, ...]:
        """Return samples [start, stop) as the kernels take a boresight with a knot at each."""
        knots = _unit(np.asarray(self._attitudes(detector, start, stop), np.float64))
        n = len(knots)
        if n == 1:  # an interval has two ends
            knots = np.repeat(knots, 2, axis=0)
        ranges = np.array([[0, 0], [n, len(knots)]], np.int64)
        boresight = knots, ranges, np.array([[1.0, 0.0, 1.0]])
        return (
            *boresight,
            _ALONG,
            _ALONG,
            np.zeros(1, np.int64),
            np.zeros(1, np.uint32),
            *NO_PLATE,
            np.ones(1),
        )

    def _finish(self, detector: int, start: int, stop: int, angles: UInt32Array) -> None:
        """Write or turn response angles that are not those of the attitudes alone."""
        if self._psi is not None:
            row = self._psi(detector)[start:stop]
            kernels.response_angles(np.ascontiguousarray(row, np.float64), angles)
        if self._turns is not None:
            angles += fractions_of_turns(np.asarray(self._turns(detector, start, stop), np.float64))

    def _check(self, detector: int, start: int, stop: int) -> None:
        if not (0 <= detector < self.n_det and 0 <= start <= stop <= self.n_samp):
            raise DataError(f"samples [{start}, {stop}) of {self.n_samp}", where=f"detector {detector}")


DirectedPointing: TypeAlias = CompressedPointing | RecordedResponse | SampledPointing
"""Pointing with directions, which can be turned into other frames, and of which detectors can be chosen."""


def attitudes_of_angles(theta: AnyArray, phi: AnyArray, psi: AnyArray | None) -> FloatArray:
    """Return the quaternions of colatitudes, longitudes and polarization angles, (n, 4).

    Rz(phi) Ry(theta) Rz(psi), as `quaternion.from_angles` makes them of products.

    Parameters
    ----------
    theta, phi : (n,)
        Radians.
    psi : (n,), optional
        Radians from the southward meridian to the east (COSMO).
    """
    roll = np.zeros(len(theta)) if psi is None else psi
    theta, phi, roll = (np.ascontiguousarray(one, np.float64) for one in (theta, phi, roll))
    found = np.empty((len(theta), 4))
    kernels.attitudes(theta, phi, roll, found)
    return found


def _parts(start: int, stop: int) -> list[tuple[int, int]]:
    return [(begin, min(begin + _AT_ONCE, stop)) for begin in range(start, stop, _AT_ONCE)]


def _unit(q: FloatArray) -> FloatArray:
    """Return quaternions of length 1, with the bits of `unit_quaternions`; nan where they are not finite."""
    found = np.empty(q.shape)
    kernels.unit(np.ascontiguousarray(q), found)
    return found
