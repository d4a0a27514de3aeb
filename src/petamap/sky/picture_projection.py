"""Pictures of maps: which pixel each dot of an image shows (Calabretta & Greisen 2002, A&A 395, 1077)."""

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
    """Make an image of a map; row 0 is the top (north), longitude grows to the left.

    Parameters
    ----------
    values : array, shape (n_pix,)
    pixelization : Pixelization
    projection : {'mollweide', 'gnomonic', 'image'}
        The whole sky in an ellipse (height = width / 2); a square around a point seen from the centre of the
        sphere; or the map's own rows and columns, thinned out to at most `width` columns.
    width : int
        Columns of the image.
    centre_deg : (float, float), optional
        Longitude and latitude of the middle, in the frame of the map. Without it: (0, 0) for mollweide;
        the mean direction of the pixels with values for gnomonic.
    size_deg : float, optional
        Width of the gnomonic square, below 180; without it all pixels with values fit, up to 120.
    n_threads : int

    Returns
    -------
    image : float64 array, shape (height, width)
        nan outside the map and where the map is nan.
    index : int32 array, shape (height, width)
        The pixel that each dot shows, -1 outside: ``other_values[index]`` shows another column alike.

    Raises
    ------
    ConfigError
        If the pixelization has no such picture, or an argument is out of range.
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
        index = _own_image(pixelization, width)
    else:
        directions = (
            _mollweide(width, centre_deg or (0.0, 0.0))
            if projection == "mollweide"
            else _gnomonic(width, *_view(flat, pixelization, centre_deg, size_deg))
        )
        index = np.empty(directions.shape[:2], np.int32)
        pixelization.pixels_of(directions.reshape(-1, 3), index.reshape(-1), n_threads)
    image = np.where(index >= 0, flat[index], math.nan)
    return image, index


def _mollweide(width: int, centre_deg: tuple[float, float]) -> FloatArray:
    """Return the direction of each dot, shape (width // 2, width, 3); zero outside the ellipse."""
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
    """Return the direction of each dot, shape (width, width, 3)."""
    edge = math.tan(size_deg / 2 * DEGREE)
    steps = edge * (2 * np.arange(width) + 1 - width) / width
    directions = np.ones((width, width, 3))
    directions[..., 1] = -steps[None, :]
    directions[..., 2] = -steps[:, None]
    return directions @ _axes_at(centre_deg)


def _axes_at(centre_deg: tuple[float, float]) -> FloatArray:
    """Return the rows outward, east and north at a point, shape (3, 3)."""
    lon, lat = centre_deg[0] * DEGREE, centre_deg[1] * DEGREE
    east = [-math.sin(lon), math.cos(lon), 0.0]
    north = [-math.sin(lat) * math.cos(lon), -math.sin(lat) * math.sin(lon), math.cos(lat)]
    outward = [math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)]
    return np.array([outward, east, north])


def _view(
    values: FloatArray,
    pixelization: Pixelization,
    centre_deg: tuple[float, float] | None,
    size_deg: float | None,
) -> tuple[tuple[float, float], float]:
    """Return middle and width of the gnomonic square."""
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


def _own_image(pixelization: Pixelization, width: int) -> Int32Array:
    """Return the pixel of each place of a map that is an image, last row first."""
    if isinstance(pixelization, ImagePixels):
        places = np.arange(pixelization.n_pix, dtype=np.int32).reshape(pixelization.shape)
    elif isinstance(pixelization, NumberedPixels) and pixelization.layout is not None:
        layout = pixelization.layout
        flat = np.full(math.prod(layout.shape), -1, np.int32)
        flat[layout.index] = np.arange(pixelization.n_pix, dtype=np.int32)
        places = flat.reshape(layout.shape)
    else:
        kind = pixelization.describe()["kind"]
        raise ConfigError(
            f"pixels of kind '{kind}' are no image",
            mend="choose mollweide or gnomonic" if kind == "healpix" else None,
        )
    step = -(-places.shape[1] // width)
    return np.ascontiguousarray(places[::-1][::step, ::step])
