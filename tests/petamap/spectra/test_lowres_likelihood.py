"""The likelihood of a run's map: downgrade_map or as it is, with the noise that the run knows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_maps import FWHM, SKY, UP, sky, write_run

from petacomm.base.errors import ConfigError, DataError, ResourceError
from petamap.cli.main import main
from petamap.data.run_summary import Product, pixels_sha256
from petamap.simulation.random_keys import Purpose, random_stream
from petamap.simulation.sky_spectra import gaussian_alm, read_spectra, smooth_alm, synthesize
from petamap.sky.covariance_file import PixelCovariance, read_pixel_covariance, write_pixel_covariance
from petamap.sky.harmonics import analyse, in_ring_order, synthesise
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_map, write_map
from petamap.sky.power_spectra import Spectra
from petamap.spectra import lowres_likelihood as module
from petamap.spectra.lowres import _Smoothing, cosine_window, downgrade_map
from petamap.spectra.lowres_likelihood import measure_likelihood
from petamap.spectra.measure import SpectraChoices, measure_bandpowers
from petamap.spectra.run_maps import RunMaps

THEORY = Spectra(read_spectra("planck2018"), ("TT", "EE", "BB", "TE"))
SIGMA = np.where(UP > 0.5, 1.0, 2.0) * np.array([[2e-6], [1e-7]])
CHOICES = SpectraChoices(fwhm=FWHM, pixel_window=False, width=3, l_max=10)


def noisy(seed, seen=None):
    values = sky(seed) + np.random.default_rng(seed).standard_normal((3, SKY.n_pix)) * SIGMA[[0, 1, 1]]
    return values if seen is None else np.where(seen, values, np.nan)


def run_of(folder, summary, seed, seen=None):
    return RunMaps(write_run(folder, summary, noisy(seed, seen), SIGMA**2))


def test_noise_goes_the_way_of_the_map():
    """S diag S^T against S as a dense matrix, made of maps of one pixel."""
    smoothing = _Smoothing(4, 2, cosine_window(2), 1)
    rng = np.random.default_rng(1)
    variances, used = rng.random((3, 192)), rng.random(48) > 0.3
    dense = np.zeros((3, 48, 3, 192))
    for stokes in range(3):
        for pixel in range(192):
            one = np.zeros((3, 192))
            one[stokes, pixel] = 1
            rows = slice(0, 1) if stokes == 0 else slice(1, 3)
            spin = 0 if stokes == 0 else 2
            alm = analyse(one[rows], 4, 5, spin, 0) * smoothing._factors
            dense[rows, :, stokes, pixel] = synthesise(alm, 2, 5, spin)
    half = dense[:, used].reshape(3 * used.sum(), -1)
    expected = (half * variances.ravel()) @ half.T
    np.testing.assert_allclose(
        smoothing.noise(variances, used), expected, rtol=0, atol=1e-12 * expected.max()
    )


def test_what_is_kept_of_a_map(tmp_path, make_summary):
    """A sky of low multipoles comes through as it is; what is not observed does not count."""
    seen, mask = UP > -0.2, np.where(UP > 0.6, 0.0, 1.0)
    maps = run_of(tmp_path / "a", make_summary(), 0)
    alm = np.zeros((1, 45), complex)
    alm[0, [2, 12]] = 1.0, 2.0 + 1j
    low = synthesise(alm, 32, 8, 0)
    maps.sky.values[:] = 0
    maps.sky.values[0] = low[0]
    found = downgrade_map(maps, mask, 4, 0.0, False, np.zeros(576))
    np.testing.assert_allclose(found.values[0], synthesise(alm, 4, 8, 0)[0], rtol=0, atol=1e-5)
    up = Healpix(4).directions_of(np.arange(192))[:, 2]
    assert found.seen.shape == (3, 192) and np.array_equal(found.seen[0], up < 0.6)
    part = run_of(tmp_path / "b", make_summary(), 0, seen)
    found = downgrade_map(part, np.ones_like(mask), 4, 0.0, False, np.zeros(576))
    assert up[found.seen[0]].min() > -0.1 and found.seen[0][up > 0.3].mean() > 0.9


@pytest.mark.long
def test_skies_come_back_as_they_do_by_pseudo_spectra(tmp_path, make_summary):
    """Means over skies of both estimators against the input, with the errors that the likelihood gives."""
    n, exactly, pseudo = 8, [], []
    choices = replace(CHOICES, l_max=7, width=3)
    for seed in range(n):
        maps = run_of(tmp_path / str(seed), make_summary(), seed)
        one = measure_likelihood(maps, choices, THEORY, 4)
        exactly.append(one.bandpowers.values)
        two = measure_bandpowers(maps, replace(choices, weights="uniform", noise="white", l_max=10))
        pseudo.append(two.bandpowers.values[:, :2])
    pulls = (np.mean(exactly, axis=0) - one.expected(THEORY).values) / one.bandpowers.errors * np.sqrt(n)
    assert np.abs(pulls).max() < 4 and np.mean(pulls**2) < 2
    apart = (np.mean(exactly, axis=0) - np.mean(pseudo, axis=0)) / one.bandpowers.errors
    assert np.abs(apart[[0, 1, 3]]).max() < 0.45  # on the whole sky both see the same modes
    scatter = np.std(exactly, axis=0)[0] / one.bandpowers.errors[0]
    assert np.all((scatter > 0.3) & (scatter < 2))


def small_run(folder, summary, seed, covariance=None, rows=3):
    """A map of n_side 4 with correlated noise: a run of its own."""
    folder.mkdir()
    pixels, l_max = Healpix(4), 11
    words = np.stack([random_stream(Purpose.SKY, seed, 0, detector=k) for k in range(3)])
    values = synthesize(
        smooth_alm(gaussian_alm(read_spectra("planck2018"), words, l_max), l_max, 0.35), l_max, 4
    )
    n = values.size
    factor = np.linalg.cholesky(NOISE)
    values += (factor @ np.random.default_rng(seed).standard_normal(n)).reshape(3, -1)
    write_map(
        folder / "map.fits", values, pixels, names=list("IQU"), unit="K_CMB", run_id=summary.run_id,
        frame="galactic",
    )  # fmt: skip
    said = {"unit": "K_CMB", "stokes": "IQU", "sha256": pixels_sha256(values)}
    products = [Product(name="map", file="map.fits", kind="map", **said)]
    if covariance is not None:
        write_pixel_covariance(folder / "c.fits", covariance)
        said = {"unit": "K_CMB^2", "stokes": "", "sha256": pixels_sha256(covariance.values)}
        products.append(Product(name="c", file="c.fits", kind="pixel_covariance", **said))
    replace(summary, products=tuple(products), name="small").write(folder)
    return RunMaps(folder)


SCALE = np.repeat([1e-6, 1e-7, 1e-7], 192)
NEAR = np.exp(-np.abs(np.subtract.outer(np.arange(576), np.arange(576))) / 10.0)
NOISE = np.multiply.outer(SCALE, SCALE) * (NEAR + 0.1 * np.eye(576))
COVARIANCE = PixelCovariance(NOISE, np.arange(192), 4, "IQU", "K_CMB^2")
SMALL = SpectraChoices(fwhm=0.35, pixel_window=False, width=3, l_max=10)


def test_correlated_noise_of_the_map_maker(tmp_path, make_summary):
    n, values = 12, []
    for seed in range(n):
        maps = small_run(tmp_path / str(seed), make_summary(), seed, COVARIANCE)
        found = measure_likelihood(maps, SMALL, THEORY)
        values.append(found.bandpowers.values)
    pulls = (np.mean(values, axis=0) - found.expected(THEORY).values) / found.bandpowers.errors * np.sqrt(n)
    assert np.abs(pulls).max() < 4.2 and np.mean(pulls**2) < 2
    assert not any("white" in note for note in found.notes)
    other = replace(COVARIANCE, n_side=8)
    with pytest.raises(DataError, match="of IQU of n_side 8"):
        measure_likelihood(small_run(tmp_path / "other", make_summary(), 0, other), SMALL, THEORY)
    with pytest.raises(DataError, match="no covariance"):
        measure_likelihood(small_run(tmp_path / "none", make_summary(), 0), SMALL, THEORY)


def test_what_does_not_fit_is_refused(tmp_path, make_summary, monkeypatch, capsys):
    maps = run_of(tmp_path / "run", make_summary(), 0)
    for changes, n_side, word in (
        ({}, 64, "n_side 64, of a map of 32"),
        ({}, 6, "smaller power of 2"),
        ({}, 0, "n_side 0, of a map of 32"),
        ({"l_max": 12}, 4, "at most 11"),
        ({"l_min": 8, "l_max": 10, "width": 4}, 4, "no bin of 4 multipoles fits from 8 to 10"),
    ):
        with pytest.raises(ConfigError, match=word):
            measure_likelihood(maps, replace(CHOICES, **changes), THEORY, n_side)
    told = []
    monkeypatch.setattr(module, "available_bytes", lambda: 10**7)
    with pytest.raises(ResourceError, match=r"2304 data needs .* GB"):
        measure_likelihood(maps, CHOICES, THEORY, 8, report=told.append)
    assert not told
    assert main(["spectra", str(maps.folder), "--likelihood", "max"]) == 2
    assert "did you mean 'maximum'" in capsys.readouterr().err
    for words, word in (
        ([str(maps.folder), "--likelihood"], "a second run is of no use with --likelihood"),
        (["--likelihood", "--noise", "white"], "--noise is of no use with --likelihood"),
        (["--likelihood", "--apodize", "5 deg"], "--apodize is of no use"),
        (["--likelihood", "--of", "90,150"], "--of 90,150: --likelihood is of one map"),
        (["--n-side", "4"], "--n-side is of no use without --likelihood"),
        (["--tensors", "none.txt"], "--tensors is of no use without --fit r"),
    ):
        assert main(["spectra", str(maps.folder), *words]) == 2
        assert word in capsys.readouterr().err


def test_a_mask_that_leaves_no_pixel_is_an_error(tmp_path, make_summary):
    maps = run_of(tmp_path / "run", make_summary(), 0)
    one_pixel = np.zeros((1, maps.pixelization.n_pix))
    for kept, word in (
        (0.0, r"mask\.fits: the mask leaves no pixel"),
        (1.0, "no pixel is left"),
    ):
        one_pixel[0, 5] = kept
        path = tmp_path / "mask.fits"
        write_map(
            path, one_pixel, maps.pixelization, names=["MASK"], unit="", run_id="m", frame=maps.sky.frame
        )
        with pytest.raises(DataError, match=word):
            measure_likelihood(maps, replace(CHOICES, mask=path), THEORY, 4)


def test_the_command(tmp_path, make_summary, capsys):
    folder = write_run(tmp_path / "run", make_summary(), noisy(1), SIGMA**2)
    words = [
        "--fwhm",
        "3 deg",
        "--no-pixel-window",
        "--n-side",
        "4",
        "--l-max",
        "9",
        "--against",
        "planck2018",
    ]
    assert main(["spectra", str(folder), "--likelihood", "maximum", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("likelihood of 576 data and 420 modes: ") and " a step" in lines[0]
    assert lines[1] == "D_l in uK^2; f_sky 1.000 of T, 1.000 of E, B" and lines[3].split()[0] == "2-5"
    assert any(line.startswith("EE against the theory") for line in lines)
    assert lines[-1].endswith("made_spectra.fits")
    assert main(["spectra", str(folder), "--likelihood", *words, "-q"]) == 0
    assert capsys.readouterr().out.splitlines() == [lines[-1]]


LOW = """
[run]
name = "low"
[map]
n_side = 4
[noise]
n_lag = 128
[solver]
tolerance = 1e-5
[resources]
threads = 1
[products]
pixel_covariance = true
report = false
[[source]]
kind = "satellite"
focalplane = "planck-lfi"
detectors = ["LFI18", "LFI19", "LFI20", "LFI21", "LFI22", "LFI23"]
duration = "2 h"
year = "2 h"
sample_rate = "1 Hz"
opening = "85 deg"
precession_angle = "7.5 deg"
precession_period = "1 h"
[[source]]
kind = "sky-spectra"
n_side = 4
fwhm = "40 deg"
[[source]]
kind = "noise"
"""


@pytest.mark.long
def test_from_time_streams_to_the_likelihood(tmp_path, capsys, monkeypatch):
    """The map-maker's covariance is that of its noise, and the command takes it."""
    monkeypatch.chdir(tmp_path)
    Path("low.toml").write_text(LOW)
    alone = ["source.1.scale=0", "products.pixel_covariance=false"]
    assert main(["run", "low.toml", "--out", "noise", *alone]) == 0
    assert main(["run", "low.toml", "--out", "both"]) == 0
    noise = read_map(Path("noise/low_map.fits"))
    covariance = read_pixel_covariance(Path("both/low_pixel_covariance.fits"))
    assert len(covariance.pixels) == 192
    values = in_ring_order(noise.values, noise.pixelization)[:, covariance.pixels].ravel()
    directions = Healpix(4).directions_of(covariance.pixels)
    templates = np.zeros((576, 4))
    templates[:192] = np.column_stack((np.ones(192), directions))
    # less monopole and dipole, which bands of lags do not know and the likelihood does not use
    inverse = np.linalg.inv(covariance.values)
    rows = templates.T @ inverse
    chi_squared = values @ inverse @ values - rows @ values @ np.linalg.solve(rows @ templates, rows @ values)
    assert abs(chi_squared - 572) < 4 * np.sqrt(2 * 572)
    capsys.readouterr()
    words = [
        "--likelihood",
        "--fwhm",
        "40 deg",
        "--no-pixel-window",
        "--l-max",
        "9",
        "--against",
        "planck2018",
    ]
    assert main(["spectra", "both", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("likelihood of 576 data and 420 modes: ") and "less than a second" in lines[0]
    probabilities = [float(line.split()[-1]) for line in lines if "against the theory" in line]
    assert len(probabilities) == 6 and min(probabilities) > 0.001
    assert not any("white" in line for line in lines)
