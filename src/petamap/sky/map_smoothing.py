"""Maps smoothed by a Gaussian beam: by harmonics on HEALPix and CAR, in the plane on flat patches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import ComplexArray, FloatArray
from petacomm.base.units import DEGREE
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.harmonics import analyse, in_ring_order, multipoles, synthesise
from petamap.sky.healpix import Healpix
from petamap.sky.partial_healpix import PartialHealpix
from petamap.sky.pixelization import Pixelization

if TYPE_CHECKING:
    from petamap.sky.sky_map import SkyMap

_FWHM = np.sqrt(8 * np.log(2))  # full width at half maximum of a Gaussian of sigma 1
# A Gaussian beam is below 1e-12 at l sigma = 7.5: no more multipoles are needed.
_REACH = 7.5

Smoother = Callable[[FloatArray, int], FloatArray]


def smooth_map(sky_map: SkyMap, fwhm: float, n_threads: int) -> SkyMap:
    """Return a map smoothed by a Gaussian beam of `fwhm` radians.

    What is not observed counts nothing: smoothed values are S(w m) / S(w), w = 1 where the map is observed,
    else 0; pixels that were not observed stay so.
    """
    if not (np.isfinite(fwhm) and 0 < fwhm < np.pi):
        raise ConfigError(f"a beam of {fwhm:g} rad", mend='say its width as fwhm="1 deg"')
    if isinstance(sky_map.pixelization, PartialHealpix):
        found = smooth_map(sky_map.whole(), fwhm, n_threads).values[:, sky_map.pixelization.pixels]
        return replace(sky_map, values=found)
    smoother = _smoother(sky_map.pixelization, fwhm / _FWHM, n_threads)
    values = np.full_like(sky_map.values, np.nan)
    for rows, spin in _spins(sky_map.names):
        part = sky_map.values[rows]
        seen = np.isfinite(part).all(axis=0)
        found = smoother(np.where(seen, part, 0.0), spin)
        if not (seen.all() and isinstance(sky_map.pixelization, Healpix)):  # nothing is seen beside a patch
            # Q and U are given the weight that I would have
            found = found / np.maximum(smoother(seen[None].astype(np.float64), 0), 1e-12)
        values[rows] = np.where(seen, found, np.nan)
    return replace(sky_map, values=values)


def _spins(names: tuple[str, ...]) -> list[tuple[Any, int]]:
    """Return the rows of columns that are smoothed together and their spin: Q and U, which follow, have 2."""
    rows: list[tuple[Any, int]] = []
    i = 0
    while i < len(names):
        if names[i : i + 2] == ("Q", "U"):
            rows.append((slice(i, i + 2), 2))
            i += 2
            continue
        if names[i] in ("Q", "U"):
            raise ConfigError(
                f"{names[i]} alone cannot be smoothed", mend="keep Q and U together, in this order"
            )
        rows.append((slice(i, i + 1), 0))
        i += 1
    return rows


def _smoother(pixels: Pixelization, sigma: float, n_threads: int) -> Smoother:
    """Return what smooths maps (1, n_pix), or (2, n_pix) with spin 2, on these pixels."""
    if isinstance(pixels, Healpix):
        return lambda maps, spin: _smooth_healpix(maps, spin, pixels, sigma, n_threads)
    if isinstance(pixels, CarPatch):
        return lambda maps, spin: _smooth_car(maps, spin, pixels, sigma, n_threads)
    if isinstance(pixels, FlatPatch):
        return lambda maps, spin: _smooth_plane(maps, pixels, sigma)
    raise ConfigError(
        "numbered pixels have no place on the sky to be smoothed", mend="map on HEALPix, CAR or flat pixels"
    )


def _beamed(alm: ComplexArray, l_max: int, spin: int, sigma: float) -> ComplexArray:
    """Return a_lm times exp(-(l (l + 1) - s^2) sigma^2 / 2) (Challinor et al. 2000, PRD 62, 123002)."""
    l = multipoles(l_max)  # noqa: E741
    found: ComplexArray = alm * np.exp(-0.5 * (l * (l + 1) - spin**2) * sigma**2)
    return found


def _smooth_healpix(maps: FloatArray, spin: int, pixels: Healpix, sigma: float, n_threads: int) -> FloatArray:
    l_max = min(3 * pixels.n_side - 1, max(int(_REACH / sigma) + 1, 2))
    ring = in_ring_order(maps, pixels)
    alm = analyse(ring, pixels.n_side, l_max, spin, n_threads=n_threads)
    found = synthesise(_beamed(alm, l_max, spin, sigma), pixels.n_side, l_max, spin, n_threads)
    return found[:, pixels.reordered(np.arange(pixels.n_pix))] if pixels.nest else found


def _smooth_car(maps: FloatArray, spin: int, patch: CarPatch, sigma: float, n_threads: int) -> FloatArray:
    """Smooth by harmonics on the rings that rows are parts of; beyond the patch there is nothing."""
    import ducc0

    n_rows, n_columns = patch.shape
    around = round(360 / abs(patch.cdelt[0]))
    if abs(around * abs(patch.cdelt[0]) - 360) > 1e-6:
        raise ConfigError(
            f"360 deg are not a whole number of steps of {abs(patch.cdelt[0]):g} deg, as smoothing needs",
            mend="choose a resolution that divides 360 deg",
        )
    first = patch.directions_of(np.arange(n_rows) * n_columns)
    theta = np.arctan2(np.hypot(first[:, 0], first[:, 1]), first[:, 2])
    l_max = min(int(np.pi / (abs(patch.cdelt[1]) * DEGREE)), max(int(_REACH / sigma) + 1, 2))
    sign = np.sign(patch.cdelt[0])  # rings go east; where columns go west, they are turned around
    east = slice(None, None, int(sign))
    start = np.arctan2(first[:, 1], first[:, 0]) if sign > 0 else np.arctan2(*_last(patch)[:, 1::-1].T)
    common: dict[str, Any] = {
        "spin": spin, "lmax": l_max, "mmax": l_max, "nthreads": n_threads, "theta": theta,
        "phi0": start % (2 * np.pi), "nphi": np.full(n_rows, around, np.uint64),
        "ringstart": np.arange(n_rows, dtype=np.uint64) * around,
    }  # fmt: skip
    rings = np.zeros((len(maps), n_rows, around))
    area = _row_weights(theta, abs(patch.cdelt[1]) * DEGREE) * abs(patch.cdelt[0]) * DEGREE
    rings[:, :, :n_columns] = maps.reshape(-1, n_rows, n_columns)[:, :, east] * area[:, None]
    alm = ducc0.sht.adjoint_synthesis(map=rings.reshape(len(maps), -1), **common)
    found = ducc0.sht.synthesis(alm=_beamed(alm, l_max, spin, sigma), **common).reshape(rings.shape)
    return np.ascontiguousarray(found[:, :, :n_columns][:, :, east]).reshape(len(maps), -1)


def _row_weights(theta: FloatArray, step: float) -> FloatArray:
    """Return the weights of rows in an integral over theta: exact ones if a pole is on a row or between two.

    Others have sin(theta) times the step, which is as good for a patch that does not hold a pole.
    """
    import ducc0

    n_rings = round(np.pi / step)
    place = theta / step
    for kind, shift, count in (("F1", 0.5, n_rings), ("CC", 0.0, n_rings + 1)):
        index = np.round(place - shift)
        if abs(n_rings * step - np.pi) < 1e-9 and np.abs(place - shift - index).max() < 1e-6:
            weights = np.asarray(ducc0.sht.get_gridweights(kind, count))
            return np.asarray(weights[index.astype(int)] / (2 * np.pi))
    return np.sin(theta) * step


def _last(patch: CarPatch) -> FloatArray:
    """Return the directions of the last pixels of rows."""
    return patch.directions_of(np.arange(1, patch.shape[0] + 1) * patch.shape[1] - 1)


def _smooth_plane(maps: FloatArray, patch: FlatPatch, sigma: float) -> FloatArray:
    from scipy.ndimage import gaussian_filter

    widths = [sigma / (abs(step) * DEGREE) for step in reversed(patch.cdelt)]
    images = maps.reshape(-1, *patch.shape)
    found = [gaussian_filter(image, widths, mode="constant", truncate=6.0) for image in images]
    return np.array(found).reshape(maps.shape)
