"""Projections of maps to images for display (Calabretta & Greisen 2002, A&A 395, 1077)."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.typing import AnyArray, FloatArray, Int32Array
from petacomm.base.units import DEGREE
from petamap.sky.image import ImagePixels, unit_vectors
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization

Projection = Literal["mollweide", "gnomonic", "image"]


def project(
    values: AnyArray,
    pixelization: Pixelization,
    projection: Projection = "mollweide",
    width: int = 800,
    *,
    centre_deg: tuple[float, float] | None = None,
    size_deg: float | None = None,
    n_threads: int = 1,
) -> tuple[FloatArray, Int32Array]:
    """Project a map to an image; row 0 is the top (north), longitude increases to the left.

    Parameters
    ----------
    values : array, shape (n_pix,)
    pixelization : Pixelization
    projection : {'mollweide', 'gnomonic', 'image'}
        The full sky in an ellipse (height = width / 2); a square in gnomonic projection around a point; or
        the rows and columns of a map that is an image, subsampled to at most `width` columns.
    width : int
        Columns of the image.
    centre_deg : (float, float), optional
        Longitude and latitude of the centre, in the frame of the map. Default: (0, 0) for mollweide, the mean
        direction of the observed pixels for gnomonic.
    size_deg : float, optional
        Width of the gnomonic square in degrees, below 180. Default: all observed pixels, up to 120.
    n_threads : int
        Threads that compute pixel numbers.

    Returns
    -------
    image : float64 array, shape (height, width)
        nan outside the map and where the map is nan.
    index : int32 array, shape (height, width)
        Pixel number of each image point, -1 outside: ``other_values[index]`` projects another column.

    Raises
    ------
    ConfigError
        If the pixelization has no such projection, or an argument is out of range.
    """
    if projection not in ("mollweide", "gnomonic", "image"):
        known = ["mollweide", "gnomonic", "image"]
        raise ConfigError(f"unknown projection '{projection}'", mend=did_you_mean(projection, known))
    if width < 2:
        raise ConfigError(f"an image of width {width} shows nothing")
    flat = np.asarray(values, np.float64)
    if flat.shape != (pixelization.n_pix,):
        raise ConfigError(f"values of shape {flat.shape} for {pixelization.n_pix} pixels")
    if projection == "image":
        index = _native_image(pixelization, width)
    else:
        directions = (
            _mollweide(width, centre_deg or (0.0, 0.0))
            if projection == "mollweide"
            else _gnomonic(width, *_field_of_view(flat, pixelization, centre_deg, size_deg))
        )
        index = np.empty(directions.shape[:2], np.int32)
        pixelization.pixels_of(directions.reshape(-1, 3), index.reshape(-1), n_threads)
    image = np.where(index >= 0, flat[index], math.nan)
    return image, index


def _mollweide(width: int, centre_deg: tuple[float, float]) -> FloatArray:
    """Return the direction of each image point, shape (width // 2, width, 3); zero outside the ellipse."""
    height = width // 2
    x = (2 * np.arange(width) + 1 - width) / width  # from -1 at the left edge to 1
    y = (height - 1 - 2 * np.arange(height)) / height
    auxiliary = np.arcsin(y)
    lat = np.arcsin((2 * auxiliary + np.sin(2 * auxiliary)) / math.pi)
    lon = -math.pi * x[None, :] / np.cos(auxiliary)[:, None]
    directions = unit_vectors(lon, np.broadcast_to(lat[:, None], lon.shape))
    directions[np.abs(lon) > math.pi] = 0
    return directions @ _axes_at(centre_deg)


def _gnomonic(width: int, centre_deg: tuple[float, float], size_deg: float) -> FloatArray:
    """Return the direction of each image point, shape (width, width, 3)."""
    edge = math.tan(size_deg / 2 * DEGREE)
    steps = edge * (2 * np.arange(width) + 1 - width) / width
    directions = np.ones((width, width, 3))
    directions[..., 1] = -steps[None, :]
    directions[..., 2] = -steps[:, None]
    return directions @ _axes_at(centre_deg)


def _axes_at(centre_deg: tuple[float, float]) -> FloatArray:
    """Return the unit vectors outward, east and north at a point as rows, shape (3, 3)."""
    lon, lat = centre_deg[0] * DEGREE, centre_deg[1] * DEGREE
    east = [-math.sin(lon), math.cos(lon), 0.0]
    north = [-math.sin(lat) * math.cos(lon), -math.sin(lat) * math.sin(lon), math.cos(lat)]
    outward = [math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)]
    return np.array([outward, east, north])


def _field_of_view(
    values: FloatArray,
    pixelization: Pixelization,
    centre_deg: tuple[float, float] | None,
    size_deg: float | None,
) -> tuple[tuple[float, float], float]:
    """Return centre and width in degrees of the gnomonic square."""
    if size_deg is not None and not 0 < size_deg < 180:
        raise ConfigError(f"a gnomonic image of {size_deg} deg; it must be between 0 and 180")
    if centre_deg is not None and size_deg is not None:
        return centre_deg, size_deg
    observed = pixelization.directions_of(np.flatnonzero(np.isfinite(values)))
    if not observed.size:
        return centre_deg or (0.0, 0.0), size_deg or 10.0
    if centre_deg is None:
        x, y, z = observed.mean(axis=0)
        centre_deg = (math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, math.hypot(x, y))))
    cosine = float((observed @ _axes_at(centre_deg)[0]).min())
    pixel = math.degrees(math.sqrt(pixelization.pixel_area))
    extent = 2 * math.degrees(math.acos(min(max(cosine, -1.0), 1.0))) + 2 * pixel
    return centre_deg, size_deg or min(extent, 120.0)


def _native_image(pixelization: Pixelization, width: int) -> Int32Array:
    """Return the pixel numbers in the rows and columns of a map that is an image, last row first."""
    if isinstance(pixelization, ImagePixels):
        pixels = np.arange(pixelization.n_pix, dtype=np.int32).reshape(pixelization.shape)
    elif isinstance(pixelization, NumberedPixels) and pixelization.layout is not None:
        layout = pixelization.layout
        flat = np.full(math.prod(layout.shape), -1, np.int32)
        flat[layout.index] = np.arange(pixelization.n_pix, dtype=np.int32)
        pixels = flat.reshape(layout.shape)
    else:
        kind = pixelization.describe()["kind"]
        raise ConfigError(
            f"pixels of kind '{kind}' are no image",
            mend="choose mollweide or gnomonic" if kind == "healpix" else None,
        )
    step = -(-pixels.shape[1] // width)
    return np.ascontiguousarray(pixels[::-1][::step, ::step])
