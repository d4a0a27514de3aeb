"""Pure E and B: coupling against whole skies of one mode, leakage of E behind a patch, noise."""

import numpy as np
import pytest
from wigner import three_j

from petacomm.base.errors import ConfigError
from petamap.simulation.random_keys import Purpose, random_stream
from petamap.simulation.sky_spectra import gaussian_alm, read_spectra, synthesize
from petamap.sky.harmonics import synthesise
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.spectra.coupling import KINDS, PURE_KINDS, WINDOWS, coupling_of_windows, mode_coupling
from petamap.spectra.cross_spectra import pseudo_spectra, spectra_names
from petamap.spectra.masks import APODIZATIONS, apodize
from petamap.spectra.master import MasterEstimator
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.purification import pure_noise, purify
from petamap.spectra.transforms import weighted_harmonics

RNG = np.random.default_rng(4)
AUTO = spectra_names("TEB")
SKY = Healpix(32)


def patch(width, kind="C1", sky=SKY, fraction=0.03, band_limited=False):
    middle = np.array([np.sin(1.0), 0, np.cos(1.0)])
    cap = sky.directions_of(np.arange(sky.n_pix)) @ middle > 1 - 2 * fraction
    return apodize(cap.astype(float), sky, np.radians(width), kind, band_limited=band_limited)


def draw(spectra, realization, sky, l_max):
    words = np.stack([random_stream(Purpose.SKY, 7, realization, detector=k) for k in range(3)])
    return synthesize(gaussian_alm(spectra, words, l_max), l_max, sky.n_side)


