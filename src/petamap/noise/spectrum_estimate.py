"""Estimation of noise spectra from time streams."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import BoolArray, FloatArray
from petamap.noise.model import EstimatedPsd, OneOverF, TabulatedPsd
from petamap.noise.psd import noise_psd

_GOOD_FRACTION = 0.75  # smallest fraction of good samples of a segment that is used
_BINS_PER_OCTAVE = 6
_SHORTEST = 16  # samples of a segment


def estimate_psd(
    samples: FloatArray,
    good: BoolArray,
    sample_rate: float,
    longest: int = 1 << 17,
    where: str | None = None,
) -> EstimatedPsd:
    """Return the PSD of one detector in one stationary interval, estimated from its samples.

    Welch's method: Hann-windowed periodograms of half-overlapping segments, after removal of a linear trend,
    are averaged and binned in logarithmic steps. Bad samples are interpolated linearly, and the power is
    corrected for the fraction of the window that they cover. The signal must be subdominant, or subtracted
    before.

    Parameters
    ----------
    samples : float64 (n,)
        K. Values of bad samples are ignored.
    good : bool (n,)
        Mask of good samples.
    sample_rate : float
        Hz.
    longest : int
        Largest number of samples in a segment. Segments are at most a quarter of the interval, and shorter if
        no segment would have three quarters of good samples.
    where : str, optional
        Observation, detector and interval, for messages.

    Returns
    -------
    EstimatedPsd
        K^2/Hz, at the mean frequencies of the bins.

    Raises
    ------
    DataError
        If there are too few good samples, they are not finite, or they are all equal.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> samples = np.random.default_rng(0).standard_normal(1 << 16)  # white noise, 2 K^2/Hz at 1 Hz
    >>> table = petamap.estimate_psd(samples, np.ones(1 << 16, bool), 1.0)
    >>> bool(abs(table.values[-1] - 2) < 0.1)
    True
    """
    length = min(longest, 1 << max(len(samples) // 4, 1).bit_length() - 1)
    if length < _SHORTEST or good.sum() < len(samples) // 4:
        raise DataError(f"{int(good.sum())} good samples are too few to estimate noise from", where=where)
    if not np.all(np.isfinite(samples[good])):
        raise DataError("samples are not finite", where=where, mend="flag them")
    if np.ptp(samples[good]) == 0:
        raise DataError("the samples have no noise: they do not vary", where=where)
    interpolated = _interpolated(samples, good)
    # Shorter segments fit between many gaps, without the lowest frequencies.
    while (found := _welch(interpolated, good, sample_rate, length)) is None and length > _SHORTEST:
        length //= 2
    if found is None:
        raise DataError(
            f"no segment of {length} samples is three quarters good", where=where, mend="give a noise model"
        )
    # The lowest frequency is biased by the removal of the trend, the highest has half the power.
    power, n_used = found
    return _log_binned(np.arange(2.0, length // 2) * (sample_rate / length), power[2:-1], n_used)


def fit_one_over_f(measured: TabulatedPsd) -> OneOverF:
    """Return the 1/f model fitted to a measured PSD by least squares of its logarithm.

    Bins are weighted by frequency, to which the number of frequencies in a logarithmic bin is proportional.
    fmin cannot be measured on a finite interval; it is set to a tenth of the lowest frequency.
    """
    from scipy.optimize import least_squares

    f, logs = measured.frequencies, np.log(measured.values)
    fmin = f[0] / 10

    def model(parameters: FloatArray) -> OneOverF:
        net, fknee, steepness = np.exp(parameters)
        return OneOverF(float(net), float(max(fknee, fmin)), float(fmin), -float(steepness))

    white = 0.5 * np.log(np.median(measured.values[f >= f[-1] / 4]) / 2)
    above = f[measured.values > 4 * np.exp(2 * white)]
    knee = np.log(above[-1] if above.size else f[0])
    bounds = ([white - 3, np.log(fmin), np.log(0.3)], [white + 3, np.log(f[-1]), np.log(6.0)])
    start = np.clip([white, knee, 0.1], np.add(bounds[0], 1e-6), np.subtract(bounds[1], 1e-6))

    def misfit(parameters: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(f) * (np.log(noise_psd(model(parameters), f)) - logs))

    return model(least_squares(misfit, start, bounds=bounds).x)


def _interpolated(samples: FloatArray, good: BoolArray) -> FloatArray:
    positions = np.arange(len(samples))
    return np.interp(positions, positions[good], samples[good])


def _welch(samples: FloatArray, good: BoolArray, rate: float, length: int) -> tuple[FloatArray, int] | None:
    """Return the mean of periodograms, at frequencies 0 to rate/2, and their number; None without any."""
    from scipy.fft import rfft
    from scipy.signal import detrend
    from scipy.signal.windows import hann

    window = hann(length, sym=False)
    total = np.zeros(length // 2 + 1)
    n_used = 0
    for start in range(0, len(samples) - length + 1, length // 2):
        segment_good = good[start : start + length]
        if segment_good.mean() < _GOOD_FRACTION:
            continue
        transform = rfft(window * detrend(samples[start : start + length]))
        total += np.abs(transform) ** 2 * (2 / rate / np.sum(window[segment_good] ** 2))
        n_used += 1
    return (total / n_used, n_used) if n_used else None


def _log_binned(frequencies: FloatArray, power: FloatArray, n_used: int) -> EstimatedPsd:
    octave = np.floor(np.log2(frequencies / frequencies[0]) * _BINS_PER_OCTAVE).astype(np.int64)
    starts = np.flatnonzero(np.diff(octave, prepend=-1))
    counts = np.diff(starts, append=len(frequencies))
    # Hann-windowed periodograms are correlated by 4/9 with the next frequency and by 1/36 with the one after,
    # and by 1/36 with a segment that overlaps by a half.
    together = 1 + 2 * (4 / 9 * (1 - 1 / counts) + 1 / 36 * np.maximum(1 - 2 / counts, 0))
    segments = n_used / (1 + 2 / 36 * (1 - 1 / n_used))
    return EstimatedPsd(
        np.add.reduceat(frequencies, starts) / counts,
        np.add.reduceat(power, starts) / counts,
        np.sqrt(together / counts / segments),
    )
