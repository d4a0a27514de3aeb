"""Transforms between HEALPix maps and their spherical harmonics, by ducc0, some orders m at a time.

One transform of ducc0 takes many seconds of large maps, in which no signal reaches Python. Orders do not see
each other, so bits do not depend on the parts, nor on the ranks that orders and rings are dealt to; between
two parts, ranks exchange what they have, signals are raised, and threads that nobody waits for end. (Rings at
equal distances, as of CAR maps, ducc0 transforms by FFTs of several orders side by side, whose bits do depend
on parts.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from petacomm.base.threads import end_if_cancelled
from petacomm.base.typing import ComplexArray, FloatArray
from petamap.sky.ring_distribution import RingDistribution
from petamap.sky.sparse_map import SparseMap

# Rings times coefficients of a rank's part: a fraction of a second of one core.
PART = 1 << 30
EXCHANGES = 32  # parts at least where coefficients move: of about a twelfth of them at most
PIXELS = 1 << 19  # of the rings whose values are made at once
_CRITICAL = 4096  # bytes: rows that are multiples of it apart compete for places in the cache


def synthesis(
    alm: ComplexArray,
    rings: RingDistribution,
    l_max: int,
    spin: int,
    n_threads: int = 1,
    out: FloatArray | None = None,
) -> FloatArray:
    """Return the map of coefficients, as ducc0.sht.synthesis does, to the bit. Collective.

    Parameters
    ----------
    alm : complex128 (1, n_alm), or (2, n_alm) where `spin` is not 0
        Of the orders of this rank, m-major.
    rings : RingDistribution
    l_max, spin, n_threads : int
    out : float64 (1 or 2, n_pix), optional
        Receives the map.

    Returns
    -------
    float64 (1 or 2, n_pix)
        Of the rings of this rank.
    """
    import ducc0

    legendre = _legendre(len(alm), rings, l_max)
    _synthesize(alm, legendre, rings, l_max, spin, n_threads)
    found = np.empty((len(alm), rings.n_pix)) if out is None else out
    if found.size:
        ducc0.sht.leg2map(leg=legendre, map=found, nthreads=n_threads, **rings.rings)
    return found


def synthesis_by_rings(
    alm: ComplexArray, rings: RingDistribution, l_max: int, spin: int, n_threads: int = 1
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the map of coefficients, some of the rank's rings at a time. Collective, up to the first.

    Parameters
    ----------
    alm, rings, l_max, spin, n_threads
        As of `synthesis`, whose bits these are.

    Yields
    ------
    slice
        Of the rings of this rank.
    float64 (1 or 2, n)
        Values of their pixels (`RingDistribution.pixels_of`).
    """
    import ducc0

    legendre = _legendre(len(alm), rings, l_max)
    _synthesize(alm, legendre, rings, l_max, spin, n_threads)
    for some, pixels, geometry in _some_rings(rings):
        found = np.empty((len(alm), pixels.stop - pixels.start))
        ducc0.sht.leg2map(leg=legendre[:, some], map=found, nthreads=n_threads, **geometry)
        yield some, found


def adjoint_synthesis(
    maps: FloatArray, rings: RingDistribution, l_max: int, spin: int, n_threads: int = 1
) -> ComplexArray:
    """Return sums over pixels of a map times Y*_lm, as ducc0.sht.adjoint_synthesis, to the bit. Collective.

    Parameters
    ----------
    maps : float64 (1, n_pix), or (2, n_pix) where `spin` is not 0
        Of the rings of this rank.
    rings : RingDistribution
    l_max, spin, n_threads : int

    Returns
    -------
    complex128 (1 or 2, n_alm)
        Of the orders of this rank, m-major.
    """
    return analysis(maps, rings, l_max, spin, 0, 1.0, n_threads)


def analysis(
    maps: FloatArray | SparseMap,
    rings: RingDistribution,
    l_max: int,
    spin: int,
    iterations: int,
    factor: float,
    n_threads: int = 1,
) -> ComplexArray:
    """Return a after `iterations` + 1 steps a <- a + c A (m - S a) from a = 0. Collective.

    S is the synthesis, A its adjoint, c a factor. No map is held beside m: residuals are those of some rings
    at a time, whose Fourier coefficients they take the places of.

    Parameters
    ----------
    maps : float64 (1, n_pix), or (2, n_pix) where `spin` is not 0; or SparseMap
        m, of the rings of this rank.
    rings : RingDistribution
    l_max, spin, iterations : int
    factor : float
    n_threads : int

    Returns
    -------
    complex128 (1 or 2, n_alm)
        Of the orders of this rank, m-major.
    """
    legendre = _legendre(len(maps), rings, l_max)
    _to_residuals(maps, legendre, rings, l_max, False, n_threads)
    alm = _sum_over_rings(legendre, rings, l_max, spin, n_threads)
    alm *= factor
    for _ in range(iterations):
        _synthesize(alm, legendre, rings, l_max, spin, n_threads)
        _to_residuals(maps, legendre, rings, l_max, True, n_threads)
        more = _sum_over_rings(legendre, rings, l_max, spin, n_threads)
        more *= factor
        alm += more
        del more  # before there is another
    return alm


