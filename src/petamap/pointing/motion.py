"""Motions of the boresight as functions of time, and knots laid on them within an allowed error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petacomm.base.units import ARCSEC
from petamap.pointing import quaternion
from petamap.pointing.boresight import (
    AnyBoresight,
    Boresight,
    PiecewiseBoresight,
    PointingError,
    piecewise_boresight,
    pointing_error,
)

_LARGEST_SPACING = 4096.0  # samples
_SMALLEST_SPACING = 0.125
_POINTS = 16  # of an interval between knots, at which the error is computed
# What the error may be between these points: 0.4 % more where it is as smooth as a cubic leaves it.
_MARGIN = 1.05
_ROUNDING = 1e-9  # arcsec; some last bits of a quaternion
_RUN = 64  # intervals of a smooth motion that are looked at together
_BATCH = 1 << 18  # points at once
_MOST_POINTS = 1 << 22  # of a run: pieces that take more have a knot at every sample


@dataclass(frozen=True)
class Motion:
    """Motion of the boresight: a function of time that is smooth but at the ends of its pieces.

    Attributes
    ----------
    function : callable
        Function of seconds (n,) since the first sample that returns quaternions (n, 4) from the telescope
        frame to the sky frame; also of times before the first sample and after the last one.
    pieces : tuple of float
        Durations in seconds of the pieces, which follow each other periodically from time 0 on, as legs and
        turn-arounds do; none if the motion is smooth everywhere.
    windows : tuple of (callable, float)
        Functions like the first, and durations: from time 0 of each until the end of its duration happens
        all that ever happens in the motion, up to a rotation of the sky. Errors of interpolation are
        computed there. With pieces, a duration is a whole number of periods. Empty: at every sample.
    """

    function: Callable[[FloatArray], FloatArray]
    pieces: tuple[float, ...] = ()
    windows: tuple[tuple[Callable[[FloatArray], FloatArray], float], ...] = ()

    def __call__(self, seconds: FloatArray) -> FloatArray:
        """Return the quaternions (n, 4) at times (n,)."""
        return self.function(seconds)

    def rotated(self, rotation: FloatArray) -> Motion:
        """Return the motion in another sky frame, given the quaternion (4,) from this frame to the other."""
        return replace(self, function=lambda seconds: quaternion.multiply(rotation, self(seconds)))


@dataclass(frozen=True)
class KnotSpacing:
    """Spacing of knots on a motion, and the error of interpolation between them.

    Attributes
    ----------
    samples : tuple of float
        Spacing in samples on each of the motion's pieces, or on all of a smooth motion; empty: a knot at
        every sample.
    error : PointingError
        Bound of the error of every sample.
    """

    samples: tuple[float, ...]
    error: PointingError

    @property
    def extremes(self) -> tuple[float, float]:
        """Smallest and largest spacing in samples."""
        return min(self.samples, default=1.0), max(self.samples, default=1.0)


def sample_motion(
    motion: Callable[[FloatArray], FloatArray],
    n_samp: int,
    sample_rate: float,
    *,
    tolerance_arcsec: float = 0.1,
) -> tuple[AnyBoresight, PointingError]:
    """Return the boresight of a motion sampled at knots, and a bound of its interpolation error.

    Parameters
    ----------
    motion : Motion or callable
        A function of seconds (n,) since the first sample that returns quaternions (n, 4) is taken to be
        smooth everywhere.
    n_samp : int
        Number of samples.
    sample_rate : float
        Hz.
    tolerance_arcsec : float
        Largest error of the rotation, and so of the line of sight of any detector.

    Returns
    -------
    boresight : Boresight or PiecewiseBoresight
        With a knot at every sample if no other spacing is within the tolerance.
    error : PointingError
        Bound of the error of every sample.

    Examples
    --------
    >>> from petamap.pointing import scan_strategies
    >>> from petamap.pointing.motion import sample_motion
    >>> boresight, error = sample_motion(scan_strategies.satellite(), 100_000, 50.0, tolerance_arcsec=1e-3)
    >>> boresight.spacing, error.max_arcsec < 1e-3
    (512.0, True)
    """
    if not isinstance(motion, Motion):
        motion = Motion(motion)
    spacing = choose_knot_spacing(motion, n_samp, sample_rate, tolerance_arcsec)
    return place_knots(motion, n_samp, sample_rate, spacing.samples), spacing.error


def choose_knot_spacing(
    motion: Motion, n_samp: int, sample_rate: float, tolerance_arcsec: float
) -> KnotSpacing:
    """Return the largest spacing of knots, a power of two or slightly less, within an allowed error.

    The error is computed at 16 points between neighbouring knots in the windows of the motion, or at every
    sample.

    Parameters
    ----------
    motion : Motion
    n_samp : int
        Largest number of samples of an observation with this motion.
    sample_rate : float
        Hz.
    tolerance_arcsec : float
        Largest error of the rotation.

    Returns
    -------
    KnotSpacing
    """
    search = _SpacingSearch(motion, n_samp / sample_rate, sample_rate, tolerance_arcsec)
    chosen = [search.largest(kind) for kind in range(max(1, len(motion.pieces)))]
    found = [one for one in chosen if one is not None]
    spacings = tuple(spacing for spacing, _ in found)
    if len(found) < len(chosen) or _knots_per_sample(motion, sample_rate, spacings) >= 1:
        return KnotSpacing((), PointingError(0.0, 0.0))
    return KnotSpacing(spacings, reduce(PointingError.combined, (error for _, error in found)))


def _knots_per_sample(motion: Motion, sample_rate: float, spacings: tuple[float, ...]) -> float:
    if not motion.pieces:
        return 1 / spacings[0]
    lengths = [length * sample_rate for length in motion.pieces]
    return sum(length / s + 1 for length, s in zip(lengths, spacings, strict=True)) / sum(lengths)


@dataclass(frozen=True)
class _SpacingSearch:
    """Search for the largest spacing of knots within an allowed error."""

    motion: Motion
    duration: float
    sample_rate: float
    tolerance: float

    def largest(self, kind: int) -> tuple[float, PointingError] | None:
        """Return the largest spacing (samples) on pieces of one kind, and its error, or None."""
        tried, spacing = 0, _LARGEST_SPACING
        smallest = _SMALLEST_SPACING if self.motion.pieces else 2.0
        while spacing >= smallest:
            n_intervals, step = self._intervals(kind, spacing / self.sample_rate)
            if n_intervals * self._points(step) > _MOST_POINTS:
                return None
            error = None if n_intervals == tried else self._error(kind, n_intervals, step)
            if error is not None and error.max_total_arcsec <= self.tolerance:
                return step * self.sample_rate, error
            tried, spacing = (n_intervals if self.motion.pieces else 0), spacing / 2
        return None

    def _intervals(self, kind: int, spacing: float) -> tuple[int, float]:
        """Return the number of intervals between knots in a run, and their length in seconds.

        A run is a piece of the motion, or 64 intervals of a smooth motion.
        """
        pieces = self.motion.pieces
        if not pieces:
            return _RUN, spacing
        n_intervals = max(3, math.ceil(pieces[kind] / spacing - 1e-9))
        return n_intervals, pieces[kind] / n_intervals

    def _runs(self, duration: float, kind: int, length: float) -> FloatArray:
        """Return the times from 0 to a duration at which runs of a length begin."""
        pieces = self.motion.pieces
        if not pieces:
            return np.arange(0.0, duration, length)
        # Every observation begins with the first piece.
        period = sum(pieces)
        n_runs = max(1, math.ceil(min(duration, self.duration) / period - 1e-9))
        return period * np.arange(n_runs, dtype=np.float64) + sum(pieces[:kind])

    def _error(self, kind: int, n_intervals: int, step: float) -> PointingError | None:
        """Return a bound of the error in all runs; None if knots are too far apart."""
        at_once = max(1, _BATCH // (self._points(step) * n_intervals))
        worst = PointingError(0.0, 0.0)
        for function, duration in self.motion.windows or ((self.motion, self.duration),):
            starts = self._runs(duration, kind, n_intervals * step)
            for k in range(0, len(starts), at_once):
                error = self._error_of_runs(function, starts[k : k + at_once, None], n_intervals, step)
                if error is None or error.max_total_arcsec > self.tolerance:
                    return error
                worst = worst.combined(error)
        return worst

    def _points(self, step: float) -> int:
        """Return the number of points of an interval: the samples, where a motion may do anything."""
        return _POINTS if self.motion.windows else max(_POINTS, math.ceil(step * self.sample_rate - 1e-9))

    def _error_of_runs(
        self, function: Callable[[FloatArray], FloatArray], starts: FloatArray, n_intervals: int, step: float
    ) -> PointingError | None:
        beyond = 0 if self.motion.pieces else 1  # knots beyond each end of a run
        n_points = self._points(step)
        times = starts + step * (np.arange(n_points * n_intervals) / n_points)
        knot_times = starts + step * np.arange(-beyond, n_intervals + beyond + 1)
        knots = function(knot_times.ravel()).reshape(*knot_times.shape, 4)
        try:
            runs = [Boresight(k, times.shape[1], float(n_points), -n_points * beyond) for k in knots]
        except DataError:
            return None
        exact = function(times.ravel())
        error = pointing_error(PiecewiseBoresight(runs), exact)
        steps = np.diff(quaternion.align_signs(exact).reshape(*times.shape, 4), axis=1)
        speed = 2 * float(np.linalg.norm(steps, axis=2).max()) * n_points / step / ARCSEC
        rounding = _ROUNDING + speed * float(np.spacing(self.duration))
        return PointingError(
            _MARGIN * error.max_arcsec + rounding, _MARGIN * error.max_roll_arcsec + rounding
        )


def place_knots(motion: Motion, n_samp: int, sample_rate: float, spacings: tuple[float, ...]) -> AnyBoresight:
    """Return the boresight of a motion sampled at knots.

    Parameters
    ----------
    motion : Motion
    n_samp : int
        Number of samples.
    sample_rate : float
        Hz.
    spacings : tuple of float
        `samples` of a `KnotSpacing`.

    Returns
    -------
    Boresight or PiecewiseBoresight
    """
    if not spacings:
        return Boresight(motion(np.arange(n_samp, dtype=np.float64) / sample_rate), n_samp)
    if not motion.pieces:
        # a knot beyond each end, so that every sample lies in the middle one of three intervals
        n_knots = max(1, math.ceil((n_samp - 1) / spacings[0])) + 3
        steps = np.arange(-1, n_knots - 1, dtype=np.float64)
        return Boresight(motion(steps * (spacings[0] / sample_rate)), n_samp, spacings[0], -spacings[0])
    return _lay_on_pieces(motion, n_samp, sample_rate, spacings)


def _lay_on_pieces(
    motion: Motion, n_samp: int, sample_rate: float, spacings: tuple[float, ...]
) -> AnyBoresight:
    """Return the boresight with knots at both ends of each piece, and uniformly between them."""
    period, kinds = sum(motion.pieces), len(motion.pieces)
    edges = np.concatenate([[0.0], np.cumsum(motion.pieces)])[:-1]
    n_pieces = kinds * math.ceil(n_samp / sample_rate / period)
    starts = (period * np.arange(n_pieces // kinds)[:, None] + edges).ravel()
    firsts = np.ceil(starts * sample_rate).astype(np.int64)
    stops = np.minimum(np.append(firsts[1:], n_samp), n_samp)
    numbers = [round(length * sample_rate / s) for length, s in zip(motion.pieces, spacings, strict=True)]
    times = [
        starts[k] + motion.pieces[k % kinds] * np.linspace(0.0, 1.0, numbers[k % kinds] + 1)
        for k in range(n_pieces)
    ]
    bounds = np.cumsum([0, *map(len, times)])
    knots = motion(np.concatenate(times))
    kept = np.flatnonzero(stops > firsts).tolist()
    offsets = starts * sample_rate - firsts
    return piecewise_boresight(
        [knots[bounds[k] : bounds[k + 1]] for k in kept],
        [(int(stops[k] - firsts[k]), spacings[k % kinds], float(offsets[k]), "cubic") for k in kept],
    )
