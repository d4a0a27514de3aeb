"""Tests of the banded inverse noise: positive, exact for autoregressive noise, near the optimum."""

import ducc0
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_toeplitz, toeplitz

from petamap.noise._noise import prediction_error
from petamap.noise.model import InverseLags, OneOverF, TabulatedPsd
from petamap.noise.psd import noise_psd
from petamap.noise.toeplitz import (
    autoregressive_lags,
    fast_length,
    inverse_lags,
    toeplitz_spectrum,
    white_lags,
)


def is_positive(lags):
    """Return whether the Toeplitz matrix of `lags` is positive definite at any size, from its spectrum."""
    values = toeplitz_spectrum(lags, 32 * len(lags))
    return values.min() > -1e-12 * values.max()


@given(st.integers(1, 2**40))
def test_fast_length_is_that_of_ducc0(n):
    assert fast_length(n) == ducc0.fft.good_size(n, True)


def test_white_noise():
    lags = inverse_lags(OneOverF(net=2.0), 25.0, 3)
    assert lags.tolist() == [0.01, 0, 0, 0]
    assert inverse_lags(OneOverF(net=2.0), 25.0, 0).tolist() == white_lags(OneOverF(2.0, 1.0), 25.0).tolist()


def test_autoregressive_noise_is_inverted_exactly():
    """AR(1) noise has the tridiagonal inverse (1 + a^2, -a) / v; a wider band adds nothing."""
    a = 0.8
    lags = autoregressive_lags(a ** np.arange(6.0) / (1 - a**2))
    np.testing.assert_allclose(lags, [1 + a**2, -a, 0, 0, 0, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", [0, 1, 2, 7, 8, 9, 23, 500])
def test_the_prediction_error_solves_the_yule_walker_equations(order):
    lag = np.arange(order + 1)
    covariance = np.exp(-lag / 30) + 0.3 * np.exp(-lag / 700) + (lag == 0)
    found = np.empty(order + 1)
    power = prediction_error(covariance, found)
    if order:
        expected = np.append(1.0, solve_toeplitz(covariance[:-1], -covariance[1:]))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    assert found[0] == 1 and power == pytest.approx(covariance @ found, rel=1e-13)


def test_wrong_shapes_of_autocovariances_are_refused():
    for covariance, found in ((np.ones(0), np.ones(0)), (np.ones(3), np.ones(2))):
        with pytest.raises(ValueError):
            prediction_error(covariance, found)


@settings(deadline=None, max_examples=25)
@given(
    st.floats(1e-4, 10),
    st.floats(-4, -0.5),
    st.floats(1e-7, 1),
    st.sampled_from([1, 7, 64, 500]),
)
def test_bands_are_positive(fknee, alpha, ratio, n_lag):
    model = OneOverF(net=1e-4, fknee=fknee, fmin=fknee * ratio, alpha=alpha)
    lags = inverse_lags(model, 20.0, n_lag)
    assert lags.shape == (n_lag + 1,)
    assert is_positive(lags)
    assert toeplitz_spectrum(lags, 4096).max() < 3 * white_lags(model, 20.0)[0]


def test_spectrum_against_the_model():
    model = OneOverF(net=1e-4, fknee=0.5, fmin=1e-3, alpha=-1.2)
    found = toeplitz_spectrum(inverse_lags(model, 10.0, 1024), 4096)
    f = np.arange(4097) / 8192 * 10.0
    inverse = 2 / (noise_psd(model, f) * 10.0)
    np.testing.assert_allclose(found[20:], inverse[20:], rtol=0.01)


def map_variance(covariance, lags, scan, n_pix):
    """Return the trace of the covariance of the weighted least-squares map without its mean."""
    pointing = np.zeros((len(scan), n_pix))
    pointing[np.arange(len(scan)), scan] = 1
    weight = toeplitz(np.concatenate((lags, np.zeros(len(scan) - len(lags)))))
    weight += toeplitz(np.concatenate(([0], weight[0, :0:-1])))  # periodic, without ends
    weighted = weight @ pointing
    solve = np.linalg.pinv(pointing.T @ weighted, rcond=1e-13)
    centre = np.eye(n_pix) - 1 / n_pix
    return np.trace(centre @ solve @ (weighted.T @ covariance @ weighted) @ solve @ centre)


@pytest.mark.parametrize(
    ("fknee", "fmin", "alpha"), [(0.02, 1e-5, -2.0), (0.1, 1e-4, -1.5), (0.02, 1e-5, -1.0)]
)
def test_loss_of_optimality(fknee, fmin, alpha):
    model, n, n_pix = OneOverF(1.0, fknee, fmin, alpha), 1024, 16
    variances = noise_psd(model, np.fft.rfftfreq(n)) / 2
    covariance = toeplitz(np.fft.irfft(variances, n))
    scan = np.rint((n_pix - 1) * 0.5 * (1 - np.cos(2 * np.pi * np.arange(n) / 97.3))).astype(int)
    best = map_variance(covariance, np.fft.irfft(1 / variances, n)[: n // 2], scan, n_pix)
    loss = map_variance(covariance, inverse_lags(model, 1.0, 128), scan, n_pix) / best - 1
    assert 0 < loss + 1e-9 < 2e-3
    white_loss = map_variance(covariance, np.ones(1), scan, n_pix) / best - 1
    assert loss < 0.3 * white_loss


def test_given_lags():
    lags = np.array([2.0, -0.9, -0.05])
    given = InverseLags(lags)
    assert inverse_lags(given, 1.0, 4).tolist() == [2.0, -0.9, -0.05, 0, 0]
    short = inverse_lags(given, 1.0, 1)
    assert is_positive(short)
    np.testing.assert_allclose(short, lags[:2], rtol=0.1)


def test_table_against_model():
    model = OneOverF(net=1e-4, fknee=0.5, fmin=1e-2, alpha=-1.0)
    f = np.geomspace(1e-4, 5, 2000)
    from_table = inverse_lags(TabulatedPsd(f, noise_psd(model, f)), 10.0, 200)
    np.testing.assert_allclose(
        from_table, inverse_lags(model, 10.0, 200), rtol=1e-4, atol=1e-3 * from_table[0]
    )
