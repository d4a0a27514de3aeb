"""Figures of sky maps: the whole sky in Mollweide's projection, a gnomonic zoom, or the map's own image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from petacomm.base.errors import ConfigError, ResourceError, require_known
from petacomm.base.typing import BoolArray, FloatArray
from petacomm.base.units import DEGREE
from petamap.sky.flat import FlatPatch
from petamap.sky.image import ImagePixels, unit_vectors
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization

if TYPE_CHECKING:
    from petamap.sky.sky_map import SkyMap

PROJECTIONS = ("mollweide", "gnomonic", "image")
_WIDTH = 800  # pixels of a figure's map across
_WIDEST_ZOOM = 100.0  # degrees: beyond, a gnomonic view is distorted
_OFFSETS = ("degrees to the east", "degrees to the north")
_AXES = {
    "galactic": ("Galactic longitude", "Galactic latitude"),
    "equatorial": ("Right ascension", "Declination"),
    "ecliptic": ("Ecliptic longitude", "Ecliptic latitude"),
}


@dataclass(frozen=True)
class _View:
    """Where pixels of a figure look: pixel numbers of the map, -1 for none, and the axes around them."""

    pixels: Any  # int (n_rows, n_columns), the lowest row first
    extent: tuple[float, float, float, float]
    labels: tuple[str, str] | None
    aspect: float = 1.0


_TITLE = 0.5  # inches for a title above the panels


def plot_map(
    sky_map: SkyMap, projection: str | None, limits: tuple[float, float] | None, title: str | None
) -> tuple[Any, tuple[Any, ...]]:
    """Return a figure with a panel for each column, and its axes."""
    pyplot = _pyplot()
    if projection is not None:
        require_known("unknown projection", projection, PROJECTIONS)
    if limits is not None:
        _check_limits(limits)
    view = _view(sky_map, projection)
    n = len(sky_map.names)
    width = 5.2 if n == 1 else 3.6
    left, right, low, high = view.extent
    ratio = min(max((high - low) * view.aspect / abs(right - left), 0.2), 1.5)
    height = width * ratio + (1.0 if view.labels is None else 1.6) + (0.0 if title is None else _TITLE)
    size = (width * n, height)
    figure, axes = pyplot.subplots(1, n, figsize=size, squeeze=False, layout="constrained")
    for panel, name, unit, column in zip(axes[0], sky_map.names, sky_map.units, sky_map.values, strict=True):
        _draw(panel, view, column, name, unit, limits)
    if title is not None:
        figure.suptitle(title)
    return figure, tuple(axes[0])


def _check_limits(limits: Any) -> None:
    pair = np.asarray(limits)
    if pair.shape != (2,) or pair.dtype.kind not in "iuf" or not pair[0] < pair[1]:
        raise ConfigError(
            f"limits of {limits!r:.50}", mend="give two numbers in the map's unit, the least first"
        )


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ResourceError("figures need matplotlib", mend="pip install 'petamap[plot]'") from error
    return pyplot


def _draw(
    panel: Any, view: _View, column: FloatArray, name: str, unit: str, limits: tuple[float, float] | None
) -> None:
    factor, shown = _readable_unit(column, unit)
    image = np.where(view.pixels >= 0, column[view.pixels], np.nan) * factor
    low, high = colour_range(column * factor) if limits is None else (limit * factor for limit in limits)
    from matplotlib import colormaps

    # what is not observed is grey, which is no colour of a value
    colours = colormaps["RdBu_r" if low == -high else "viridis"].with_extremes(bad="0.85")
    drawn = panel.imshow(
        image, origin="lower", extent=view.extent, vmin=low, vmax=high, cmap=colours, aspect=view.aspect,
        interpolation="nearest",
    )  # fmt: skip
    panel.set_title(name)
    if view.labels is None:
        _outline(panel, drawn)
    else:
        panel.set_xlabel(view.labels[0])
        panel.set_ylabel(view.labels[1])
    panel.figure.colorbar(drawn, ax=panel, orientation="horizontal", shrink=0.8, label=shown, extend="both")


def _readable_unit(column: FloatArray, unit: str) -> tuple[float, str]:
    """Return a factor and the unit it gives: kelvin is shown in a prefix that leaves few zeros."""
    bare, power = unit.removesuffix("^2"), 2 if unit.endswith("^2") else 1
    largest = float(np.nanmax(np.abs(column), initial=0.0)) ** (1 / power)
    if bare not in ("K_CMB", "K_RJ") or largest >= 1 or largest == 0:
        return 1.0, unit
    prefix, factor = ("m", 1e3) if largest >= 0.02 else ("µ", 1e6) if largest >= 2e-8 else ("n", 1e9)
    return factor**power, prefix + unit


def colour_range(column: FloatArray) -> tuple[float, float]:
    """Return the range of colours: the middle 98 % of the values, about 0 if they have both signs."""
    seen = column[np.isfinite(column)]
    if not seen.size:
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(seen, (1, 99)))
    if low < 0 < high:
        high = max(-low, high)
        return -high, high
    low = 0.0 if 0 <= low < 0.5 * high else low
    return (low, high) if high > low else (low, low + (abs(low) or 1.0))


def _view(sky_map: SkyMap, projection: str | None) -> _View:
    pixels = sky_map.pixelization
    if isinstance(pixels, NumberedPixels):
        return _numbered_view(pixels, projection)
    seen = np.asarray(np.isfinite(sky_map.values).any(axis=0))
    zoom = _zoom(pixels, seen)
    if projection is None:
        projection = "image" if isinstance(pixels, ImagePixels) else "gnomonic" if zoom else "mollweide"
    if projection == "image":
        if not isinstance(pixels, ImagePixels):
            raise ConfigError("a HEALPix map is no image", mend='take "mollweide" or "gnomonic"')
        return _image_view(pixels, sky_map.frame)
    if projection == "mollweide":
        return _mollweide_view(pixels)
    if zoom is None:
        raise ConfigError(
            f"what is observed is wider than the {_WIDEST_ZOOM:g} deg of a gnomonic view",
            mend='take projection="mollweide", or mask all but a part',
        )
    rows, columns = zoom.shape
    width, height = (
        step * n / 2 for step, n in zip((-zoom.cdelt[0], zoom.cdelt[1]), (columns, rows), strict=True)
    )
    return _View(_looked_up(pixels, zoom).reshape(zoom.shape), (width, -width, -height, height), _OFFSETS)


def _zoom(pixels: Pixelization, seen: BoolArray) -> FlatPatch | None:
    """Return a flat patch around the observed pixels; None where they are wider than a zoom can be."""
    numbers = np.flatnonzero(seen)
    if not len(numbers):
        return None
    directions = pixels.directions_of(numbers)
    middle = directions.mean(axis=0)
    if np.linalg.norm(middle) < 1e-3:
        return None
    middle /= np.linalg.norm(middle)
    if np.degrees(np.arccos(np.clip((directions @ middle).min(), -1, 1))) > _WIDEST_ZOOM / 2:
        return None
    lon, lat = np.degrees(np.arctan2(middle[1], middle[0])) % 360, np.degrees(np.arcsin(middle[2]))
    east = np.array([-np.sin(lon * DEGREE), np.cos(lon * DEGREE), 0.0])
    depth = directions @ middle
    x, y = (np.abs(directions @ axis / depth).max() / DEGREE for axis in (east, np.cross(middle, east)))
    margin = 2 * np.sqrt(pixels.pixel_area) / DEGREE
    size = (2 * float(x) + margin, 2 * float(y) + margin)
    return FlatPatch.box((float(lon), float(lat)), size, max(size) / _WIDTH)


def _looked_up(pixels: Pixelization, view: Pixelization) -> Any:
    found = np.empty(view.n_pix, np.int32)
    pixels.pixels_of(view.directions_of(np.arange(view.n_pix)), found)
    return found


def _mollweide_view(pixels: Pixelization) -> _View:
    """Look at the whole sky: longitude 0 in the middle, growing to the left."""
    rows = _WIDTH // 2
    y, x = np.meshgrid(
        (np.arange(rows) + 0.5) / rows * 2 - 1, 1 - (np.arange(_WIDTH) + 0.5) / _WIDTH * 2, indexing="ij"
    )
    theta = np.arcsin(y)
    inside = x**2 + y**2 < 1
    lat = np.arcsin((2 * theta + np.sin(2 * theta)) / np.pi)
    lon = np.where(inside, np.pi * x / np.cos(theta), 0.0)
    found = np.empty(x.size, np.int32)
    pixels.pixels_of(unit_vectors(lon.ravel(), lat.ravel()), found)
    return _View(np.where(inside, found.reshape(x.shape), -1), (2.0, -2.0, -1.0, 1.0), None)


def _outline(panel: Any, drawn: Any) -> None:
    from matplotlib.patches import Ellipse

    sky = Ellipse((0, 0), 4, 2, facecolor="none", edgecolor="0.3", linewidth=0.8)
    panel.add_patch(sky)
    drawn.set_clip_path(sky)
    panel.set_axis_off()


def _image_view(pixels: ImagePixels, frame: str | None) -> _View:
    rows, columns = pixels.shape
    numbers = np.arange(pixels.n_pix).reshape(rows, columns)
    (left, right), (low, high) = ([float(v) for v in pair] for pair in pixels.edges)
    turned = numbers[:: 1 if high > low else -1, :: 1 if left > right else -1]
    x0, y0 = (0.0, 0.0) if isinstance(pixels, FlatPatch) else pixels.crval
    extent = (max(left, right) + x0, min(left, right) + x0, min(low, high) + y0, max(low, high) + y0)
    if isinstance(pixels, FlatPatch):
        return _View(turned, extent, _OFFSETS)
    names = _AXES.get(frame or "", ("Longitude", "Latitude"))
    stretch = 1 / max(np.cos((extent[2] + extent[3]) / 2 * DEGREE), 0.2)
    stretch = stretch if extent[3] - extent[2] < 60 else 1.0
    return _View(turned, extent, (f"{names[0]} (deg)", f"{names[1]} (deg)"), stretch)


def _numbered_view(pixels: NumberedPixels, projection: str | None) -> _View:
    if pixels.layout is None or projection not in (None, "image"):
        raise ConfigError("numbered pixels have no place on the sky", mend="plot the values of the map")
    rows, columns = pixels.layout.shape
    numbers = np.full(rows * columns, -1)
    numbers[pixels.layout.index] = np.arange(pixels.n_pix)
    return _View(numbers.reshape(rows, columns), (0.5, columns + 0.5, 0.5, rows + 0.5), ("column", "row"))


def chosen_columns(names: tuple[str, ...], wanted: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the columns that are wanted; all by default."""
    if wanted is None:
        return names
    return (wanted,) if isinstance(wanted, str) else tuple(wanted)
