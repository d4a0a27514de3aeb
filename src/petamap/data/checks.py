"""Checks of samples and observations before map-making."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import FloatArray
from petamap.data.observation import Observation
from petamap.sky.map_units import is_misspelled_kelvin

_EPOCHS = (31536000.0, 4102444800.0)  # Unix seconds, 1971 and 2100
_SAME_RATE = 0.01  # relative difference of a rate and that of times
_LEAP = 1.5  # distances of samples from which on others are missing
_NAMED = 5  # detectors that a warning names


def error_location(observation: Observation, detector: int | None = None, sample: int | None = None) -> str:
    """Return file, observation, detector and sample for an error message."""
    parts = [str(observation.meta["file"])] if "file" in observation.meta else []
    parts.append(f"observation {observation.name}")
    if detector is not None:
        parts.append(f"detector {observation.detectors[detector]}")
    if sample is not None:
        parts.append(f"sample {sample}")
    return ", ".join(parts)


def check_signal(observation: Observation, detector: int, start: int, signal: FloatArray) -> None:
    """Check that samples are finite.

    Parameters
    ----------
    observation, detector
        Observation and detector of the samples, for messages.
    start : int
        Number of the first sample.
    signal : (n,) float64

    Raises
    ------
    DataError
        If a sample is nan or infinite; names the first, and how many there are.
    """
    bad = ~np.isfinite(signal)
    if bad.any():
        first = int(bad.argmax())
        count = int(np.count_nonzero(bad))
        others = f", the first of {count} not finite up to sample {start + signal.size - 1}"
        raise DataError(
            f"is {signal[first]}" + others * (count > 1),
            where=error_location(observation, detector, start + first),
            mend="flag such samples",
        )


def check_times(times: npt.ArrayLike, where: str) -> FloatArray:
    """Return times as float64 (n,) after checking that they are finite and strictly increasing.

    Raises
    ------
    DataError
        If they are not; names the first sample.
    """
    values = np.asarray(times, np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise DataError(f"{bad.size} times are not finite", where=f"{where}, sample {bad[0]}")
    back = np.flatnonzero(~(np.diff(values) > 0))
    if back.size:
        sample = int(back[0]) + 1
        raise DataError(
            f"times do not increase: {values[sample - 1]} s is followed by {values[sample]} s",
            where=f"{where}, sample {sample}",
            mend="sort the samples by time",
        )
    return values


def check_sampling(
    times: FloatArray, sample_rate: float, intervals: Sequence[tuple[int, int]], where: str, mend: str
) -> None:
    """Check that times are those of a sample rate, without leaps in stationary intervals.

    Parameters
    ----------
    times : float64 (n,)
        Seconds, increasing.
    sample_rate : float
        Hz.
    intervals : sequence of (int, int)
        Samples [start, stop) in which noise is taken to be stationary.
    where, mend : str
        Of the times, and what can be done where they leap, for messages.

    Raises
    ------
    DataError
        If most samples are more than 1 % off the distance that the rate says, or two of an interval more than
        1.5 of their own apart; names the sample.
    """
    steps = np.diff(times)
    if not len(steps):
        return
    step = float(np.median(steps))
    if not abs(step * sample_rate - 1) <= _SAME_RATE:
        what = f"times are those of {1 / step:.6g} Hz, and the sample rate is {sample_rate:.6g} Hz"
        raise DataError(what, where=where, mend="correct the one or the other")
    within = np.zeros(len(steps), np.bool_)
    for start, stop in intervals:
        within[start : max(start, stop - 1)] = True
    for sample in np.flatnonzero(within & (steps > _LEAP * step))[:1].tolist():
        what = f"times leap by {steps[sample]:.6g} s to the next sample, within a stationary interval"
        raise DataError(what, where=f"{where}, sample {sample}", mend=mend)


def check_given(observations: Sequence[Observation], what: str, where: str | None = None) -> None:
    """Check that there are observations, for a source that adds `what` to those of the sources before it.

    Raises
    ------
    ConfigError
        If there are none.
    """
    if not observations:
        mend = "name it after the source of the observations"
        raise ConfigError(f"no source before it gives observations for {what}", where=where, mend=mend)


def check_dates(observation: Observation) -> None:
    """Check that the time of an observation is that of an epoch, as the places of bodies need.

    Raises
    ------
    ConfigError
        If it is not from 1971 to 2100: sources that know no time begin at 0, in 1970.
    """
    first, end = observation.start_time, observation.start_time + observation.n_samp / observation.sample_rate
    if not _EPOCHS[0] <= first < end < _EPOCHS[1]:
        raise ConfigError(
            f"begins at {first:.0f} s of Unix time: nobody says when it was observed",
            where=error_location(observation),
            mend="give its time to the source that reads it",
        )


def check_observations(observations: Sequence[Observation]) -> list[str]:
    """Check the consistency of observations without reading samples.

    Returns
    -------
    warnings : list of str
        Unusual properties that are allowed, such as empty intervals or observations of one sample.

    Raises
    ------
    DataError
        If there are no observations; if names or uids of observations, or names of detectors, are not unique;
        if units differ; if an observation has no samples or detectors; if intervals overlap or exceed the
        observation; or if the pointing has another size.
    """
    if not observations:
        raise DataError("no observations to make a map of")
    _check_unique([observation.name for observation in observations], "observations are called")
    _check_unique([observation.uid for observation in observations], "observations have the uid")
    first = observations[0]
    for other in observations:
        if other.unit != first.unit:
            what = f"is in {other.unit}, but {error_location(first)} is in {first.unit}"
            raise DataError(what, where=error_location(other), mend=_unit_remedy(other.unit, first.unit))
    warnings: list[str] = []
    if is_misspelled_kelvin(first.unit):
        what = f"the unit '{first.unit}' of the signal is not understood, and maps are in it"
        warnings.append(f"{error_location(first)}: {what}; {_TEMPERATURES}")
    for observation in observations:
        _check_shape(observation)
        warnings.extend(f"{error_location(observation)}: {text}" for text in _check_intervals(observation))
        if observation.n_samp == 1:
            warnings.append(f"{error_location(observation)}: has one sample only")
    return warnings


_TEMPERATURES = "temperatures are in K, mK, uK or nK, with or without _CMB, or in their names, as microkelvin"


def _unit_remedy(*units: str) -> str:
    """Return how observations in two units are mapped."""
    if any(is_misspelled_kelvin(unit) for unit in units):
        return f"correct the unit: {_TEMPERATURES}"
    if "K_CMB" in units:
        return "calibrate all to K_CMB, or map them one by one"
    return "bring all to one unit, or map them one by one"


# how simulated noise may differ from the noise model of its observation, and what that does
_NOISE_OTHERWISE = {
    "model": "noise is drawn by a model of the source's own, and map-making weighs by another, which the "
    "observation had before: its errors and covariances are of that",
    "scale": "noise is drawn with a scale, of which map-making does not know: its errors and covariances are "
    "of noise without it; give the source its net instead",
    "number": "noise is drawn by several sources, and map-making weighs by the model of one: its errors and "
    "covariances are of that",
}


def noise_model_warnings(observations: Sequence[Observation]) -> list[str]:
    """Return warnings of simulated noise that is not that of the model of its observation."""
    found: dict[str, list[str]] = {}
    for observation in observations:
        if (otherwise := _noise_otherwise(observation)) is not None:
            found.setdefault(otherwise, []).append(error_location(observation))
    return [f"{_first_of(where)}: {_NOISE_OTHERWISE[otherwise]}" for otherwise, where in found.items()]


def _noise_otherwise(observation: Observation) -> str | None:
    """Return how the simulated noise of an observation differs from its model; None if it does not."""
    drawn = [signal for signal in observation.signals if hasattr(signal, "noise")]
    if any(signal.noise is not observation.noise for signal in drawn):
        return "model"
    if any(abs(getattr(signal, "scale", 1.0)) != 1 for signal in drawn):
        return "scale"
    return "number" if len(drawn) > 1 else None


def unused_warnings(observations: Sequence[Observation], unused: Mapping[int, Sequence[int]]) -> list[str]:
    """Return warnings about detectors of which no sample makes the map.

    Observations that lose the same detectors share a warning.

    Parameters
    ----------
    observations : sequence of Observation
    unused : mapping of int to sequence of int
        Such detectors, increasing, by the number of their observation.
    """
    places: dict[str, list[str]] = {}
    for number, detectors in unused.items():
        observation, lost = observations[number], [observations[number].detectors[one] for one in detectors]
        who = "any detector" if len(lost) == observation.n_det else f"detector {_first_of(lost)}"
        places.setdefault(who, []).append(error_location(observation))
    return [
        f"{_first_of(where)}: no sample of {who} makes the map: "
        "all are flagged, outside the map or in pixels that are cut"
        for who, where in places.items()
    ]


class SignalStep(NamedTuple):
    """Step of the level of a signal: places in the run, first sample of the new level, and change."""

    observation: int
    detector: int
    sample: int
    change: float


def fault_warnings(
    observations: Sequence[Observation], dead: Sequence[tuple[int, int]], steps: Sequence[SignalStep]
) -> list[str]:
    """Return a warning of all dead channels, observation and detector, and one of all steps, if any."""
    warnings = []
    if dead:
        where = [error_location(observations[number], detector) for number, detector in dead]
        warnings.append(
            f"{_first_of(where)}: the signal is constant, as of a dead channel, and part of the map; "
            "cut such detectors by a source of kind 'cuts'"
        )
    if steps:
        where = [error_location(observations[number], *place) for number, *place, _ in steps]
        first = f"{steps[0].change:+.3g} {observations[steps[0].observation].unit}".strip()
        warnings.append(
            f"{_first_of(where)}: the level of the signal steps, first by {first}, and the map smears "
            "it along the scan; flag the samples around, or let an interval end there"
        )
    return warnings


def _first_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def check_not_empty(observation: Observation) -> None:
    """Raise a DataError if an observation has no samples or no detectors."""
    if observation.n_samp < 1 or not observation.detectors:
        raise DataError(
            f"has {observation.n_samp} samples of {observation.n_det} detectors",
            where=error_location(observation),
            mend="leave it away, or give it at least one sample of one detector",
        )


def _check_shape(observation: Observation) -> None:
    check_not_empty(observation)
    if not (np.isfinite(observation.sample_rate) and observation.sample_rate > 0):
        raise DataError(
            f"has a sample rate of {observation.sample_rate} Hz", where=error_location(observation)
        )
    _check_unique(observation.detectors, f"detectors of {error_location(observation)} are called")
    pointing = observation.pointing
    if pointing is not None and (pointing.n_det, pointing.n_samp) != (observation.n_det, observation.n_samp):
        raise DataError(
            f"has {observation.n_samp} samples of {observation.n_det} detectors, "
            f"its pointing {pointing.n_samp} of {pointing.n_det}",
            where=error_location(observation),
        )


def _check_intervals(observation: Observation) -> list[str]:
    warnings: list[str] = []
    end = 0
    for number, (start, stop) in enumerate(observation.intervals):
        if not end <= start <= stop <= observation.n_samp:
            raise DataError(
                f"interval {number}, [{start}, {stop}), overlaps another or leaves 0..{observation.n_samp}",
                where=error_location(observation),
            )
        if start == stop:
            warnings.append(f"interval {number} at sample {start} is empty")
        end = stop
    if not observation.intervals:
        warnings.append("has no stationary interval: none of its samples is used")
    return warnings


def _check_unique(values: Iterable[object], what: str) -> None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise DataError(f"two {what} {value}", mend="give each its own")
        seen.add(value)
