"""Floating-point sums as sums of integers, whose bits do not depend on who adds what first."""

from __future__ import annotations

import math

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.reduction._reduction import from_fixed, largest, to_fixed

# Sums stay below 2^62, so that rounding each of their terms up cannot make them overflow.
_SUM_BITS = 62
# The smallest unit whose inverse is finite.
_LOWEST = -1022


class FixedPoint:
    """Values as multiples of one unit, a power of two fine enough for the largest sum to fit 64 bits.

    With at most m terms, none larger than M < 2^E, the unit is 2^(E + b - 62), 2^b the power of two above m.
    A term is rounded by at most half a unit, and the sum S once to the dtype of the values (eps), so the
    result is off by at most m unit / 2 + eps |S| / 2; the unit is at most m M 2^-60.

    Parameters
    ----------
    largest : float
        M: no value on any rank is larger.
    most_terms : int
        m: no sum has more terms.
    n_threads : int
    """

    def __init__(self, largest: float, most_terms: int, n_threads: int = 1) -> None:
        exponent = math.frexp(largest)[1] + most_terms.bit_length() - _SUM_BITS
        self.unit = math.ldexp(1.0, max(exponent, _LOWEST))
        self._n_threads = n_threads

    def to_words(self, values: AnyArray, words: Int64Array) -> None:
        """Write values (n, k), float64 or float32, as integers."""
        to_fixed(values, self.unit, words, self._n_threads)

    def to_values(self, words: Int64Array, values: AnyArray) -> None:
        """Write integers (n, k) as values."""
        from_fixed(words, self.unit, values, self._n_threads)


def largest_value(values: AnyArray, n_threads: int) -> float:
    """Return the largest magnitude of values (n, k), 0 without any, infinity if one is not finite."""
    size: float = largest(values, n_threads)
    return size
