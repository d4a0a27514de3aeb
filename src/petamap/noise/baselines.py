"""Correlated noise as baselines: a model of few numbers, near enough to be solved instead of the noise.

Baselines are piecewise linear functions of time with a knot every `step` samples; their values at the knots
are an autoregressive process, so that the inverse of their covariance is a band of few lags. The model is
white noise beside baselines, N = W^-1 + F C F^T, as in a destriper with a prior (Keihanen et al. 2010,
A&A 510, A57).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.noise.toeplitz import autoregressive_lags, fast_length, toeplitz_spectrum

_BAND = 8  # lags of the inverse covariance of the knots, without the first
# The noise at the highest frequency that baselines hold, as a multiple of the white level: above, the model
# takes it as white. Measured on two hours of constant-elevation scans with a knee of 1.5 Hz at 20 Hz: knots
# every 10 and 20 samples (ratios 4 and 17) take 17 and 44 iterations, with S inverted to 1e-4.
_RATIO = 4.0
_SHORTEST = 4
LONGEST_STEP = 4096
_GRID = 1 << 12  # frequencies at least, from 0 to half a cycle per sample, or per knot
_LEAST = 1e-3  # the least spectrum of baselines, of that of all noise at their highest frequency


@dataclass(frozen=True)
class BaselineNoise:
    """White noise and baselines.

    Attributes
    ----------
    step : int
        Samples between knots.
    weight : float
        Inverse variance of the white noise of a sample, 1/K^2: lag 0 of N^-1, so that pixels have the weights
        that they have in a map of white noise.
    inverse_prior : float64 (9,)
        Lags of the inverse covariance of the values at the knots, 1/K^2.
    constant : bool
        Whether baselines are constant from one knot to the next, and not linear.
    """

    step: int
    weight: float
    inverse_prior: FloatArray
    constant: bool = False


def fit_baselines(lags: FloatArray, longest: int = LONGEST_STEP) -> BaselineNoise:
    """Return white noise and baselines near to noise of which the inverse covariance is known.

    Parameters
    ----------
    lags : float64 (n_lag + 1,)
        Lags of N^-1, 1/K^2, of a positive spectrum.
    longest : int
        Most samples between knots, a power of two.

    Returns
    -------
    BaselineNoise
    """
    n_frequencies = fast_length(max(_GRID, 8 * len(lags)))
    spectrum = 1 / np.maximum(toeplitz_spectrum(lags, n_frequencies), lags[0] * 1e-12)
    white = 1 / lags[0]
    step = min(_choose_step(spectrum, white), longest)
    frequencies = np.linspace(0, 0.5, len(spectrum))
    at_knots = np.interp(frequencies / step, frequencies, spectrum)
    correlated = np.maximum(at_knots - white, _LEAST * at_knots[-1])
    covariance = np.fft.irfft(correlated / step)[: _BAND + 1]
    return BaselineNoise(step, 1 / white, autoregressive_lags(covariance))


def _choose_step(spectrum: FloatArray, white: float) -> int:
    """Return the longest step for which the noise that baselines cannot hold is nearly white."""
    from_here_on = np.maximum.accumulate(spectrum[::-1])[::-1]
    step = LONGEST_STEP
    while step > _SHORTEST and from_here_on[-(-(len(spectrum) - 1) // step)] > _RATIO * white:
        step //= 2
    return step
