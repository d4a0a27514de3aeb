"""Sky maps as arrays of healpy and pixell, with their conventions for order, unobserved pixels and signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from petacomm.base.errors import ConfigError, DataError, ResourceError, require_known
from petacomm.base.typing import FloatArray
from petacomm.base.units import quantity_of
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.image import AXES, ImagePixels
from petamap.sky.map_conventions import UNSEEN

if TYPE_CHECKING:
    from petamap.sky.sky_map import SkyMap

_STOKES = {1: ("I",), 2: ("Q", "U"), 3: ("I", "Q", "U")}
CONVENTIONS = ("COSMO", "IAU")


def healpy_values(sky_map: SkyMap, nest: bool) -> FloatArray:
    """Return columns as healpy has them, UNSEEN for nan: (n_pix,) of one, (n_columns, n_pix) of several."""
    sky_map = sky_map.whole()
    pixels = sky_map.pixelization
    if not isinstance(pixels, Healpix):
        raise ConfigError(
            f"{type(pixels).__name__} is no HEALPix map", mend="images go to pixell: to_enmap()"
        )
    values = in_order(sky_map.values, pixels, nest)
    found = np.where(np.isfinite(values), values, UNSEEN)
    return found[0] if len(found) == 1 else found


def in_order(values: FloatArray, pixels: Healpix, nest: bool) -> FloatArray:
    """Return columns (n_columns, n_pix) in the wanted order of HEALPix."""
    if pixels.nest == nest:
        return values
    wanted = Healpix(pixels.n_side, nest)
    return values[:, wanted.reordered(np.arange(wanted.n_pix))]


def healpy_columns(maps: Any, nest: bool) -> tuple[FloatArray, Healpix]:
    """Return maps of healpy as columns with nan where not observed (UNSEEN, nan or masked), and their pixels.

    Raises
    ------
    DataError
        If the number of pixels is none of HEALPix, a value is infinite or complex, or the array has a unit.
    """
    if any(quantity_of(one) is not None for one in (maps, *(maps if isinstance(maps, list | tuple) else ()))):
        raise DataError("the maps have a unit", mend='give plain numbers and unit=, as unit="uK"')
    given = np.ma.asarray(maps)
    if np.iscomplexobj(given):
        raise DataError("the maps are complex", mend="give their real or imaginary parts")
    plain = np.ma.filled(given.astype(np.float64, copy=False), np.nan)
    values = np.atleast_2d(plain).astype(np.float64, copy=True)
    n_side = round((values.shape[-1] / 12) ** 0.5)
    if values.ndim != 2 or not values.size or 12 * n_side**2 != values.shape[-1]:
        raise DataError(
            f"an array of shape {np.shape(maps)} is no HEALPix map",
            mend="give n_pix values, or (n_columns, n_pix), n_pix = 12 n_side^2",
        )
    values[np.abs(values - UNSEEN) <= 1e-5 * abs(UNSEEN)] = np.nan
    _check_finite_or_nan(values)
    return values, Healpix(n_side, nest)


def _check_finite_or_nan(values: FloatArray) -> None:
    bad = np.argwhere(np.isinf(values))
    if len(bad):
        raise DataError(f"pixel {bad[0, 1]} of column {bad[0, 0]} is infinite")


def column_names(names: Sequence[str] | None, n_columns: int) -> tuple[str, ...]:
    """Return names of columns; by default I, Q and U, or I, or I, Q, U by their number.

    Raises
    ------
    ConfigError
        If there are other numbers of names and columns.
    """
    if names is None and n_columns not in _STOKES:
        raise ConfigError(f"{n_columns} columns without names", mend='name them: names=("HITS", ...)')
    found = _STOKES[n_columns] if names is None else tuple(names)
    if len(found) != n_columns:
        raise ConfigError(f"{len(found)} names for {n_columns} columns")
    return found


def check_convention(polarization: str) -> None:
    """Raise a ConfigError unless a polarization convention is COSMO or IAU."""
    require_known("unknown polarization convention", polarization, CONVENTIONS)


def enmap_of(sky_map: SkyMap, unobserved: float, signs: FloatArray) -> Any:
    """Return a pixell map of the columns times signs, shape (n_columns, n_rows, n_columns)."""
    enmap = _pixell()
    pixels = sky_map.pixelization
    if not isinstance(pixels, ImagePixels):
        raise ConfigError(
            f"{type(pixels).__name__} is no image", mend="HEALPix maps go to healpy: to_healpy()"
        )
    from astropy.wcs import WCS

    wcs = WCS(naxis=2)
    for name, value in pixels.wcs_cards("equatorial").items():
        _set_card(wcs.wcs, name, value)
    wcs.wcs.set()
    values = np.where(np.isfinite(sky_map.values), sky_map.values, unobserved) * signs[:, None]
    return enmap.ndmap(values.reshape(-1, *pixels.shape), wcs)


def _set_card(wcs: Any, name: str, value: Any) -> None:
    """Set a FITS card of two celestial axes: ``CRPIX1`` is the first of ``crpix``."""
    key = name.lower()
    if key == "lonpole":
        wcs.lonpole = value
        return
    pair = list(getattr(wcs, key[:-1]))
    pair[int(key[-1]) - 1] = value
    setattr(wcs, key[:-1], pair)


def enmap_columns(maps: Any, unobserved: float | None) -> tuple[FloatArray, ImagePixels]:
    """Return a pixell map as columns with nan where not observed, and its pixels.

    Raises
    ------
    DataError
        If it is no map with a world coordinate system that petamap has.
    """
    wcs = getattr(maps, "wcs", None)
    if wcs is None or np.ndim(maps) not in (2, 3):
        raise DataError(
            f"a {type(maps).__name__} of shape {np.shape(maps)} is no pixell map", mend="give an enmap.ndmap"
        )
    values = np.array(maps, np.float64).reshape(-1, int(np.prod(np.shape(maps)[-2:])))
    if unobserved is not None:
        values[:, (values == unobserved).all(axis=0)] = np.nan
    _check_finite_or_nan(values)
    return values, _patch_of(wcs, (int(np.shape(maps)[-2]), int(np.shape(maps)[-1])))


def _patch_of(wcs: Any, shape: tuple[int, int]) -> ImagePixels:
    system = wcs.wcs
    projection = str(system.ctype[0])[-3:]
    kinds: dict[str, type[ImagePixels]] = {"CAR": CarPatch, "TAN": FlatPatch}
    if projection not in kinds:
        raise DataError(f"pixell's projection {projection} is not known", mend="known: CAR and TAN")
    if not str(system.ctype[0]).startswith(tuple(first for first, _ in AXES.values())):
        raise DataError(f"the first axis is {system.ctype[0]}, not a longitude")
    pairs = [getattr(system, name) for name in ("crval", "crpix", "cdelt")]
    crval, crpix, cdelt = ((float(pair[0]), float(pair[1])) for pair in pairs)
    return kinds[projection](crval, crpix, cdelt, shape)


def _pixell() -> Any:
    try:
        from pixell import enmap
    except ImportError as error:
        raise ResourceError("maps of pixell need pixell", mend="pip install 'petamap[pixell]'") from error
    return enmap
