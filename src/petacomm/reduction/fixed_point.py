"""Floating-point sums as integer sums, whose bits do not depend on the order of the terms."""

from __future__ import annotations

import math

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.reduction._reduction import from_fixed, largest, to_fixed

# Sums stay below 2^62, so that rounding each of their terms up cannot make them overflow.
_SUM_BITS = 62
# The smallest unit whose inverse is finite.
_LOWEST = -1022


class FixedPoint:
    """Fixed-point representation of values: multiples of a power of two, chosen so that sums fit 64 bits.

    For at most m terms of magnitude at most M < 2^E, the unit is 2^(E + b - 62), where 2^b is the power of
    two above m. A term is rounded by at most half a unit, and the sum S once to the dtype of the values (of
    relative precision eps), so the error of the result is at most m unit / 2 + eps |S| / 2; the unit is at
    most m M 2^-60.

    Parameters
    ----------
    largest : float
        M, the largest magnitude of the values on all ranks.
    most_terms : int
        m, the largest number of terms of a sum.
    n_threads : int
        Threads of the conversions.

    Attributes
    ----------
    unit : float
    """

    def __init__(self, largest: float, most_terms: int, n_threads: int = 1) -> None:
        exponent = math.frexp(largest)[1] + most_terms.bit_length() - _SUM_BITS
        self.unit = math.ldexp(1.0, max(exponent, _LOWEST))
        self._n_threads = n_threads

    def to_words(self, values: AnyArray, words: Int64Array) -> None:
        """Convert values (n, k), float64 or float32, to integers."""
        to_fixed(values, self.unit, words, self._n_threads)

    def to_values(self, words: Int64Array, values: AnyArray) -> None:
        """Convert integers (n, k) to values."""
        from_fixed(words, self.unit, values, self._n_threads)


def largest_magnitude(values: AnyArray, n_threads: int) -> float:
    """Return the largest magnitude of values (n, k); 0 for no values, infinity if a value is not finite."""
    return largest(values, n_threads)
