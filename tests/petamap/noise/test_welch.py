"""Tests of Welch's method: the response of the window, gaps, smoothing."""

import numpy as np
import pytest
from scipy.linalg import toeplitz

from petamap.noise.model import OneOverF
from petamap.noise.psd import noise_psd
from petamap.noise.welch import fill_gaps, smooth_power, welch_segments

RATE = 10.0


def expected_power(segments, model):
    """Return the mean power in the bins for noise of a model: w^T C w with the covariance of a segment."""
    n, wide = segments.length, 1 << 18
    frequencies = np.arange(wide // 2 + 1) * RATE / wide
    covariance = np.fft.irfft(noise_psd(model, frequencies) * RATE / 2)[:n]
    window = np.hanning(n + 1)[:-1]
    times = np.stack([np.ones(n), np.arange(n)], axis=1)
    keep = np.eye(n) - times @ np.linalg.pinv(times)
    waves = window * np.exp(-2j * np.pi / n * np.outer(np.arange(4, n // 2), np.arange(n))) @ keep
    power = np.einsum("ki,ij,kj->k", waves, toeplitz(covariance), waves.conj(), optimize=True).real
    return segments._binned(power * 2 / RATE / np.sum(window**2))


@pytest.mark.parametrize("alpha", [-1.0, -1.5, -2.0])
def test_window_response_is_that_of_the_covariance(alpha):
    """To 0.3 % in a power law; a knee within the octaves that slopes are fitted in costs some percent."""
    segments = welch_segments(np.ones(1024, bool), RATE, 512)
    for fknee, error in ((3.0, 0.003), (0.3, 0.045)):
        model = OneOverF(1.0, fknee, 1e-3, alpha)
        truth = noise_psd(model, segments.frequencies)
        expected = expected_power(segments, model) / truth
        assert expected[0] > 1.02  # there is something to correct
        np.testing.assert_allclose(segments.window_response(truth), expected, rtol=error)


def test_white_noise_has_no_response_but_at_the_trend():
    segments = welch_segments(np.ones(2048, bool), RATE, 1024)
    np.testing.assert_allclose(
        segments.window_response(np.ones(len(segments.frequencies))), 1, rtol=0, atol=0.01
    )


def test_gaps_are_filled_between_means():
    samples, good = np.arange(40.0), np.ones(40, bool)
    good[[0, 1, 10, 11, 12, 30, 38, 39]] = False
    filled = fill_gaps(np.where(good, samples, 1e9), good)
    np.testing.assert_allclose(filled[2:38], samples[2:38])  # a line stays a line
    np.testing.assert_allclose(filled[[0, 1, 38, 39]], [2.5, 2.5, 36.5, 36.5])  # no further than its end
    assert fill_gaps(samples, np.ones(40, bool)) is samples


def test_gaps_do_not_stretch_white_noise():
    """A line between single samples would have their variance in all of the gap."""
    rng = np.random.default_rng(4)
    samples, good = rng.standard_normal(1 << 16), np.arange(1 << 16) % 400 >= 90
    segments = welch_segments(good, RATE, 1 << 13)
    slow = segments.frequencies < RATE / 400 / 2
    everywhere, positions = np.ones(1 << 16, bool), np.arange(1 << 16)
    straight = np.interp(positions, positions[good], samples[good])
    lines, filled = (
        segments.power(values, everywhere)[slow].mean() * RATE / 2
        for values in (straight, fill_gaps(samples, good))
    )
    assert lines > 5 and filled < 1.6


def test_smoothing_keeps_power_laws_and_means():
    frequencies = np.geomspace(0.01, 5, 50)
    law = 3 * frequencies**-1.7
    np.testing.assert_allclose(smooth_power(frequencies, law, np.full(50, 0.1)), law, rtol=1e-9)
    rng = np.random.default_rng(1)
    drawn = law * rng.gamma(8, 1 / 8, (400, 50))
    smooth = np.array([smooth_power(frequencies, one, np.full(50, 0.35)) for one in drawn])
    assert np.all(np.std(smooth / law, axis=0)[5:-5] < 0.17)
    np.testing.assert_allclose((smooth / law).mean(axis=0)[5:-5], 1, rtol=0, atol=0.04)
