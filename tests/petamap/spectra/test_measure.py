"""Bandpowers of the maps of runs."""

import numpy as np
import pytest
from made_maps import FWHM, N_SIDE, SKY, UP, sky, write_run
from scipy.stats import chi2

from petacomm.base.errors import ConfigError, DataError
from petamap.simulation.sky_spectra import read_spectra
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map
from petamap.sky.power_spectra import Spectra
from petamap.spectra.measure import SpectraChoices, bandpowers, make_bins, measure_bandpowers
from petamap.spectra.run_maps import RunMaps, read_mask

THEORY = Spectra(read_spectra("planck2018"), ("TT", "EE", "BB", "TE"))
CHOICES = SpectraChoices(fwhm=FWHM, pixel_window=False, width=6, apodization=np.radians(10), l_max=50)
SIGMA = np.where(UP > 0.5, 1.0, 2.0) * np.array([[3e-6], [2e-6]])


def noise(seed):
    white = np.random.default_rng(seed).standard_normal((3, SKY.n_pix))
    return white * SIGMA[[0, 1, 1]]


def cut(values):
    """What is not observed."""
    return np.where(np.abs(UP) > 0.3, values, np.nan)


@pytest.fixture(scope="module")
def made():
    return [cut(sky() + noise(seed)) for seed in (1, 2)]


@pytest.fixture
def runs(tmp_path, make_summary, made):
    return [
        RunMaps(write_run(tmp_path / f"run{i}", make_summary(), values, SIGMA**2))
        for i, values in enumerate(made)
    ]


def probability(found, name):
    place = found.bandpowers.names.index(name)
    pulls = found.bandpowers.values[place] - found.expected(THEORY)[name]
    value = np.sum((pulls / found.bandpowers.errors[place]) ** 2)
    return chi2.sf(value, len(pulls))


def test_white_noise_is_taken_off(runs):
    found = measure_bandpowers(runs[0], SpectraChoices(**{**CHOICES.__dict__, "noise": "white"}))
    for name in ("TT", "EE", "TE", "EB", "TB"):
        assert probability(found, name) > 0.005, name
    # the errors know nothing of the variance that E brings to B on a cut sky
    assert probability(found, "BB") > 1e-5
    raw = measure_bandpowers(runs[0], CHOICES)
    assert probability(raw, "BB") < 1e-20 and "noise" in raw.notes[0]
    assert found.f_sky["TT"] == pytest.approx(0.5, abs=0.15)


@pytest.mark.long
def test_pure_b(runs):
    pure = SpectraChoices(**{**CHOICES.__dict__, "noise": "white", "pure": "B"})
    found = measure_bandpowers(runs[0], pure)
    pulls = (found.bandpowers["BB"] - found.expected(THEORY)["BB"]) / found.bandpowers.errors[2]
    # the errors do not know the noise that pure B amplifies at low l: a note says up to where
    last = int(found.notes[-2].partition("l = ")[2].split(":")[0])
    pulls = pulls[found.bandpowers.binning.edges[:-1] > last]
    assert len(pulls) >= 5 and chi2.sf(np.sum(pulls**2), len(pulls)) > 0.002
    bare = SpectraChoices(**{**CHOICES.__dict__, "pure": "EB", "apodization": 0.0})
    notes = measure_bandpowers(runs[0], bare, runs[1]).notes
    assert "soft edges" in notes[0] and "amplified" in notes[1]
    wide = SpectraChoices(**{**pure.__dict__, "apodization": np.radians(22)})
    assert not any("soft edges" in note for note in measure_bandpowers(runs[0], wide).notes)


@pytest.mark.long
def test_cross_spectra_have_no_bias(runs):
    found = measure_bandpowers(runs[0], CHOICES, runs[1])
    for name in found.bandpowers.names:
        assert probability(found, name) > (1e-5 if name == "BB" else 0.002), name
    turned = measure_bandpowers(runs[1], CHOICES, runs[0])
    np.testing.assert_allclose(turned.bandpowers["ET"], found.bandpowers["TE"], rtol=1e-9)


def test_bits_do_not_depend_on_threads(runs):
    one = measure_bandpowers(runs[0], CHOICES).bandpowers
    two = measure_bandpowers(runs[0], SpectraChoices(**{**CHOICES.__dict__, "n_threads": 3})).bandpowers
    assert np.array_equal(one.values, two.values) and np.array_equal(one.windows, two.windows)


