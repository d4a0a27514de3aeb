"""Noise as baselines and white noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petamap.noise.baselines import fit_baselines
from petamap.noise.model import OneOverF
from petamap.noise.toeplitz import inverse_lags, toeplitz_spectrum

RATE = 20.0


def _lags(fknee, alpha=-2.5, fmin=5e-3, n_lag=1024):
    return inverse_lags(OneOverF(net=3e-4, fknee=fknee, fmin=fmin, alpha=alpha), RATE, n_lag)


def _model_spectrum(noise, frequencies):
    """Return W^-1 + F C F^T at frequencies in cycles per sample that baselines hold."""
    inverse = np.array([noise.inverse_prior @ _cosines(f * noise.step) for f in frequencies])
    hat = np.sinc(frequencies * noise.step) ** 2  # the transform of a hat over its step
    return 1 / noise.weight + noise.step * hat**2 / inverse


def _cosines(phase):
    lags = np.arange(9)
    return np.where(lags > 0, 2, 1) * np.cos(2 * np.pi * phase * lags)


@pytest.mark.parametrize(("fknee", "steps"), [(1.5, (8, 16)), (0.05, (128, 512)), (6.0, (4, 4))])
def test_the_step_follows_the_knee(fknee, steps):
    assert steps[0] <= fit_baselines(_lags(fknee)).step <= steps[1]


@settings(max_examples=25, deadline=None)
@given(fknee=st.floats(0.02, 2.0), alpha=st.floats(-3.0, -0.7), fmin=st.floats(1e-3, 1e-2))
def test_the_model_is_near_the_noise_at_all_frequencies_that_baselines_hold(fknee, alpha, fmin):
    lags = _lags(fknee, alpha, fmin)
    noise = fit_baselines(lags)
    frequencies = np.geomspace(1e-4, 0.25 / noise.step, 40)
    truth = 1 / np.interp(frequencies, np.linspace(0, 0.5, 1 << 16), toeplitz_spectrum(lags, (1 << 16) - 1))
    ratio = _model_spectrum(noise, frequencies) / truth
    assert ratio.min() > 0.2 and ratio.max() < 5


def test_white_noise_has_next_to_no_baselines():
    noise = fit_baselines(np.array([4.0] + [0.0] * 64))
    assert noise.weight == pytest.approx(4.0)
    assert noise.step == 4096
    ratio = _model_spectrum(noise, np.geomspace(1e-6, 1e-5, 5)) * 4.0
    assert np.all(ratio < 1.01)
