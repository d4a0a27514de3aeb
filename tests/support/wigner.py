"""Wigner 3j symbols (l1 l2 l3; s -s 0), exactly."""

from fractions import Fraction
from math import factorial, sqrt


def triangle(a, b, c):
    return Fraction(
        factorial(a + b - c) * factorial(a - b + c) * factorial(b + c - a), factorial(a + b + c + 1)
    )


def three_j(l1, l2, l3, m1, m2):
    """Racah's formula in whole numbers; m3 = -m1 - m2."""
    m3 = -m1 - m2
    if not abs(l1 - l2) <= l3 <= l1 + l2 or abs(m1) > l1 or abs(m2) > l2 or abs(m3) > l3:
        return 0.0
    total = Fraction(0)
    for t in range(max(0, l2 - l3 - m1, l1 - l3 + m2), min(l1 + l2 - l3, l1 - m1, l2 + m2) + 1):
        parts = (t, l3 - l2 + t + m1, l3 - l1 + t - m2, l1 + l2 - l3 - t, l1 - t - m1, l2 - t + m2)
        divisor = 1
        for part in parts:
            divisor *= factorial(part)
        total += Fraction((-1) ** t, divisor)
    square = triangle(l1, l2, l3)
    for l, m in ((l1, m1), (l2, m2), (l3, m3)):  # noqa: E741
        square *= factorial(l + m) * factorial(l - m)
    square *= total**2
    sign = (-1) ** (l1 - l2 - m3) * (1 if total >= 0 else -1)
    return sign * sqrt(square.numerator / square.denominator) if square else 0.0