def _to_residuals(
    maps: FloatArray | SparseMap,
    legendre: ComplexArray,
    rings: RingDistribution,
    l_max: int,
    subtract: bool,
    n_threads: int,
) -> None:
    """Write Fourier coefficients of maps, or of maps less that of those that are there, in their place."""
    import ducc0

    for some, pixels, geometry in _some_rings(rings):
        own = (
            maps.between(pixels.start, pixels.stop)
            if isinstance(maps, SparseMap)
            else np.ascontiguousarray(maps[:, pixels])
        )
        if subtract:
            made = np.empty_like(own)
            ducc0.sht.leg2map(leg=legendre[:, some], map=made, nthreads=n_threads, **geometry)
            own = np.subtract(own, made, out=made)
        ducc0.sht.map2leg(map=own, leg=legendre[:, some], mmax=l_max, nthreads=n_threads, **geometry)


def _some_rings(rings: RingDistribution) -> Iterator[tuple[slice, slice, dict[str, Any]]]:
    """Yield some of a rank's rings at a time, their pixels, and both as ducc0 is told of them."""
    ends = np.cumsum(rings.rings["nphi"].astype(np.int64))
    edges = np.unique(np.searchsorted(ends, np.arange(0, rings.n_pix, PIXELS), "right"))
    for first, last in pairwise([*edges.tolist(), len(ends)]):
        end_if_cancelled()
        geometry = {name: values[first:last].copy() for name, values in rings.rings.items()}
        begin = int(geometry["ringstart"][0])
        geometry["ringstart"] -= geometry["ringstart"][0]
        yield slice(first, last), slice(begin, int(ends[last - 1])), geometry


def _synthesize(
    alm: ComplexArray, legendre: ComplexArray, rings: RingDistribution, l_max: int, spin: int, n_threads: int
) -> None:
    """Write the Fourier coefficients of the rank's rings, (k, own rings, l_max + 1). Collective."""
    import ducc0

    for part, orders in _parts(l_max, rings):
        held = rings.order_memory(legendre[:, :, part], len(orders["mval"]))
        if held.size:
            ducc0.sht.alm2leg(
                alm=alm, leg=held, spin=spin, lmax=l_max, theta=rings.theta, nthreads=n_threads, **orders
            )
        rings.to_rings(held, part.start, legendre[:, :, part])


def _sum_over_rings(
    legendre: ComplexArray, rings: RingDistribution, l_max: int, spin: int, n_threads: int
) -> ComplexArray:
    """Return the sums over rings of Fourier coefficients times their harmonics. Collective."""
    import ducc0

    alm = _no_coefficients(len(legendre), rings, l_max)
    for part, orders in _parts(l_max, rings):
        held = rings.to_orders(legendre[:, :, part], part.start)
        if held.size:
            ducc0.sht.leg2alm(
                leg=held, alm=alm, spin=spin, lmax=l_max, theta=rings.theta, nthreads=n_threads, **orders
            )
    return alm


def _no_coefficients(n: int, rings: RingDistribution, l_max: int) -> ComplexArray:
    """Return memory for coefficients of the rank's orders, complex128 (n, n_alm)."""
    return np.empty((n, int((l_max + 1 - rings.orders(l_max)).sum())), np.complex128)


def _legendre(n: int, rings: RingDistribution, l_max: int) -> ComplexArray:
    """Return memory for coefficients of the rank's rings, complex128 (n, own rings, l_max + 1)."""
    critical = (l_max + 1) * 16 % _CRITICAL == 0
    shape = n, len(rings.rings["nphi"]), l_max + 1 + 3 * critical
    return np.empty(shape, np.complex128)[:, :, : l_max + 1]


def _parts(l_max: int, rings: RingDistribution) -> Iterator[tuple[slice, dict[str, Any]]]:
    """Yield orders with about equally many coefficients, as a slice, and as ducc0 is told of the rank's."""
    own = rings.orders(l_max)
    # of the coefficient of l = 0 among the rank's, were there one; ducc0 adds l, so it may be below 0
    starts = np.cumsum(l_max + 1 - own) - (l_max + 1)
    least = 1 if rings.keeps_places else EXCHANGES
    for first, last in _bounds(l_max, len(rings.theta), rings.comm.size, least):
        end_if_cancelled()
        rings.between()
        mine = slice(*np.searchsorted(own, (first, last)))
        yield slice(first, last), {"mval": own[mine].copy(), "mstart": starts[mine].copy()}


def _bounds(l_max: int, n_rings: int, size: int, least: int) -> Iterator[tuple[int, int]]:
    """Yield first order and end of each part, at least so many; of several ranks, for few orders at once."""
    ends = np.cumsum(l_max + 1 - np.arange(l_max + 1) + (size > 1) * (l_max // 4))
    n_parts = max(-(-int(ends[-1]) * n_rings // (size * PART)), least)
    edges = np.unique(np.searchsorted(ends, ends[-1] * np.arange(n_parts) / n_parts, side="right"))
    return pairwise([*edges.tolist(), l_max + 1])
