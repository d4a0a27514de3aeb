"""The exact likelihood of low multipoles: whether skies come back, beside pseudo-spectra, and what it takes.

    python benchmarks/likelihood.py                            # 200 realizations at n_side 8
    python benchmarks/likelihood.py --n-side 16 --realizations 1

Skies of Planck's best fit of 2018 seen by a beam of three pixels' width behind a cut of 25 %, with noise that
is correlated between pixels of like latitude. The exit status is 1 where a mean is not that of the input.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from scipy.stats import f

from petacomm.base.host import peak_bytes
from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import FloatArray
from petamap.simulation.random_keys import Purpose, gaussians, random_stream
from petamap.simulation.sky_spectra import gaussian_alm, read_spectra, smooth_alm, synthesize
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.beams import map_window, window_products
from petamap.spectra.coupling import mode_coupling
from petamap.spectra.cross_spectra import pseudo_spectra, spectra_names
from petamap.spectra.dipole_fit import DipoleFit, subtract_dipole_fit
from petamap.spectra.likelihood import PixelLikelihood, harmonic_modes, likelihood_bytes
from petamap.spectra.masks import apodize, subtract_monopole
from petamap.spectra.master import MasterEstimator
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.transforms import weighted_harmonics

THEORY = Spectra(read_spectra("planck2018"), ("TT", "EE", "BB", "TE"))
FITS = ("known", "ignored", "none")
NAMES, SEED, LEAST = spectra_names("TEB"), 11, 0.001


class Case:
    """Pixels, beam, cut and noise at an n_side."""

    def __init__(self, n_side: int) -> None:
        self.n_side, self.l_max, self.sky = n_side, 3 * n_side - 1, Healpix(n_side)
        self.fwhm = 3 * np.sqrt(self.sky.pixel_area)
        self.directions = self.sky.directions_of(np.arange(self.sky.n_pix))
        self.cut = np.abs(self.directions[:, 2]) > 0.25
        self.windows = map_window(None, self.fwhm, self.l_max)
        places = self.directions[self.cut]
        self.n = len(places)
        self.scale = np.repeat([1e-6, 5e-8, 5e-8], self.n)
        apart = np.abs(places[:, None, 2] - places[None, :, 2])
        self.shape = np.eye(self.n) + np.exp(-apart / 0.05)
        with single_blas_thread():
            self.factor = np.linalg.cholesky(self.shape)

    def likelihood(self, binning: Binning, data: FloatArray) -> PixelLikelihood:
        """Return the likelihood of data."""
        modes = harmonic_modes(self.n_side, np.tile(self.cut, (3, 1)), self.l_max, self.windows, 2)
        templates = np.zeros((3 * self.n, 4))
        templates[: self.n] = np.column_stack((np.ones(self.n), self.directions[self.cut]))
        noise = np.zeros((3, self.n, 3, self.n))
        for stokes in range(3):
            noise[stokes, :, stokes] = self.shape
        noise = noise.reshape(3 * self.n, -1)
        noise *= self.scale
        noise *= self.scale[:, None]
        return PixelLikelihood(data, noise, modes, binning, THEORY, templates)

    def draw(self, realization: int, sky: bool = True) -> FloatArray:
        """Return I, Q, U with noise where the sky is not cut, or noise alone."""
        words = np.stack([random_stream(Purpose.SKY, SEED, realization, detector=k) for k in range(3)])
        alm = smooth_alm(gaussian_alm(THEORY.values, words, self.l_max), self.l_max, self.fwhm)
        values = synthesize(alm, self.l_max, self.n_side) * sky
        normal = gaussians(random_stream(Purpose.NOISE, SEED, realization), 3 * self.n).reshape(3, -1)
        values[:, self.cut] += (normal @ self.factor.T) * self.scale.reshape(3, -1)
        return values


def pseudo_of(
    case: Case, maps: list[FloatArray], binning: Binning, fit: str
) -> tuple[FloatArray, FloatArray]:
    """Return bandpowers by pseudo-spectra, the noise left in, and what the sky has in them on average.

    `fit` of monopole and dipole: ``known``, as `petamap spectra` has it, ``ignored``, or ``none``.
    """
    weights = apodize(case.cut.astype(float), case.sky, np.radians(10))
    wide = Binning.linear(2, case.l_max, int(binning.edges[1] - binning.edges[0]))
    rows, master = [], None
    for values in maps:
        if fit != "none":
            values = np.stack((subtract_monopole(values[0], weights, case.directions), *values[1:]))
        seen = weighted_harmonics(values, case.sky, weights, l_max=case.l_max)
        if master is None:
            coupling = mode_coupling(seen)
            if fit == "known":
                coupling = subtract_dipole_fit(coupling, DipoleFit(weights, weights, case.sky))
            master = MasterEstimator(coupling, wide, NAMES, window_products(NAMES, case.windows))
        rows.append(master.bandpowers(pseudo_spectra(seen)).values[:, : binning.n])
    assert master is not None, "there are maps"
    return np.array(rows), master.expected(THEORY).values[:, : binning.n]


def hotelling(rows: FloatArray, expected: FloatArray) -> float:
    """Return the probability of a mean so far from what is expected (Hotelling's T^2)."""
    n, p = rows.shape
    apart = rows.mean(axis=0) - expected
    t2 = n * apart @ np.linalg.solve(np.cov(rows.T), apart)
    return float(f.sf(t2 * (n - p) / (p * (n - 1)), p, n - p))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n-side", type=int, default=8)
    parser.add_argument("--realizations", type=int, default=200)
    arguments = parser.parse_args()
    case = Case(arguments.n_side)
    binning = Binning.linear(2, 2 * case.n_side, max(case.n_side // 2, 2))
    maps = [case.draw(k) for k in range(arguments.realizations)]
    data = np.array([one[:, case.cut].ravel() for one in maps])
    begin = time.perf_counter()
    likelihood = case.likelihood(binning, data[0])
    made = time.perf_counter()
    found = likelihood.quadratic()
    step = time.perf_counter() - made
    needed = likelihood_bytes(data.shape[1], 3 * ((case.l_max + 1) ** 2 - 4))
    print(
        f"n_side {case.n_side}: {data.shape[1]} data; set up in {made - begin:.1f} s, "
        f"a step in {step:.1f} s; memory {needed / 1e9:.2f} GB foreseen, "
        f"{peak_bytes() / 1e9:.2f} GB at the peak"
    )
    if len(data) < 100:
        return 0
    return told(case, likelihood.estimates(data), found, maps)


def told(case: Case, values: FloatArray, found: Bandpowers, maps: list[FloatArray]) -> int:
    """Print how far means are from the input, and from those of pseudo-spectra; 1 where they are too far."""
    theory, n = THEORY.select(NAMES, case.l_max).values, len(values)
    expected = np.einsum("ablm,lm->ab", found.windows, theory)
    noises = [case.draw(n + k, sky=False) for k in range(n)]
    both, scatter = {}, {}
    for fit in FITS:
        pseudo, of_sky = pseudo_of(case, maps, found.binning, fit)
        noise, _ = pseudo_of(case, noises, found.binning, fit)
        both[fit] = pseudo - noise - of_sky  # the noise of other realizations
        scatter[fit] = pseudo.std(axis=0, ddof=1)
    failed = False
    for i, name in enumerate(NAMES):
        deviation = values[:, i].std(axis=0, ddof=1)
        columns = {
            "likelihood, pulls of the mean": pulls(values[:, i] - expected[i]),
            "its scatter over Fisher errors": deviation / found.errors[i],
            "scatter of pseudo-spectra over its": scatter["known"][i] / deviation,
        }
        apart = {fit: values[:, i] - expected[i] - both[fit][:, i] for fit in FITS}
        for fit in FITS if "T" in name else FITS[:1]:
            columns[f"less pseudo-spectra, the fit {fit}, pulls"] = pulls(apart[fit])
        probability = hotelling(values[:, i], expected[i])
        agreement = hotelling(apart["known"], np.zeros_like(expected[i]))
        failed |= min(probability, agreement) < LEAST
        print(f"{name}: p {probability:.2g}, with pseudo-spectra {agreement:.2g}")
        for what, row in columns.items():
            print(f"    {what:<44}" + "".join(f"{one:8.2f}" for one in row))
    return int(failed)


def pulls(apart: FloatArray) -> FloatArray:
    """Return means over their standard errors."""
    found: FloatArray = apart.mean(axis=0) / apart.std(axis=0, ddof=1) * np.sqrt(len(apart))
    return found


if __name__ == "__main__":
    sys.exit(main())
