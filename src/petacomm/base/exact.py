"""Exact sums: their bits do not depend on the order of the terms, on threads or on ranks."""

from __future__ import annotations

import math

import numpy as np

from petacomm.base import _base
from petacomm.base.typing import FloatArray, Int64Array


def zero_limbs(*shape: int) -> Int64Array:
    """Return the limbs of empty sums, int64 (*shape, N_LIMBS); limbs of partial sums add as integers."""
    return np.zeros((*shape, _base.N_LIMBS), np.int64)


def add_exactly(values: FloatArray, limbs: Int64Array) -> None:
    """Add finite values to the limbs (N_LIMBS,) of a sum."""
    _base.add_exactly(np.ascontiguousarray(values.reshape(-1)), limbs)


def round_limbs(limbs: Int64Array) -> float:
    """Return the double nearest to a sum; infinity if a term was not finite."""
    if limbs[-1] >= _base.NOT_FINITE // 2:
        return math.inf
    held = [(number, limb) for number, limb in enumerate(limbs.tolist()) if limb]  # few of them, most often
    if not held:
        return 0.0
    lowest_bit = _base.LIMB_BITS * held[0][0] + _base.LOWEST_BIT
    total = sum(limb << (_base.LIMB_BITS * number + _base.LOWEST_BIT - lowest_bit) for number, limb in held)
    return total / (1 << -lowest_bit) if lowest_bit < 0 else float(total << lowest_bit)


def exact_sum(values: FloatArray) -> float:
    """Return the correctly rounded sum of values."""
    limbs = zero_limbs()
    add_exactly(values, limbs)
    return round_limbs(limbs)


# The 53 bits of a double span at most three limbs, whatever its exponent.
LIMBS_PER_VALUE = 3


def split_limbs(values: FloatArray) -> tuple[Int64Array, Int64Array]:
    """Split each value into the limbs that it spans.

    Parameters
    ----------
    values : float64 (n,)
        Finite, of magnitude below 2^900. Bits below 2^-992 are dropped.

    Returns
    -------
    lowest : int64 (n,)
        Number of the lowest of the three limbs, -1 for zeros.
    limbs : int64 (n, 3)
        The three limbs; limb number i counts multiples of 2^(32 i - 992).

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


def round_sums(limbs: Int64Array, lowest: Int64Array) -> FloatArray:
    """Return the doubles nearest to sums, rounded half to even.

    Parameters
    ----------
    limbs : int64 (n, n_limbs)
        Magnitudes below 2^62, so sums of less than 2^30 terms.
    lowest : int64 (n,)
        Number of the lowest limb of each sum.

    Returns
    -------
    float64 (n,)
    """
    # Three more digits below, so that there are always three from the first non-zero digit on.
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
    # 64 bits from the first set bit on, the last one set if any bit below is: this rounds like the full sum.
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
    """Carry, so that all digits but the last are from 0 to 2^32 - 1."""
    for i in range(digits.shape[1] - 1):
        digits[:, i + 1] += digits[:, i] >> _base.LIMB_BITS
        digits[:, i] &= _MASK
