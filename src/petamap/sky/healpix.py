"""HEALPix pixelization (Gorski et al. 2005, ApJ 622, 759)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petamap.sky import _sky

LARGEST_RING_N_SIDE = 13377  # the largest with 12 n_side^2 < 2^31
LARGEST_NESTED_N_SIDE = 8192


@dataclass(frozen=True)
class Healpix:
    """The whole sky in 12 `n_side`^2 pixels of equal area.

    Parameters
    ----------
    n_side : int
        From 1 to 8192, a power of two where `nest`; else to 13377.
    nest : bool
        Nested instead of ring ordering.

    Raises
    ------
    ConfigError
        If there are no such pixels, or not fewer than 2^31.
    """

    n_side: int
    nest: bool = False

    def __post_init__(self) -> None:
        most = LARGEST_NESTED_N_SIDE if self.nest else LARGEST_RING_N_SIDE
        if isinstance(self.n_side, bool) or not isinstance(self.n_side, int | np.integer):
            raise ConfigError(f"n_side must be a whole number, not {self.n_side!r}")
        if not 1 <= self.n_side <= most:
            raise ConfigError(f"n_side {self.n_side} is not between 1 and {most}")
        if self.nest and self.n_side & (self.n_side - 1):
            below = 1 << (int(self.n_side).bit_length() - 1)
            raise ConfigError(
                f"n_side {self.n_side} is no power of two, which nested ordering needs",
                mend=f"take {below} or {min(2 * below, most)}, or ring ordering",
            )

    @property
    def n_pix(self) -> int:
        """Number of pixels."""
        return 12 * int(self.n_side) ** 2

    @property
    def pixel_area(self) -> float:
        """Area of every pixel in steradians."""
        return 4 * math.pi / self.n_pix

    @property
    def grid(self) -> FloatArray:
        """The pixelization as the kernels take it."""
        return np.array([1.0 if self.nest else 0.0, self.n_side])

    def pixels_of(self, directions: FloatArray, pixels: Int32Array, n_threads: int = 1) -> None:
        """Write the pixel of each vector, shape (n, 3), to `pixels`, shape (n,).

        Vectors need not be of unit length; -1 where one is zero or not finite.
        """
        _sky.pixels_of(self.grid, directions, pixels, n_threads)

    def directions_of(self, pixels: Int64Array, n_threads: int = 1) -> FloatArray:
        """Return the unit vectors of pixel centres, shape (n, 3); ValueError outside [0, n_pix)."""
        numbers = np.ascontiguousarray(pixels, np.int64)
        directions = np.empty((len(numbers), 3))
        _sky.healpix_directions(self.grid, numbers, directions, n_threads)
        return directions

    def interpolation(self, directions: FloatArray, n_threads: int = 1) -> tuple[Int32Array, FloatArray]:
        """Return 4 pixels and 4 weights of bilinear interpolation for each direction, shapes (n, 4).

        Two neighbours in the ring above and two in the ring below; the weights sum to 1. A vector that is
        zero or not finite has pixels -1 and weights 0.
        """
        pixels = np.empty((len(directions), 4), np.int32)
        weights = np.empty((len(directions), 4))
        _sky.healpix_interpolation(
            self.grid, np.ascontiguousarray(directions, np.float64), pixels, weights, n_threads
        )
        return pixels, weights

    def reordered(self, pixels: Int64Array, n_threads: int = 1) -> Int64Array:
        """Return the numbers in the other ordering of pixels numbered in this one.

        ValueError outside [0, n_pix), or where `n_side` is no power of two.
        """
        numbers = np.ascontiguousarray(pixels, np.int64)
        out = np.empty_like(numbers)
        _sky.healpix_reordered(self.grid, numbers, out, n_threads)
        return out

    def describe(self) -> dict[str, object]:
        """Return kind, n_side and ordering."""
        return {
            "kind": "healpix",
            "n_side": int(self.n_side),
            "ordering": "nested" if self.nest else "ring",
        }
