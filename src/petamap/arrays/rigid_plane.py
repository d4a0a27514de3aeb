"""Detectors that stand fixed about a boresight, found in the attitudes of all of their samples."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.pointing import quaternion
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.recorded import Reader

# Radians from rigid at most: less than response angles resolve, a hundredth of what angles in float32 do.
RIGID = 1e-9
# Detectors from which on a boresight, 32 bytes a sample, takes a byte a sample of the detectors at most.
LEAST_DETECTORS = 32
_GLANCES = 64  # samples that are looked at first
_AT_ONCE = 1 << 12


class RigidPlane(CompressedPointing):
    """Pointing that was found to be a boresight and a focal plane, held for the sake of its memory."""


def rigid_pointing(attitudes: Reader, n_det: int, n_samp: int, efficiency: FloatArray) -> RigidPlane | None:
    """Return the pointing of a boresight and a focal plane, or None if detectors are few or move.

    The boresight is the first detector. All samples are compared, and none may be off by more than `RIGID`.

    Parameters
    ----------
    attitudes : callable
        Function (detector, start, stop) that returns unit quaternions (n, 4).
    n_det, n_samp : int
    efficiency : (n_det,) float64
    """
    if n_det < LEAST_DETECTORS:
        return None
    glances = np.unique(np.linspace(0, n_samp - 1, _GLANCES).astype(np.int64)).tolist()
    first = attitudes(0, 0, 1)
    offsets = np.array(
        [quaternion.multiply(quaternion.conjugate(first), attitudes(d, 0, 1))[0] for d in range(n_det)]
    )
    for sample in glances:
        along = attitudes(0, sample, sample + 1)
        if not all(_is_near(along, offsets[d], attitudes(d, sample, sample + 1)) for d in range(n_det)):
            return None
    knots = np.empty((n_samp, 4))
    for start in range(0, n_samp, _AT_ONCE):
        stop = min(start + _AT_ONCE, n_samp)
        knots[start:stop] = attitudes(0, start, stop)
        for detector in range(1, n_det):
            if not _is_near(knots[start:stop], offsets[detector], attitudes(detector, start, stop)):
                return None
    epsilon = (1 - efficiency) / (1 + efficiency)
    return RigidPlane(Boresight(knots, n_samp, overwrite=True), offsets, epsilon=epsilon)


def _is_near(boresight: FloatArray, offset: FloatArray, own: FloatArray) -> bool:
    """Return whether all boresight * offset are within `RIGID` of quaternions of the same samples, (n, 4)."""
    x, y, z, w = boresight.T
    a, b, c, d = offset.tolist()
    turned = (
        w * a + x * d + y * c - z * b, w * b - x * c + y * d + z * a,
        w * c + x * b - y * a + z * d, w * d - x * a - y * b - z * c,
    )  # fmt: skip
    sign = np.where(sum(one * other for one, other in zip(turned, own.T, strict=True)) < 0, -1.0, 1.0)
    # two unit quaternions whose rotations differ by a small angle are half that angle apart
    squares = sum((one - sign * other) ** 2 for one, other in zip(turned, own.T, strict=True))
    return bool(np.max(squares) <= (RIGID / 2) ** 2)
