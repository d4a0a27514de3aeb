"""Weights of I, Q and U of samples: the gain, polarization efficiency and response angle that they are of.

A sample whose response to (I, Q, U) is recorded as (wI, wQ, wU) = gain (1, e cos phi, e sin phi) has
gain = wI, e = (wQ^2 + wU^2)^1/2 / |wI| and phi = atan2(wU, wQ), turned by half a turn where wI < 0.
"""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import FloatArray

SAME_EFFICIENCY = 2e-6
"""Difference of polarization efficiencies of samples of a detector: of weights in float32, or written with
seven digits, whose quotients have errors of a few 1e-7."""


def response_angles(intensity: FloatArray | float, q: FloatArray, u: FloatArray) -> FloatArray:
    """Return the response angles of samples with weights of I, Q and U: radians, 0 where not finite."""
    sign = np.where(np.asarray(intensity) < 0, -1.0, 1.0)
    phi = np.arctan2(sign * u, sign * q)
    return np.where(np.isfinite(phi), phi, 0.0)


def polarization_efficiencies(intensity: FloatArray, q: FloatArray, u: FloatArray) -> FloatArray:
    """Return the polarization efficiencies of samples: inf where wI alone is 0, nan where all weights are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.hypot(q, u) / np.abs(intensity)
