"""What conjugate gradients solve for: the pixels that a rank holds and its gaps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from petamap.base.typing import FloatArray, Int64Array, UInt8Array

_CACHE_LINE = 64


def words(*shape: int) -> Int64Array:
    """Return zeros that begin at a cache line, so that few rows lie in two."""
    n = math.prod(shape)
    room = np.zeros(n + _CACHE_LINE // 8, np.int64)
    first = -room.ctypes.data % _CACHE_LINE // 8
    return room[first : first + n].reshape(shape)


@dataclass
class Unknowns:
    """A vector of the solver.

    Attributes
    ----------
    pixels : (n_local, n_stokes) float64
        The map on the pixels that this rank's samples look at.
    gaps : (n_gaps, 1) float64
        The values of samples that must not enter the map.
    """

    pixels: FloatArray
    gaps: FloatArray

    @staticmethod
    def zeros(n_local: int, n_stokes: int, n_gaps: int) -> Unknowns:
        """Return a vector of zeros."""
        return Unknowns(np.zeros((n_local, n_stokes)), np.zeros((n_gaps, 1)))

    def zeros_like(self) -> Unknowns:
        """Return zeros of the same shapes."""
        return Unknowns(np.zeros_like(self.pixels), np.zeros_like(self.gaps))

    def copy(self) -> Unknowns:
        """Return a copy."""
        return Unknowns(self.pixels.copy(), self.gaps.copy())

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.pixels, self.gaps))


@dataclass(frozen=True)
class Ownership:
    """Which rows count on this rank in dot products: each exactly once in the run; None where all do."""

    pixels: UInt8Array | None
    gaps: UInt8Array | None

    def __iter__(self) -> Iterator[UInt8Array | None]:
        return iter((self.pixels, self.gaps))
