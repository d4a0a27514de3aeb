"""Maps as the page holds them: pixels with a value as runs, values as float32 or 16-bit words."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petamap.sky.healpix import Healpix
from petamap.sky.image import ImagePixels
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization

# Bytes of all values together; base64 adds a third, and the page must stay below 5 MB.
BUDGET = 3_300_000
_UNSEEN = 65535


@dataclass(frozen=True)
class Layer:
    """One map to show: a component of a product.

    Attributes
    ----------
    product, kind, component, unit : str
        Names for people, and the kind of product.
    read : function
        Returns the values, float64 (n_pix,), nan where the map has none. It is called twice, so that large
        maps need not be in memory all at once.
    """

    product: str
    kind: str
    component: str
    unit: str
    read: Callable[[], FloatArray]


@dataclass(frozen=True)
class Sheet:
    """Layers on one pixelization; `frame` is galactic, equatorial, ecliptic or ''."""

    pixelization: Pixelization
    frame: str
    layers: list[Layer]


def embed(sheets: Sequence[Sheet], budget: int = BUDGET) -> dict[str, Any]:
    """Return ``{"grids": [...], "layers": [...]}`` as ``layers.js`` reads them, in about `budget` bytes.

    Values are exact to float32 where they fit; else they are 16-bit words on an asinh scale, within 1e-4 of
    the larger of the value and the median size, after averaging blocks of 4, 16, ... pixels as needed.
    """
    n_layers = sum(len(sheet.layers) for sheet in sheets)
    grids: list[dict[str, Any]] = []
    layers: list[dict[str, Any]] = []
    for sheet in sheets:
        seen = np.zeros(sheet.pixelization.n_pix, bool)
        described = []
        for layer in sheet.layers:
            values = layer.read()
            np.logical_or(seen, np.isfinite(values), out=seen)
            described.append(_described(layer, values) | {"grid": len(grids)})
        fine = np.flatnonzero(seen)
        grid, place = _fitted(sheet, fine, budget // (2 * max(n_layers, 1)))
        n_pix = int(place.max()) + 1 if place.size else 0
        for layer, description in zip(sheet.layers, described, strict=True):
            means = _block_means(layer.read()[fine], place, n_pix)
            layers.append(description | _encoded(means, exact=4 * n_pix * n_layers <= budget))
        grids.append(grid)
    return {"grids": grids, "layers": layers}


def _fitted(sheet: Sheet, seen: Int64Array, most: int) -> tuple[dict[str, Any], Int64Array]:
    """Return a grid of at most `most` pixels, and the place on it of each pixel seen."""
    fine = _places(sheet.pixelization, seen)
    # a pixel of n times the width holds n^2 pixels at most, so no smaller factor can do
    factor = 1 << max(0, math.ceil(math.log2(max(fine.size, 1) / max(most, 1)) / 2))
    pixels, place = _merged(sheet.pixelization, fine, factor)
    while pixels.size > most:
        factor *= 2
        pixels, place = _merged(sheet.pixelization, fine, factor)
    grid = describe_grid(sheet.pixelization, fine, factor)
    return grid | {"coordinates": sheet.frame, "runs": _base64(_runs(pixels), "<i4")}, place


def _merged(pixelization: Pixelization, places: Int64Array, factor: int) -> tuple[Int64Array, Int64Array]:
    """Return the pixels `factor` times wider that hold any of `places`, and the index among them of each."""
    coarse = places if factor == 1 else coarse_pixels(pixelization, places, factor)
    held = np.zeros(int(coarse.max()) + 1 if coarse.size else 0, bool)
    held[coarse] = True
    return np.flatnonzero(held), np.cumsum(held)[coarse] - 1


def _block_means(values: FloatArray, place: Int64Array, n: int) -> FloatArray:
    good = np.isfinite(values)
    counts = np.bincount(place[good], minlength=n)
    sums = np.bincount(place[good], values[good], minlength=n)
    means: FloatArray = np.full(n, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def coarse_pixels(pixelization: Pixelization, places: Int64Array, factor: int) -> Int64Array:
    """Return the pixels, `factor` times wider, in which pixels lie; numbered in the same way."""
    if isinstance(pixelization, Healpix):
        nested = places if pixelization.nest else pixelization.reordered(places)
        coarse = nested // factor**2
        wide = Healpix(pixelization.n_side // factor, nest=True)
        return coarse if pixelization.nest else wide.reordered(coarse)
    columns = image_shape(pixelization)[1]
    row, column = np.divmod(places, columns)
    wide_place: Int64Array = row // factor * -(-columns // factor) + column // factor
    return wide_place


def image_shape(pixelization: Pixelization) -> tuple[int, int]:
    """Return rows and columns of an image; pixels without places stand in rows of a near-square."""
    if isinstance(pixelization, ImagePixels):
        return pixelization.shape
    if isinstance(pixelization, NumberedPixels) and pixelization.layout is not None:
        return pixelization.layout.shape
    columns = math.isqrt(max(pixelization.n_pix - 1, 0)) + 1
    return -(-pixelization.n_pix // columns), columns


def _places(pixelization: Pixelization, pixels: Int64Array) -> Int64Array:
    """Return the places of pixels in their image, where they are not numbered so already."""
    if isinstance(pixelization, NumberedPixels) and pixelization.layout is not None:
        return pixelization.layout.index[pixels]
    return pixels


def describe_grid(pixelization: Pixelization, places: Int64Array, factor: int) -> dict[str, Any]:
    """Return what ``sphere.js`` must know of a pixelization with values at `places`, made coarser."""
    if isinstance(pixelization, Healpix):
        return _describe_healpix(pixelization, places, factor)
    rows, columns = image_shape(pixelization)
    row, column = np.divmod(places, columns)
    grid: dict[str, Any] = {
        "kind": "image",
        "nx": -(-columns // factor),
        "ny": -(-rows // factor),
        "factor": factor,
        "box": _box(row, column) if places.size else [0, 0, columns, rows],
        "wcs": _wcs(pixelization),
    }
    if factor > 1:
        grid["note"] = f"Shown as means of {factor} × {factor} pixels; the file has all."
    return grid


def _box(row: Int64Array, column: Int64Array) -> list[int]:
    return [int(column.min()), int(row.min()), int(column.max()) + 1, int(row.max()) + 1]


def _wcs(pixelization: Pixelization) -> dict[str, Any] | None:
    if not isinstance(pixelization, ImagePixels):
        return None
    return {
        "projection": pixelization.projection,
        "crval": list(pixelization.crval),
        "crpix": list(pixelization.crpix),
        "cdelt": list(pixelization.cdelt),
    }


def _describe_healpix(pixelization: Healpix, pixels: Int64Array, factor: int) -> dict[str, Any]:
    centre, reach = _coverage(pixelization, pixels)
    grid: dict[str, Any] = {
        "kind": "healpix",
        "n_side": pixelization.n_side // factor,
        "nest": pixelization.nest,
        "centre": centre,
        "reach": reach,
    }
    if factor > 1:
        wide = pixelization.n_side // factor
        grid["note"] = f"Shown at N_side {wide}: means of up to {factor**2} pixels; the file has all."
    return grid


def _coverage(pixelization: Healpix, pixels: Int64Array) -> tuple[list[float], list[float]]:
    """Return longitude and latitude of the pixels' middle, and how far they reach from there.

    The reach is east-west and north-south on the unit disc of an orthographic projection; (1, 1) shows half
    of the sky.
    """
    directions = pixelization.directions_of(pixels)
    mean = directions.mean(axis=0) if pixels.size else np.zeros(3)
    length = float(np.linalg.norm(mean))
    if length < 0.5:
        return [0.0, 0.0], [1.0, 1.0]
    lon, lat = math.atan2(mean[1], mean[0]), math.asin(mean[2] / length)
    east = np.array([-math.sin(lon), math.cos(lon), 0.0])
    north = np.cross(mean / length, east)
    if (directions @ mean).min() <= 0:
        return [lon, lat], [1.0, 1.0]
    margin = 1 / pixelization.n_side
    reach = [min(1.0, 1.05 * float(np.abs(directions @ axis).max()) + margin) for axis in (east, north)]
    return [lon, lat], reach


def _described(layer: Layer, values: FloatArray) -> dict[str, Any]:
    good = values[np.isfinite(values)]
    seen = good.size
    if good.size == 0:
        good = np.zeros(1)
    low, high = _shown_range(good)
    signed = layer.kind not in ("hits", "rcond") and low < 0 < high and 0.25 < -low / high < 4
    return {
        "product": layer.product,
        "kind": layer.kind,
        "component": layer.component,
        "unit": layer.unit,
        "palette": "balance" if signed else "dusk",
        "seen": seen,
        "min": float(good.min()),
        "max": float(good.max()),
        "mean": float(good.mean()),
        "rms": float(np.sqrt(np.mean(good**2))),
        "show_from": low,
        "show_to": high,
    }


def _shown_range(good: FloatArray) -> tuple[float, float]:
    """Return a range that shows the bulk: the middle 98 %, and no more than 6 deviations from the median."""
    first, median, last = np.percentile(good, (1, 50, 99))
    deviation = 1.4826 * float(np.median(np.abs(good - median)))
    if deviation > 0:
        first, last = max(first, median - 6 * deviation), min(last, median + 6 * deviation)
    return float(first), float(last)


def _encoded(values: FloatArray, exact: bool) -> dict[str, Any]:
    if exact:
        return {"encoding": "float32", "data": _base64(values, "<f4")}
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    scale = float(np.median(sizes)) if sizes.size else 1.0
    curved = np.arcsinh(values / scale)
    low, high = (float(np.nanmin(curved)), float(np.nanmax(curved))) if np.isfinite(curved).any() else (0, 1)
    step = (high - low) / (_UNSEEN - 1) or 1.0
    quantised = np.where(np.isfinite(curved), np.rint((curved - low) / step), _UNSEEN)
    data = _base64(quantised, "<u2")
    return {"encoding": "asinh16", "from": low, "to": high, "scale": scale, "data": data}


def _runs(pixels: Int64Array) -> Int64Array:
    """Return ascending pixels as runs: first pixel, how many, first pixel, ..."""
    breaks = np.flatnonzero(np.diff(pixels) != 1) + 1
    begins = np.concatenate(([0], breaks)) if pixels.size else np.zeros(0, np.int64)
    lengths = np.diff(np.concatenate((begins, [pixels.size])))
    runs: Int64Array = np.column_stack((pixels[begins], lengths)).ravel()
    return runs


def _base64(values: AnyArray, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")
