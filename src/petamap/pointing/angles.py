"""Angles as the kernels take them."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import FloatArray, UInt32Array


def fractions_of_turns(angles: FloatArray) -> UInt32Array:
    """Return angles in radians in units of 2 pi / 2^32."""
    return np.round(np.mod(angles / (2 * np.pi), 1.0) * 2.0**32).astype(np.uint64).astype(np.uint32)
