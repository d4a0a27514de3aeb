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

# Rings times coefficients of a rank's part: a fraction of a second of one core.
PART = 1 << 30
EXCHANGES = 32  # at least, of several ranks: of about a twelfth of the coefficients at most
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
    for part, orders in _parts(l_max, rings):
        held = rings.order_memory(legendre[:, :, part], len(orders["mval"]))
        if held.size:
            ducc0.sht.alm2leg(
                alm=alm, leg=held, spin=spin, lmax=l_max, theta=rings.theta, nthreads=n_threads, **orders
            )
        rings.to_rings(held, part.start, legendre[:, :, part])
    found = np.empty((len(alm), rings.n_pix)) if out is None else out
    if found.size:
        ducc0.sht.leg2map(leg=legendre, map=found, nthreads=n_threads, **rings.rings)
    return found


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
    import ducc0

    legendre = _legendre(len(maps), rings, l_max)
    if maps.size:
        ducc0.sht.map2leg(map=maps, leg=legendre, mmax=l_max, nthreads=n_threads, **rings.rings)
    alm = np.empty((len(maps), int((l_max + 1 - rings.orders(l_max)).sum())), np.complex128)
    for part, orders in _parts(l_max, rings):
        held = rings.to_orders(legendre[:, :, part], part.start)
        if held.size:
            ducc0.sht.leg2alm(
                leg=held, alm=alm, spin=spin, lmax=l_max, theta=rings.theta, nthreads=n_threads, **orders
            )
    return alm


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
    for first, last in _bounds(l_max, len(rings.theta), rings.comm.size):
        end_if_cancelled()
        mine = slice(*np.searchsorted(own, (first, last)))
        yield slice(first, last), {"mval": own[mine].copy(), "mstart": starts[mine].copy()}


def _bounds(l_max: int, n_rings: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield first order and end of each part; of several ranks, for each to have few orders at once."""
    ends = np.cumsum(l_max + 1 - np.arange(l_max + 1) + (size > 1) * (l_max // 4))
    n_parts = max(-(-int(ends[-1]) * n_rings // (size * PART)), EXCHANGES if size > 1 else 1)
    edges = np.unique(np.searchsorted(ends, ends[-1] * np.arange(n_parts) / n_parts, side="right"))
    return pairwise([*edges.tolist(), l_max + 1])
