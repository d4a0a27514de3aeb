"""Embedding of maps in a page: runs of observed pixels, and values as float32 or 16-bit words."""

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

# Bytes of all values; base64 adds a third, and the page must stay below 5 MB.
BUDGET = 3_300_000
_UNSEEN = 65535
# Pixels for each of a map's, up to which they are counted in place of sorted.
_DENSE = 16


@dataclass(frozen=True)
class MapLayer:
    """Map to show: a component of a product.

    Attributes
    ----------
    product, kind, component, unit : str
        Names to display, and the kind of product.
    read : function
        Returns the values, float64 (n_row,), nan for pixels without a value. It is called twice, so that
        large maps need not be in memory at the same time.
    """

    product: str
    kind: str
    component: str
    unit: str
    read: Callable[[], FloatArray]


@dataclass(frozen=True)
class MapSheet:
    """Layers with common pixels.

    Attributes
    ----------
    pixelization : Pixelization
    frame : str
        galactic, equatorial, ecliptic or ''.
    layers : list of MapLayer
    pixels : int64 (n_row,), optional
        The pixels of which layers have values, increasing; by default all.
    """

    pixelization: Pixelization
    frame: str
    layers: list[MapLayer]
    pixels: Int64Array | None = None


def embed_maps(sheets: Sequence[MapSheet], budget: int = BUDGET) -> dict[str, Any]:
    """Return ``{"grids": [...], "layers": [...]}`` for ``layers.js``, of about `budget` bytes.

    Values are float32 if they fit into the budget. Otherwise they are averaged over blocks of 4, 16, ...
    pixels as needed, and encoded as 16-bit words on an asinh scale, with an error of at most 1e-4 of the
    larger of the value and the median size.
    """
    n_layers = sum(len(sheet.layers) for sheet in sheets)
    grids: list[dict[str, Any]] = []
    layers: list[dict[str, Any]] = []
    for sheet in sheets:
        every = sheet.pixels
        seen = np.zeros(sheet.pixelization.n_pix if every is None else len(every), bool)
        entries = []
        for layer in sheet.layers:
            values = layer.read()
            np.logical_or(seen, np.isfinite(values), out=seen)
            entries.append(_layer_entry(layer, values) | {"grid": len(grids)})
        fine = np.flatnonzero(seen)
        pixels = fine if every is None else every[fine]
        grid, coarse_index = _coarse_grid(sheet, pixels, budget // (2 * max(n_layers, 1)))
        n_pix = int(coarse_index.max()) + 1 if coarse_index.size else 0
        for layer, entry in zip(sheet.layers, entries, strict=True):
            means = _block_means(layer.read()[fine], coarse_index, n_pix)
            layers.append(entry | _encode(means, exact=4 * n_pix * n_layers <= budget))
        grids.append(grid)
    return {"grids": grids, "layers": layers}


def _coarse_grid(sheet: MapSheet, seen: Int64Array, most: int) -> tuple[dict[str, Any], Int64Array]:
    """Return a grid of at most `most` pixels, and the index among them of each observed pixel."""
    fine = _image_index(sheet.pixelization, seen)
    # A pixel of n times the width contains at most n^2 pixels: this is a lower bound of the factor.
    factor = 1 << max(0, math.ceil(math.log2(max(fine.size, 1) / max(most, 1)) / 2))
    pixels, coarse_index = _coarse_index(sheet.pixelization, fine, factor)
    while pixels.size > most:
        factor *= 2
        pixels, coarse_index = _coarse_index(sheet.pixelization, fine, factor)
    grid = describe_grid(sheet.pixelization, fine, factor)
    return grid | {"coordinates": sheet.frame, "runs": _base64(_runs(pixels), "<i4")}, coarse_index


def _coarse_index(
    pixelization: Pixelization, positions: Int64Array, factor: int
) -> tuple[Int64Array, Int64Array]:
    """Return the pixels `factor` times wider that contain any of `positions`, and the index of each."""
    coarse = positions if factor == 1 else coarse_pixels(pixelization, positions, factor)
    n_wide = int(coarse.max()) + 1 if coarse.size else 0
    if n_wide > _DENSE * coarse.size:
        pixels, index = np.unique(coarse, return_inverse=True)
        return pixels, index
    used = np.zeros(n_wide, bool)
    used[coarse] = True
    return np.flatnonzero(used), np.cumsum(used)[coarse] - 1


def _block_means(values: FloatArray, coarse_index: Int64Array, n: int) -> FloatArray:
    good = np.isfinite(values)
    counts = np.bincount(coarse_index[good], minlength=n)
    sums = np.bincount(coarse_index[good], values[good], minlength=n)
    means: FloatArray = np.full(n, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def coarse_pixels(pixelization: Pixelization, positions: Int64Array, factor: int) -> Int64Array:
    """Return the numbers of the pixels `factor` times wider that contain the given pixels.

    Positions are pixel numbers of HEALPix, or row-major indices of an image; so are the results.
    """
    if isinstance(pixelization, Healpix):
        nested = positions if pixelization.nest else pixelization.reordered(positions)
        coarse = nested // factor**2
        wide = Healpix(pixelization.n_side // factor, nest=True)
        return coarse if pixelization.nest else wide.reordered(coarse)
    columns = embedded_image_shape(pixelization)[1]
    row, column = np.divmod(positions, columns)
    coarse_position: Int64Array = row // factor * -(-columns // factor) + column // factor
    return coarse_position


def embedded_image_shape(pixelization: Pixelization) -> tuple[int, int]:
    """Return (rows, columns) of the image of a map; pixels without positions fill a near-square."""
    if isinstance(pixelization, ImagePixels):
        return pixelization.shape
    if isinstance(pixelization, NumberedPixels) and pixelization.layout is not None:
        return pixelization.layout.shape
    columns = math.isqrt(max(pixelization.n_pix - 1, 0)) + 1
    return -(-pixelization.n_pix // columns), columns


def _image_index(pixelization: Pixelization, pixels: Int64Array) -> Int64Array:
    """Return the row-major indices of pixels in their image; HEALPix pixel numbers do not change."""
    if isinstance(pixelization, NumberedPixels) and pixelization.layout is not None:
        return pixelization.layout.index[pixels]
    return pixels


def describe_grid(pixelization: Pixelization, positions: Int64Array, factor: int) -> dict[str, Any]:
    """Return the description of a coarsened pixelization with values at `positions`, for ``sphere.js``."""
    if isinstance(pixelization, Healpix):
        return _describe_healpix(pixelization, positions, factor)
    rows, columns = embedded_image_shape(pixelization)
    row, column = np.divmod(positions, columns)
    grid: dict[str, Any] = {
        "kind": "image",
        "nx": -(-columns // factor),
        "ny": -(-rows // factor),
        "factor": factor,
        "box": [0, 0, columns, rows],
        "wcs": _wcs(pixelization),
    }
    if positions.size:
        grid["box"] = [int(column.min()), int(row.min()), int(column.max()) + 1, int(row.max()) + 1]
    if factor > 1:
        grid["note"] = f"Shown as means of {factor} × {factor} pixels; the file has all."
    return grid


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
    """Return longitude and latitude of the mean direction of pixels, and their extent around it.

    The extent is east-west and north-south on the unit disc of an orthographic projection; (1, 1) is half of
    the sky.
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


def _layer_entry(layer: MapLayer, values: FloatArray) -> dict[str, Any]:
    good = values[np.isfinite(values)]
    seen = good.size
    if good.size == 0:
        good = np.zeros(1)
    low, high = _colour_range(good)
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


def _colour_range(good: FloatArray) -> tuple[float, float]:
    """Return the range of the colour scale: the central 98 %, at most 6 deviations from the median."""
    first, median, last = np.percentile(good, (1, 50, 99))
    deviation = 1.4826 * float(np.median(np.abs(good - median)))
    if deviation > 0:
        first, last = max(first, median - 6 * deviation), min(last, median + 6 * deviation)
    return float(first), float(last)


def _encode(values: FloatArray, exact: bool) -> dict[str, Any]:
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
    """Return ascending pixels as runs: first pixel, number of pixels, first pixel, ..."""
    breaks = np.flatnonzero(np.diff(pixels) != 1) + 1
    begins = np.concatenate(([0], breaks)) if pixels.size else np.zeros(0, np.int64)
    lengths = np.diff(np.concatenate((begins, [pixels.size])))
    return np.column_stack((pixels[begins], lengths)).ravel()


def _base64(values: AnyArray, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")
