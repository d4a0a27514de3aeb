"""Compressed pointing: boresight knots, one quaternion per detector, and a half-wave plate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

import petamap.pointing._pointing as kernels
from petacomm.base.arguments import real_array
from petacomm.base.display import Displayed
from petacomm.base.errors import DataError
from petacomm.base.typing import Float32Array, FloatArray, Int32Array, Int64Array, UInt32Array
from petamap.pointing import quaternion
from petamap.pointing.angles import fractions_of_turns
from petamap.pointing.boresight import (
    AnyBoresight,
    boresight_arguments,
    turned_boresight,
)
from petamap.pointing.half_wave_plate import HalfWavePlate, plate_arguments
from petamap.pointing.unit_knots import unit_quaternions
from petamap.sky.pixelization import Pixelization

_STEPS = 2.0**42  # of 1, in rounded lines of sight


class CompressedPointing(Displayed):
    """Pointing of all detectors of an observation, expanded on demand (implements `Pointing`).

    The line of sight of a detector is Z of ``boresight * detector``; its polarization axis is X. Its response
    is ``w I + e (Q cos phi + U sin phi)`` with e = (1 - epsilon) / (1 + epsilon). Without a half-wave plate
    phi = 2 a, with a measured from the southward meridian to the east (COSMO); with an ideal half-wave plate
    phi = 2 a - 4 gamma + 4 plate, where gamma is the polarization angle in the focal plane.

    Parameters
    ----------
    boresight : Boresight, PiecewiseBoresight or callable
        A function without arguments is called at first use, so that a rank computes no knots of observations
        that it does not process. It must return the same boresight at each call.
    detectors : (n_det, 4) float64
        Quaternions (x, y, z, w) from the detector frames to the telescope frame.
    epsilon : (n_det,) float64, optional
        Cross-polar leakage, from 0 (perfect polarizer, the default) to 1 (unpolarized).
    gamma : (n_det,) float64, optional
        Polarization angles in the focal plane, radians. Default: 2 atan2(z, w) of each quaternion.
    plate : UniformPlate or SampledPlate, optional
        Half-wave plate.
    n_samp : int, optional
        Number of samples of the observation; required if `boresight` is a function.
    intensity : (n_det,) float64, optional
        Intensity weights w: 1 (the default) for detectors, 0 for streams of Q or U made of their signals.

    Raises
    ------
    DataError
        If a quaternion is not a rotation, an epsilon or intensity is outside [0, 1], or the plate is not
        finite or does not cover all samples.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> half = 0.005 * np.arange(101)
    >>> boresight = petamap.Boresight(np.stack([0 * half, np.sin(half), 0 * half, np.cos(half)], 1), 101)
    >>> pointing = petamap.CompressedPointing(boresight, [[0.0, 0.0, 0.0, 1.0]])
    >>> pixels, angles = np.empty(101, np.int32), np.empty(101, np.uint32)
    >>> pointing.expand(petamap.Healpix(16), 0, 0, 101, pixels, angles)
    >>> len(set(pixels.tolist()))
    18
    """

    has_gains = False

    def _facts(self) -> dict[str, object]:
        return {"n_det": self.n_det, "n_samp": f"{self._n_samp:,}"}

    def __init__(
        self,
        boresight: AnyBoresight | Callable[[], AnyBoresight],
        detectors: npt.ArrayLike,
        *,
        epsilon: npt.ArrayLike | None = None,
        gamma: npt.ArrayLike | None = None,
        plate: HalfWavePlate | None = None,
        n_samp: int | None = None,
        intensity: npt.ArrayLike | None = None,
    ) -> None:
        if not callable(boresight):
            n_samp = getattr(boresight, "n_samp", None)
        if n_samp is None:
            raise TypeError("boresight must be a Boresight, or a function of which n_samp is given")
        self._boresight = boresight
        self._n_samp = n_samp
        self.detectors = np.ascontiguousarray(unit_quaternions(detectors, "detector"))
        self.epsilon = _fractions(epsilon, self.n_det, "epsilon", 0.0)
        self._intensity = _fractions(intensity, self.n_det, "intensity", 1.0)
        default = 2 * np.arctan2(self.detectors[:, 2], self.detectors[:, 3])
        self.gamma = default if gamma is None else _per_detector(gamma, self.n_det, "gamma")
        self.plate = plate
        self._efficiency = (1 - self.epsilon) / (1 + self.epsilon)
        self._plate_arguments = plate_arguments(plate, n_samp)

    @cached_property
    def boresight(self) -> AnyBoresight:
        """Boresight of the observation, computed at first use if it was given as a function."""
        boresight = self._boresight() if callable(self._boresight) else self._boresight
        if boresight.n_samp != self._n_samp:
            raise DataError(f"a boresight of {boresight.n_samp} samples for {self._n_samp}")
        return boresight

    @cached_property
    def _lines_of_sight(self) -> tuple[FloatArray, Int64Array, FloatArray]:
        return lines_of_sight(self.detectors)

    @property
    def sight_of(self) -> Int64Array:
        """Number of the line of sight of each detector, (n_det,): the same for those that look alike."""
        return self._lines_of_sight[1]

    @cached_property
    def _arguments(self) -> tuple[object, ...]:
        sights, sight_of, angles = self._lines_of_sight
        turns = 2 * angles - (0 if self.plate is None else 4 * self.gamma)
        return (
            *boresight_arguments(self.boresight), self.detectors, sights, sight_of, fractions_of_turns(turns),
            *self._plate_arguments, self._efficiency,
        )  # fmt: skip

    @property
    def n_samp(self) -> int:
        """Number of samples of the observation."""
        return self._n_samp

    @property
    def n_det(self) -> int:
        """Number of detectors."""
        return len(self.detectors)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(part.nbytes for part in self._arguments if isinstance(part, np.ndarray))

    def intensity(self, detector: int) -> float:
        """Return the intensity weight of a detector, which is 1, or of a stream made of its signal.

        Parameters
        ----------
        detector : int
            Index of the detector.

        Returns
        -------
        float
        """
        return float(self._intensity[detector])

    def efficiency(self, detector: int) -> float:
        """Return the polarization efficiency of a detector.

        Parameters
        ----------
        detector : int
            Index of the detector.

        Returns
        -------
        float
            (1 - epsilon) / (1 + epsilon).
        """
        return float(self._efficiency[detector])

    def kernel_arguments(self) -> tuple[object, ...]:
        """Return the arguments of the C++ ``CompressedPointing`` (see ``bindings/pointing_views.h``).

        Returns
        -------
        tuple
            Those of the boresight (see `boresight_arguments`); detectors (n_det, 4); lines of sight
            (n_sight, 4), the number of each detector's (n_det,) int64, and what its turn about that adds to
            response angles (n_det,) uint32; plate kind (0 none, 1 uniform, 2 sampled), uniform phase and rate
            in units of 2 pi / 2^64, sampled angles in units of 2 pi (n,), their spacing and offset;
            efficiency (n_det,). Floats are float64.
            The arrays live as long as the tuple.
        """
        return self._arguments

    def rotated(self, rotation: npt.ArrayLike) -> CompressedPointing:
        """Return the pointing in another sky frame; the boresight is computed and rotated at first use.

        Parameters
        ----------
        rotation : (4,) float64
            Quaternion from this frame to the other (see `petamap.pointing.frames.frame_rotation`).

        Returns
        -------
        CompressedPointing
        """
        turn = np.array(rotation, dtype=np.float64)
        return self._like(lambda: self.boresight.rotated(turn))

    def turned(self, rotations: Callable[[FloatArray], FloatArray]) -> CompressedPointing:
        """Return the pointing in a frame that moves; the boresight is turned at first use.

        Parameters
        ----------
        rotations : callable
            Function of positions (n,) in samples that returns quaternions (n, 4) from this frame to the
            other, which moves slowly and smoothly.

        Returns
        -------
        CompressedPointing
        """
        return self._like(lambda: turned_boresight(self.boresight, rotations))

    def release(self) -> None:
        """Forget what can be had again from where it came, for now: nothing, of arrays in memory."""

    def of_detectors(self, numbers: Sequence[int]) -> CompressedPointing:
        """Return the pointing of some of the detectors; the boresight is computed at first use.

        Parameters
        ----------
        numbers : sequence of int
            Indices of the detectors, in the order wanted.

        Returns
        -------
        CompressedPointing
        """
        return self._like(lambda: self.boresight, list(numbers))

    def along(
        self, boresight: AnyBoresight | Callable[[], AnyBoresight], plate: HalfWavePlate | None, n_samp: int
    ) -> CompressedPointing:
        """Return the pointing of the same detectors, whose arrays are shared, in another observation.

        Parameters
        ----------
        boresight : Boresight, PiecewiseBoresight or callable
            As in the constructor.
        plate : UniformPlate or SampledPlate or None
        n_samp : int

        Returns
        -------
        CompressedPointing
        """
        other = CompressedPointing.__new__(CompressedPointing)
        other._boresight, other._n_samp, other.plate = boresight, n_samp, plate
        other._plate_arguments = plate_arguments(plate, n_samp)
        for name in ("detectors", "epsilon", "gamma", "_intensity", "_efficiency"):
            setattr(other, name, getattr(self, name))
        return other

    def anew(self) -> CompressedPointing:
        """Return the same pointing, with which a boresight that was given as a function leaves memory again.

        Returns
        -------
        CompressedPointing
        """
        return self.along(self._boresight, self.plate, self._n_samp)

    def of_intensity(self) -> CompressedPointing:
        """Return the pointing with an intensity weight of 1 for all detectors.

        Returns
        -------
        CompressedPointing
        """
        return self._like(lambda: self.boresight, intensity=np.ones(self.n_det))

    def decimated(self, stride: int) -> CompressedPointing:
        """Return the pointing of every `stride`-th sample.

        Parameters
        ----------
        stride : int
            Distance of the samples.

        Returns
        -------
        CompressedPointing
        """
        plate = None if self.plate is None else self.plate.decimated(stride)
        return CompressedPointing(
            lambda: self.boresight.decimated(stride),
            self.detectors,
            epsilon=self.epsilon,
            gamma=self.gamma,
            plate=plate,
            n_samp=-(-self.n_samp // stride),
            intensity=self._intensity,
        )

    def _like(
        self,
        boresight: Callable[[], AnyBoresight],
        rows: Sequence[int] | slice = slice(None),
        intensity: FloatArray | None = None,
    ) -> CompressedPointing:
        """Return the pointing of some of the detectors with another boresight."""
        return CompressedPointing(
            boresight,
            self.detectors[rows],
            epsilon=self.epsilon[rows],
            gamma=self.gamma[rows],
            plate=self.plate,
            n_samp=self.n_samp,
            intensity=self._intensity[rows] if intensity is None else intensity,
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
        """Write pixel numbers and response angles of samples [start, stop) to arrays.

        Parameters
        ----------
        pixelization : Pixelization
            Pixelization of the pixel numbers.
        detector : int
            Index of the detector.
        start, stop : int
            Range of samples.
        pixels : int32 (stop - start,)
            Receives pixel numbers.
        angles : uint32 (stop - start,) or None
            Receives response angles in units of 2 pi / 2^32.
        gains : float32 (stop - start,), optional
            Set to 1.

        Raises
        ------
        DataError
            If the detector or the samples lie outside the observation.
        """
        self._check(detector, start, stop)
        if len(pixels) != stop - start:
            raise ValueError(f"{len(pixels)} pixels for {stop - start} samples")
        kernels.expand(self._arguments, pixelization.grid, detector, start, pixels, angles)
        if gains is not None:
            gains[:] = 1

    def directions(self, detector: int, start: int, stop: int) -> tuple[FloatArray, UInt32Array]:
        """Return the directions and response angles of samples [start, stop).

        Parameters
        ----------
        detector : int
            Index of the detector.
        start, stop : int
            Range of samples.

        Returns
        -------
        vectors : float64 (stop - start, 3)
            Unit vectors.
        angles : uint32 (stop - start,)
            Response angles in units of 2 pi / 2^32.
        """
        self._check(detector, start, stop)
        vectors = np.empty((stop - start, 3))
        angles = np.empty(stop - start, np.uint32)
        kernels.directions(self._arguments, detector, start, vectors, angles)
        return vectors, angles

    def quaternions(self, detector: int, start: int, stop: int) -> FloatArray:
        """Return the quaternions of samples [start, stop) of a detector.

        Parameters
        ----------
        detector : int
            Index of the detector.
        start, stop : int
            Range of samples.

        Returns
        -------
        float64 (stop - start, 4)
            Quaternions from the detector frame to the sky frame.
        """
        self._check(detector, start, stop)
        out = np.empty((stop - start, 4))
        kernels.quaternions(self._arguments, detector, start, out)
        return out

    def _check(self, detector: int, start: int, stop: int) -> None:
        if not 0 <= detector < self.n_det:
            raise DataError(f"no detector {detector} among {self.n_det}")
        if not 0 <= start <= stop <= self.n_samp:
            raise DataError(
                f"samples [{start}, {stop}) lie outside [0, {self.n_samp})", where=f"detector {detector}"
            )


def lines_of_sight(detectors: FloatArray) -> tuple[FloatArray, Int64Array, FloatArray]:
    """Return the lines of sight of detectors, and how detectors are turned about them.

    The pointing of detectors of one line of sight, as the two of a pair, can be computed together.
    Quaternions are rounded to find them, which moves a line of sight by less than 1e-12 rad.

    Parameters
    ----------
    detectors : float64 (n_det, 4)
        Unit quaternions.

    Returns
    -------
    sights : float64 (n_sight, 4)
        Unit quaternions: rotations about axes in the focal plane, each of them once.
    sight_of : int64 (n_det,)
        Number of each detector's sight.
    angles : float64 (n_det,)
        Radians: a detector's quaternion is its sight times a rotation about Z by this angle.
    """
    half = np.arctan2(detectors[:, 2], detectors[:, 3])
    sights = quaternion.multiply(detectors, quaternion.about_z(-2 * half))
    sights[:, 2] = 0.0
    steps, sight_of = np.unique(np.round(sights * _STEPS), axis=0, return_inverse=True)
    return unit_quaternions(steps / _STEPS, "detector"), sight_of.reshape(-1).astype(np.int64), 2 * half


def _per_detector(values: npt.ArrayLike | None, n_det: int, what: str) -> FloatArray:
    if values is None:
        return np.zeros(n_det)
    array = np.atleast_1d(real_array(values, what))
    if array.shape != (n_det,):
        raise DataError(f"{array.size} values of {what} for {n_det} detectors")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise DataError(f"{what} is {array[bad[0]]}", where=f"detector {bad[0]}")
    return array


def _fractions(values: npt.ArrayLike | None, n_det: int, what: str, default: float) -> FloatArray:
    array = np.full(n_det, default) if values is None else _per_detector(values, n_det, what)
    bad = np.flatnonzero((array < 0) | (array > 1))
    if len(bad):
        raise DataError(f"{what} {array[bad[0]]} is outside [0, 1]", where=f"detector {bad[0]}")
    return array
