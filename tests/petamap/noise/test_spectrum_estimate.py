"""Tests of noise estimation: simulated noise is recovered."""

import numpy as np
import pytest

from petacomm.base.errors import DataError
from petamap.noise.model import EstimatedPsd, OneOverF
from petamap.noise.psd import noise_psd
from petamap.noise.spectrum_estimate import continue_psd, estimate_psd, fit_one_over_f


def stream(model, n, rate, seed):
    rng = np.random.default_rng(seed)
    amplitude = np.sqrt(noise_psd(model, np.fft.rfftfreq(n, 1 / rate)) * rate / 2)
    return np.fft.irfft(np.fft.rfft(rng.standard_normal(n)) * amplitude, n)


MODEL = OneOverF(net=3e-4, fknee=0.4, fmin=1e-3, alpha=-1.3)


@pytest.mark.parametrize("bad_fraction", [0.0, 0.02])
def test_input_model_is_recovered(bad_fraction):
    n, rate = 1 << 18, 20.0
    samples = stream(MODEL, n, rate, 1)
    good = np.random.default_rng(2).random(n) >= bad_fraction
    samples[~good] = np.nan
    samples[~good] = 1e9
    table = estimate_psd(samples, good, rate, longest=1 << 14)
    upper = table.frequencies > 0.05
    ratio = table.values[upper] / noise_psd(MODEL, table.frequencies[upper])
    assert np.all(np.abs(ratio - 1) < 0.25) and abs(ratio.mean() - 1) < 0.04
    fit = fit_one_over_f(table)
    assert fit.net == pytest.approx(MODEL.net, rel=0.03)
    assert fit.fknee == pytest.approx(MODEL.fknee, rel=0.12)
    assert fit.alpha == pytest.approx(MODEL.alpha, rel=0.12)


def test_fit_of_white_noise():
    fit = fit_one_over_f(estimate_psd(stream(OneOverF(1.0), 1 << 16, 1.0, 3), np.ones(1 << 16, bool), 1.0))
    assert fit.net == pytest.approx(1.0, rel=0.02)
    assert np.all(noise_psd(fit, np.array([1e-2, 0.1])) < 2.3)


def test_segments_lie_between_many_gaps():
    """Short segments are used if no long segment has three quarters of good samples."""
    samples = np.random.default_rng(1).standard_normal(1 << 16)
    good = np.arange(1 << 16) % 500 < 300
    found = estimate_psd(np.where(good, samples, 1e6), good, 1.0)
    np.testing.assert_allclose(found.values, 2.0, rtol=0.2)


def test_invalid_samples():
    samples = np.random.default_rng(0).standard_normal(4096)
    with pytest.raises(DataError, match="too few"):
        estimate_psd(samples, np.zeros(4096, bool), 1.0, where="scan-1")
    with pytest.raises(DataError, match="too few"):
        estimate_psd(samples[:20], np.ones(20, bool), 1.0)
    with pytest.raises(DataError, match="three quarters"):
        estimate_psd(samples, np.arange(4096) % 2 == 0, 1.0)
    with pytest.raises(DataError, match="not finite"):
        estimate_psd(np.full(4096, np.nan), np.ones(4096, bool), 1.0)
    with pytest.raises(DataError, match="do not vary"):
        estimate_psd(np.ones(4096), np.ones(4096, bool), 1.0)


def test_continued_spectrum_follows_its_slope():
    steep = EstimatedPsd(np.array([1.0, 2.0, 4.0, 8.0]), np.array([8.0, 2.0, 0.5, 0.5]), np.full(4, 0.1))
    found = continue_psd(steep, 0.25)
    assert found.frequencies[0] == 0.25 and found.values[0] == pytest.approx(128.0)
    assert found.scatter[0] > 0.1
    falling = EstimatedPsd(steep.frequencies, steep.values[::-1], steep.scatter)
    assert continue_psd(falling, 0.25).values[0] <= falling.values[:3].max()
    assert continue_psd(steep, 1.0) is steep
