"""Plate carree patches (FITS projection CAR): rows of equal latitude, columns of equal longitude."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.base.units import DEGREE
from petamap.sky.image import ImagePixels, centred_image, unit_vectors


@dataclass(frozen=True)
class CarPatch(ImagePixels):
    """Patch of the sky, or the full sky, in equal steps of longitude and latitude.

    The reference point lies on the equator (``crval[1] == 0``), so that rows are parallels. Longitudes are
    taken modulo 360 degrees around the middle of the image.

    Parameters
    ----------
    crval : (float, float)
        Longitude and latitude of the reference point, degrees.
    crpix : (float, float)
        Column and row of the reference point; the centre of the first pixel is (1, 1).
    cdelt : (float, float)
        Step in longitude and latitude per pixel, degrees.
    shape : (int, int)
        Number of rows and columns.

    Raises
    ------
    ConfigError
        If the reference point is off the equator, or if the image covers more than 360 degrees of longitude
        or extends past a pole.

    Examples
    --------
    >>> import petamap
    >>> patch = petamap.CarPatch.box((30.0, -40.0), (20.0, 10.0), 0.5)
    >>> patch.shape, patch.n_pix
    ((20, 40), 800)
    """

    kind: ClassVar[str] = "car"
    projection: ClassVar[str] = "CAR"
    lonpole: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.crval[1] != 0:
            raise ConfigError(
                f"a CAR patch with its reference point at latitude {self.crval[1]} is oblique",
                mend="put the reference point on the equator and move crpix",
            )
        if self.shape[1] * abs(self.cdelt[0]) > 360 * (1 + 1e-9):
            raise ConfigError(
                f"{self.shape[1]} columns of {abs(self.cdelt[0])} deg go more than once around",
                mend="choose pixels of which a whole number goes around, or a smaller width",
            )
        first, last = self.edges[1]
        if max(abs(first), abs(last)) - abs(self.cdelt[1]) / 2 > 90 + 1e-9:
            raise ConfigError(
                f"rows from latitude {first:g} to {last:g} deg go past a pole",
                mend="choose a smaller height, or another centre",
            )

    @classmethod
    def full_sky(cls, resolution_deg: float) -> CarPatch:
        """Return the full sky: poles on the outer edges of rows, longitude decreasing with column.

        Parameters
        ----------
        resolution_deg : float
            Step in longitude and in latitude, in degrees.

        Returns
        -------
        CarPatch

        Raises
        ------
        ConfigError
            If 180 degrees are not a multiple of `resolution_deg`.
        """
        rows = round(180 / resolution_deg) if resolution_deg > 0 else 0
        if rows < 1 or abs(rows * resolution_deg - 180) > 1e-9:
            raise ConfigError(f"180 deg are not a whole number of steps of {resolution_deg} deg")
        step = 180 / rows
        return cls((0.0, 0.0), (rows + 0.5, (rows + 1) / 2), (-step, step), (rows, 2 * rows))

    @classmethod
    def box(
        cls, centre_deg: tuple[float, float], size_deg: tuple[float, float], resolution_deg: float
    ) -> CarPatch:
        """Return a patch centred on `centre_deg` that covers at least `size_deg`; east is left.

        Parameters
        ----------
        centre_deg : (float, float)
            Longitude and latitude of the centre, in degrees.
        size_deg : (float, float)
            Range of longitude and of latitude in degrees, rounded up to a multiple of `resolution_deg`.
        resolution_deg : float
            Step in longitude and in latitude, in degrees.

        Returns
        -------
        CarPatch

        Raises
        ------
        ConfigError
            If a size or the resolution is not positive.
        """
        (column, row), cdelt, shape = centred_image(size_deg, resolution_deg)
        crpix = (column, row - centre_deg[1] / resolution_deg)
        return cls((centre_deg[0], 0.0), crpix, cdelt, shape)

    @property
    def grid(self) -> FloatArray:
        """Parameters for the C++ kernels."""
        return np.array([2.0, self.crval[0], *self.crpix, *self.cdelt, self.shape[1], self.shape[0]])

    @property
    def pixel_area(self) -> float:
        """Mean area of a pixel in steradians."""
        width = self.shape[1] * abs(self.cdelt[0]) * DEGREE
        low, high = sorted(min(max(edge, -90.0), 90.0) * DEGREE for edge in self.edges[1])
        return width * (math.sin(high) - math.sin(low)) / self.n_pix

    def directions_of(self, pixels: Int64Array) -> FloatArray:
        """Return the unit vectors of pixel centres.

        Parameters
        ----------
        pixels : int64 (n,)
            Pixel numbers.

        Returns
        -------
        float64 (n, 3)

        Raises
        ------
        ValueError
            If a pixel is outside [0, n_pix).
        """
        lon, lat = self._offsets(pixels)
        return unit_vectors((lon + self.crval[0]) * DEGREE, lat * DEGREE)
