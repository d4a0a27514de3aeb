"""Sums without rounding: their bits do not depend on the order of the terms, on threads or on ranks."""

from __future__ import annotations

import math

import numpy as np

from petacomm.base import _base
from petacomm.base.typing import FloatArray, Int64Array


def no_limbs(*shape: int) -> Int64Array:
    """Return the limbs of empty sums, (*shape, N_LIMBS); limbs of partial sums add as integers."""
    return np.zeros((*shape, _base.N_LIMBS), np.int64)


def add_exactly(values: FloatArray, limbs: Int64Array) -> None:
    """Add finite values to a sum."""
    _base.add_exactly(np.ascontiguousarray(values.reshape(-1)), limbs)


def rounded(limbs: Int64Array) -> float:
    """Return the double nearest to a sum; infinity if a kernel met a term that is not finite."""
    if limbs[-1] >= _base.NOT_FINITE // 2:
        return math.inf
    total = sum(int(limb) << (_base.LIMB_BITS * place) for place, limb in enumerate(limbs))
    value: float = total / (1 << -_base.LOWEST_BIT)
    return value


def exact_sum(values: FloatArray) -> float:
    """Return the correctly rounded sum of values."""
    limbs = no_limbs()
    add_exactly(values, limbs)
    return rounded(limbs)


# A double has 53 bits: it lies in three limbs, whatever its exponent.
N_PLACES = 3


def sliced(values: FloatArray) -> tuple[Int64Array, Int64Array]:
    """Cut each value into the limbs in which it lies.

    Parameters
    ----------
    values : float64 (n,)
        Finite, and below 2^900. Bits below 2^-992 are dropped.

    Returns
    -------
    lowest : int64 (n,)
        The number of the lowest of three limbs, -1 of zeros.
    limbs : int64 (n, 3)
        They add up to the value: limb i counts multiples of 2^(32 i - 992).

    Raises
    ------
    ValueError
        If a value is not finite, or too large.
    """
    if not np.all(np.abs(values) < 2.0**900):
        raise ValueError("exact sums take finite values below 2^900")
    fraction, exponent = np.frexp(values)
    mantissa = (fraction * 2.0**53).astype(np.int64)
    bit = exponent.astype(np.int64) - 53 - _base.LOWEST_BIT
    size = np.abs(mantissa) >> np.clip(-bit, 0, 63)
    bit = np.maximum(bit, 0)
    lowest, shift = np.where(size > 0, bit // _base.LIMB_BITS, -1), bit % _base.LIMB_BITS
    low = (size & _MASK) << shift
    high = ((size >> _base.LIMB_BITS) << shift) + (low >> _base.LIMB_BITS)
    limbs = np.stack([low & _MASK, high & _MASK, high >> _base.LIMB_BITS], axis=-1)
    return lowest, limbs * np.sign(mantissa)[:, None]


def rounded_sums(limbs: Int64Array, lowest: Int64Array) -> FloatArray:
    """Return the doubles nearest to many sums, half to even.

    Parameters
    ----------
    limbs : int64 (n, n_limbs)
        Below 2^62 in size, so sums of less than 2^30 terms.
    lowest : int64 (n,)
        The number of the lowest limb of each.
    """
    # Three digits below, so that there always are three from the first that is not 0.
    digits = np.concatenate(
        [np.zeros((len(limbs), 3), np.int64), limbs, np.zeros((len(limbs), 2), np.int64)], 1
    )
    _carry(digits)
    negative = digits[:, -1] < 0
    digits[negative] *= -1
    _carry(digits)
    n_digits = digits.shape[1]
    first = np.maximum(n_digits - 1 - np.argmax(digits[:, ::-1] != 0, axis=1), 2)
    top, middle, bottom = (digits[np.arange(len(digits)), first - i].astype(np.uint64) for i in range(3))
    below = np.cumsum(digits != 0, axis=1)[np.arange(len(digits)), np.maximum(first - 3, 0)] * (first > 2)
    # 64 bits from the first that is set, and one more for all others: this rounds as the whole would.
    shift = (32 - np.frexp(top.astype(np.float64))[1]).astype(np.uint64)
    bits = (((top << np.uint64(32)) | middle) << shift) | (bottom >> (np.uint64(32) - shift))
    rest = (bottom << shift) & np.uint64(_MASK)
    bits |= ((rest != 0) | (below > 0)).astype(np.uint64)
    exponent = _base.LIMB_BITS * (first - 4 + lowest) + _base.LOWEST_BIT - shift.astype(np.int64)
    sums: FloatArray = np.ldexp(bits.astype(np.float64), np.where(top > 0, exponent, 0))
    sums[negative] *= -1
    return sums


_MASK = 2**32 - 1


def _carry(digits: Int64Array) -> None:
    """Make all digits but the last 0 to 2^32 - 1."""
    for i in range(digits.shape[1] - 1):
        digits[:, i + 1] += digits[:, i] >> _base.LIMB_BITS
        digits[:, i] &= _MASK
