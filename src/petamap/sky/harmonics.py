"""Spherical harmonics of HEALPix maps, by ducc0: the same bits on any number of threads."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import ComplexArray, FloatArray
from petamap.sky.healpix import Healpix
from petamap.sky.ring_distribution import RingDistribution
from petamap.sky.ring_transforms import analysis, synthesis
from petamap.sky.sparse_map import SparseMap

ITERATIONS = 3  # as HEALPix and healpy


def analyse(
    maps: FloatArray | SparseMap,
    n_side: int | RingDistribution,
    l_max: int,
    spin: int,
    iterations: int = ITERATIONS,
    n_threads: int = 1,
) -> ComplexArray:
    """Return a_lm of maps on HEALPix rings: a <- a + A (m - S a), from a = 0, `iterations` + 1 times.

    A is the sum over pixels times their area, S the synthesis.

    Parameters
    ----------
    maps : float64 (1, n_pix), or (2, n_pix) where `spin` is not 0; or SparseMap
    n_side : int or RingDistribution
        Of whole maps; or rings of which each rank has its own, and orders of the coefficients. Collective.
    l_max, spin, iterations, n_threads : int

    Returns
    -------
    complex128 (1 or 2, n_alm)
    """
    rings = _distribution(n_side)
    return analysis(maps, rings, l_max, spin, iterations, 4 * np.pi / int(rings.bounds[-1]), n_threads)


def synthesise(
    alm: ComplexArray, n_side: int | RingDistribution, l_max: int, spin: int, n_threads: int = 1
) -> FloatArray:
    """Return a_lm (1, n_alm), or (2, n_alm) where `spin` is not 0, as maps in rings, whole or of a rank."""
    return synthesis(alm, _distribution(n_side), l_max, spin, n_threads)


def _distribution(n_side: int | RingDistribution) -> RingDistribution:
    return n_side if isinstance(n_side, RingDistribution) else RingDistribution(n_side)


def in_ring_order(maps: FloatArray, pixelization: Healpix) -> FloatArray:
    """Return maps (n, n_pix) or (n_pix,) as (n, n_pix), contiguous and in ring order."""
    rows = np.atleast_2d(maps)
    if pixelization.nest:
        ring = Healpix(pixelization.n_side)
        rows = rows[:, ring.reordered(np.arange(ring.n_pix))]
    return np.ascontiguousarray(rows, np.float64)


def multipoles(l_max: int, rings: RingDistribution | None = None) -> FloatArray:
    """Return l of each coefficient, or of each of a rank's, float64 (n_alm,)."""
    orders = range(l_max + 1) if rings is None else rings.orders(l_max)
    return np.concatenate([np.empty(0), *(np.arange(first, l_max + 1.0) for first in orders)])