def test_coupling_against_the_sum_over_spins():
    """Sum over s of the symbols with the factors that derivatives of the weights have (Smith 2006)."""
    l_max, n_window = 8, 7
    windows = {kind: RNG.standard_normal(n_window) for kind in WINDOWS}
    matrices = coupling_of_windows(windows, l_max, pure=("B", "B")).matrices
    found = dict(zip(KINDS + PURE_KINDS, matrices, strict=True))
    expected = {kind: np.zeros((l_max + 1, l_max + 1)) for kind in PURE_KINDS}
    for a in range(2, l_max + 1):
        for b in range(2, l_max + 1):
            for c in range(n_window):
                up = (a - 1) * (a + 2)
                pure = (
                    three_j(a, b, c, 2, -2)
                    + 2 * np.sqrt(c * (c + 1) / up) * three_j(a, b, c, 1, -2)
                    + np.sqrt(max((c + 2) * (c + 1) * c * (c - 1), 0) / (up * a * (a + 1)))
                    * three_j(a, b, c, 0, -2)
                )
                if (a + b + c) % 2:
                    assert abs(pure) < 1e-13  # nothing of E becomes B
                factor = (2 * b + 1) * (2 * c + 1) / (4 * np.pi)
                expected["pp"][a, b] += factor * windows["PP"][c] * pure**2
                expected["2p"][a, b] += factor * windows["PP"][c] * pure * three_j(a, b, c, 2, -2)
                expected["0p"][a, b] += factor * windows["TP"][c] * pure * three_j(a, b, c, 0, 0)
                expected["p0"][a, b] += factor * windows["PT"][c] * pure * three_j(a, b, c, 0, 0)
    for kind, matrix in expected.items():
        # the even terms of odd l + l' + l3 in 2p vanish with the pure symbol
        np.testing.assert_allclose(found[kind][2:, 2:], matrix[2:, 2:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("pure", ["B", "EB"])
def test_coupling_against_skies_of_one_multipole(pure):
    """The pseudo-spectra of all modes of one l' behind smooth weights, each of unit power."""
    sky, l_max, l_true = Healpix(16), 12, 5
    z = sky.directions_of(np.arange(sky.n_pix))
    weights = (1 + 0.5 * z[:, 2] + 0.3 * z[:, 0] * z[:, 1]) ** 2
    sums = {}
    for component in (0, 1):
        total = 0
        for m in range(l_true + 1):
            for phase in (1,) if m == 0 else (1, 1j):
                alm = np.zeros((2, (l_max + 1) * (l_max + 2) // 2), complex)
                alm[component, m * (2 * l_max + 1 - m) // 2 + l_true] = phase * (
                    1 if m == 0 else np.sqrt(0.5)
                )
                values = synthesise(alm, 16, l_max, 2)
                seen = weighted_harmonics(values, sky, weights, l_max=l_max)
                seen = purify(seen, values, sky, weights, pure)
                total = total + pseudo_spectra(seen).values
        sums["EB"[component]] = total
    coupling, names = mode_coupling(seen), ("EE", "BB", "EB")
    for name, found in sums.items():
        for row, pseudo in zip(found, names, strict=True):
            block = coupling.block(pseudo, 2 * name, names)
            expected = np.zeros(l_max + 1) if block is None else block[:, l_true]
            np.testing.assert_allclose(row[2:], expected[2:], rtol=0, atol=3e-5 * np.abs(found).max())


@pytest.mark.parametrize("kind", APODIZATIONS)
def test_e_does_not_leak_into_pure_b(kind):
    """Bandpowers of B of a sky of E alone, on 3 % of the sky: below 1e-4 of E in all bins."""
    sky, l_max = Healpix(64), 128
    spectra = read_spectra("planck2018")[:, : l_max + 1]
    spectra[2] = 0
    weights = patch(10, kind, sky, band_limited=True)
    values = draw(spectra, 0, sky, l_max)[1:]
    plain = weighted_harmonics(values, sky, weights)
    leaked = {}
    for pure, seen in (("", plain), ("B", purify(plain, values, sky, weights))):
        master = MasterEstimator(mode_coupling(seen), Binning.linear(2, 191, 15), spectra_names("EB"))
        found = master.bandpowers(pseudo_spectra(seen))
        # a bin of few modes may have little E by chance
        expected = master.expected(Spectra(np.pad(spectra, ((0, 0), (0, 63))), ("TT", "EE", "BB", "TE")))
        leaked[pure] = np.abs(found["BB"][:8]) / expected["EE"][:8]
    assert leaked["B"].max() < 1e-4 < 1e-2 < leaked[""].max()


def test_edges_of_pixels_leak():
    """What band-limited edges are for: rough distances let through a hundred times as much."""
    spectra = read_spectra("planck2018")[:, :65]
    spectra[2] = 0
    values = draw(spectra, 0, SKY, 64)[1:]
    leaked = []
    for band_limited in (False, True):
        weights = patch(20, "C2", fraction=0.05, band_limited=band_limited)
        seen = purify(weighted_harmonics(values, SKY, weights), values, SKY, weights)
        found = MasterEstimator(mode_coupling(seen), Binning.linear(2, 95, 15), spectra_names("EB"))
        leaked.append(np.abs(found.bandpowers(pseudo_spectra(seen))["BB"][:3]))
    assert np.all(100 * leaked[1] < leaked[0])


def test_pure_bandpowers_are_unbiased_and_noise_is_known():
    """The mean over skies with B and white noise, behind a patch; pulls of B and of EB."""
    n, binning = 40, Binning.linear(2, 62, 12)
    spectra = read_spectra("planck2018")[:, :65] * 1e12
    spectra[2] = 0.05 * spectra[1]
    sky, weights, sigma = SKY, patch(16, "C2", fraction=0.1), 0.5
    found, theory = [], Spectra(spectra, ("TT", "EE", "BB", "TE"))
    rng = np.random.default_rng(1)
    for realization in range(n):
        values = draw(spectra, realization, sky, 64) + sigma * rng.standard_normal((3, sky.n_pix))
        seen = purify(weighted_harmonics(values, sky, weights, l_max=64), values, sky, weights)
        if realization == 0:
            master = MasterEstimator(mode_coupling(seen), binning, AUTO)
            rows = np.zeros((6, 65))
            rows[2] = pure_noise(weights, np.full(sky.n_pix, sigma**2), sky, 64)
            rows[:2] = 4 * np.pi / sky.n_pix * np.mean(weights**2) * sigma**2
            noise = Spectra(rows, AUTO)
        found.append(master.bandpowers(pseudo_spectra(seen), noise).values)
    mean, deviation = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(n - 1)
    pulls = (mean - master.expected(theory).values) / deviation
    assert np.abs(pulls).max() < 4 and np.mean(pulls**2) < 2


def test_bits_do_not_depend_on_threads_or_order():
    weights, values = patch(16), RNG.standard_normal((2, SKY.n_pix))
    one, two = (
        purify(weighted_harmonics(values, SKY, weights, n_threads=k), values, SKY, weights, n_threads=k)
        for k in (1, 3)
    )
    assert np.array_equal(one.alm, two.alm)
    nest = Healpix(32, nest=True)
    order = nest.reordered(np.arange(SKY.n_pix))
    moved, soft = values[:, order], weights[order]
    turned = purify(weighted_harmonics(moved, nest, soft), moved, nest, soft)
    np.testing.assert_array_equal(turned.alm, one.alm)


def test_what_cannot_be_pure_is_refused():
    values, weights = np.ones((1, SKY.n_pix)), np.ones(SKY.n_pix)
    with pytest.raises(ConfigError, match="no pure B of T"):
        purify(weighted_harmonics(values, SKY, weights, l_max=8), values, SKY, weights)
    values = np.ones((2, SKY.n_pix))
    with pytest.raises(ConfigError, match="no pure E of EB"):
        purify(weighted_harmonics(values, SKY, weights, l_max=8), values, SKY, weights, "E")
