"""The choice of the band keeps its promise, against sums over frequencies and dense least squares."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from petamap.noise import band
from petamap.noise.band import LONGEST, LOSS, choose_band, measure_band, rounded_length
from petamap.noise.model import EstimatedPsd, InverseLags, OneOverF, TabulatedPsd
from petamap.noise.psd import noise_psd
from petamap.noise.spectrum_estimate import estimate_psd
from petamap.noise.toeplitz import inverse_lags

SATELLITE = OneOverF(net=300e-6, fknee=0.02, fmin=1e-4, alpha=-1.5)


def ratios(model, rate, n_samp, n_lag):
    """Return S / S_a from one period in the interval to Nyquist, each frequency by a sum of cosines."""
    lags = inverse_lags(model, rate, n_lag)
    f = np.concatenate(
        (np.geomspace(rate / n_samp, rate / 2, 400), np.linspace(rate / n_samp, rate / 2, 150))
    )
    cosines = np.cos(2 * np.pi / rate * np.outer(f, np.arange(1, n_lag + 1)))
    return noise_psd(model, f) * (rate / 2) * (lags[0] + 2 * cosines @ lags[1:])


@settings(deadline=None, max_examples=40)
@given(
    st.floats(0.01, 10),
    st.floats(-2.5, -0.5),
    st.floats(1e-4, 0.3),
    st.floats(1, 100),
    st.integers(50, 60_000),
)
def test_promise(fknee, alpha, ratio, rate, n_samp):
    """No mixture of frequencies loses more than the limit, unless no band is longer."""
    model = OneOverF(1e-4, fknee, fknee * ratio, alpha)
    found = choose_band(model, rate, n_samp)
    assert found.n_lag < max(n_samp, 2) * 9 / 8
    r = ratios(model, rate, n_samp, found.n_lag)
    loss = np.tanh(np.log(r.max() / r.min()) / 2) ** 2
    assert loss <= 1.03 * found.loss + 1e-6
    assert np.abs(r - 1).max() <= 1.02 * found.misstated + 1e-3
    assert found.loss <= LOSS or found.n_lag == LONGEST or 1.5 * found.n_lag >= 0.9 * n_samp


@pytest.mark.parametrize("n_lag", [8, 32, 128])
def test_against_dense_least_squares(n_lag):
    """Fits to noise without ends: no template does worse than what is told, and some do nearly as badly."""
    model, n = OneOverF(1.0, 0.05, 2e-3, -1.5), 1024
    told = measure_band(model, 1.0, n, n_lag)
    covariance = toeplitz(np.fft.irfft(noise_psd(model, np.fft.rfftfreq(n)) / 2, n))
    row = np.zeros(n)
    row[: n_lag + 1] = inverse_lags(model, 1.0, n_lag)
    weight = toeplitz(row + np.concatenate(([0], row[:0:-1])))
    f = np.fft.rfftfreq(n)[1:]
    spectrum = noise_psd(model, f)
    worst = spectrum * np.fft.rfft(row + np.concatenate(([0], row[:0:-1]))).real[1:]
    low, high = np.argmin(worst), np.argmax(worst)
    waves = np.cos(2 * np.pi * np.outer(f, np.arange(n)))
    rng = np.random.default_rng(n_lag)
    pairs = [
        waves[rng.integers(0, 40)] + rng.uniform(0.1, 3) * waves[rng.integers(0, 500)] for _ in range(30)
    ]
    # Kantorovich's inequality is an equality for this share of the two
    extreme = np.sqrt(spectrum[low] * worst[high]) * waves[low]
    extreme += np.sqrt(spectrum[high] * worst[low]) * waves[high]
    losses, errors = [], []
    for template in (*pairs, extreme, waves[low], waves[high]):
        claimed = 1 / (template @ weight @ template)
        variance = claimed**2 * (template @ weight @ covariance @ weight @ template)
        losses.append(1 - 1 / (template @ np.linalg.solve(covariance, template)) / variance)
        errors.append(abs(variance / claimed - 1))
    assert max(losses) <= told.loss * 1.001
    assert max(errors) <= told.misstated * 1.001
    assert max(losses) > 0.8 * told.loss
    assert max(errors) > 0.8 * told.misstated


def test_of_a_small_satellite():
    found = choose_band(SATELLITE, 2.0, 86400)
    assert found.n_lag == 8192
    assert 5e-4 < found.loss < LOSS and 0.03 < found.misstated < 0.05
    documented = measure_band(SATELLITE, 2.0, 86400, 512)
    assert documented.loss > 0.4 and documented.misstated > 5


@pytest.mark.parametrize("model", [SATELLITE, OneOverF(1.0, 1.0, 1e-3, -1.0), OneOverF(1.0, 0.5, 1e-4, -2.0)])
@pytest.mark.parametrize("n_lag", [1024, 3072, 8192])
def test_long_bands_are_judged_by_shorter_ones(model, n_lag, monkeypatch):
    quick = measure_band(model, 20.0, 70_000, n_lag)
    monkeypatch.setattr(band, "_REDUCED", 1 << 20)
    full = measure_band(model, 20.0, 70_000, n_lag)
    assert quick.loss == pytest.approx(full.loss, rel=0.02)
    assert quick.misstated == pytest.approx(full.misstated, rel=0.02)


def test_steep_noise_tells_what_arithmetic_loses(monkeypatch):
    """Noise of twelve decades: lags cannot mend it, so the band is no longer than that of what it follows."""
    steep = OneOverF(1.0, 10.0, 1e-3, -3.0)
    found = choose_band(steep, 40.0, 144_000)
    assert found.n_lag < LONGEST and found.loss > 0.5
    monkeypatch.setattr(band, "_REDUCED", 1 << 20)
    assert measure_band(steep, 40.0, 144_000, 4096).loss == pytest.approx(0.65, abs=0.02)


def test_white_and_given_lags():
    assert choose_band(OneOverF(1.0), 10.0, 1000).n_lag == 0
    lags = InverseLags(np.array([2.0, -0.9, -0.05]))
    assert choose_band(lags, 1.0, 1000) == band.Band(2)
    assert measure_band(lags, 1.0, 1000, 7).loss == 0
    assert 1e-5 < measure_band(lags, 1.0, 1000, 1).loss < 0.1


def test_tables_are_judged_from_their_lowest_frequency_on():
    f = np.geomspace(0.01, 1.0, 50)
    table = TabulatedPsd(f, noise_psd(OneOverF(1.0, 0.1, 1e-4, -1.0), f))
    assert choose_band(table, 2.0, 1 << 20).n_lag == choose_band(table, 2.0, 400).n_lag < 400


def test_estimates_are_followed_within_their_scatter():
    """The scatter is that of estimates, and a band does not follow it."""
    rng = np.random.default_rng(5)
    n, good = 1 << 13, np.ones(1 << 13, bool)
    found = [estimate_psd(rng.standard_normal(n), good, 1.0) for _ in range(300)]
    scatter = np.std([one.values for one in found], axis=0) / 2
    np.testing.assert_allclose(scatter, found[0].scatter, rtol=0.2)
    estimate = found[0]
    declared = TabulatedPsd(estimate.frequencies, estimate.values)
    lags = choose_band(estimate, 1.0, n).n_lag, choose_band(declared, 1.0, n).n_lag
    assert lags[0] < lags[1]
    known = EstimatedPsd(estimate.frequencies, estimate.values, 0 * estimate.scatter)
    assert choose_band(known, 1.0, n).n_lag == lags[1]


@given(st.integers(1, 1 << 40))
def test_rounded_lengths(n_samp):
    assert n_samp <= rounded_length(n_samp) <= n_samp * 9 / 8
    assert rounded_length(rounded_length(n_samp)) == rounded_length(n_samp)


def test_equal_models_are_judged_once():
    model = OneOverF(1.0, 0.123, 1e-3, -1.1)
    before = band._choose_smooth.cache_info().misses
    assert len({choose_band(model, 10.0, 3600 + i) for i in range(100)}) == 1
    assert band._choose_smooth.cache_info().misses == before + 1
