"""Power spectra from files, and Gaussian skies drawn from them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import ComplexArray, FloatArray, Int64Array, UInt32Array
from petamap.simulation.random_keys import gaussians
from petamap.sky.spectrum_file import read_spectrum_file

PLANCK2018 = "planck2018"
_ORDER = ("TT", "EE", "BB", "TE")


def read_spectra(path: str | Path, unit: str = "uK^2") -> FloatArray:
    """Read C_l of temperature and polarization.

    Parameters
    ----------
    path : path
        ``planck2018`` is the best fit that comes with the package; ``.fits``: a table of C_l as healpy writes
        it; else text as CAMB writes it: see `petamap.sky.spectrum_file`.
    unit : str
        Square of kelvin with a prefix, where the file says none.

    Returns
    -------
    float64 (4, l_max + 1)
        TT, EE, BB, TE in K^2; zero where the file has none.

    Raises
    ------
    DataError
        If the file cannot be read, multipoles are missing, or the spectra are not possible.
    """
    if str(path) == PLANCK2018:
        path = Path(str(files("petamap.simulation") / "data" / "planck2018_lcdm_dl.txt"))
    where = str(path)
    found = read_spectrum_file(path, unit)
    if "TT" not in found:
        raise DataError("has no TT spectrum", where=where)
    if found.unit != "K_CMB^2":
        raise DataError(f"has spectra in '{found.unit}'", where=where, mend="they must be in K_CMB^2")
    spectra = found.chosen(_ORDER).values
    check_spectra(spectra, where)
    return spectra


def check_spectra(spectra: FloatArray, where: str | None = None) -> None:
    """Refuse spectra (4, l_max + 1) that no sky has.

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


def gaussian_alm(spectra: FloatArray, words: UInt32Array, l_max: int) -> ComplexArray:
    """Draw a_lm of T, E and B.

    The numbers of (l, m) do not depend on `l_max`.

    Parameters
    ----------
    spectra : float64 (4, >= l_max + 1)
        TT, EE, BB, TE.
    words : uint32 (3, 4)
        A stream for each of T, E, B.
    l_max : int

    Returns
    -------
    complex128 (3, n_alm)
        m-major as healpy and ducc have them.
    """
    m, l = alm_indices(l_max)  # noqa: E741
    place = 2 * (l * (l + 1) // 2 + m)
    unit = np.empty((3, len(l)), np.complex128)
    for part, stream in zip(unit, words, strict=True):
        numbers = gaussians(stream, (l_max + 1) * (l_max + 2))
        part.real = numbers[place] * np.where(m == 0, 1, np.sqrt(0.5))
        part.imag = numbers[place + 1] * np.where(m == 0, 0, np.sqrt(0.5))
    tt, ee, bb, te = spectra[:, : l_max + 1]
    correlated = np.divide(te, np.sqrt(tt), out=np.zeros_like(tt), where=tt > 0)
    alone = np.sqrt(np.maximum(ee - correlated**2, 0))
    return np.stack(
        (np.sqrt(tt)[l] * unit[0], correlated[l] * unit[0] + alone[l] * unit[1], np.sqrt(bb)[l] * unit[2])
    )


def alm_indices(l_max: int) -> tuple[Int64Array, Int64Array]:
    """Return m and l of each coefficient in m-major order, int64 (n_alm,)."""
    m = np.repeat(np.arange(l_max + 1), np.arange(l_max + 1, 0, -1))
    l = np.concatenate([np.arange(first, l_max + 1) for first in range(l_max + 1)])  # noqa: E741
    return m, l


def smooth(alm: ComplexArray, l_max: int, fwhm: float) -> ComplexArray:
    """Return a_lm of T, E, B as a Gaussian beam of `fwhm` radians sees them.

    b_l = exp(-(l (l + 1) - s^2) sigma^2 / 2), s = 0 for T and 2 for E, B (Challinor et al. 2000).
    """
    _, l = alm_indices(l_max)  # noqa: E741
    sigma = fwhm / np.sqrt(8 * np.log(2))
    spin = np.array([[0], [4], [4]])
    seen: ComplexArray = alm * np.exp(-0.5 * (l * (l + 1) - spin) * sigma**2)
    return seen


def synthesize(alm: ComplexArray, l_max: int, n_side: int) -> FloatArray:
    """Return I, Q, U (COSMO) on HEALPix rings, float64 (3, 12 n_side^2).

    On one thread, so that the bits are the same on every machine.
    """
    import ducc0

    geometry = ducc0.healpix.Healpix_Base(n_side, "RING").sht_info()
    out = np.empty((3, 12 * n_side**2))
    for spin, rows in ((0, slice(0, 1)), (2, slice(1, 3))):
        ducc0.sht.synthesis(
            alm=alm[rows], map=out[rows], spin=spin, lmax=l_max, mmax=l_max, nthreads=1, **geometry
        )
    return out
