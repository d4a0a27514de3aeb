"""Flat patches: pixels in the gnomonic (FITS TAN) projection around a point."""

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
class FlatPatch(ImagePixels):
    """Pixels of a gnomonic projection: the tangent plane at `crval`, with north towards higher rows.

    Directions 90 degrees or more from `crval` lie outside.

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
        If the latitude of `crval` is outside [-90, 90].

    Examples
    --------
    >>> import petamap
    >>> patch = petamap.FlatPatch.box((266.4, -29.0), (4.0, 3.0), 0.1)
    >>> patch.shape, patch.n_pix
    ((30, 40), 1200)
    """

    kind: ClassVar[str] = "flat"
    projection: ClassVar[str] = "TAN"
    lonpole: ClassVar[float] = 180.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if abs(self.crval[1]) > 90:
            raise ConfigError(f"latitude {self.crval[1]} deg of crval is beyond a pole")

    @classmethod
    def box(
        cls, centre_deg: tuple[float, float], size_deg: tuple[float, float], resolution_deg: float
    ) -> FlatPatch:
        """Return a patch centred on `centre_deg` that covers at least `size_deg`; east is left.

        Parameters
        ----------
        centre_deg : (float, float)
            Longitude and latitude of the centre, in degrees.
        size_deg : (float, float)
            Width and height in degrees, rounded up to a multiple of `resolution_deg`.
        resolution_deg : float
            Width and height of a pixel at the centre, in degrees.

        Returns
        -------
        FlatPatch

        Raises
        ------
        ConfigError
            If a size or the resolution is not positive.
        """
        return cls(centre_deg, *centred_image(size_deg, resolution_deg))

    @property
    def grid(self) -> FloatArray:
        """Parameters for the C++ kernels."""
        return np.array([3.0, *self.crval, *self.crpix, *self.cdelt, self.shape[1], self.shape[0]])

    @property
    def pixel_area(self) -> float:
        """Mean area of a pixel in steradians: solid angle of the image over the number of pixels."""
        columns, rows = self.edges
        corners = [
            (1 if i == j else -1) * _quadrant_solid_angle(columns[i] * DEGREE, rows[j] * DEGREE)
            for i in range(2)
            for j in range(2)
        ]
        return abs(sum(corners)) / self.n_pix

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
        x, y = self._offsets(pixels)
        lon, lat = (angle * DEGREE for angle in self.crval)
        centre = unit_vectors(np.array(lon), np.array(lat))
        east = np.array([-math.sin(lon), math.cos(lon), 0.0])
        north = np.cross(centre, east)
        directions: FloatArray = centre + np.multiply.outer(x * DEGREE, east)
        directions += np.multiply.outer(y * DEGREE, north)
        directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
        return directions


def _quadrant_solid_angle(x: float, y: float) -> float:
    """Return the signed solid angle of the rectangle between the tangent point and (x, y) in the plane."""
    return math.atan2(x * y, math.sqrt(1 + x * x + y * y))
