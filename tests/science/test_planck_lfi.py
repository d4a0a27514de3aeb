"""The planck-lfi example, made smaller: what comes back, under which noise, and how much of it stays."""

from __future__ import annotations

import re
from pathlib import Path

import healpy
import numpy as np
import pytest
from science_runs import PLANCK, configured, maps, planck_sky
from scipy import stats

from petamap import examples

RIMO = Path(__file__).parents[2] / "../shared/data/planck_lfi_wmap/LFI_RIMO_R4.00.fits"


def white_lfi(folder):
    """Write the focal plane of LFI with white noise alone, and return where."""
    text = (Path(examples.__file__).parent / "planck_lfi.toml").read_text()
    path = folder / "white.toml"
    path.write_text(re.sub(r"^(fknee|fmin) = .*\n", "", text, flags=re.MULTILINE))
    return f"source.0.focalplane={path}"


def chi_squared(residual, covariance):
    """Return sum r^T C^-1 r over the pixels that have values, and the number of values."""
    good = np.isfinite(residual).all(axis=0)
    matrices = np.empty((good.sum(), 3, 3))
    for column, (i, j) in zip(
        covariance[:, good], ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)), strict=True
    ):
        matrices[:, i, j] = matrices[:, j, i] = column
    r = residual[:, good].T[:, :, None]
    return float((r * np.linalg.solve(matrices, r)).sum()), r.size


def test_a_noiseless_sky_comes_back(tmp_path):
    config = configured("planck-lfi", *PLANCK, "solver.tolerance=1e-11", without=("noise",))
    found = maps(config, tmp_path)["map"].values
    sky = planck_sky(config, 32)
    good = np.isfinite(found).all(axis=0)
    assert good.mean() > 0.99
    for mine, true in zip(found[:, good], sky[:, good], strict=True):
        assert np.sqrt(np.mean((mine - true) ** 2)) < 1e-8 * true.std()
        assert np.abs(mine - true).max() < 1e-7 * true.std()


def test_white_noise_is_as_large_as_the_covariance_says(tmp_path):
    # 196,608 pixels: the chi-squared of 589,824 numbers scatters by 0.18 percent
    config = configured("planck-lfi", *PLANCK, white_lfi(tmp_path), "map.n_side=128", "noise.kernel=white")
    found = maps(config, tmp_path / "out")
    residual = found["map"].values - planck_sky(config, 128)
    chi2, n = chi_squared(residual, found["covariance"].values)
    assert n > 560_000
    assert abs(chi2 / n - 1) < 0.01
    shuffled = residual[[0, 2, 1]]  # the test can fail: Q and U are not alike in each pixel
    assert chi_squared(shuffled, found["covariance"].values)[0] / n > 1.01


def test_white_noise_averages_out(tmp_path):
    """The mean of realizations has a chi-squared between the 0.1 and 99.9 percentiles."""
    count = 4
    changes = (*PLANCK, white_lfi(tmp_path), "noise.kernel=white", "source.2.fixed=true")
    mean, covariance = 0.0, None
    for number in range(count):
        config = configured("planck-lfi", *changes, f"run.realization={number}")
        found = maps(config, tmp_path / str(number))
        sky = planck_sky(configured("planck-lfi", *changes), 32)
        mean = mean + (found["map"].values - sky) / count
        covariance = found["covariance"].values / count
    chi2, n = chi_squared(mean, covariance)
    assert 0.001 < stats.chi2.cdf(chi2, n) < 0.999


@pytest.fixture(scope="module")
def residuals(tmp_path_factory):
    """Maximum-likelihood and binned maps minus the sky, and the sky, of realizations with measured noise."""
    found = []
    for number in range(4):
        config = configured("planck-lfi", *PLANCK, f"run.realization={number}")
        out = maps(config, tmp_path_factory.mktemp("realization"))
        sky = planck_sky(config, 32)
        found.append((out["map"].values - sky, out["binned"].values - sky, sky))
    return found


def power(residual):
    """Return the power below l = 30 in T, E and B; unobserved pixels count as nothing."""
    clean = np.nan_to_num(residual)
    clean[0] -= clean[0].mean()  # no detector knows the mean temperature
    ring = [healpy.reorder(component, n2r=True) for component in clean]
    spectra = healpy.anafast(ring, lmax=29, iter=1)[:3]
    return spectra[:, 2:] @ (2 * np.arange(2, 30) + 1)


def test_large_scales_are_cleaner_than_in_the_binned_map(residuals):
    for best, binned, _ in residuals:
        assert np.all(power(binned) > 3 * power(best))


def test_measured_noise_leaves_no_bias(residuals):
    """The gain of the sky's modes departs from one by no more than Student's t allows, p > 0.001 in all.

    What is asked is the regression of each residual on the sky, in T, Q and U and in three bands of
    multipoles: a map-maker that takes away signal with the noise makes it negative, as filtering does.
    """
    gains = np.array([regression(best, sky) for best, _, sky in residuals])
    spread = gains.std(axis=0, ddof=1) / np.sqrt(len(gains))
    p = 2 * stats.t.sf(np.abs(gains.mean(axis=0) / spread), len(gains) - 1)
    assert p.min() > 0.001 / p.size
    assert spread[:3].max() < 0.01  # in T it would see that a percent is missing


def regression(residual, sky):
    """Return the gain of the residual on the sky in T, Q, U, each in bands l < 8, 16, 48."""
    seen = [
        [healpy.reorder(np.nan_to_num(part), n2r=True) for part in parts]
        for parts in (residual - np.nanmean(residual, axis=1)[:, None], sky)
    ]
    gains = []
    for noise, signal in zip(*seen, strict=True):
        last = np.zeros_like(signal)
        for l_max in (7, 15, 47):
            smooth = healpy.smoothing(signal, beam_window=(np.arange(96) <= l_max).astype(float), lmax=95)
            band = smooth - last
            last = smooth
            gains.append(noise @ band / (band @ band))
    return gains


def test_the_instrument_model_of_planck_itself(tmp_path):
    if not RIMO.is_file():
        pytest.skip("the reduced instrument model is not here")
    changes = (*PLANCK, "source.0.duration=6 h", "solver.tolerance=1e-11")
    ours = maps(configured("planck-lfi", *changes, without=("noise",)), tmp_path / "ours")
    config = configured("planck-lfi", *changes, f"source.0.focalplane={RIMO}", without=("noise",))
    found = maps(config, tmp_path / "rimo")
    hits, expected = (np.nan_to_num(products["hits"].values) for products in (found, ours))
    assert np.mean(hits != expected) < 1e-3
    good = np.isfinite(found["map"].values).all(axis=0)
    assert good.sum() > 3000
    error = (found["map"].values - planck_sky(config, 32))[:, good]
    assert np.sqrt(np.mean(error**2)) < 1e-8 * planck_sky(config, 32)[0].std()
