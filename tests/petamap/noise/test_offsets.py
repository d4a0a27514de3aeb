"""Autoregressive processes against dense inverses; offsets of noise against means of its samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from petamap.noise.autoregressive import AutoregressiveProcess
from petamap.noise.model import InverseLags, OneOverF, TabulatedPsd
from petamap.noise.offsets import offsets_process
from petamap.noise.psd import noise_psd


def covariance_of(model, rate, n):
    """Return the lags of the noise less its white part, from a fine grid of its spectrum."""
    grid = 1 << 18
    spectrum = noise_psd(model, np.arange(grid // 2 + 1) / grid * rate) * rate / 2
    return np.fft.irfft(spectrum - 2 * model.net**2 * rate / 2)[:n]


@given(st.integers(0, 6), st.integers(1, 20), st.integers(0, 5))
def test_its_inverse_covariance_is_exact_at_the_ends_too(order, more, seed):
    spectrum = np.random.default_rng(seed).uniform(0.1, 10.0, 33)
    lags = np.fft.irfft(spectrum)[: order + 1]
    process, n = AutoregressiveProcess.of_covariance(lags), order + more
    inverse = process.inverse_covariance(n).toarray()
    covariance = np.linalg.inv(inverse)
    # it is stationary, and has the lags that it was made of
    expected = toeplitz(covariance[0])
    np.testing.assert_allclose(covariance, expected, rtol=0, atol=1e-9 * lags[0])
    np.testing.assert_allclose(covariance[0, : order + 1], lags[:n], rtol=0, atol=1e-9 * lags[0])
    values = np.random.default_rng(seed).normal(size=(n, 2, 3))
    weighed = np.tensordot(inverse, values, axes=1)
    np.testing.assert_allclose(process.weigh(values), weighed, rtol=0, atol=1e-11 * process.norm)
    assert np.abs(inverse).sum(axis=1).max() <= process.norm
    alone = process.weigh(values[:, :1, 1:2])
    assert alone.tobytes() == np.ascontiguousarray(process.weigh(values)[:, :1, 1:2]).tobytes()


@pytest.mark.parametrize("length", [1, 2, 7, 64, 100])
@pytest.mark.parametrize("alpha", [-1.0, -2.5])
def test_offsets_are_means_of_noise(length, alpha):
    model, rate = OneOverF(net=0.2, fknee=0.5, fmin=0.05, alpha=alpha), 10.0
    process = offsets_process(model, rate, length, 20, 128)
    lags = covariance_of(model, rate, 12 * length)
    triangle = np.convolve(np.ones(length), np.ones(length)) / length**2
    places = np.arange(-length + 1, length)
    expected = [np.sum(triangle * lags[np.abs(places + k * length)]) for k in range(10)]
    covariance = np.linalg.inv(process.inverse_covariance(20).toarray())[0]
    # and a ten-thousandth of the white noise of a cell at the highest frequencies
    tolerance = 1e-3 * expected[0] + 1e-4 * model.net**2 * rate / length
    np.testing.assert_allclose(covariance[:10], expected, rtol=0, atol=tolerance)


def test_tables_and_lags_have_the_same_offsets_as_models():
    model, rate = OneOverF(net=0.2, fknee=0.5, fmin=0.05, alpha=-3.0), 10.0
    frequencies = np.geomspace(1e-3, 5.0, 2000)
    table = TabulatedPsd(frequencies, noise_psd(model, frequencies))
    one = offsets_process(model, rate, 20, 30, 16)
    two = offsets_process(table, rate, 20, 30, 16)
    covariances = [np.linalg.inv(each.inverse_covariance(30).toarray())[0] for each in (one, two)]
    np.testing.assert_allclose(covariances[1], covariances[0], rtol=0, atol=1e-2 * covariances[0][0])
    white = offsets_process(InverseLags(np.array([2.0])), rate, 20, 30, 16)
    np.testing.assert_allclose(white.power, 1e-4 / (2.0 * 20), rtol=1e-6)
