"""Gaussian skies: power spectra from files, random a_lm, smoothing and synthesis."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import ComplexArray, FloatArray, Int64Array, UInt32Array
from petamap.simulation.random_keys import gaussians
from petamap.simulation.sky import RingPart
from petamap.sky.ring_distribution import RingDistribution
from petamap.sky.ring_transforms import synthesis, synthesis_by_rings
from petamap.sky.spectrum_file import read_spectrum_file

PLANCK2018 = "planck2018"
_ORDER = ("TT", "EE", "BB", "TE")
_AT_ONCE = 1 << 21  # random numbers
_SPINS = (0, slice(0, 1)), (2, slice(1, 3))  # of I, and of Q and U


def read_spectra(path: str | Path, unit: str = "uK^2") -> FloatArray:
    """Read power spectra C_l of temperature and polarization.

    Parameters
    ----------
    path : path
        ``planck2018``: the best fit included in the package. ``.fits``: table of C_l in the format of healpy.
        Otherwise text in the format of CAMB (see `petamap.sky.spectrum_file`).
    unit : str
        Square of kelvin with a prefix, if the file gives no unit.

    Returns
    -------
    float64 (4, l_max + 1)
        TT, EE, BB, TE in K^2; zero if the file does not have the spectrum.

    Raises
    ------
    DataError
        If the file cannot be read, multipoles are missing, or the spectra are not positive definite.

    Examples
    --------
    >>> import petamap
    >>> spectra = petamap.read_spectra("planck2018")
    >>> spectra.shape[0], float(spectra[0, 0])
    (4, 0.0)
    """
    if str(path) == PLANCK2018:
        path = Path(str(files("petamap.simulation") / "data" / "planck2018_lcdm_dl.txt"))
    where = str(path)
    in_file = read_spectrum_file(path, unit)
    if "TT" not in in_file:
        raise DataError("has no TT spectrum", where=where)
    if in_file.unit != "K_CMB^2":
        raise DataError(f"has spectra in '{in_file.unit}'", where=where, mend="they must be in K_CMB^2")
    spectra = in_file.select(_ORDER).values
    check_spectra(spectra, where)
    return spectra


def check_spectra(spectra: FloatArray, where: str | None = None) -> None:
    """Check that spectra TT, EE, BB, TE, (4, l_max + 1), are finite and positive definite.

    Raises
    ------
    DataError
        If a value is not finite, a power is negative, or TE^2 > TT EE beyond rounding.
    """
    tt, ee, bb, te = spectra
    bad = ~np.all(np.isfinite(spectra), axis=0) | (tt < 0) | (ee < 0) | (bb < 0)
    bad |= te**2 > 1.0001 * tt * ee
    if np.any(bad):
        raise DataError(
            f"no sky has the spectra at l = {int(np.flatnonzero(bad)[0])}: not finite, a negative power, "
            "or TE^2 > TT EE",
            where=where,
        )


def gaussian_alm(
    spectra: FloatArray, words: UInt32Array, l_max: int, orders: Int64Array | None = None
) -> ComplexArray:
    """Return random Gaussian a_lm of T, E and B.

    The random numbers of (l, m) do not depend on `l_max`, nor on the other orders.

    Parameters
    ----------
    spectra : float64 (4, >= l_max + 1)
        TT, EE, BB, TE.
    words : uint32 (3, 4)
        Keys of the random streams of T, E, B.
    l_max : int
    orders : int64, optional
        The m that are wanted, increasing; all without.

    Returns
    -------
    complex128 (3, n_alm)
        In m-major order, as in healpy and ducc.
    """
    orders = np.arange(l_max + 1) if orders is None else orders
    m, l = alm_indices(l_max, orders)  # noqa: E741
    unit = np.empty((3, len(l)), np.complex128)
    for first, last in pairwise(_drawn_at_once(l_max)):
        rows, index = _rows_of_multipoles(orders, l_max, first, last)
        for part, stream in zip(unit, words, strict=True):
            numbers = gaussians(stream, last * (last + 1) - first * (first + 1), first * (first + 1))
            part.real[rows], part.imag[rows] = numbers[index], numbers[index + 1]
    unit.real *= np.where(m == 0, 1, np.sqrt(0.5))
    unit.imag *= np.where(m == 0, 0, np.sqrt(0.5))
    tt, ee, bb, te = spectra[:, : l_max + 1]
    correlated = np.divide(te, np.sqrt(tt), out=np.zeros_like(tt), where=tt > 0)
    independent = np.sqrt(np.maximum(ee - correlated**2, 0))
    e = correlated[l] * unit[0] + independent[l] * unit[1]
    return np.stack((np.sqrt(tt)[l] * unit[0], e, np.sqrt(bb)[l] * unit[2]))


def _drawn_at_once(l_max: int) -> list[int]:
    """Return multipoles between which so many random numbers are drawn at once, the first and the end."""
    ends = [0]
    while ends[-1] <= l_max:
        ends.append(min(max(ends[-1] + 1, int((ends[-1] ** 2 + _AT_ONCE) ** 0.5)), l_max + 1))
    return ends


def _rows_of_multipoles(
    orders: Int64Array, l_max: int, first: int, last: int
) -> tuple[Int64Array, Int64Array]:
    """Return the rows of the coefficients of orders with l in [first, last), and their random numbers.

    The numbers of (l, m) are l (l + 1) + 2 m and the next one, counted from those of `first`.
    """
    least = np.maximum(orders, first)
    counts = np.maximum(last - least, 0)
    n_before = np.cumsum(counts) - counts
    starts = np.cumsum(l_max + 1 - orders) - (l_max + 1 - orders)  # of the coefficient l = m
    place = np.arange(int(counts.sum()))
    l = place + np.repeat(least - n_before, counts)  # noqa: E741
    rows = l + np.repeat(starts - orders, counts)
    return rows, l * (l + 1) + 2 * np.repeat(orders, counts) - first * (first + 1)


def alm_indices(l_max: int, orders: Int64Array | None = None) -> tuple[Int64Array, Int64Array]:
    """Return m and l of the coefficients of orders, or of all, in m-major order, int64 (n_alm,) each."""
    orders = np.arange(l_max + 1) if orders is None else orders
    m = np.repeat(orders, l_max + 1 - orders)
    l = np.concatenate([np.arange(first, l_max + 1) for first in orders] or [orders])  # noqa: E741
    return m, l


def smooth_alm(alm: ComplexArray, l_max: int, fwhm: float, orders: Int64Array | None = None) -> ComplexArray:
    """Return a_lm of T, E, B, of orders or of all, smoothed by a Gaussian beam of `fwhm` radians.

    b_l = exp(-(l (l + 1) - s^2) sigma^2 / 2), s = 0 for T and 2 for E, B (Challinor et al. 2000).
    """
    _, l = alm_indices(l_max, orders)  # noqa: E741
    sigma = fwhm / np.sqrt(8 * np.log(2))
    spin = np.array([[0], [4], [4]])
    smoothed: ComplexArray = alm * np.exp(-0.5 * (l * (l + 1) - spin) * sigma**2)
    return smoothed


def synthesize(alm: ComplexArray, l_max: int, n_side: int) -> FloatArray:
    """Return the map I, Q, U (COSMO) of a_lm in HEALPix ring ordering, float64 (3, 12 n_side^2)."""
    rings = RingDistribution(n_side)
    found = np.empty((3, rings.n_pix))
    for spin, rows in _SPINS:
        synthesis(alm[rows], rings, l_max, spin, out=found[rows])
    return found


def synthesize_by_rings(
    alm: ComplexArray, l_max: int, rings: RingDistribution, n_threads: int = 1
) -> Iterator[RingPart]:
    """Yield the map I, Q, U (COSMO) of a_lm, some rings at a time. Collective on the ranks of the rings.

    Parameters
    ----------
    alm : complex128 (3, n_alm)
        Of the orders of this rank, m-major.
    l_max : int
    rings : RingDistribution
    n_threads : int
        No bit depends on it.

    Yields
    ------
    RingPart
    """
    for spin, rows in _SPINS:
        for some, values in synthesis_by_rings(alm[rows], rings, l_max, spin, n_threads):
            yield RingPart(rows, some, values)
