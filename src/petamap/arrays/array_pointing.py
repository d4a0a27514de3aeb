"""Pointing of arrays: angles, quaternions, or pixels and weights of each sample, read where they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import AnyArray, FloatArray, UInt32Array
from petamap.arrays.rigid_plane import rigid_pointing
from petamap.arrays.sample_arrays import SampleArrays, host_array
from petamap.pointing.angles import fractions_of_turns
from petamap.pointing.protocol import Pointing
from petamap.pointing.recorded import Reader, RecordedPixels
from petamap.pointing.sampled import SampledPointing, attitudes_of_angles
from petamap.pointing.stokes_weights import SAME_EFFICIENCY, polarization_efficiencies, response_angles
from petamap.sky.pixelization import Pixelization

_ROUNDING = 1e-6  # radians beyond the poles that angles in float32 may be
_AT_ONCE = 1 << 16
_WAYS = "theta and phi; pixels; or pointing"
_COLATITUDE = (
    ", which is no colatitude in radians, 0 to pi"
    "|of angles in degrees give numpy.radians(theta), of a latitude numpy.pi / 2 - latitude"
)
_ANGLE = ", which is no angle in radians"
_SHORTEST = 1e-6  # length of a quaternion
_NO_ROTATION = " long, which is no quaternion of a rotation|flag samples that have no pointing"
_LARGEST = 1e5  # radians: angles beyond have lost the accuracy of pointing


@dataclass(frozen=True)
class PointingArrays:
    """What a user gives of the pointing, each None if it is not given; see `array_observation`."""

    theta: Any = None
    phi: Any = None
    psi: Any = None
    pixels: Any = None
    weights: Any = None
    pointing: Any = None
    pixelization: Pixelization | None = None
    efficiency: Any = None
    hwp_angle: Any = None
    gamma: Any = None

    def of(self, samples: SampleArrays) -> Pointing:
        """Return the pointing of the samples.

        Raises
        ------
        DataError
            If an array does not fit the signal, or a value is wrong; names argument, detector and sample.
        ConfigError
            If arguments are missing, or do not belong together.
        """
        ways = [self.theta is not None or self.phi is not None, self.pixels is not None]
        if sum([*ways, self.pointing is not None]) != 1:
            raise ConfigError(
                "the pointing is given in several ways" if any(ways) else "no pointing", mend=_WAYS
            )
        if self.gamma is not None and self.hwp_angle is None:
            raise ConfigError(
                "turns a half-wave plate's angle alone",
                where="gamma",
                mend="give hwp_angle, or leave it away",
            )
        if self.pixels is not None:
            return self._pixels(samples)
        if self.weights is not None:
            raise ConfigError("weights are of pixels", mend="give pixels, or psi instead of weights")
        if self.pointing is not None:
            return self._pointing(samples)
        return self._angles(samples)

    def _angles(self, samples: SampleArrays) -> Pointing:
        if self.theta is None or self.phi is None:
            raise ConfigError("theta and phi are given together", mend="give both: colatitude and longitude")
        theta = samples.of_samples("theta", self.theta, dimension="angle")
        phi = samples.of_samples("phi", self.phi, dimension="angle")
        psi = None if self.psi is None else samples.of_samples("psi", self.psi, dimension="angle")
        samples.require_between("theta", theta, -_ROUNDING, math.pi + _ROUNDING, _COLATITUDE)
        samples.require_between("phi", phi, -_LARGEST, _LARGEST, _ANGLE)
        if psi is not None:
            samples.require_between("psi", psi, -_LARGEST, _LARGEST, _ANGLE)

        def attitudes(detector: int, start: int, stop: int) -> AnyArray:
            roll = None if psi is None else psi[detector, start:stop]
            return attitudes_of_angles(theta[detector, start:stop], phi[detector, start:stop], roll)

        return self._sampled(samples, attitudes, psi)

    def _pointing(self, samples: SampleArrays) -> Pointing:
        if hasattr(self.pointing, "expand"):
            for name in ("psi", "efficiency", "hwp_angle"):
                if getattr(self, name) is not None:
                    what = f"a {type(self.pointing).__name__} has its own"
                    raise ConfigError(what, where=name, mend="leave it away, or make the pointing with it")
            given: Pointing = self.pointing
            return given
        if not (hasattr(self.pointing, "shape") or hasattr(self.pointing, "__dlpack__")):
            raise ConfigError(f"pointing is a {type(self.pointing).__name__}", mend="give quaternions")
        if self.psi is not None:
            raise ConfigError("quaternions have polarization angles", mend="leave psi away")
        quaternions, shape = host_array(self.pointing, "pointing"), (*samples.shape, 4)
        if quaternions.shape != shape:
            raise DataError(
                f"has the shape {quaternions.shape} where quaternions {shape} belong", where="pointing",
                mend="or a petamap.CompressedPointing, of a boresight and a focal plane",
            )  # fmt: skip
        for part in range(4):
            samples.require_between("pointing", quaternions[:, :, part], -_LARGEST, _LARGEST, _ANGLE)
        for detector, row in enumerate(quaternions):
            length = np.linalg.norm(row, axis=1)
            samples.require_row_between("pointing", detector, length, _SHORTEST, math.inf, _NO_ROTATION)
        return self._sampled(samples, lambda detector, start, stop: quaternions[detector, start:stop])

    def _sampled(self, samples: SampleArrays, attitudes: Reader, psi: AnyArray | None = None) -> Pointing:
        polarized = self.psi is not None or self.pointing is not None
        efficiency, plate = self._efficiencies(samples, polarized), self._plate(samples)
        if plate is None and (rigid := rigid_pointing(attitudes, *samples.shape, efficiency)) is not None:
            return rigid
        rows = None if psi is None else psi.__getitem__
        return SampledPointing(attitudes, *samples.shape, efficiency, plate, rows)

    def _efficiencies(self, samples: SampleArrays, polarized: bool) -> FloatArray:
        if self.efficiency is not None and not polarized:
            raise ConfigError("efficiency needs polarization angles", mend="give psi")
        found = samples.of_detectors("efficiency", self.efficiency, 1.0 if polarized else 0.0)
        bad = np.flatnonzero((found < 0) | (found > 1))
        if len(bad):
            what = f"is {found[bad[0]]:g}, not between 0 and 1"
            raise DataError(what, where=samples.place("efficiency", int(bad[0])))
        return found

    def _plate(self, samples: SampleArrays) -> Reader | None:
        """Return what a half-wave plate adds to response angles: four times its angle to the detector."""
        if self.hwp_angle is None:
            return None
        if self.gamma is None:
            raise ConfigError(
                "a half-wave plate turns what detectors see of a polarization by their own angles, too",
                mend="give gamma, their polarization angles in the focal plane, radians",
            )
        angles = samples.of_samples("hwp_angle", self.hwp_angle, dimension="angle")
        samples.require_between("hwp_angle", angles, -math.inf, math.inf, _ANGLE)
        gamma = samples.of_detectors("gamma", self.gamma, 0.0, "angle")
        return lambda detector, start, stop: 4 * (angles[detector, start:stop] - gamma[detector])

    # --- pixels

    def _pixels(self, samples: SampleArrays) -> Pointing:
        if self.pixelization is None:
            raise ConfigError(
                "nothing says what pixels the numbers are of, or their order",
                mend="give pixelization=petamap.Healpix(n_side, nest=True), or nest=False for ring order",
            )
        if self.psi is not None and self.weights is not None:
            raise ConfigError("both psi and weights", mend="give one of them")
        pixels = samples.of_samples("pixels", self.pixels, "iu")
        n_pix = self.pixelization.n_pix
        what = f", not one of {n_pix} pixels|check n_side and order; -1 is no pixel"
        samples.require_between("pixels", pixels, -1, n_pix - 1, what)
        plate = self._plate(samples)
        if self.weights is None:
            psi = None if self.psi is None else samples.of_samples("psi", self.psi, dimension="angle")
            if psi is not None:
                samples.require_between("psi", psi, -_LARGEST, _LARGEST, _ANGLE)
            return RecordedPixels(
                pixels, self.pixelization, angles=None if psi is None else _turns(_twice(psi), plate),
                efficiencies=self._efficiencies(samples, psi is not None).tolist(),
            )  # fmt: skip
        if self.efficiency is not None:
            raise ConfigError("weights have it", where="efficiency", mend="leave it away")
        weights = _Weights(samples, self.weights)
        return RecordedPixels(
            pixels, self.pixelization, gains=weights.gains if weights.has_gains else None,
            angles=_turns(weights.angles, plate) if weights.polarized else None,
            efficiencies=weights.efficiencies(),
        )  # fmt: skip


class _Weights:
    """Weights (n_det, n_samp, 1 or 3) of I, or I, Q, U: gain (1, e cos phi, e sin phi)."""

    def __init__(self, samples: SampleArrays, weights: Any) -> None:
        array = host_array(weights, "weights")
        if array.shape not in [(*samples.shape, n) for n in (1, 3)] or array.dtype.kind != "f":
            raise DataError(
                f"is an array {array.shape} of {array.dtype}", where="weights",
                mend="give those of I, Q and U, (n_det, n_samp, 3), or of I, (n_det, n_samp, 1)",
            )  # fmt: skip
        self._samples, self._weights = samples, array
        self.polarized = array.shape[-1] == 3
        for part in range(array.shape[-1]):
            samples.require_between("weights", array[:, :, part], -_LARGEST, _LARGEST, ", which is no weight")
        self.has_gains = any((row != 1).any() for row in array[:, :, 0])

    def gains(self, detector: int, start: int, stop: int) -> AnyArray:
        gains = self._weights[detector, start:stop, 0]
        return np.where(np.isfinite(gains), gains, 0)

    def angles(self, detector: int, start: int, stop: int) -> FloatArray:
        i, q, u = self._weights[detector, start:stop].astype(np.float64).T
        return response_angles(i, q, u)

    def efficiencies(self) -> list[float]:
        """Return the polarization efficiency of each detector, which all of its samples have."""
        if not self.polarized:
            return [0.0] * len(self._weights)
        return [self._efficiency(detector) for detector in range(len(self._weights))]

    def _efficiency(self, detector: int) -> float:
        common = math.nan
        for start in range(0, self._weights.shape[1], _AT_ONCE):
            i, q, u = self._weights[detector, start : start + _AT_ONCE].astype(np.float64).T
            flags = np.zeros(len(i), np.uint8)
            self._samples.or_flags(detector, start, start + len(i), flags)
            good = (flags == 0) & ((i != 0) | (q != 0) | (u != 0))
            each = polarization_efficiencies(i, q, u)
            if math.isnan(common) and good.any():
                common = float(each[good][0])
            bad = np.flatnonzero(good & ~(np.abs(each - common) <= SAME_EFFICIENCY))
            if len(bad) or common > 1 + SAME_EFFICIENCY:
                sample = start + int(bad[0]) if len(bad) else start
                value = each[bad[0]] if len(bad) else common
                raise DataError(
                    f"make a polarization efficiency of {value:.7g}, that of the detector is {common:.7g}",
                    where=self._samples.place("weights", detector, sample),
                    mend="one number, 0 to 1, a detector: map samples of another as a detector of their own",
                )
        return 0.0 if math.isnan(common) else min(common, 1.0)


def _twice(psi: AnyArray) -> Reader:
    def angles(detector: int, start: int, stop: int) -> FloatArray:
        found = 2 * psi[detector, start:stop].astype(np.float64)
        return np.where(np.isfinite(found), found, 0.0)

    return angles


def _turns(angles: Reader, plate: Reader | None) -> Reader:
    """Return response angles as they are kept, of radians."""

    def read(detector: int, start: int, stop: int) -> UInt32Array:
        radians = angles(detector, start, stop)
        return fractions_of_turns(radians if plate is None else radians + plate(detector, start, stop))

    return read
