"""Maps of larger pixels: weighted means of the observed pixels in each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array
from petamap.sky.car import CarPatch
from petamap.sky.healpix import Healpix
from petamap.sky.image import ImagePixels
from petamap.sky.map_weights import column_weights
from petamap.sky.partial_healpix import PartialHealpix
from petamap.sky.pixelization import Pixelization

if TYPE_CHECKING:
    from petamap.sky.sky_map import SkyMap


def degrade_map(sky_map: SkyMap, factor: int, weights: SkyMap | FloatArray | None) -> SkyMap:
    """Return a map whose pixels have `factor` times the side, and the weighted means of the observed ones.

    Raises
    ------
    ConfigError
        If pixels do not fit into larger ones.
    """
    larger, parents = _larger_pixels(sky_map.pixelization, factor)
    area = _relative_areas(sky_map.pixelization)
    columns = []
    for column, weight in zip(sky_map.values, column_weights(sky_map, weights), strict=True):
        weight = np.where(np.isfinite(column), weight * area, 0.0)
        total = np.bincount(parents, weight, larger.n_pix)
        summed = np.bincount(parents, np.where(weight > 0, column, 0.0) * weight, larger.n_pix)
        columns.append(np.divide(summed, total, out=np.full(larger.n_pix, np.nan), where=total > 0))
    return replace(sky_map, values=np.array(columns), pixelization=larger)


def degrading_factor(pixels: Pixelization, n_side: int | None, factor: int | None) -> int:
    """Return the factor by which the side of a pixel grows, given itself or by N_side of larger pixels.

    Raises
    ------
    ConfigError
        If neither or both are given, or `n_side` is no part of that of the pixels.
    """
    if (n_side is None) == (factor is None):
        raise ConfigError("larger pixels are said in one way", mend="give n_side or factor")
    if factor is not None:
        return factor
    assert n_side is not None, "one of them is given"
    if not isinstance(pixels, Healpix | PartialHealpix):
        raise ConfigError("n_side is HEALPix's, and this map is another", mend="give factor")
    if not isinstance(n_side, int | np.integer) or n_side < 1 or pixels.n_side % n_side:
        raise ConfigError(f"n_side {pixels.n_side} is no multiple of {n_side}", mend="give a part of it")
    return int(pixels.n_side // n_side)


def _larger_pixels(pixels: Pixelization, factor: int) -> tuple[Pixelization, Int64Array]:
    """Return a pixelization of larger pixels and the one that each pixel is in."""
    if isinstance(pixels, PartialHealpix):
        larger, parents = _larger_healpix(pixels.sky, pixels.pixels, factor)
        part = PartialHealpix(larger.n_side, distinct(parents.copy()), larger.nest)
        return part, part.indices_of(parents)
    numbers = np.arange(pixels.n_pix)
    if isinstance(pixels, Healpix):
        return _larger_healpix(pixels, numbers, factor)
    if isinstance(pixels, ImagePixels):
        for count, what in zip(pixels.shape, ("rows", "columns"), strict=True):
            _check_factor(factor, count, what)
        rows, columns = np.divmod(numbers, pixels.shape[1])
        shape = (pixels.shape[0] // factor, pixels.shape[1] // factor)
        (x, y), (dx, dy) = pixels.crpix, pixels.cdelt
        crpix = ((x - 0.5) / factor + 0.5, (y - 0.5) / factor + 0.5)
        patch = replace(pixels, crpix=crpix, cdelt=(dx * factor, dy * factor), shape=shape)
        return patch, (rows // factor) * shape[1] + columns // factor
    raise ConfigError("numbered pixels have no neighbours to be averaged with")


def _larger_healpix(pixels: Healpix, numbers: Int64Array, factor: int) -> tuple[Healpix, Int64Array]:
    """Return larger pixels of the sky, in the same order, and the one that each of some pixels is in."""
    _check_factor(factor, pixels.n_side, "n_side")
    larger = Healpix(pixels.n_side // factor, pixels.nest)
    parents = (numbers if pixels.nest else pixels.reordered(numbers)) // factor**2
    return larger, parents if pixels.nest else Healpix(larger.n_side, nest=True).reordered(parents)


def _check_factor(factor: int, count: int, what: str) -> None:
    if not math.isfinite(factor) or int(factor) != factor or factor < 1 or count % int(factor):
        known = ", ".join(str(n) for n in range(1, min(count, 64) + 1) if count % n == 0)
        raise ConfigError(f"{count} {what} are no multiple of {factor}", mend=f"take one of {known}")


def _relative_areas(pixels: Pixelization) -> FloatArray:
    """Return the areas of pixels among each other: those of CAR go with the cosine of the latitude."""
    if not isinstance(pixels, CarPatch):
        return np.ones(1)
    first = np.arange(pixels.shape[0]) * pixels.shape[1]
    cosine = np.hypot(*pixels.directions_of(first)[:, :2].T)
    return np.repeat(cosine, pixels.shape[1])
