"""Welch's method: mean periodograms of the segments of a stream, and what their window does to a spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from petacomm.base.typing import BoolArray, FloatArray, Int64Array

SHORTEST = 16  # samples of a segment
_GOOD_FRACTION = 0.75  # smallest fraction of good samples of a segment that is used
_BINS_PER_OCTAVE = 6
_LEAST = 2  # frequencies of a bin
_FIRST = 4  # lowest frequency of a segment that is used: those below see little but window and trend
_EXACT = 128  # samples of the segment whose kernels stand for those of longer ones, in units of its length
_STEEPEST = 3.5  # slope of a spectrum
_OVERSAMPLED = 32  # frequencies of these kernels, in units of those of the segment


@dataclass(frozen=True)
class WelchSegments:
    """Half-overlapping segments of a stream, whose Hann-windowed periodograms are averaged.

    Attributes
    ----------
    sample_rate : float
        Hz.
    length : int
        Samples of a segment.
    starts : tuple of int
        First sample of each.
    """

    sample_rate: float
    length: int
    starts: tuple[int, ...]

    @cached_property
    def frequencies(self) -> FloatArray:
        """Mean frequencies of the bins, Hz, float64 (n_bin,)."""
        return np.add.reduceat(self._lines, self._bins) / self._counts * (self.sample_rate / self.length)

    @cached_property
    def scatter(self) -> FloatArray:
        """Relative standard error of the power in each bin, float64 (n_bin,)."""
        n, counts = len(self.starts), self._counts
        # Hann-windowed periodograms are correlated by 4/9 with the next frequency and by 1/36 with the one
        # after, and by 1/36 with a segment that overlaps by a half.
        together = 1 + 2 * (4 / 9 * (1 - 1 / counts) + 1 / 36 * np.maximum(1 - 2 / counts, 0))
        return np.asarray(np.sqrt(together / counts / (n / (1 + 2 / 36 * (1 - 1 / n)))))

    def power(self, samples: FloatArray, good: BoolArray) -> FloatArray:
        """Return the mean one-sided power in each bin, K^2/Hz, float64 (n_bin,).

        Bad samples are filled by `fill_gaps`, and the power is corrected for the fraction of the window that
        they cover. A line fitted to each segment is removed.

        Parameters
        ----------
        samples : float64 (n,)
            K, of the whole stream.
        good : bool (n,)
        """
        from scipy.fft import rfft

        window, total, values = hann(self.length), np.zeros(self.length // 2 + 1), fill_gaps(samples, good)
        for start in self.starts:
            part = slice(start, start + self.length)
            transform = rfft(window * detrended(values[part]))
            power = transform.real**2 + transform.imag**2
            total += power * (2 / self.sample_rate / np.sum(window[good[part]] ** 2))
        return self._binned(total[_FIRST:-1] / len(self.starts))

    def window_response(self, power: FloatArray) -> FloatArray:
        """Return the expected power in each bin over the PSD at its frequency, float64 (n_bin,).

        The window and the removed line spread each periodogram over neighbouring frequencies, and a bin
        averages over its own: steep spectra are seen too high. Each bin is taken to lie in a power law, whose
        slope is fitted to `power`, (n_bin,), from half its frequency to four times it: near enough. The bin's
        own value is left out, so that dividing it by the response leaves no bias.
        """
        centres, counts = np.add.reduceat(self._lines, self._bins) / self._counts, self._counts
        slopes = _slopes(np.log(centres), np.log(power), self.scatter)
        slope, centre = np.repeat(np.stack([slopes, centres]), counts, axis=1)
        below, at, above = (((self._lines + step) / centre) ** slope for step in (-1, 0, 1))
        expected = (below + 4 * at + above) / 6
        kernels = _kernels(min(self.length, _EXACT))
        n = min(len(kernels), len(expected))
        grid = (np.arange(kernels.shape[1]) + 0.5) / _OVERSAMPLED
        spectra = (grid / centre[:n, None]) ** slope[:n, None]
        expected[:n] = np.sum(kernels[:n] * spectra, axis=1)
        return self._binned(expected)

    def _binned(self, power: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(power, self._bins) / self._counts)

    @cached_property
    def _lines(self) -> FloatArray:
        """Frequencies that are used, in units of the lowest of a segment; the highest has half the power."""
        return np.arange(float(_FIRST), self.length // 2)

    @cached_property
    def _bins(self) -> Int64Array:
        edges = [_FIRST]
        while edges[-1] < self.length // 2:
            edges.append(max(edges[-1] + _LEAST, round(edges[-1] * 2 ** (1 / _BINS_PER_OCTAVE))))
        return np.array([edge - _FIRST for edge in edges if edge + _LEAST <= self.length // 2])

    @cached_property
    def _counts(self) -> Int64Array:
        return np.diff(self._bins, append=len(self._lines))


def most_bins(n_samp: int) -> int:
    """Return how many bins the spectrum of a stream of so many samples has at most."""
    return _BINS_PER_OCTAVE * max(n_samp // 2, 1).bit_length()


def welch_segments(good: BoolArray, sample_rate: float, longest: int) -> WelchSegments | None:
    """Return the segments of a stream, at most half of it long, that are three quarters good.

    They are shorter where there are many gaps, and then without the lowest frequencies; None if the shortest
    do not fit.
    """
    length = min(longest, 1 << max(len(good) // 2, 1).bit_length() - 1)
    while length >= SHORTEST:
        starts = range(0, len(good) - length + 1, length // 2)
        used = tuple(start for start in starts if good[start : start + length].mean() >= _GOOD_FRACTION)
        if used:
            return WelchSegments(sample_rate, length, used)
        length //= 2
    return None


def fill_gaps(samples: FloatArray, good: BoolArray) -> FloatArray:
    """Return the samples with a line across each gap, float64 (n,).

    It joins the means of as many samples on either side as the gap is long: a line between two samples alone
    would stretch their white noise to slow noise.

    Parameters
    ----------
    samples : float64 (n,)
    good : bool (n,)
        At least one is.
    """
    if good.all():
        return samples
    edges = np.flatnonzero(np.diff(good, prepend=True, append=True))
    starts, stops = edges[::2], edges[1::2]
    lengths = stops - starts
    sums = np.cumsum(np.where(good, samples, 0.0), dtype=np.float64)
    totals, counts = np.concatenate([[0.0], sums]), np.concatenate([[0], np.cumsum(good)])

    def mean(begin: Int64Array, end: Int64Array) -> FloatArray:
        with np.errstate(invalid="ignore"):  # there is nothing before a gap at the start
            return np.asarray((totals[end] - totals[begin]) / (counts[end] - counts[begin]))

    before = mean(np.maximum(starts - lengths, 0), starts)
    after = mean(stops, np.minimum(stops + lengths, len(samples)))
    before, after = np.where(np.isnan(before), after, before), np.where(np.isnan(after), before, after)
    filled, gap = samples.copy(), np.repeat(np.arange(len(starts)), lengths)
    bad = np.flatnonzero(~good)
    share = (bad + 0.5 - starts[gap] + lengths[gap] / 2) / (2 * lengths[gap])
    filled[bad] = before[gap] + share * (after[gap] - before[gap])
    return filled


def smooth_power(frequencies: FloatArray, power: FloatArray, scatter: FloatArray) -> FloatArray:
    """Return the mean power within an octave of each frequency, along the local power law, float64 (n,).

    Parameters
    ----------
    frequencies, power, scatter : float64 (n,)
        Hz, K^2/Hz, and relative standard errors.
    """
    x = np.log(frequencies)
    slopes = _slopes(x, np.log(power), scatter)
    distances = x[:, None] - x
    weights = (np.abs(distances) <= np.log(2)) / scatter**2
    moved = power * np.exp(slopes[:, None] * distances)
    return np.asarray(np.sum(weights * moved, axis=1) / weights.sum(axis=1))


def _slopes(x: FloatArray, y: FloatArray, errors: FloatArray) -> FloatArray:
    """Return the slope of y over x around each x, but for y there: weighted least squares, float64 (n,)."""
    near = (x >= x[:, None] - np.log(2)) & (x <= x[:, None] + np.log(4)) & (x != x[:, None])
    weights = near / errors**2
    weights /= weights.sum(axis=1, keepdims=True)
    dx, dy = (one - np.sum(weights * one, axis=1, keepdims=True) for one in (x, y))
    slopes = np.sum(weights * dx * dy, axis=1) / np.maximum(np.sum(weights * dx**2, axis=1), 1e-12)
    return np.asarray(np.clip(slopes, -_STEEPEST, _STEEPEST))


def detrended(values: FloatArray) -> FloatArray:
    """Return values without the line that is fitted to them.

    Of 8192 values it takes a seventh of the time of `scipy.signal.detrend`.
    """
    times, squares = _times(len(values))
    # not by BLAS, whose sums are those of its threads
    return values - (np.mean(values) + np.sum(times * values) / squares * times)


@lru_cache(maxsize=8)
def _times(length: int) -> tuple[FloatArray, float]:
    """Return the times of samples from their middle, float64 (length,), and the sum of their squares."""
    times = np.arange(length, dtype=np.float64) - (length - 1) / 2
    return times, float(np.sum(times**2))


@lru_cache(maxsize=8)
def hann(length: int) -> FloatArray:
    """Return Hann's window, periodic; to load `scipy.signal` for it takes 0.3 s."""
    return np.asarray(np.hanning(length + 1)[:-1], np.float64)


@lru_cache(maxsize=8)
def _kernels(length: int) -> FloatArray:
    """Return the response of the lowest periodograms to each frequency, float64 (n_line, n_frequency).

    Of a segment of `length`, detrended and windowed: power at line k = sum over the frequencies of
    ``kernels[k] S(f)``, at ``(j + 1/2) / _OVERSAMPLED`` lines. Longer segments have the same kernels.
    """
    from scipy.fft import fft, ifft

    window = hann(length)
    times, squares = _times(length)
    trend = np.stack([np.ones(length), times], axis=1) / np.sqrt([length, squares])
    lines = np.arange(_FIRST, length // 8 + 1)
    waves = window * np.exp(-2j * np.pi / length * np.outer(lines, np.arange(length)))
    waves -= (waves @ trend) @ trend.T
    n, half = length * _OVERSAMPLED, np.exp(1j * np.pi / (length * _OVERSAMPLED) * np.arange(length))
    power = np.abs(ifft(waves * half, n) * n) ** 2 + np.abs(fft(waves / half, n)) ** 2
    power = power[:, : n // 2]
    return np.asarray(power / (length * _OVERSAMPLED * np.sum(window**2)))
