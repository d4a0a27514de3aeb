"""Transforms between HEALPix maps and their spherical harmonics, by ducc0, some orders m at a time.

One transform of ducc0 takes many seconds of large maps, in which no signal reaches Python. Orders do not see
each other, so bits do not depend on the parts; between two, signals are raised and threads that nobody waits
for end. (Rings at equal distances, as of CAR maps, ducc0 transforms by FFTs of several orders side by side,
whose bits do depend on parts.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from petacomm.base.threads import end_if_cancelled
from petacomm.base.typing import AnyArray, ComplexArray, FloatArray

# Rings times coefficients of a part: a fraction of a second of one core.
_PART = 1 << 30
_CRITICAL = 4096  # bytes: rows that are multiples of it apart compete for places in the cache

Rings = Mapping[str, AnyArray]  # theta, phi0, nphi and ringstart of each ring, as ducc0 names them


def healpix_rings(n_side: int) -> Rings:
    """Return the rings of a HEALPix map in ring order."""
    import ducc0

    rings: dict[str, AnyArray] = ducc0.healpix.Healpix_Base(n_side, "RING").sht_info()
    return rings


def synthesis(
    alm: ComplexArray,
    rings: Rings,
    l_max: int,
    spin: int,
    n_threads: int = 1,
    out: FloatArray | None = None,
) -> FloatArray:
    """Return the map of coefficients, as ducc0.sht.synthesis does, to the bit.

    Parameters
    ----------
    alm : complex128 (1, n_alm), or (2, n_alm) where `spin` is not 0
        m-major.
    rings : Rings
    l_max, spin, n_threads : int
    out : float64 (1 or 2, n_pix), optional
        Receives the map.

    Returns
    -------
    float64 (1 or 2, n_pix)
    """
    import ducc0

    legendre = _legendre(len(alm), rings, l_max)
    for part, orders in _parts(l_max, len(legendre[0])):
        ducc0.sht.alm2leg(
            alm=alm, leg=legendre[:, :, part], spin=spin, lmax=l_max, theta=rings["theta"],
            nthreads=n_threads, **orders,
        )  # fmt: skip
    places = {name: rings[name] for name in ("nphi", "phi0", "ringstart")}
    found: FloatArray = ducc0.sht.leg2map(leg=legendre, map=out, nthreads=n_threads, **places)
    return found


def adjoint_synthesis(
    maps: FloatArray, rings: Rings, l_max: int, spin: int, n_threads: int = 1
) -> ComplexArray:
    """Return the sums over pixels of a map times Y*_lm, as ducc0.sht.adjoint_synthesis does, to the bit.

    Parameters
    ----------
    maps : float64 (1, n_pix), or (2, n_pix) where `spin` is not 0
    rings : Rings
    l_max, spin, n_threads : int

    Returns
    -------
    complex128 (1 or 2, n_alm)
        m-major.
    """
    import ducc0

    legendre = _legendre(len(maps), rings, l_max)
    places = {name: rings[name] for name in ("nphi", "phi0", "ringstart")}
    ducc0.sht.map2leg(map=maps, leg=legendre, mmax=l_max, nthreads=n_threads, **places)
    alm = np.empty((len(maps), (l_max + 1) * (l_max + 2) // 2), np.complex128)
    for part, orders in _parts(l_max, len(legendre[0])):
        ducc0.sht.leg2alm(
            leg=legendre[:, :, part], alm=alm, spin=spin, lmax=l_max, theta=rings["theta"],
            nthreads=n_threads, **orders,
        )  # fmt: skip
    return alm


def _legendre(n: int, rings: Rings, l_max: int) -> ComplexArray:
    """Return memory for the Fourier coefficients of rings, complex128 (n, n_rings, l_max + 1)."""
    critical = (l_max + 1) * 16 % _CRITICAL == 0
    return np.empty((n, len(rings["theta"]), l_max + 1 + 3 * critical), np.complex128)[:, :, : l_max + 1]


def _parts(l_max: int, n_rings: int) -> Iterator[tuple[slice, dict[str, Any]]]:
    """Yield orders with about equally many coefficients, as a slice and as ducc0 is told of them."""
    orders = np.arange(l_max + 1)
    starts = orders * (2 * l_max + 1 - orders) // 2  # of the coefficient of l = 0, were there one
    ends = np.cumsum(l_max + 1 - orders)
    n_parts = -(-int(ends[-1]) * n_rings // _PART)
    edges = np.unique(np.searchsorted(ends, ends[-1] * np.arange(n_parts) / n_parts, side="right"))
    for first, last in zip(edges, [*edges[1:], l_max + 1], strict=True):
        end_if_cancelled()
        part = slice(int(first), int(last))
        yield part, {"mval": orders[part].astype(np.uintp), "mstart": starts[part].astype(np.uintp)}
