"""Spherical harmonic coefficients of weighted HEALPix maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.arguments import real_array
from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import BoolArray, ComplexArray, FloatArray, Int64Array
from petacomm.mpi import agree_on_errors
from petamap.sky.harmonics import ITERATIONS, analyse, in_ring_order
from petamap.sky.healpix import Healpix
from petamap.sky.ring_distribution import RingDistribution

# Of maps of I, of Q and U, and of I, Q and U, by their number.
COMPONENTS = {1: "T", 2: "EB", 3: "TEB"}


@dataclass(frozen=True)
class Harmonics:
    """a_lm of a weighted map and of its weights.

    Attributes
    ----------
    alm : complex128 (n_components, n_alm)
        m-major as healpy and ducc have them; polarization in the COSMO convention.
    components : str
        ``T``, ``EB`` or ``TEB``.
    weights : complex128 (n_components, n_alm)
        Of the weights of each component.
    l_max, l_max_weights : int
        Last multipoles of the two. Weights couple multipoles up to 2 `l_max`, as far as pixels hold those.
    pure : str
        Which components are pure: none, ``B`` or ``EB`` (`purification.purified`).
    """

    alm: ComplexArray
    components: str
    weights: ComplexArray
    l_max: int
    l_max_weights: int
    pure: str = ""


def weighted_harmonics(
    values: FloatArray,
    pixelization: Healpix,
    weights: FloatArray | None = None,
    polarization_weights: FloatArray | None = None,
    l_max: int | None = None,
    iterations: int = ITERATIONS,
    n_threads: int = 1,
    rings: RingDistribution | None = None,
) -> Harmonics:
    """Return the coefficients of a map that was multiplied by weights.

    Parameters
    ----------
    values : float64 (n_stokes, n_pix)
        I, or Q and U, or I, Q and U (COSMO); nan where a pixel was not observed.
    pixelization : Healpix
    weights, polarization_weights : float64 (n_pix,), optional
        Of I; of Q and U, the same as of I by default. Without weights, all observed pixels count alike.
    l_max : int, optional
        3 n_side - 1 by default.
    iterations : int
        Number of times that the residual of the map is analysed (Jacobi; HEALPix's ``iter_order``).
    n_threads : int
        No bit depends on it.
    rings : RingDistribution, optional
        Whose pixels values and weights are of, in ring order, and whose orders the coefficients. Collective.

    Raises
    ------
    ConfigError
        If `l_max` is beyond the reach of the map.
    DataError
        If shapes differ, or a pixel with a weight has no value.
    """
    if values.ndim != 2 or len(values) not in COMPONENTS:
        raise DataError(f"a map of shape {values.shape} is no I, no Q and U, and no I, Q and U")
    components = COMPONENTS[len(values)]
    limit = 4 * pixelization.n_side
    l_max = 3 * pixelization.n_side - 1 if l_max is None else l_max
    if not 0 <= l_max <= limit:
        raise ConfigError(f"l_max {l_max} is beyond the reach of n_side {pixelization.n_side}, {limit}")
    l_max_weights = max(min(2 * l_max, 3 * pixelization.n_side - 1), 0)
    rings = rings or RingDistribution(pixelization.n_side)
    with agree_on_errors(rings.comm):
        both = _weights(values, pixelization, rings, weights, polarization_weights)
    parts, seen = [], []
    for letters, of_spin, spin, weight in (("I", "T", 0, both[0]), ("QU", "EB", 2, both[1])):
        if of_spin not in components:
            continue
        rows = slice(0, 1) if spin == 0 else slice(-2, None)
        with agree_on_errors(rings.comm):
            maps = in_ring_order(weighted(values[rows], weight, letters, rings), pixelization)
        parts.append(analyse(maps, rings, l_max, spin, iterations, n_threads))
        ring = in_ring_order(weight, pixelization)
        seen += [analyse(ring, rings, l_max_weights, 0, iterations, n_threads)] * len(of_spin)
    return Harmonics(np.concatenate(parts), components, np.concatenate(seen), l_max, l_max_weights)


def downgrade_means(values: FloatArray, high: int, low: int) -> FloatArray:
    """Return the means in large pixels of a map in rings, in rings."""
    nested = values[Healpix(high, nest=True).reordered(np.arange(12 * high**2))]
    found = np.empty(12 * low**2)
    found[Healpix(low, nest=True).reordered(np.arange(len(found)))] = nested.reshape(len(found), -1).mean(
        axis=1
    )
    return found


def _weights(
    values: FloatArray,
    pixelization: Healpix,
    rings: RingDistribution,
    weights: FloatArray | None,
    polarization_weights: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    if values.shape[1] != rings.n_pix:
        raise DataError(f"the map has {values.shape[1]} pixels, not {rings.n_pix}")
    seen: FloatArray = np.asarray(np.isfinite(values).all(axis=0), np.float64)
    whole = seen if weights is None else weights
    polarized = whole if polarization_weights is None else polarization_weights
    for one in (whole, polarized):
        check_weights(one, pixelization, rings=rings)
    return whole, polarized


def weighted(
    maps: FloatArray,
    weights: FloatArray,
    letters: str,
    rings: RingDistribution | None = None,
    places: Int64Array | None = None,
) -> FloatArray:
    """Return weights (n,) times maps (k, n), 0 where the weight is 0, whatever the value of the map.

    `letters` name the maps. Pixels are those of the rank of `rings`, or those at places among these.

    Raises
    ------
    DataError
        If a pixel has a weight and no value.
    """
    used = weights > 0
    empty = used & ~np.isfinite(maps).all(axis=0)
    if empty.any():
        raise DataError(
            f"{letters} of pixel {_first_pixel(empty, rings, places)} has a weight and no value",
            mend="give pixels that were not observed no weight",
        )
    found = np.zeros(maps.shape)
    np.multiply(maps, weights, out=found, where=used)
    return found


def _first_pixel(bad: BoolArray, rings: RingDistribution | None, places: Int64Array | None = None) -> int:
    """Return the number of the first pixel that is bad; of a whole map in its own order."""
    first = np.flatnonzero(bad)[:1]
    if places is not None:
        first = places[first]
    return int(first[0] if rings is None else rings.numbers_of(first)[0])


def check_weights(
    weights: FloatArray,
    pixelization: Healpix,
    what: str = "the weights",
    rings: RingDistribution | None = None,
    places: Int64Array | None = None,
) -> None:
    """Check weights of pixels: of those of a rank where there are `rings`, or of those at places among them.

    Raises
    ------
    DataError
        If there are not as many as pixels, or one is negative or not finite.
    """
    n_pix = pixelization.n_pix if rings is None else rings.n_pix
    if np.shape(weights) != (n_pix if places is None else len(places),):
        raise DataError(
            f"{what}: {np.size(weights)} pixels, not {pixelization.n_pix} of n_side {pixelization.n_side}",
            mend="bring both to one n_side",
        )
    bad = ~(real_array(weights, what) >= 0) | ~np.isfinite(weights)
    if bad.any():
        where = _first_pixel(bad, rings, places)
        raise DataError(f"{what} are negative or not finite in pixel {where}")
