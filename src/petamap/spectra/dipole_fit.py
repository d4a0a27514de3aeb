"""Effect of the fit of monopole and dipole on the spectra of T.

Fitted to all pixels alike, their amplitudes are sums over the map m: d_k = sum over pixels of R_k m, with
R = (D^T D)^-1 D^T on the pixels that have a weight and D the four templates 1, x, y, z. What is left of the
weighted map is a~_lm - sum over k of t_k,lm d_k, with t_k the weighted template. So with g_k,lm the sum over
pixels of R_k Y*_lm,

    <C~_l> = sum over l' of (M_ll' - 2 X_ll' + S_ll') C_l',
    X_ll' = 1 / (2l + 1) sum over k, m of t_k,lm <a~_lm d_k>* where C_l' = 1,
    S_ll' = sum over k, k' of (t_k, t_k')_l (2l' + 1) (g_k, g_k')_l',

where (x, y)_l is the cross-spectrum. Of T and E one side alone is fitted, and there is one X. So Elsner,
Leistedt & Peiris 2017 (MNRAS 465, 1847) make spectra unbiased of which templates were taken off.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import ComplexArray, FloatArray
from petamap.sky.harmonics import analyse, in_ring_order, multipoles, synthesise
from petamap.sky.healpix import Healpix
from petamap.spectra.coupling import KINDS, Coupling
from petamap.spectra.cross_spectra import cross_spectrum
from petamap.spectra.transforms import downgrade_means

# The fit affects low multipoles alone: pixels of this n_side resolve it.
_LARGE = 32


class DipoleFit:
    """Fit of monopole and dipole to I where there is a weight, on large pixels.

    Parameters
    ----------
    weights : float64 (n_pix,)
        Weights of I.
    polarization_weights : float64 (n_pix,), optional
        Weights of Q and U; None without polarization.
    pixelization : Healpix

    Attributes
    ----------
    l_max : int
        Last multipole of the correction; beyond, it is less than a thousandth.
    """

    def __init__(
        self, weights: FloatArray, polarization_weights: FloatArray | None, pixelization: Healpix
    ) -> None:
        self.n_side = min(pixelization.n_side, _LARGE)
        self.l_max = 3 * self.n_side - 1
        used = _large((weights > 0).astype(np.float64), pixelization, self.n_side)
        # by spin
        self.weights = {0: _large(weights, pixelization, self.n_side)}
        if polarization_weights is not None:
            self.weights[2] = _large(polarization_weights, pixelization, self.n_side)
        pixels = Healpix(self.n_side)
        templates = np.ones((4, pixels.n_pix))
        templates[1:] = pixels.directions_of(np.arange(pixels.n_pix)).T
        normal = np.einsum("ip,jp->ij", templates * used, templates)
        with single_blas_thread():
            amplitudes = np.linalg.pinv(normal, hermitian=True)
        self.amplitudes = self._sums(np.einsum("ij,jp->ip", amplitudes, templates * used))
        self.templates = self._sums(templates * self.weights[0]) * pixels.pixel_area

    def _sums(self, rows: FloatArray) -> ComplexArray:
        """Return the sums over pixels of each row times Y*_lm, complex128 (n_rows, n_alm)."""
        area = Healpix(self.n_side).pixel_area
        found = [analyse(row[None], self.n_side, self.l_max, 0, 0)[0] / area for row in rows]
        return np.stack(found)

    def crossed(self, other: DipoleFit, spin: int) -> FloatArray:
        """Return X_ll' of this map's templates with T (spin 0) or E (spin 2) of the other map."""
        total = np.zeros((self.l_max + 1, self.l_max + 1))
        if spin not in other.weights:
            return total
        weights = np.tile(other.weights[spin], 2 if spin else 1) * Healpix(self.n_side).pixel_area
        for template, amplitude in zip(self.templates, self.amplitudes, strict=True):
            left, right = self._by_degree(template, spin), self._by_degree(amplitude, spin)
            with single_blas_thread():
                total += (left * weights) @ right.T
        return total / (2 * np.arange(self.l_max + 1.0) + 1)[:, None]

    def _by_degree(self, alm: ComplexArray, spin: int) -> FloatArray:
        """Return the map of each multipole alone, of T or of E, float64 (l_max + 1, n_pix or 2 n_pix)."""
        l = multipoles(self.l_max)  # noqa: E741
        rows = np.zeros((self.l_max + 1, (2 if spin else 1) * Healpix(self.n_side).n_pix))
        for degree in range(spin, self.l_max + 1):
            of_degree = multipoles(degree) == degree
            alone = np.zeros((2 if spin else 1, len(of_degree)), np.complex128)
            alone[0, of_degree] = alm[l == degree]
            rows[degree] = synthesise(alone, self.n_side, degree, spin).ravel()
        return rows

    def squared(self, other: DipoleFit) -> FloatArray:
        """Return S_ll'."""
        total, end = np.zeros((self.l_max + 1, self.l_max + 1)), self.l_max
        for t, g in zip(self.templates, self.amplitudes, strict=True):
            for t_other, g_other in zip(other.templates, other.amplitudes, strict=True):
                total += np.multiply.outer(cross_spectrum(t, t_other, end), cross_spectrum(g, g_other, end))
        total *= 2 * np.arange(self.l_max + 1) + 1
        return total


def subtract_dipole_fit(coupling: Coupling, first: DipoleFit, second: DipoleFit | None = None) -> Coupling:
    """Return the coupling of maps without monopole and dipole; that of pure components is unchanged."""
    other = first if second is None else second
    matrices = coupling.matrices.copy()
    n = min(first.l_max, coupling.l_max) + 1
    one = first.crossed(other, 0)
    two = one if second is None else other.crossed(first, 0)
    corrections = {"00": first.squared(other) - one - two, "02": -first.crossed(other, 2)}
    corrections["20"] = corrections["02"] if second is None else -other.crossed(first, 2)
    for kind, found in corrections.items():
        matrices[KINDS.index(kind), :n, :n] += found[:n, :n]
    return replace(coupling, matrices=matrices)


def _large(values: FloatArray, pixelization: Healpix, n_side: int) -> FloatArray:
    """Return means over pixels of `n_side`, in rings."""
    rows: FloatArray = in_ring_order(values, pixelization)[0]
    return rows if pixelization.n_side == n_side else downgrade_means(rows, pixelization.n_side, n_side)
