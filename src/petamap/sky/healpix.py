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
    """Full sky in 12 `n_side`^2 pixels of equal area.

    Parameters
    ----------
    n_side : int
        In nested ordering a power of two from 1 to 8192, in ring ordering any number from 1 to 13377.
    nest : bool
        Nested instead of ring ordering.

    Raises
    ------
    ConfigError
        If `n_side` is not valid for the ordering, or gives 2^31 pixels or more.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> sky = petamap.Healpix(64, nest=True)
    >>> sky.n_pix
    49152
    >>> pixels = np.array([0, 1000])
    >>> found = np.empty(2, np.int32)
    >>> sky.pixels_of(sky.directions_of(pixels), found)
    >>> found.tolist()
    [0, 1000]
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
        """Area of a pixel in steradians."""
        return 4 * math.pi / self.n_pix

    @property
    def grid(self) -> FloatArray:
        """Parameters for the C++ kernels."""
        return np.array([1.0 if self.nest else 0.0, self.n_side])

    def pixels_of(self, directions: FloatArray, pixels: Int32Array, n_threads: int = 1) -> None:
        """Write the pixel numbers of directions to an array.

        Parameters
        ----------
        directions : float64 (n, 3)
            Vectors of any length.
        pixels : int32 (n,)
            Receives the pixel numbers; -1 for a zero or non-finite vector.
        n_threads : int
            Number of threads.
        """
        _sky.pixels_of(self.grid, directions, pixels, n_threads)

    def directions_of(self, pixels: Int64Array, n_threads: int = 1) -> FloatArray:
        """Return the unit vectors of pixel centres.

        Parameters
        ----------
        pixels : int64 (n,)
            Pixel numbers.
        n_threads : int
            Number of threads.

        Returns
        -------
        float64 (n, 3)

        Raises
        ------
        ValueError
            If a pixel is outside [0, n_pix).
        """
        numbers = np.ascontiguousarray(pixels, np.int64)
        directions = np.empty((len(numbers), 3))
        _sky.healpix_directions(self.grid, numbers, directions, n_threads)
        return directions

    def interpolation(self, directions: FloatArray, n_threads: int = 1) -> tuple[Int32Array, FloatArray]:
        """Return the pixels and weights of bilinear interpolation for each direction.

        The pixels are two neighbours in the ring above and two in the ring below.

        Parameters
        ----------
        directions : float64 (n, 3)
            Vectors of any length.
        n_threads : int
            Number of threads.

        Returns
        -------
        pixels : int32 (n, 4)
            Pixel numbers; -1 for a zero or non-finite vector.
        weights : float64 (n, 4)
            Weights, which sum to 1; 0 for a zero or non-finite vector.
        """
        pixels = np.empty((len(directions), 4), np.int32)
        weights = np.empty((len(directions), 4))
        _sky.healpix_interpolation(
            self.grid, np.ascontiguousarray(directions, np.float64), pixels, weights, n_threads
        )
        return pixels, weights

    def reordered(self, pixels: Int64Array, n_threads: int = 1) -> Int64Array:
        """Return pixel numbers converted from this ordering to the other one.

        Parameters
        ----------
        pixels : int64 (n,)
            Pixel numbers in the ordering of this pixelization.
        n_threads : int
            Number of threads.

        Returns
        -------
        int64 (n,)
            Pixel numbers in the other ordering.

        Raises
        ------
        ValueError
            If a pixel is outside [0, n_pix), or if `n_side` is no power of two.
        """
        numbers = np.ascontiguousarray(pixels, np.int64)
        out = np.empty_like(numbers)
        _sky.healpix_reordered(self.grid, numbers, out, n_threads)
        return out

    def describe(self) -> dict[str, object]:
        """Return kind, n_side and ordering.

        Returns
        -------
        dict
            By name; the ordering is ``"ring"`` or ``"nested"``.
        """
        return {
            "kind": "healpix",
            "n_side": int(self.n_side),
            "ordering": "nested" if self.nest else "ring",
        }
