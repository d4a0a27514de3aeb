"""Pixels of several maps of the same sky, numbered together: pixel p of map k has number k n_pix + p."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petamap.sky.pixelization import Pixelization


@dataclass(frozen=True)
class PartPixels:
    """Pixels of the maps of the parts of the data (implements `Pixelization`).

    Attributes
    ----------
    sky : Pixelization
        Of each map.
    n_parts : int

    Raises
    ------
    ConfigError
        If there are more pixels than an int32 numbers.
    """

    sky: Pixelization
    n_parts: int

    def __post_init__(self) -> None:
        if self.n_pix > np.iinfo(np.int32).max:
            raise ConfigError(
                f"{self.n_parts} maps of {self.sky.n_pix:,} pixels have more than 2^31 together",
                mend="make fewer parts, or a map of fewer pixels",
            )

    @property
    def n_pix(self) -> int:
        """Number of pixels of all maps."""
        return self.n_parts * self.sky.n_pix

    @property
    def pixel_area(self) -> float:
        """Area of a pixel in steradians."""
        return self.sky.pixel_area

    @property
    def grid(self) -> FloatArray:
        """Parameters for the C++ kernels, of each map."""
        return self.sky.grid

    def pixels_of(self, directions: FloatArray, pixels: Int32Array, n_threads: int = 1) -> None:
        """Write the pixel number in the first map of each unit vector to `pixels`."""
        self.sky.pixels_of(directions, pixels, n_threads)

    def directions_of(self, pixels: Int64Array) -> FloatArray:
        """Return the unit vectors of pixel centres, shape (n, 3)."""
        return self.sky.directions_of(pixels % self.sky.n_pix)

    def describe(self) -> dict[str, object]:
        """Return the ``kind`` and the parameters of each map, and the number of maps."""
        return {**self.sky.describe(), "n_parts": self.n_parts}
