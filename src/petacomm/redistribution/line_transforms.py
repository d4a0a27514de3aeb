"""Fourier transforms along axes that are not distributed, with bits independent of the number of lines.

ducc0 transforms as many lines at a time as fit a SIMD vector, and the remaining lines one by one, with other
rounding errors. So the last, incomplete vector of lines is padded here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray

# Numbers of the widest SIMD vectors.
_VECTOR_WIDTH = 16


def complex_lines(
    array: AnyArray, out: AnyArray, axes: tuple[int, ...], forward: bool, n_threads: int
) -> None:
    """Transform along axes, complex to complex; the inverse divides by their lengths."""
    import ducc0

    for axis in axes:

        def transform(source: AnyArray, target: AnyArray, axis: int = axis) -> None:
            norm = 0 if forward else 2
            ducc0.fft.c2c(source, axes=(axis,), forward=forward, inorm=norm, out=target, nthreads=n_threads)

        _in_full_vectors(transform, array, out, axis)
        array = out


def from_real(array: AnyArray, out: AnyArray, axes: tuple[int, ...], n_threads: int) -> None:
    """Transform forward along axes, the last one from real numbers."""
    import ducc0

    *others, last = axes
    arguments: dict[str, Any] = {"axes": (last,), "nthreads": n_threads}
    _in_full_vectors(lambda source, target: ducc0.fft.r2c(source, out=target, **arguments), array, out, last)
    complex_lines(out, out, tuple(others), True, n_threads)


def to_real(array: AnyArray, out: AnyArray, axes: tuple[int, ...], n_threads: int) -> None:
    """Transform back along axes, the last one to real numbers, and divide by their lengths."""
    import ducc0

    *others, last = axes
    if others:
        between = np.empty_like(array)
        complex_lines(array, between, tuple(others), False, n_threads)
        array = between
    arguments: dict[str, Any] = {"axes": (last,), "lastsize": out.shape[last], "forward": False, "inorm": 2}
    _in_full_vectors(
        lambda source, target: ducc0.fft.c2r(source, out=target, nthreads=n_threads, **arguments),
        array,
        out,
        last,
    )


def _in_full_vectors(
    transform: Callable[[AnyArray, AnyArray], object], array: AnyArray, out: AnyArray, axis: int
) -> None:
    """Transform lines along an axis in full vectors, the last of which is padded with zeros."""
    if not out.size:
        return
    other = max((i for i in range(array.ndim) if i != axis), key=lambda i: array.shape[i])
    n, rest = array.shape[other], array.size // (array.shape[axis] * array.shape[other])
    step = _VECTOR_WIDTH // math.gcd(rest, _VECTOR_WIDTH)
    n_full = n - n % step
    at = (slice(None),) * other
    full, rest_of_lines = (*at, slice(0, n_full)), (*at, slice(n_full, n))
    if n_full:
        transform(array[full], out[full])
    if n_full < n:
        shapes = [tuple(step if i == other else k for i, k in enumerate(a.shape)) for a in (array, out)]
        source, target = np.zeros(shapes[0], array.dtype), np.empty(shapes[1], out.dtype)
        filled = (*at, slice(0, n - n_full))
        source[filled] = array[rest_of_lines]
        transform(source, target)
        out[rest_of_lines] = target[filled]
