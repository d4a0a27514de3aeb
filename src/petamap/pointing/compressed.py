"""Compressed pointing: a sparse boresight, a quaternion a detector, and a half-wave plate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

import petamap.pointing._pointing as kernels
from petacomm.base.errors import DataError
from petacomm.base.typing import Float32Array, FloatArray, Int32Array, UInt32Array
from petamap.pointing.boresight import NO_PLATE, Boresight, unit_quaternions
from petamap.sky.pixelization import Pixelization

_TURN = 2 * np.pi


@dataclass(frozen=True)
class UniformPlate:
    """A half-wave plate that turns uniformly: its axis at sample s is at ``phase + rate * s``.

    Radians and radians a sample, in the focal plane from X towards Y; kept modulo a turn in 64 bits.
    """

    phase: float
    rate: float


@dataclass(frozen=True, eq=False)
class SampledPlate:
    """A half-wave plate whose angle (radians) is known at uniform knots and linear between them.

    Angles may be wrapped: neighbours are taken to be less than half a turn apart.
    """

    angles: FloatArray
    spacing: float = 1.0
    offset: float = 0.0


HalfWavePlate: TypeAlias = UniformPlate | SampledPlate


class CompressedPointing:
    """Pointing of all detectors of an observation, expanded on request (implements `Pointing`).

    A detector looks along Z of ``boresight * detector`` and is sensitive along X. Its response is
    ``1 + e (Q cos phi + U sin phi)`` with e = (1 - epsilon) / (1 + epsilon); phi = 2 a without a half-wave
    plate, a from the southward meridian to the east (COSMO), and phi = 2 a - 4 gamma + 4 plate with an ideal
    one, gamma being the polarization axis in the focal plane.

    Parameters
    ----------
    boresight : Boresight or callable
        A function without arguments is asked for it at first use, so that a rank lays no knots for the
        observations of others; it must return the same boresight whenever it is asked.
    detectors : (n_det, 4) float64
        Quaternions (x, y, z, w) from the detector's frame to the telescope's.
    epsilon : (n_det,) float64, optional
        Cross-polar leakage, 0 (perfect polarizer) to 1 (unpolarized); 0 by default.
    gamma : (n_det,) float64, optional
        Radians; by default of each quaternion, 2 atan2(z, w).
    plate : UniformPlate or SampledPlate, optional
    n_samp : int, optional
        Samples of the observation; needed where the boresight is a function.

    Raises
    ------
    DataError
        For a quaternion that is no rotation, an epsilon outside [0, 1], a plate that is not finite or does
        not reach all samples.
    """

    has_gains = False

    def __init__(
        self,
        boresight: Boresight | Callable[[], Boresight],
        detectors: npt.ArrayLike,
        *,
        epsilon: npt.ArrayLike | None = None,
        gamma: npt.ArrayLike | None = None,
        plate: HalfWavePlate | None = None,
        n_samp: int | None = None,
    ) -> None:
        if isinstance(boresight, Boresight):
            n_samp = boresight.n_samp
        elif n_samp is None:
            raise TypeError("n_samp must be given where the boresight is a function")
        self._boresight = boresight
        self._n_samp = n_samp
        self.detectors = np.ascontiguousarray(unit_quaternions(detectors, "detector"))
        self.epsilon = _one_each(epsilon, self.n_det, "epsilon")
        bad = np.flatnonzero((self.epsilon < 0) | (self.epsilon > 1))
        if len(bad):
            raise DataError(f"epsilon {self.epsilon[bad[0]]} is outside [0, 1]", where=f"detector {bad[0]}")
        own = 2 * np.arctan2(self.detectors[:, 2], self.detectors[:, 3])
        self.gamma = own if gamma is None else _one_each(gamma, self.n_det, "gamma")
        self.plate = plate
        self._efficiency = (1 - self.epsilon) / (1 + self.epsilon)
        self._plate_arguments = _plate_arguments(plate, n_samp)

    @cached_property
    def boresight(self) -> Boresight:
        """The knots; laid at first use where a function was given."""
        laid = self._boresight if isinstance(self._boresight, Boresight) else self._boresight()
        if laid.n_samp != self._n_samp:
            raise DataError(f"a boresight of {laid.n_samp} samples for {self._n_samp}")
        return laid

    @cached_property
    def _arguments(self) -> tuple[object, ...]:
        b = self.boresight
        return (
            *b.kernel_arguments(), self.detectors, np.mod(self.gamma, _TURN), b.n_samp,
            *self._plate_arguments, self._efficiency,
        )  # fmt: skip

    @property
    def n_samp(self) -> int:
        """Samples of the observation."""
        return self._n_samp

    @property
    def n_det(self) -> int:
        """Number of detectors."""
        return len(self.detectors)

    @property
    def nbytes(self) -> int:
        """Bytes kept."""
        return sum(part.nbytes for part in self._arguments if isinstance(part, np.ndarray))

    def efficiency(self, detector: int) -> float:
        """Return the polarization efficiency of a detector."""
        return float(self._efficiency[detector])

    def kernel_arguments(self) -> tuple[object, ...]:
        """Return what ``bindings/pointing_views.h`` turns into the kernels' ``CompressedPointing``.

        In this order: knots (n_knots, 4), their spacing and offset in samples, degree of interpolation (1 or
        3), detectors (n_det, 4), gamma (n_det,), n_samp; plate kind (0 none, 1 uniform, 2 sampled), uniform
        phase and rate in turns / 2^64, sampled angles in turns (n,), their spacing and offset; efficiency
        (n_det,). Floats are float64. The arrays live as long as the tuple.
        """
        return self._arguments

    def rotated(self, rotation: npt.ArrayLike) -> CompressedPointing:
        """Return the same pointing in another frame of the sky; no knot is touched before its first use.

        Parameters
        ----------
        rotation : (4,) float64
            From this frame to the other, as of `petamap.pointing.frames.rotation`.
        """
        turn = np.array(rotation, dtype=np.float64)
        return CompressedPointing(
            lambda: self.boresight.rotated(turn),
            self.detectors,
            epsilon=self.epsilon,
            gamma=self.gamma,
            plate=self.plate,
            n_samp=self.n_samp,
        )

    def skimmed(self, stride: int) -> CompressedPointing:
        """Return the pointing of every `stride`-th sample alone, without its plate."""
        b = self.boresight
        n_samp = (self.n_samp - 1) // stride + 1
        sparse = Boresight(b.knots, n_samp, b.spacing / stride, b.offset / stride, b.order)
        return CompressedPointing(sparse, self.detectors)

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
        """Write pixels and response angles of samples [start, stop); gains, where given, become 1.

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
        """Return unit vectors (n, 3) and response angles (n,) of samples [start, stop)."""
        self._check(detector, start, stop)
        vectors = np.empty((stop - start, 3))
        angles = np.empty(stop - start, np.uint32)
        kernels.directions(self._arguments, detector, start, vectors, angles)
        return vectors, angles

    def quaternions(self, detector: int, start: int, stop: int) -> FloatArray:
        """Return quaternions (n, 4) of samples [start, stop) of a detector."""
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