def test_monopole_and_dipole_do_not_count(tmp_path, make_summary, made, runs):
    directions = SKY.directions_of(np.arange(SKY.n_pix))
    shifted = made[0].copy()
    shifted[0] += 5e-3 + directions @ [1e-3, 2e-3, -3e-3]
    moved = RunMaps(write_run(tmp_path / "moved", make_summary(), shifted, SIGMA**2))
    # the weights of I see the sky's variance, dipole included
    choices = SpectraChoices(**{**CHOICES.__dict__, "weights": "covariance"})
    expected = measure_bandpowers(runs[0], choices).bandpowers.values
    np.testing.assert_allclose(
        measure_bandpowers(moved, choices).bandpowers.values, expected, rtol=0, atol=1e-6 * expected.max()
    )
    kept = SpectraChoices(**{**choices.__dict__, "keep_dipole": True})
    assert measure_bandpowers(moved, kept).bandpowers["TT"][0] > 2 * expected[0, 0]


def test_weights(tmp_path, make_summary, made, runs):
    seen = np.isfinite(made[0][0])
    for weights, sigma in zip(runs[0].weights("covariance"), SIGMA, strict=True):
        expected = np.where(seen, sigma.min() ** 2 / sigma**2, 0)
        np.testing.assert_allclose(weights, expected, rtol=1e-12)
    intensity, polarization = runs[0].weights("auto")
    # I is all sky, Q and U are mostly noise
    assert intensity[seen].min() > 0.9 and polarization[seen].min() < 0.7
    np.testing.assert_array_equal(runs[0].weights("uniform")[0], seen)
    with pytest.raises(ConfigError, match="no hits"):
        runs[0].weights("hits")
    hits = np.where(seen, 1.0 + (UP > 0), 0)
    other = RunMaps(write_run(tmp_path / "hits", make_summary(), made[0], hits=hits))
    np.testing.assert_array_equal(other.weights("auto")[1], hits / 2)
    noted = measure_bandpowers(other, SpectraChoices(**{**CHOICES.__dict__, "noise": "white"}))
    assert "no covariance" in noted.notes[0]


def test_i_alone_and_q_u_alone(tmp_path, make_summary, made):
    for rows, letters, names in (([0], "I", ("TT",)), ([1, 2], "QU", ("EE", "BB", "EB"))):
        run = RunMaps(write_run(tmp_path / letters, make_summary(), made[0][rows], names=letters))
        found = measure_bandpowers(run, CHOICES)
        assert found.bandpowers.names == names and np.isfinite(found.bandpowers.errors).all()


def test_masks(tmp_path):
    mask = (UP > 0).astype(float)
    mask[:10] = 0.3
    for nest in (False, True):
        pixels = Healpix(N_SIDE, nest)
        values = mask if not nest else mask[pixels.reordered(np.arange(SKY.n_pix))]
        path = tmp_path / f"mask{nest}.fits"
        write_map(path, values[None], pixels, names=["MASK"], unit="", run_id="m", frame="galactic")
        found = read_mask(path, SKY, "galactic")
        np.testing.assert_array_equal(found, np.where(mask < 0.5, 0, mask))
        np.testing.assert_array_equal(read_mask(path, SKY, None, 0.0), mask)
    with pytest.raises(DataError, match="the mask has n_side 32, the map n_side 16"):
        read_mask(path, Healpix(16), None)
    with pytest.raises(DataError, match="galactic, the map equatorial"):
        read_mask(path, SKY, "equatorial")
    write_map(path, 3 * mask[None], SKY, names=["MASK"], unit="", run_id="m", frame="galactic")
    with pytest.raises(DataError, match="no mask"):
        read_mask(path, SKY, None)


def test_what_does_not_fit_is_refused(tmp_path, runs):
    nothing = np.zeros((1, SKY.n_pix))
    write_map(tmp_path / "nothing.fits", nothing, SKY, names=["MASK"], unit="", run_id="m", frame="galactic")
    for changes, word in (
        ({"l_max": 96}, "beyond the reach"),
        ({"l_max": 5, "width": 6}, "no bin of 6"),
        ({"mask": tmp_path / "nothing.fits"}, "leaves no pixel"),
        ({"apodization": 3.0, "kind": "smooth"}, "too little sky"),
    ):
        with pytest.raises((ConfigError, DataError), match=word):
            measure_bandpowers(runs[0], SpectraChoices(**{**CHOICES.__dict__, **changes}))
    found = measure_bandpowers(runs[0], CHOICES)
    with pytest.raises(DataError, match="theory ends at l = 30"):
        found.expected(THEORY.select(("TT",), 30))


@pytest.mark.parametrize(("n_side", "width", "n"), [(4, 2, 3), (8, 5, 3), (16, 10, 3), (64, 10, 12)])
def test_default_bins_fit_maps_of_any_size(n_side, width, n):
    binning, wanted = make_bins(SpectraChoices(), n_side, 3 * n_side - 1)
    assert np.diff(binning.edges).tolist() == [width] * (len(binning.edges) - 1) and wanted == n


@pytest.mark.parametrize("given", [np.zeros(12), {"I": 1}])
def test_what_is_no_folder_is_told(given):
    with pytest.raises(ConfigError, match=r"is no folder of a run") as caught:
        bandpowers(given)
    assert "petamap.run" in caught.value.mend
