"""Sums without rounding: their bits do not depend on the order of the terms, on threads or on ranks."""

from __future__ import annotations

import numpy as np

from petamap.base import _base
from petamap.base.typing import FloatArray, Int64Array


def no_limbs() -> Int64Array:
    """Return the limbs of an empty sum; limbs of partial sums add as integers."""
    return np.zeros(_base.N_LIMBS, np.int64)


def add_exactly(values: FloatArray, limbs: Int64Array) -> None:
    """Add finite values to a sum."""
    _base.add_exactly(np.ascontiguousarray(values.reshape(-1)), limbs)


def rounded(limbs: Int64Array) -> float:
    """Return the double nearest to a sum."""
    total = sum(int(limb) << (_base.LIMB_BITS * place) for place, limb in enumerate(limbs))
    value: float = total / (1 << -_base.LOWEST_BIT)
    return value


def exact_sum(values: FloatArray) -> float:
    """Return the correctly rounded sum of values."""
    limbs = no_limbs()
    add_exactly(values, limbs)
    return rounded(limbs)
