"""Estimation of noise spectra from time streams."""

from __future__ import annotations

import numpy as np

from petacomm.base.arguments import numeric_array, real_array, require_integer, require_real
from petacomm.base.errors import DataError
from petacomm.base.typing import BoolArray, FloatArray
from petamap.noise.model import EstimatedPsd, OneOverF, TabulatedPsd
from petamap.noise.psd import noise_psd
from petamap.noise.welch import SHORTEST, WelchSegments, welch_segments

_MEND = "flag all of them, or give a noise model"


class TooFewSamples(DataError):
    """Too few good samples to measure the noise of a stream."""


def estimate_psd(
    samples: FloatArray,
    good: BoolArray,
    sample_rate: float,
    longest: int = 1 << 18,
    where: str | None = None,
) -> EstimatedPsd:
    """Return the PSD of one detector in one stationary interval, estimated from its samples.

    Welch's method: Hann-windowed periodograms of half-overlapping segments, after removal of a linear trend,
    are averaged and binned in logarithmic steps. Gaps are filled by straight lines, and the power is
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
        Largest number of samples in a segment. Segments are at most half of the interval, and shorter if
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
    >>> bool(abs(table.values[-2] - 2) < 0.1)
    True
    """
    samples, good = real_array(samples, "samples", 1), numeric_array(good, "good", 1).astype(bool)
    if good.shape != samples.shape:
        raise DataError(f"{len(good)} marks of good samples for {len(samples)} samples", where=where)
    sample_rate = require_real(sample_rate, "sample rate", 1e-300, 1e300)
    require_integer(longest, "longest", 1)
    with np.errstate(over="ignore"):
        too_large = not np.isfinite(np.sum(samples[good] ** 2))
    if too_large and np.isfinite(samples[good]).all():
        raise DataError("samples are too large to be squared", where=where)
    segments = segments_of(samples, good, sample_rate, longest, where)
    return EstimatedPsd(segments.frequencies, segments.power(samples, good), segments.scatter)


def segments_of(
    samples: FloatArray,
    good: BoolArray,
    sample_rate: float,
    longest: int = 1 << 18,
    where: str | None = None,
) -> WelchSegments:
    """Return the segments of a stream that its spectrum is measured in.

    Arguments and errors are those of `estimate_psd`.
    """
    if len(samples) < 4 * SHORTEST or good.sum() < len(samples) // 4:
        n_good = int(good.sum())
        raise TooFewSamples(
            f"{n_good} good samples of {len(good)} are too few to estimate noise from",
            where=where,
            mend=_MEND,
        )
    if not np.all(np.isfinite(samples[good])):
        raise DataError("samples are not finite", where=where, mend="flag them")
    if np.ptp(samples[good]) == 0:
        raise DataError("the samples have no noise: they do not vary", where=where, mend="flag them")
    found = welch_segments(good, sample_rate, longest)
    if found is None:
        raise TooFewSamples(
            f"no segment of {SHORTEST} samples is three quarters good", where=where, mend=_MEND
        )
    return found


def continue_psd(psd: TabulatedPsd, lowest: float) -> TabulatedPsd:
    """Return a measured PSD with one more entry at a lower frequency, by the power law of two octaves above.

    Models that are not measured are left as they are. A table is constant below its first entry, and a map
    made with that would take slow drifts for sky. Noise is not taken to fall towards low frequencies.

    Parameters
    ----------
    psd : TabulatedPsd
    lowest : float
        Hz. One that is not below the first frequency changes nothing.
    """
    if not isinstance(psd, EstimatedPsd) or lowest >= psd.frequencies[0]:
        return psd
    slow = psd.frequencies <= 4 * psd.frequencies[0]
    slow[:2] = True
    x, y, weights = np.log(psd.frequencies[slow]), np.log(psd.values[slow]), psd.scatter[slow] ** -2
    mean = np.average(x, weights=weights), np.average(y, weights=weights)
    variance = 1 / np.sum(weights * (x - mean[0]) ** 2)
    slope = min(float(variance * np.sum(weights * (x - mean[0]) * (y - mean[1]))), 0.0)
    distance = np.log(lowest) - mean[0]
    error = np.sqrt(1 / weights.sum() + variance * distance**2)
    return EstimatedPsd(
        np.concatenate([[lowest], psd.frequencies]),
        np.concatenate([[np.exp(mean[1] + slope * distance)], psd.values]),
        np.concatenate([[error], psd.scatter]),
    )


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
