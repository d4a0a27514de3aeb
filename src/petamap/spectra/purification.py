"""Pure E and B: components of a masked polarized map without leakage between E and B (Smith 2006).

With the spin-raised weights W_1 = eth W, W_2 = eth eth W and P = Q + i U, the coefficients

    a_lm = (W P)_2 + 2 sqrt(l (l + 1)) / N_l (W_1* P)_1 + (W_2* P)_0 / N_l,    N_l = sqrt((l + 2)! / (l - 2)!)

where (f)_s is the transform of spin s, are those of weights times the scalar fields whose harmonics are
N_l E_lm and N_l B_lm, over N_l (Smith & Zaldarriaga 2007; Grain, Tristram & Stompor 2009, section II). So
weights that fall to zero smoothly mix no E into B.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import ComplexArray, FloatArray
from petamap.sky.harmonics import ITERATIONS, analyse, in_ring_order, multipoles, synthesise
from petamap.sky.healpix import Healpix
from petamap.sky.ring_distribution import RingDistribution
from petamap.spectra.coupling import spin_factor
from petamap.spectra.transforms import Harmonics


def purify(
    seen: Harmonics,
    values: FloatArray,
    pixelization: Healpix,
    weights: FloatArray,
    pure: str = "B",
    iterations: int = ITERATIONS,
    n_threads: int = 1,
    raised: ComplexArray | None = None,
    rings: RingDistribution | None = None,
) -> Harmonics:
    """Return the coefficients of a map with pure B, or pure E and B, instead of those of the weighted map.

    Parameters
    ----------
    seen : Harmonics
        What `harmonics` gave for these values and weights.
    values : float64 (n_stokes, n_pix)
        Q and U, or I, Q and U (COSMO).
    pixelization : Healpix
    weights : float64 (n_pix,)
        Those of Q and U; they and their first derivatives must fall to zero at their edges.
    pure : {"B", "EB"}
    iterations, n_threads : int
    raised : complex128 (2, n_pix), optional
        `spin_raise` of the weights in rings, where they are known.
    rings : RingDistribution, optional
        Whose pixels values and weights are of, in ring order, and whose orders the coefficients. Collective.

    Raises
    ------
    ConfigError
        If there is no polarization, or `pure` is something else.
    """
    if pure not in ("B", "EB") or "B" not in seen.components:
        raise ConfigError(
            f"no pure {pure or 'components'} of {seen.components}", mend="B or EB, of polarization"
        )
    rings = rings or RingDistribution(pixelization.n_side)
    l = multipoles(seen.l_max, rings)  # noqa: E741
    polarized = in_ring_order(np.where(weights > 0, values[-2:], 0.0), pixelization)
    field = polarized[0] + 1j * polarized[1]
    if raised is None:
        raised = spin_raise(in_ring_order(weights, pixelization)[0], rings, n_threads)
    slope, curvature = raised
    of_slope, of_curvature = _factors(l)

    def transform(field: ComplexArray, spin: int) -> ComplexArray:
        parts = np.stack((field.real, field.imag))
        rows = [parts] if spin else [parts[:1], parts[1:]]
        return np.concatenate([analyse(row, rings, seen.l_max, spin, iterations, n_threads) for row in rows])

    # coefficients of spin 1 and 2 have a sign that those of spin 0 lack
    more = of_slope * transform(slope.conj() * field, 1) - of_curvature * transform(
        curvature.conj() * field, 0
    )
    alm = seen.alm.copy()
    for row, component in enumerate(seen.components):
        if component in pure:
            alm[row] = np.where(l < 2, 0, alm[row] + more["EB".index(component)])
    return replace(seen, alm=alm, pure=pure)


def spin_raise(weights: FloatArray, rings: RingDistribution, n_threads: int = 1) -> ComplexArray:
    """Return eth W and eth eth W of weights (n_pix,) in rings, complex128 (2, n_pix). Collective."""
    l_max = 3 * rings.n_side - 1
    alm = analyse(weights[None], rings, l_max, 0, n_threads=n_threads)
    l = multipoles(l_max, rings)  # noqa: E741
    found = np.empty((2, len(weights)), np.complex128)
    for row, spin, factor in zip(found, (1, 2), (np.sqrt(l * (l + 1)), spin_factor(l)), strict=True):
        both = np.concatenate((alm * factor, np.zeros_like(alm)))
        real, imaginary = synthesise(both, rings, l_max, spin, n_threads)
        row.real, row.imag = -real, -imaginary
    return found


def pure_noise(weights: FloatArray, variance: FloatArray, pixelization: Healpix, l_max: int) -> FloatArray:
    """Return the pseudo-spectrum of white noise in pure E or B, float64 (l_max + 1,).

    Sum over s of factor_s^2 (4 pi / n_pix^2) times the sum of |W_s|^2 sigma^2: transforms of different spin
    do not correlate.

    Parameters
    ----------
    weights, variance : float64 (n_pix,)
        The variance of Q and of U; counts where there is a weight.
    pixelization : Healpix
    l_max : int
    """
    rings, sigma2 = in_ring_order(np.stack((weights, np.where(weights > 0, variance, 0.0))), pixelization)
    slope, curvature = np.abs(spin_raise(rings, RingDistribution(pixelization.n_side))) ** 2
    of_slope, of_curvature = _factors(np.arange(l_max + 1.0))
    sums = [np.sum(one * sigma2) for one in (rings**2, slope, curvature)]
    level: FloatArray = sums[0] + of_slope**2 * sums[1] + of_curvature**2 * sums[2]
    level[:2] = 0
    return 4 * np.pi / pixelization.n_pix**2 * level


def last_amplified_multipole(weights: FloatArray, pixelization: Healpix, l_max: int) -> int:
    """Return the last multipole where white noise counts more than twice in pure components; 0 for none."""
    white = 4 * np.pi / pixelization.n_pix * np.mean(weights**2)
    level = pure_noise(weights, np.ones_like(weights), pixelization, l_max)
    return int(np.flatnonzero(level > 2 * white).max(initial=0))


def _factors(l: FloatArray) -> tuple[FloatArray, FloatArray]:  # noqa: E741
    """Return the factors of the terms of slope and curvature; 0 below l = 2."""
    factor = spin_factor(l)
    inverse = np.divide(1, factor, out=np.zeros_like(factor), where=factor > 0)
    return 2 * np.sqrt(l * (l + 1)) * inverse, inverse
