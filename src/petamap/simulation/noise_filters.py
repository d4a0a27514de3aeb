"""Multirate filters that give white noise the spectrum of a noise model.

Level l of a cascade has the sample rate / 4^l. Its white noise is filtered by a short symmetric filter; the
sum of the lower levels is interpolated to its rate by a B-spline of degree 7, which suppresses the spectral
images where noise is strong. From the highest level down, each level provides the power that is missing from
the levels above, which compensates their errors; the lowest level extends to frequencies where the spectrum
is flat.

The PSD of a cascade follows from its filters alone. Filters are lengthened until it agrees with the model
within 1%.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray
from petamap.noise.model import InverseLags, NoiseModel, OneOverF, TabulatedPsd
from petamap.noise.psd import is_white, noise_psd
from petamap.noise.toeplitz import toeplitz_spectrum
from petamap.simulation import _simulation

_FACTOR, _TAPS = _simulation.FACTOR, _simulation.TAPS
_HANDOVER = (1 / 64, 0.09)  # cycles per sample: crossover from a level to the level below
_FLAT_ABOVE = 1 / 8  # cycles per sample: at the lowest level, the spectrum is flat below a higher frequency
_SHORTEST, _LONGEST = 32, 512  # taps of half a filter
_TOLERANCE = 0.01
_LOWEST = float(_FACTOR) ** -60  # cycles per sample: the kernel takes 64 levels
_GRID = 16  # frequencies per tap of half a filter

Spectrum = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class FilterCascade:
    """Multirate filters for noise of one model at one sample rate.

    Attributes
    ----------
    filters : float64 (n_levels, half + 1)
        Taps of the symmetric filters from the centre outwards, K.
    sample_rate : float
        Hz.
    """

    filters: FloatArray
    sample_rate: float

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return len(self.filters)

    def psd(self, frequencies: FloatArray) -> FloatArray:
        """Return the one-sided PSD of the noise of the cascade, K^2/Hz, float64 (n,)."""
        return _power(self.filters, self.sample_rate, frequencies)[0]


def design_cascade(model: NoiseModel, sample_rate: float, duration: float) -> FilterCascade:
    """Return the filter cascade for a noise model.

    Parameters
    ----------
    model : NoiseModel
        The PSD of `InverseLags` is the reciprocal of their spectrum.
    sample_rate : float
        Hz.
    duration : float
        Seconds. The PSD of a model without fmin is taken as flat below 1 / (4 duration).

    Raises
    ------
    ConfigError
        If the PSD rises down to frequencies of which no filters can be made.
    """
    if isinstance(model, InverseLags):
        model = _table(model, sample_rate)
    if is_white(model):
        deviation = np.sqrt(noise_psd(model, np.ones(1)) * sample_rate / 2)
        return FilterCascade(deviation[:, None], sample_rate)
    flat_below = _flat_below(model) or 1 / (4 * duration)

    def wanted(frequencies: FloatArray) -> FloatArray:
        return noise_psd(model, np.maximum(np.abs(frequencies), 0 if _flat_below(model) else flat_below))

    if flat_below < sample_rate * _LOWEST or not np.isfinite(wanted(np.array([flat_below]))[0]):
        raise ConfigError(
            f"noise that is flat below {flat_below:.3g} Hz alone is too slow, or too strong, to be drawn",
            mend="choose a higher fmin: what is slower than the observation is an offset",
        )
    probe = np.geomspace(flat_below / 4, sample_rate / 2, 400)
    half = _SHORTEST
    while True:
        design = FilterCascade(_filters(wanted, sample_rate, flat_below, half), sample_rate)
        error = np.max(np.abs(design.psd(probe) / wanted(probe) - 1))
        if error < _TOLERANCE or half >= _LONGEST:
            return design
        half += half // 2


@cache
def interpolation_weights() -> FloatArray:
    """Return the B-spline weights of low-rate sample q - 3 + tap in sample 4 q + phase, float64 (8, 4)."""
    tap, phase = np.mgrid[:_TAPS, :_FACTOR]
    return _spline(phase / _FACTOR - (tap - _TAPS // 2 + 1))


def _spline(x: FloatArray) -> FloatArray:
    """Return the centred cardinal B-spline of degree 7, of support [-4, 4].

    By de Boor's recurrence, from steps; to load `scipy.interpolate` for it takes 0.1 to 0.2 s.
    """
    starts = np.arange(_TAPS) - _TAPS / 2
    splines = [np.where((start <= x) & (x < start + 1), 1.0, 0.0) for start in starts]
    for degree in range(1, _TAPS):
        splines = [
            ((x - start) * first + (start + degree + 1 - x) * second) / degree
            for start, first, second in zip(starts, splines, splines[1:], strict=False)
        ]
    return splines[0]


def _flat_below(model: OneOverF | TabulatedPsd) -> float:
    """Return the frequency below which the PSD is flat, or 0 if there is none."""
    if isinstance(model, TabulatedPsd):
        return float(model.frequencies[model.frequencies > 0][0])
    return model.fmin


def _table(model: InverseLags, sample_rate: float) -> TabulatedPsd:
    inverse = toeplitz_spectrum(model.lags, 8 * len(model.lags))
    power = 2 / sample_rate / np.maximum(inverse, 1e-12 * inverse.max())
    return TabulatedPsd(np.linspace(0, sample_rate / 2, len(power)), power)


def _filters(wanted: Spectrum, rate: float, flat_below: float, half: int) -> FloatArray:
    """Return the filters of all levels, float64 (n_levels, half + 1)."""
    n_grid = _GRID * half
    x = np.arange(n_grid // 2 + 1) / n_grid
    low, high = _HANDOVER
    ramp = np.clip((x - low) / (high - low), 0, 1)
    handover = np.sin(np.pi / 2 * ramp**2 * (3 - 2 * ramp))
    filters = np.empty((0, half + 1))
    while True:
        level_rate = rate / _FACTOR ** len(filters)
        last = flat_below / level_rate >= _FLAT_ABOVE
        power, gain = _power(filters, rate, x * level_rate)
        missing = np.maximum(wanted(x * level_rate) - power, 0)
        if len(filters):
            missing[x >= high * _FACTOR] = 0
        amplitude = np.sqrt(missing / np.maximum(gain, 1e-30) * level_rate / 2) * (1 if last else handover)
        filters = np.vstack((filters, _taps(amplitude, half)))
        if last:
            return filters


def _taps(amplitude: FloatArray, half: int) -> FloatArray:
    return np.fft.irfft(amplitude)[: half + 1] * np.kaiser(2 * half + 1, 2)[half:]


def _power(filters: FloatArray, rate: float, frequencies: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the PSD of the given levels, and the power gain from the rate of the next level to the first."""
    rates = rate / float(_FACTOR) ** np.arange(len(filters))[:, None]
    x = frequencies / rates
    gains = np.cumprod(_response(_spline_taps(), x) ** 2 / _FACTOR**2, axis=0)
    powers = _response(filters.T[:, :, None], x) ** 2 * (2 / rates)
    power = powers[:1].sum(axis=0) + (gains[:-1] * powers[1:]).sum(axis=0)
    return power, gains[-1] if len(filters) else np.ones_like(frequencies)


def _response(taps: FloatArray, x: FloatArray) -> FloatArray:
    """Return taps[0] + 2 sum_k taps[k] cos(2 pi k x) by Clenshaw's recurrence.

    Taps of several levels, (half + 1, n_levels, 1), are evaluated at the rows of x.
    """
    from numpy.polynomial.chebyshev import chebval

    series = np.concatenate((taps[:1], 2 * taps[1:]))
    return np.asarray(chebval(np.cos(2 * np.pi * x), series, tensor=False))


@cache
def _spline_taps() -> FloatArray:
    return _spline(np.arange(_TAPS * _FACTOR // 2 + 1.0) / _FACTOR)
