"""Finite fields of small order, for the graphs of Slim Fly networks."""

from __future__ import annotations

from itertools import product

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array

_LARGEST_ORDER = 256


class FiniteField:
    """The field of q elements, numbered from 0 by their coefficients over the prime field, as digits.

    Parameters
    ----------
    order : int
        A prime power, up to 256.

    Attributes
    ----------
    order : int
    powers : int64 (order - 1,)
        Powers of a primitive element, beginning with 1.

    Raises
    ------
    ConfigError
        If the order is no prime power or too large.
    """

    def __init__(self, order: int) -> None:
        self.order = order
        self._prime, self._degree = _prime_power(order)
        self.powers = self._primitive_powers()
        self._logarithms = np.zeros(order, np.int64)
        self._logarithms[self.powers] = np.arange(order - 1)

    def add(self, a: Int64Array, b: Int64Array) -> Int64Array:
        """Return the sums of elements."""
        return self._digitwise(a, b, 1)

    def subtract(self, a: Int64Array, b: Int64Array) -> Int64Array:
        """Return the differences of elements."""
        return self._digitwise(a, b, -1)

    def multiply(self, a: Int64Array, b: Int64Array) -> Int64Array:
        """Return the products of elements."""
        exponents = (self._logarithms[a] + self._logarithms[b]) % (self.order - 1)
        return np.where((a == 0) | (b == 0), 0, self.powers[exponents])

    def _digitwise(self, a: Int64Array, b: Int64Array, sign: int) -> Int64Array:
        places = self._prime ** np.arange(self._degree)
        digits = np.asarray(a)[..., None] // places + sign * (np.asarray(b)[..., None] // places)
        return np.asarray((digits % self._prime * places).sum(-1))

    def _primitive_powers(self) -> Int64Array:
        """Return the powers of x modulo a primitive polynomial, of a primitive root in a prime field."""
        for digits in product(range(self._prime), repeat=self._degree):
            powers = [1]
            while len(powers) < self.order:
                powers.append(self._times_root(powers[-1], digits))
                if powers[-1] in (0, 1):
                    break
            if len(powers) == self.order and powers[-1] == 1:
                return np.array(powers[:-1], np.int64)
        raise AssertionError(f"no primitive element of {self.order}")

    def _times_root(self, element: int, digits: tuple[int, ...]) -> int:
        """Return x times an element, where x^degree is the element of `digits`, the lowest first."""
        top = self._prime ** (self._degree - 1)
        carried, shifted = element // top, element % top * self._prime
        places = [self._prime**place for place in range(self._degree)]
        return sum(
            (shifted // place + carried * digit) % self._prime * place
            for place, digit in zip(places, digits, strict=True)
        )


def _prime_power(order: int) -> tuple[int, int]:
    """Return the prime and the exponent of an order."""
    if 2 <= order <= _LARGEST_ORDER:
        prime = next(number for number in range(2, order + 1) if order % number == 0)
        for degree in range(1, 9):
            if prime**degree == order:
                return prime, degree
    raise ConfigError(f"q = {order} is no prime power", mend=f"give one, up to {_LARGEST_ORDER}")
