"""Covariance of the offsets that correlated noise has in consecutive cells of time.

What noise has in common in a cell of L samples is their mean. With P_c the noise's spectrum less its white
level, the offsets' spectrum at nu cycles a cell is the aliased sum::

    P(nu) = (1/L) sum_m P_c((nu + m) / L) [sin(pi nu) / (L sin(pi (nu + m) / L))]^2

at frequencies in cycles a sample: Keihanen et al. 2010, A&A 510, A57, eq. 15 ff., with sums over samples in
the place of integrals, so that it holds for cells of one sample too.
"""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.noise.autoregressive import AutoregressiveProcess
from petamap.noise.model import InverseLags, NoiseModel
from petamap.noise.psd import noise_psd
from petamap.noise.toeplitz import DYNAMIC_RANGE, toeplitz_spectrum, white_lags

# Aliases on either side: those beyond have less than 10^-4 of the offsets' power.
_ALIASES = 32
# Frequencies up to 1/2, and those, evenly in their logarithm, below the first of them; the spectrum is flat
# below 1/100 of a cycle in as many cells as predict the next.
_EVEN, _SLOW = 4096, 512
_FLAT_BELOW = 0.01
# Least spectrum of offsets, of that of the mean of white noise: the prior of offsets that there are not.
_LEAST = 1e-4


def offsets_process(
    model: NoiseModel, sample_rate: float, length: int, n: int, order: int, where: str | None = None
) -> AutoregressiveProcess:
    """Return the process of the offsets of noise in n cells of `length` samples.

    Parameters
    ----------
    model : NoiseModel
    sample_rate : float
        Hz.
    length, n : int
    order : int
        Cells at most that predict the offset of the next one.
    where : str, optional
        Observation and detector, for errors.

    Raises
    ------
    DataError
        If the model is not valid.
    """
    order = min(n - 1, order)
    white = 1 / float(white_lags(model, sample_rate, where)[0])
    flat_below = _FLAT_BELOW / max(order, 1)
    even = np.arange(1, _EVEN + 1) / (2 * _EVEN)
    cycles = np.concatenate([np.geomspace(min(flat_below, even[0] / 2), even[0], _SLOW)[:-1], even])
    values = _offsets(model, sample_rate, length, white, np.maximum(cycles, flat_below))
    values = np.maximum(values, max(_LEAST * white / length, values.max() / DYNAMIC_RANGE))
    return AutoregressiveProcess.of_covariance(_covariance(cycles, values, order))


def _covariance(cycles: FloatArray, values: FloatArray, order: int) -> FloatArray:
    """Return lags 0 to `order` of a spectrum at increasing frequencies, flat below the first of them."""
    points, values = np.concatenate([[0.0], cycles]), np.concatenate([values[:1], values])
    steps = np.diff(points)
    weights = np.concatenate([[0.0], steps]) + np.concatenate([steps, [0.0]])
    angles = 2 * np.pi * np.multiply.outer(np.arange(order + 1), points)
    return np.asarray((np.cos(angles) * (weights * values)).sum(axis=1), np.float64)


def _offsets(model: NoiseModel, rate: float, length: int, white: float, cycles: FloatArray) -> FloatArray:
    """Return the spectrum of offsets at cycles a cell, 0 < cycles <= 1/2."""
    most = min(_ALIASES, length // 2)
    # of an even number of aliases in all, the last of one side
    aliases = np.arange(-most, most + 1) if length > 2 * most else np.arange(-most, length - most)
    places = (cycles[:, None] + aliases) / length
    response = np.sin(np.pi * cycles)[:, None] / (length * np.sin(np.pi * places))
    powers = _correlated(model, rate, white, np.abs(places)) * response**2
    return np.asarray(powers.sum(axis=1) / length)


def _correlated(model: NoiseModel, rate: float, white: float, places: FloatArray) -> FloatArray:
    """Return the variance of correlated noise at cycles a sample, as of samples whose spectrum it were."""
    if isinstance(model, InverseLags):
        n = 8 * max(len(model.lags), 512)
        inverse = toeplitz_spectrum(model.lags, n)
        variances = 1 / np.maximum(inverse, inverse.max() * 1e-11)
        found = np.interp(places, np.linspace(0, 0.5, n + 1), variances)
    else:
        found = noise_psd(model, places.ravel() * rate).reshape(places.shape) * (rate / 2)
    return np.asarray(np.maximum(found - white, 0.0))
