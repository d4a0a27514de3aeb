"""Bandpowers: exact where the mean is known, and unbiased over Gaussian skies."""

import numpy as np
import pytest
from coupled_spectra import coupled
from scipy.stats import chi2

from petacomm.base.errors import ConfigError, DataError
from petamap.simulation.random_keys import Purpose, random_stream
from petamap.simulation.sky_spectra import gaussian_alm, read_spectra, synthesize
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.spectra.beams import gaussian_beam, map_window, window_products
from petamap.spectra.coupling import WINDOWS, coupling_of_windows, mode_coupling
from petamap.spectra.cross_spectra import pseudo_spectra, spectra_names
from petamap.spectra.gaussian_errors import knox_errors, modes_per_bin
from petamap.spectra.masks import apodize, effective_fraction, sky_fraction
from petamap.spectra.master import MasterEstimator
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.transforms import weighted_harmonics

AUTO, CROSS = spectra_names("TEB"), spectra_names("TEB", "TEB")
RNG = np.random.default_rng(8)


def some_coupling(l_max=40):
    windows = {kind: RNG.random(12) / (1 + np.arange(12)) ** 2 for kind in WINDOWS}
    windows["TT"][0] = windows["TP"][0] = windows["PT"][0] = windows["PP"][0] = 4.0
    return coupling_of_windows(windows, l_max)


def draw(spectra, realization, n_side, l_max):
    words = np.stack([random_stream(Purpose.SKY, 5, realization, detector=k) for k in range(3)])
    return synthesize(gaussian_alm(spectra, words, l_max), l_max, n_side)


@pytest.mark.parametrize("names", [AUTO, CROSS, ("TT",), ("EE", "BB", "EB"), ("TE", "TB")])
@pytest.mark.parametrize("of_d", [True, False])
def test_skies_flat_in_the_bins_come_back(names, of_d):
    coupling, binning = some_coupling(), Binning(np.array([2, 9, 20, 41]), of_d)
    transfer = {name: np.exp(-0.01 * np.arange(41)) * (1 + i) for i, name in enumerate(names)}
    master = MasterEstimator(coupling, binning, names, transfer)
    powers = RNG.standard_normal((len(names), 3))
    true = Spectra(binning.unbinned(powers), names)
    noise = Spectra(RNG.standard_normal((len(names), 41)), names)
    pseudo = coupled(coupling, true, transfer)
    found = master.bandpowers(Spectra(pseudo.values + noise.values, names), noise)
    np.testing.assert_allclose(found.values, powers, rtol=0, atol=1e-11)
    np.testing.assert_allclose(master.expected(true).values, powers, rtol=0, atol=1e-11)


def test_windows_tell_the_mean_of_any_sky():
    coupling, binning = some_coupling(), Binning.linear(2, 40, 5)
    master = MasterEstimator(coupling, binning, AUTO)
    true = Spectra(RNG.standard_normal((6, 41)), AUTO)
    found = master.bandpowers(coupled(coupling, true))
    np.testing.assert_allclose(found.values, master.expected(true).values, rtol=1e-9, atol=1e-11)
    assert np.array_equal(found.windows, master.windows)
    # a bandpower of D_l sees a flat D_l as it is, wherever it lies
    np.testing.assert_allclose(
        master.windows[0, :, 0] @ binning.unbinned(np.ones(binning.n), 40), np.ones(binning.n), rtol=1e-11
    )


def test_the_whole_sky_is_binning_alone():
    coupling = coupling_of_windows({kind: np.array([4 * np.pi]) for kind in WINDOWS}, 30)
    binning = Binning.linear(2, 30, 1)
    pseudo = Spectra(RNG.standard_normal((6, 31)), AUTO)
    found = MasterEstimator(coupling, binning, AUTO).bandpowers(pseudo)
    np.testing.assert_allclose(found.values, binning.binned(pseudo.values), rtol=1e-12)


def test_the_limit_of_f_sky():
    """Far above the width of a mask's window, Cp_l = f_sky w_2 C_l where C_l is smooth."""
    sky = Healpix(32)
    z = sky.directions_of(np.arange(sky.n_pix))[:, 2]
    mask = apodize((np.abs(z) > 0.3).astype(float), sky, np.radians(20))
    coupling = mode_coupling(weighted_harmonics(np.tile(mask, (3, 1)), sky, mask, l_max=95))
    true = Spectra(np.ones((6, 96)) * (2.0 + np.arange(96)) ** -0.5, AUTO)
    true.values[2] = 0
    seen, flat = coupled(coupling, true), sky_fraction(mask, 2) * true.values
    np.testing.assert_allclose(seen["TT"][20:70], flat[0, 20:70], rtol=0.01)
    np.testing.assert_allclose(seen["EE"][20:70], flat[1, 20:70], rtol=0.03)
    assert seen["BB"][20:70].max() < 0.03 * flat[1, 20:70].max()


