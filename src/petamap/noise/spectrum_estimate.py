"""Noise spectra estimated from time streams."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import BoolArray, FloatArray
from petamap.noise.model import OneOverF, TabulatedPsd
from petamap.noise.psd import psd

# a segment counts where at least this fraction of its samples is good
_GOOD_FRACTION = 0.75
_BINS_PER_OCTAVE = 6
_SHORTEST = 16


def estimate_psd(
    samples: FloatArray,
    good: BoolArray,
    sample_rate: float,
    longest: int = 1 << 17,
    where: str | None = None,
) -> TabulatedPsd:
    """Estimate the PSD of one detector in one stationary interval.

    Welch's method: Hann-windowed periodograms of half-overlapping segments, their straight lines removed, are
    averaged, then binned in logarithmic steps. Bad samples are bridged by straight lines, and the power that
    this takes is put back by the fraction of the window that they cover. The signal must be subdominant, or
    subtracted before. A function of the samples alone, so the same whoever computes it.

    Parameters
    ----------
    samples : float64 (n,)
        K. Not read where bad.
    good : bool (n,)
    sample_rate : float
        Hz.
    longest : int
        Most samples in a segment; a quarter of the interval, where that is shorter, and less where no segment
        would be three quarters good.
    where : str, optional
        Observation, detector and interval, for errors.

    Returns
    -------
    TabulatedPsd
        K^2/Hz, at the mean frequencies of the bins.

    Raises
    ------
    DataError
        If there are not enough good samples, they are not finite, or all are the same.
    """
    length = min(longest, 1 << max(len(samples) // 4, 1).bit_length() - 1)
    if length < _SHORTEST or good.sum() < len(samples) // 4:
        raise DataError(f"{int(good.sum())} good samples are too few to estimate noise from", where=where)
    if not np.all(np.isfinite(samples[good])):
        raise DataError("samples are not finite", where=where, mend="flag them")
    if np.ptp(samples[good]) == 0:
        raise DataError("the samples have no noise: they do not vary", where=where)
    bridged = _bridged(samples, good)
    # where gaps are many, shorter segments lie between them, at the price of the lowest frequencies
    while (power := _welch(bridged, good, sample_rate, length)) is None and length > _SHORTEST:
        length //= 2
    if power is None:
        raise DataError(
            f"no stretch of {length} samples is three quarters good", where=where, mend="give a noise model"
        )
    # the lowest frequency suffers from the straight lines, the highest has half the power
    return _log_binned(np.arange(2.0, length // 2) * (sample_rate / length), power[2:-1])


def fit_one_over_f(measured: TabulatedPsd) -> OneOverF:
    """Return the 1/f model nearest to a measured PSD in the mean square of its logarithm.

    Bins count by frequency, as logarithmic bins hold so many periodograms. fmin is not seen by a finite
    stretch: it is set to a tenth of the lowest frequency.
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
        return np.asarray(np.sqrt(f) * (np.log(psd(model(parameters), f)) - logs))

    return model(least_squares(misfit, start, bounds=bounds).x)


def _bridged(samples: FloatArray, good: BoolArray) -> FloatArray:
    at = np.arange(len(samples))
    return np.interp(at, at[good], samples[good])


def _welch(samples: FloatArray, good: BoolArray, rate: float, length: int) -> FloatArray | None:
    """Mean periodogram at frequencies 0 ... rate/2, or None where no segment is good enough."""
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
    return total / n_used if n_used else None


def _log_binned(frequencies: FloatArray, power: FloatArray) -> TabulatedPsd:
    octave = np.floor(np.log2(frequencies / frequencies[0]) * _BINS_PER_OCTAVE).astype(np.int64)
    starts = np.flatnonzero(np.diff(octave, prepend=-1))
    counts = np.diff(starts, append=len(frequencies))
    return TabulatedPsd(
        np.add.reduceat(frequencies, starts) / counts, np.add.reduceat(power, starts) / counts
    )