def _one_each(values: npt.ArrayLike | None, n_det: int, what: str) -> FloatArray:
    if values is None:
        return np.zeros(n_det)
    array = np.array(values, dtype=np.float64, ndmin=1)
    if array.shape != (n_det,):
        raise DataError(f"{array.size} values of {what} for {n_det} detectors")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise DataError(f"{what} is {array[bad[0]]}", where=f"detector {bad[0]}")
    return array


def _plate_arguments(plate: HalfWavePlate | None, n_samp: int) -> tuple[object, ...]:
    if plate is None:
        return NO_PLATE
    if isinstance(plate, UniformPlate):
        if not np.isfinite([plate.phase, plate.rate]).all():
            raise DataError(f"half-wave plate at {plate.phase} + {plate.rate} rad a sample")
        return 1, _fixed_turns(plate.phase), _fixed_turns(plate.rate), *NO_PLATE[3:]
    angles = np.array(plate.angles, dtype=np.float64, ndmin=1)
    bad = np.flatnonzero(~np.isfinite(angles))
    if len(bad):
        raise DataError("angle of the half-wave plate is not finite", where=f"knot {bad[0]}")
    last = plate.offset + (len(angles) - 1) * plate.spacing
    if not plate.spacing > 0 or plate.offset > 1e-6 or last < n_samp - 1 - 1e-6 * plate.spacing:
        raise DataError(f"half-wave plate known from sample {plate.offset:g} to {last:g} of {n_samp}")
    turns = np.unwrap(np.concatenate([angles, angles[-1:]])) / _TURN
    return 2, 0, 0, turns, float(plate.spacing), float(plate.offset)


def _fixed_turns(angle: float) -> int:
    # ldexp is exact, and so is the conversion: 64 bits hold what a double fraction of a turn knows.
    return int(np.ldexp(np.mod(angle / _TURN, 1.0), 64)) % 2**64
