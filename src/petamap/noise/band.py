"""Choice of the band: the lags of N^-1 that a stream needs, and the information that they lose.

The band gives the weights 1 / S_a to noise of the spectrum S. With r = S / S_a, an amplitude that is fitted
with these weights has a variance of

    <r^2> / <r>^2 times the least one, and <r^2> / <r> times the one that the weights claim,

means over the information |t|^2 / S of its template t at each frequency. Whatever the template, the first is
at most (r_max + r_min)^2 / (4 r_max r_min) (Kantorovich's inequality), and the second lies between r_min and
r_max. So a band loses at most tanh^2(D / 2) of the information, D = ln(r_max / r_min) over the frequencies
that a stream can hold: from one period in its interval to Nyquist. A loss of 0.1 % is r_max / r_min = 1.065,
and as the mean of r over all frequencies is 1 for an autoregressive fit, no variance is misstated by more.

The slowest noise decides: a spectrum that is flat below fmin takes some 0.4 / fmin seconds of lags, or a
quarter of the interval where fmin is below one period in it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.noise.model import EstimatedPsd, InverseLags, NoiseModel, OneOverF, TabulatedPsd
from petamap.noise.psd import check_noise_model, is_white, noise_psd
from petamap.noise.toeplitz import DYNAMIC_RANGE, inverse_lags, toeplitz_spectrum

LOSS = 1e-3  # fraction of the information that a chosen band may lose
LONGEST = 1 << 14  # lags chosen at most: a fit takes half a second, and four times that for twice as many
# Powers of two, which fill their transforms, and those between: an interval may have no room for the next.
_LENGTHS = sorted([1 << n for n in range(4, 15)] + [3 << n for n in range(3, 13)])
_REDUCED = 1 << 9  # lags to which a longer band of a smooth spectrum is reduced to be judged
_SLOW = 33  # frequencies between the lowest one and the grid
_OVERSAMPLED = 16  # frequencies of the grid, in units of the number of lags
_STEPS_PER_OCTAVE = 8  # of the lengths of intervals for which bands are chosen


@dataclass(frozen=True)
class Band:
    """Band of the inverse noise of a stream.

    Attributes
    ----------
    n_lag : int
        Lags on either side; 0 for white noise.
    loss : float
        Fraction of the information on an amplitude that it loses at most.
    misstated : float
        Relative error, at most, of a variance that is computed with it.
    """

    n_lag: int
    loss: float = 0.0
    misstated: float = 0.0


def describe_bands(shortest: int, longest: int, loss: float | None, misstated: float | None) -> str:
    """Return what is said of the bands of a run; without a loss where the noise is not known."""
    lags = f"{shortest:,} to {longest:,} lags" if shortest < longest else f"{longest:,} lags"
    if loss is None or misstated is None:
        return lags
    if longest == 0:
        return "white"
    if loss == misstated == 0:
        return f"{lags}, exact"
    lost = f"{lags}: at most {format_share(loss)} of the information is lost"
    if misstated < 1:
        return f"{lost}, variances are within {format_share(misstated)}"
    return f"{lost} on its slowest drifts, whose variance may be {1 + misstated:.2g} times what is told"


def format_share(share: float) -> str:
    """Return a share in per cent with two digits, or as many as it has."""
    return f"{100 * share:.2g}%" if share < 0.995 else f"{100 * share:,.0f}%"


def choose_band(model: NoiseModel, sample_rate: float, n_samp: int, where: str | None = None) -> Band:
    """Return the shortest band that loses at most `LOSS`, or the longest there is.

    Lengths are powers of two and the means of neighbours, below that of the interval and up to `LONGEST`.
    Lags that are given are kept whole.

    Parameters
    ----------
    model : NoiseModel
    sample_rate : float
        Hz.
    n_samp : int
        Samples of the stationary interval.
    where : str, optional
        Observation and detector, for errors.

    Raises
    ------
    DataError
        If the model is not valid (see `petamap.noise.psd.check_noise_model`).

    Examples
    --------
    >>> from petamap.noise.model import OneOverF
    >>> choose_band(OneOverF(net=300e-6, fknee=0.02, fmin=1e-4, alpha=-1.5), 2.0, 86400).n_lag
    8192
    """
    check_noise_model(model, where)
    if is_white(model):
        return Band(0)
    if isinstance(model, InverseLags):
        return Band(len(model.lags) - 1)
    if isinstance(model, OneOverF):
        return _choose_smooth(model, sample_rate, rounded_length(n_samp))
    return _choose(model, sample_rate, rounded_length(n_samp))


def rounded_length(n_samp: int) -> int:
    """Return a length of intervals for which bands are chosen, at most an eighth above `n_samp`."""
    step = 1 << max(n_samp.bit_length() - _STEPS_PER_OCTAVE.bit_length(), 0)
    return -(-n_samp // step) * step


def _choose(model: OneOverF | TabulatedPsd, sample_rate: float, n_samp: int) -> Band:
    lengths = [n for n in _LENGTHS if n < n_samp] or [1]
    measure = partial(measure_band, model, sample_rate, n_samp)
    # what the range of the arithmetic loses, no length mends
    found = bisect_left(lengths, True, key=lambda n: measure(n, within_range=True).loss <= LOSS)
    return measure(lengths[min(found, len(lengths) - 1)])


_choose_smooth = lru_cache(maxsize=1 << 14)(_choose)


def measure_band(
    model: NoiseModel, sample_rate: float, n_samp: int, n_lag: int, *, within_range: bool = False
) -> Band:
    """Return a band of `n_lag` lags and what it loses.

    Where a spectrum is smooth, what a long band loses is what a shorter one loses at a sample rate that is
    lower by the same factor: both have the same slow noise and the same resolution.

    Parameters
    ----------
    model : NoiseModel
        A valid one. An `EstimatedPsd` is followed up to half of its own scatter.
    sample_rate : float
        Hz.
    n_samp : int
        Samples of the stationary interval.
    n_lag : int
    within_range : bool
        Leave out what the fit loses by `petamap.noise.toeplitz.DYNAMIC_RANGE`.
    """
    if is_white(model) or (isinstance(model, InverseLags) and n_lag + 1 >= len(model.lags)):
        return Band(n_lag)
    factor = 1
    if isinstance(model, OneOverF | EstimatedPsd) and n_lag > _REDUCED:
        factor = 1 << (n_lag // _REDUCED).bit_length() - 1
    slowest = min(_lowest(model, sample_rate / n_samp), sample_rate / 2 / factor)
    frequencies, inverse = _fitted(model, sample_rate / factor, n_lag // factor, slowest)
    spectrum = _spectrum(model, sample_rate / factor, frequencies)
    logs = np.log(np.maximum(spectrum * inverse, 1e-300))
    # the fit at the full rate is limited by the range, that at a lower rate is not
    if within_range and factor == 1:
        logs -= _beyond_range(model, sample_rate, frequencies)
    elif factor > 1 and not within_range:
        logs += _beyond_range(model, sample_rate, frequencies)
    logs = np.sign(logs) * np.maximum(np.abs(logs) - _allowed(model, frequencies), 0)
    low, high = float(logs.min()), float(logs.max())
    return Band(n_lag, float(np.tanh((high - low) / 2)) ** 2, float(max(np.expm1(high), -np.expm1(low))))


def _lowest(model: NoiseModel, frequency: float) -> float:
    """Return the lowest frequency that a stream can hold and its model knows."""
    if not isinstance(model, TabulatedPsd):
        return frequency
    return max(frequency, float(model.frequencies[model.frequencies > 0][0]))


def _fitted(model: NoiseModel, rate: float, n_lag: int, slowest: float) -> tuple[FloatArray, FloatArray]:
    """Return frequencies from `slowest` up to Nyquist, Hz, and N^-1 by the band at each."""
    lags, n_grid = inverse_lags(model, rate, n_lag), _OVERSAMPLED * max(n_lag, _SLOW)
    frequencies, cosines = _slow_cosines(rate, n_lag, slowest, n_grid)
    on_grid = toeplitz_spectrum(lags, n_grid)[n_grid + 1 + _SLOW - len(frequencies) :]
    # not by BLAS, whose sums are those of its threads
    return frequencies, np.concatenate((np.sum(cosines * lags, axis=1), on_grid))


@lru_cache(maxsize=32)
def _slow_cosines(rate: float, n_lag: int, slowest: float, n_grid: int) -> tuple[FloatArray, FloatArray]:
    """Return frequencies, of which `_SLOW` are not on the grid, and what lags are times at these.

    Streams have but few rates and lengths, and the cosines take as long as the rest of a fit.
    """
    grid = np.arange(n_grid + 1) * (rate / 2 / n_grid)
    inside = grid[grid >= slowest]
    slow = np.geomspace(slowest, inside[1] if len(inside) > 1 else slowest, _SLOW)
    cosines = 2 * np.cos(np.outer(2 * np.pi / rate * slow, np.arange(n_lag + 1)))
    cosines[:, 0] = 1
    return np.concatenate((slow, inside)), cosines


def _spectrum(model: NoiseModel, rate: float, frequencies: FloatArray) -> FloatArray:
    """Return the variance of a sample at each frequency, K^2."""
    if not isinstance(model, InverseLags):
        return noise_psd(model, frequencies) * (rate / 2)
    n = 32 * len(model.lags)
    inverse = toeplitz_spectrum(model.lags, n)
    inverse = np.interp(frequencies, np.arange(n + 1) * (rate / 2 / n), inverse)
    return np.asarray(1 / np.maximum(inverse, inverse.max() / DYNAMIC_RANGE), np.float64)


def _beyond_range(model: NoiseModel, rate: float, frequencies: FloatArray) -> FloatArray:
    """Return the logarithm of the spectrum over the largest that the fit follows, where that is less."""
    if isinstance(model, InverseLags):
        return np.zeros(len(frequencies))
    least = float(noise_psd(model, np.linspace(0, rate / 2, 4097)[1:]).min())
    return np.maximum(np.log(noise_psd(model, frequencies) / least / DYNAMIC_RANGE), 0)


def _allowed(model: NoiseModel, frequencies: FloatArray) -> FloatArray:
    """Return by how much the logarithm of an estimate may be missed: a quarter of what its scatter loses."""
    if not isinstance(model, EstimatedPsd):
        return np.zeros(len(frequencies))
    known = np.log(model.frequencies)
    return np.asarray(np.interp(np.log(frequencies), known, model.scatter / 2), np.float64)