def test_unbiased_on_a_cut_sky():
    """200 Gaussian skies behind a cut and a beam: all bins of all six spectra, chi-squared and pulls."""
    n_side, l_max, n = 16, 40, 200
    sky, spectra = Healpix(n_side), read_spectra("planck2018")[:, : l_max + 1] * 1e12
    spectra[2] = 0.3 * spectra[1]
    z = sky.directions_of(np.arange(sky.n_pix))[:, 2]
    mask = apodize((np.abs(z) > 0.25).astype(float), sky, np.radians(12))
    beam = gaussian_beam(np.radians(5), l_max)
    seen = spectra * np.stack((beam["T"] ** 2, beam["P"] ** 2, beam["P"] ** 2, beam["T"] * beam["P"]))
    binning = Binning.linear(2, 37, 6)
    found = []
    for realization in range(n):
        h = weighted_harmonics(draw(seen, realization, n_side, l_max), sky, mask, l_max=l_max)
        if realization == 0:
            master = MasterEstimator(mode_coupling(h), binning, AUTO, window_products(AUTO, beam))
        found.append(master.bandpowers(pseudo_spectra(h)).values)
    found = np.array(found)
    expected = master.expected(Spectra(spectra, ("TT", "EE", "BB", "TE"))).values
    deviation = (found.mean(axis=0) - expected).ravel()
    covariance = np.cov(found.reshape(n, -1).T)
    # Hotelling's correction of the inverse of a covariance from n draws
    p = len(deviation)
    value = (n - p - 2) / (n - 1) * deviation @ np.linalg.solve(covariance / n, deviation)
    assert chi2.sf(value, p) > 0.001 and np.abs(deviation / np.sqrt(covariance.diagonal() / n)).max() < 3.7
    theory = master.expected(Spectra(spectra, ("TT", "EE", "BB", "TE")))
    knox = knox_errors(theory, theory, theory, dict.fromkeys(("TT", "TP", "PP"), effective_fraction(mask)))
    ratio = found.std(axis=0)[:, 1:] / knox[:, 1:]
    assert ratio[0].mean() == pytest.approx(1, abs=0.3) and ratio[3].mean() == pytest.approx(1, abs=0.3)


def test_modes_and_bins():
    binning = Binning.linear(2, 20, 4)
    assert binning.ranges == [(2, 5), (6, 9), (10, 13), (14, 17)] and binning.l_max == 17
    np.testing.assert_array_equal(modes_per_bin(binning, 0.5), [16, 32, 48, 64])
    np.testing.assert_array_equal(binning.middle, [3.5, 7.5, 11.5, 15.5])
    powers = RNG.standard_normal((2, 4))
    np.testing.assert_allclose(binning.binned(binning.unbinned(powers, 25)), powers, rtol=1e-12)


def test_windows_of_maps():
    window = map_window(16, np.radians(3), 40)
    beam = gaussian_beam(np.radians(3), 40)
    assert np.all(window["T"][1:] < beam["T"][1:]) and np.all(map_window(None, 0.0, 5)["T"] == 1)
    product = window_products(("TT", "ET"), window, beam)
    np.testing.assert_array_equal(product["ET"], window["P"] * beam["T"])


def test_what_does_not_fit_is_refused():
    coupling = some_coupling()
    with pytest.raises(ConfigError, match="bins reach to l = 41"):
        MasterEstimator(coupling, Binning.linear(2, 41, 1), AUTO)
    with pytest.raises(ConfigError, match="no transfer of TT"):
        MasterEstimator(coupling, Binning.linear(2, 40, 5), AUTO, {"TT": np.ones(40)})
    for edges, of_d in (((0, 5), True), ((5, 5), True), ((5,), True), ((-1, 4), False)):
        with pytest.raises(ConfigError):
            Binning(np.array(edges), of_d)
    with pytest.raises(ConfigError):
        Binning.linear(2, 40, 0)
    master = MasterEstimator(coupling, Binning.linear(2, 40, 5), AUTO)
    with pytest.raises(DataError, match="pseudo-spectra end at 20"):
        master.bandpowers(Spectra(np.ones((6, 21)), AUTO))
    with pytest.raises(DataError, match="noise ends"):
        master.bandpowers(Spectra(np.ones((6, 41)), AUTO), Spectra(np.ones((6, 30)), AUTO))
    nothing = coupling_of_windows({kind: np.zeros(3) for kind in WINDOWS}, 40)
    with pytest.raises(DataError, match="too little sky"):
        MasterEstimator(nothing, Binning.linear(2, 40, 5), AUTO).bandpowers(Spectra(np.ones((6, 41)), AUTO))
    with pytest.raises(DataError, match="no TT bandpowers"):
        _ = MasterEstimator(coupling, Binning.linear(2, 40, 5), ("EE",)).bandpowers(
            Spectra(np.ones((1, 41)), ("EE",))
        )["TT"]


def test_bins_that_are_too_narrow_are_told():
    sky = Healpix(32)
    z = sky.directions_of(np.arange(sky.n_pix))[:, 2]
    mask = apodize((z > np.cos(np.radians(10))).astype(float), sky, np.radians(4))
    coupling = mode_coupling(weighted_harmonics(np.zeros((3, sky.n_pix)), sky, mask, l_max=95))
    narrow, wide = (MasterEstimator(coupling, Binning.linear(2, 91, width), AUTO) for width in (6, 30))
    assert wide.narrow_bins(3) is None
    told = narrow.narrow_bins(15)
    assert told is not None and told.startswith("15 of 15 bins of TE, from l = 2 to 91, are too narrow")
    # so much do errors grow: of a sky without noise, in bins that cannot be told apart
    one = np.eye(96)[None, 50] * np.ones((1, 6, 1))
    assert np.abs(narrow.decoupled(one)).max() > 100 * np.abs(wide.decoupled(one)).max()
