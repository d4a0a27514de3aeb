"""Transforms along axes that a rank holds whole, with bits that do not depend on how many lines it has.

The library transforms a vector of lines at a time, and the lines that are left over one by one, with other
roundings. So lines that do not fill a vector are filled up here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray

# The widest vectors there are hold so many numbers.
_LANES = 16


def complex_lines(
    array: AnyArray, out: AnyArray, axes: tuple[int, ...], forward: bool, n_threads: int
) -> None:
    """Transform along some axes, complex to complex; the inverse divides by their lengths."""
    import ducc0

    for axis in axes:

        def one(of: AnyArray, to: AnyArray, axis: int = axis) -> None:
            norm = 0 if forward else 2
            ducc0.fft.c2c(of, axes=(axis,), forward=forward, inorm=norm, out=to, nthreads=n_threads)

        _in_vectors(one, array, out, axis)
        array = out


def from_real(array: AnyArray, out: AnyArray, axes: tuple[int, ...], n_threads: int) -> None:
    """Transform forward along some axes, the last one from real numbers."""
    import ducc0

    *others, last = axes
    words: dict[str, Any] = {"axes": (last,), "nthreads": n_threads}
    _in_vectors(lambda of, to: ducc0.fft.r2c(of, out=to, **words), array, out, last)
    complex_lines(out, out, tuple(others), True, n_threads)


def to_real(array: AnyArray, out: AnyArray, axes: tuple[int, ...], n_threads: int) -> None:
    """Transform back along some axes, the last one to real numbers; divides by their lengths."""
    import ducc0

    *others, last = axes
    if others:
        between = np.empty_like(array)
        complex_lines(array, between, tuple(others), False, n_threads)
        array = between
    words: dict[str, Any] = {"axes": (last,), "lastsize": out.shape[last], "forward": False, "inorm": 2}
    _in_vectors(lambda of, to: ducc0.fft.c2r(of, out=to, nthreads=n_threads, **words), array, out, last)


def _in_vectors(
    transform: Callable[[AnyArray, AnyArray], object], array: AnyArray, out: AnyArray, axis: int
) -> None:
    """Transform lines along an axis in full vectors; those that fill up the last one are zeros."""
    if not out.size:
        return
    other = max((i for i in range(array.ndim) if i != axis), key=lambda i: array.shape[i])
    n, rest = array.shape[other], array.size // (array.shape[axis] * array.shape[other])
    step = _LANES // math.gcd(rest, _LANES)
    whole = n - n % step
    at = (slice(None),) * other
    full, left = (*at, slice(0, whole)), (*at, slice(whole, n))
    if whole:
        transform(array[full], out[full])
    if whole < n:
        shapes = [tuple(step if i == other else k for i, k in enumerate(a.shape)) for a in (array, out)]
        of, to = np.zeros(shapes[0], array.dtype), np.empty(shapes[1], out.dtype)
        filled = (*at, slice(0, n - whole))
        of[filled] = array[left]
        transform(of, to)
        out[left] = to[filled]
