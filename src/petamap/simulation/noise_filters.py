"""Filters that give a cascade of white streams the spectrum of a noise model.

Level l runs at the sample rate / 4^l. Its white noise goes through a short symmetric filter; what the levels
below make is brought up to its rate by a B-spline of degree 7, whose gaps between images are deep where noise
is strong. Going down, each level is asked for the power that the levels above it have left over, so that
their errors cancel; the lowest must reach down to where the spectrum is flat.

The power that a cascade gives at each frequency follows from its filters, without any random number; filters
are lengthened until it follows the model within 1%.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.noise.model import InverseLags, NoiseModel, OneOverF, TabulatedPsd
from petamap.noise.psd import is_white, psd
from petamap.noise.toeplitz import spectrum
from petamap.simulation import _simulation

_FACTOR, _TAPS = _simulation.FACTOR, _simulation.TAPS
# cycles a sample: a level hands over to the one below between these
_HANDOVER = (1 / 64, 0.09)
# the lowest level is the one that has the frequency where the spectrum turns flat above this
_FLAT_ABOVE = 1 / 8
_SHORTEST, _LONGEST = 32, 512
_TOLERANCE = 0.01
# points of the frequency grid for each tap of half a filter
_GRID = 16

Spectrum = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Cascade:
    """What the kernel needs to make noise of one model at one sample rate.

    Attributes
    ----------
    filters : float64 (n_levels, half + 1)
        Taps from the middle outwards, K.
    interpolation : float64 (8, 4)
        B-spline weights: tap, phase.
    sample_rate : float
        Hz.
    """

    filters: FloatArray
    interpolation: FloatArray
    sample_rate: float

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return len(self.filters)

    def psd(self, frequencies: FloatArray) -> FloatArray:
        """Return the one-sided PSD of the noise that the cascade makes, K^2/Hz, float64 (n,)."""
        made, _ = _power(self.filters, self.sample_rate, frequencies)
        return made


def cascade(model: NoiseModel, sample_rate: float, duration: float) -> Cascade:
    """Design the cascade of a model.

    Parameters
    ----------
    model : NoiseModel
        `InverseLags` are taken at the reciprocal of their spectrum.
    sample_rate : float
        Hz.
    duration : float
        Seconds that the noise lasts: where the model has no fmin, it is flat below 1 / (4 duration).
    """
    if isinstance(model, InverseLags):
        model = _table(model, sample_rate)
    if is_white(model):
        deviation = np.sqrt(psd(model, np.ones(1)) * sample_rate / 2)
        return Cascade(deviation[:, None], interpolation(), sample_rate)
    flat_below = _flat_below(model) or 1 / (4 * duration)

    def wanted(frequencies: FloatArray) -> FloatArray:
        return psd(model, np.maximum(np.abs(frequencies), 0 if _flat_below(model) else flat_below))

    probe = np.geomspace(flat_below / 4, sample_rate / 2, 400)
    half = _SHORTEST
    while True:
        design = Cascade(_filters(wanted, sample_rate, flat_below, half), interpolation(), sample_rate)
        error = np.max(np.abs(design.psd(probe) / wanted(probe) - 1))
        if error < _TOLERANCE or half >= _LONGEST:
            return design
        half += half // 2


def interpolation() -> FloatArray:
    """Return the weight of low sample q - 3 + tap in sample 4 q + phase, float64 (8, 4)."""
    tap, phase = np.mgrid[:_TAPS, :_FACTOR]
    return _spline(phase / _FACTOR - (tap - _TAPS // 2 + 1))


def _spline(at: FloatArray) -> FloatArray:
    """Cardinal B-spline of degree 7, centred, of support [-4, 4]."""
    from scipy.interpolate import BSpline

    basis = BSpline.basis_element(np.arange(_TAPS + 1.0) - _TAPS / 2)
    return np.where(np.abs(at) < _TAPS / 2, basis(np.clip(at, -_TAPS / 2, _TAPS / 2)), 0.0)


def _flat_below(model: OneOverF | TabulatedPsd) -> float:
    """Frequency below which the PSD is flat; 0 where it is not."""
    if isinstance(model, TabulatedPsd):
        return float(model.frequencies[model.frequencies > 0][0])
    return model.fmin


def _table(model: InverseLags, sample_rate: float) -> TabulatedPsd:
    inverse = spectrum(model.lags, 8 * len(model.lags))
    power = 2 / sample_rate / np.maximum(inverse, 1e-12 * inverse.max())
    return TabulatedPsd(np.linspace(0, sample_rate / 2, len(power)), power)


def _filters(wanted: Spectrum, rate: float, flat_below: float, half: int) -> FloatArray:
    """Filters of all levels, float64 (n_levels, half + 1)."""
    n_grid = _GRID * half
    x = np.arange(n_grid // 2 + 1) / n_grid
    low, high = _HANDOVER
    ramp = np.clip((x - low) / (high - low), 0, 1)
    handover = np.sin(np.pi / 2 * ramp**2 * (3 - 2 * ramp))
    filters = np.empty((0, half + 1))
    while True:
        level_rate = rate / _FACTOR ** len(filters)
        last = flat_below / level_rate >= _FLAT_ABOVE
        made, gain = _power(filters, rate, x * level_rate)
        left = np.maximum(wanted(x * level_rate) - made, 0)
        if len(filters):
            left[x >= high * _FACTOR] = 0
        amplitude = np.sqrt(left / np.maximum(gain, 1e-30) * level_rate / 2) * (1 if last else handover)
        filters = np.vstack((filters, _taps(amplitude, half)))
        if last:
            return filters


def _taps(amplitude: FloatArray, half: int) -> FloatArray:
    return np.fft.irfft(amplitude)[: half + 1] * np.kaiser(2 * half + 1, 2)[half:]


def _power(filters: FloatArray, rate: float, frequencies: FloatArray) -> tuple[FloatArray, FloatArray]:
    """PSD made by the levels so far, and the power gain from the next level's rate to the first's."""
    rates = rate / float(_FACTOR) ** np.arange(len(filters))[:, None]
    x = frequencies / rates
    gains = np.cumprod(_response(_spline_taps(), x) ** 2 / _FACTOR**2, axis=0)
    powers = _response(filters.T[:, :, None], x) ** 2 * (2 / rates)
    made = powers[:1].sum(axis=0) + (gains[:-1] * powers[1:]).sum(axis=0)
    return made, gains[-1] if len(filters) else np.ones_like(frequencies)


def _response(taps: FloatArray, x: FloatArray) -> FloatArray:
    """taps[0] + 2 sum_k taps[k] cos(2 pi k x), by Clenshaw's recurrence, which needs no table of cosines.

    Taps of levels, (half + 1, n_levels, 1), stand against the rows of x.
    """
    from numpy.polynomial.chebyshev import chebval

    series = np.concatenate((taps[:1], 2 * taps[1:]))
    return np.asarray(chebval(np.cos(2 * np.pi * x), series, tensor=False))


@cache
def _spline_taps() -> FloatArray:
    return _spline(np.arange(_TAPS * _FACTOR // 2 + 1.0) / _FACTOR)
