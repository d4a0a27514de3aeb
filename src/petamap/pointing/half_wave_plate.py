"""Half-wave plates: one that rotates uniformly, and one with angles at knots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray, FloatArray
from petamap.pointing.boresight import NO_PLATE

_TURN = 2 * np.pi


@dataclass(frozen=True)
class UniformPlate:
    """Half-wave plate that rotates uniformly: its axis at sample s is at ``phase + rate * s``.

    In radians and radians per sample, in the focal plane from X towards Y. The kernels keep the angle modulo
    2 pi as a 64-bit integer.
    """

    phase: float
    rate: float

    def decimated(self, stride: int) -> UniformPlate:
        """Return the plate as every `stride`-th sample sees it."""
        return UniformPlate(self.phase, self.rate * stride)


@dataclass(frozen=True, eq=False)
class SampledPlate:
    """Half-wave plate with angles (radians) at uniform knots, interpolated linearly.

    Angles may be wrapped: consecutive angles are taken to differ by less than pi. `spacing` and `offset` of
    the knots are in samples.
    """

    angles: FloatArray
    spacing: float = 1.0
    offset: float = 0.0

    def decimated(self, stride: int) -> SampledPlate:
        """Return the plate as every `stride`-th sample sees it."""
        return SampledPlate(self.angles, self.spacing / stride, self.offset / stride)


HalfWavePlate: TypeAlias = UniformPlate | SampledPlate


def plate_angles(plate: HalfWavePlate, samples: AnyArray) -> FloatArray:
    """Return the angle of a half-wave plate at samples (n,), radians, but for whole turns.

    Parameters
    ----------
    plate : UniformPlate or SampledPlate
    samples : (n,)

    Returns
    -------
    float64 (n,)
    """
    if isinstance(plate, UniformPlate):
        angles: FloatArray = plate.phase + plate.rate * samples
        return angles
    position = np.clip((samples - plate.offset) / plate.spacing, 0, len(plate.angles) - 1)
    before = np.minimum(position.astype(np.int64), max(len(plate.angles) - 2, 0))
    first = np.asarray(plate.angles, np.float64)[before]
    step = np.asarray(plate.angles, np.float64)[np.minimum(before + 1, len(plate.angles) - 1)] - first
    step -= _TURN * np.round(step / _TURN)
    return np.asarray(first + (position - before) * step)


def plate_arguments(plate: HalfWavePlate | None, n_samp: int) -> tuple[object, ...]:
    """Return a plate as kernels take it: kind, phase, rate, angles in turns, spacing and offset of knots.

    Raises
    ------
    DataError
        An angle is not finite, or knots leave out some of the `n_samp` samples.
    """
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
    # ldexp and the conversion are exact: 64 bits hold the fraction of a turn of a double.
    return int(np.ldexp(np.mod(angle / _TURN, 1.0), 64)) % 2**64
