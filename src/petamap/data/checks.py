"""What samples and observations must satisfy before a map is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray, UInt8Array
from petamap.data.observation import Observation

_NAMED = 5  # detectors that a warning names


def place(observation: Observation, detector: int | None = None, sample: int | None = None) -> str:
    """Return file, observation, detector and sample as an error message names them."""
    parts = [str(observation.meta["file"])] if "file" in observation.meta else []
    parts.append(f"observation {observation.name}")
    if detector is not None:
        parts.append(f"detector {observation.detectors[detector]}")
    if sample is not None:
        parts.append(f"sample {sample}")
    return ", ".join(parts)


def check_signal(
    observation: Observation, detector: int, start: int, signal: FloatArray, flags: UInt8Array | None = None
) -> int:
    """Check samples as they were read: those not flagged must be finite.

    Parameters
    ----------
    observation, detector, start
        Whose samples they are, and the number of the first.
    signal : (n,) float64
    flags : (n,) uint8, optional
        Not zero where a sample is bad.

    Returns
    -------
    n_good : int
        Number of samples not flagged.

    Raises
    ------
    DataError
        Naming the first sample that is nan or infinite, and how many there are.
    """
    good = np.ones(signal.shape, bool) if flags is None else flags == 0
    bad = good & ~np.isfinite(signal)
    if bad.any():
        first = int(bad.argmax())
        count = np.count_nonzero(bad)
        which = "a sample" if count == 1 else f"{count} samples"
        raise DataError(
            f"{which} of {signal.size} read from sample {start} on not finite; the first is {signal[first]}",
            where=place(observation, detector, start + first),
            mend="flag such samples",
        )
    return int(np.count_nonzero(good))


def check_times(times: npt.ArrayLike, where: str) -> FloatArray:
    """Return times as float64 (n,); they must be finite and increase.

    Raises
    ------
    DataError
        Naming the first sample where they don't.
    """
    values = np.asarray(times, np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise DataError(f"{bad.size} times are not finite", where=f"{where}, sample {bad[0]}")
    back = np.flatnonzero(~(np.diff(values) > 0))
    if back.size:
        at = int(back[0]) + 1
        raise DataError(
            f"times do not increase: {values[at - 1]} s is followed by {values[at]} s",
            where=f"{where}, sample {at}",
            mend="sort the samples by time",
        )
    return values


def check_observations(observations: Sequence[Observation]) -> list[str]:
    """Check what is known without reading samples.

    Returns
    -------
    warnings : list of str
        What is allowed and worth knowing: empty intervals, an observation of one sample.

    Raises
    ------
    DataError
        For no observations, equal names or keys of random numbers, no samples or detectors, equal names of
        detectors, different units, intervals that overlap or leave the observation, and pointing of another
        size.
    """
    if not observations:
        raise DataError("no observations to make a map of")
    _check_unique([one.name for one in observations], "observations are called")
    _check_unique([one.uid for one in observations], "observations have the uid")
    if other := next((one for one in observations if one.unit != observations[0].unit), None):
        first = f"{place(observations[0])} is in {observations[0].unit}"
        raise DataError(f"is in {other.unit}, but {first}", where=place(other), mend="map them one by one")
    warnings: list[str] = []
    for one in observations:
        _check_shape(one)
        warnings.extend(f"{place(one)}: {text}" for text in _check_intervals(one))
        if one.n_samp == 1:
            warnings.append(f"{place(one)}: has one sample only")
    return warnings


def warn_of_noise(observations: Sequence[Observation]) -> list[str]:
    """Return a warning of observations whose noise is drawn by another model than they declare."""
    where = [
        place(one)
        for one in observations
        if any(getattr(signal, "noise", one.noise) is not one.noise for signal in one.signals)
    ]
    if not where:
        return []
    return [
        f"{_first_of(where)}: noise is drawn by a model of the source's own, and map-making weighs by "
        "another, which the observation had before: its errors and covariances are of that"
    ]


def warn_of_flags(observations: Sequence[Observation], n_good: Sequence[Sequence[int]]) -> list[str]:
    """Return a warning for detectors all of whose samples are flagged; `n_good` counts good ones by detector.

    Observations that lose the same detectors share a warning.
    """
    places: dict[str, list[str]] = {}
    for one, counts in zip(observations, n_good, strict=True):
        lost = [name for name, count in zip(one.detectors, counts, strict=True) if not count]
        if lost:
            who = "every detector" if len(lost) == one.n_det else f"detector {_first_of(lost)}"
            places.setdefault(who, []).append(place(one))
    return [
        f"{_first_of(where)}: all samples of {who} are flagged; they add nothing to the map"
        for who, where in places.items()
    ]


def _first_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _check_shape(one: Observation) -> None:
    if one.n_samp < 1 or not one.detectors:
        raise DataError(f"has {one.n_samp} samples of {one.n_det} detectors", where=place(one))
    if not (np.isfinite(one.sample_rate) and one.sample_rate > 0):
        raise DataError(f"has a sample rate of {one.sample_rate} Hz", where=place(one))
    _check_unique(one.detectors, f"detectors of {place(one)} are called")
    pointing = one.pointing
    if pointing is not None and (pointing.n_det, pointing.n_samp) != (one.n_det, one.n_samp):
        raise DataError(
            f"has {one.n_samp} samples of {one.n_det} detectors, "
            f"its pointing {pointing.n_samp} of {pointing.n_det}",
            where=place(one),
        )


def _check_intervals(one: Observation) -> list[str]:
    warnings: list[str] = []
    end = 0
    for number, (start, stop) in enumerate(one.intervals):
        if not end <= start <= stop <= one.n_samp:
            raise DataError(
                f"interval {number}, [{start}, {stop}), overlaps another or leaves 0..{one.n_samp}",
                where=place(one),
            )
        if start == stop:
            warnings.append(f"interval {number} at sample {start} is empty")
        end = stop
    if not one.intervals:
        warnings.append("has no stationary interval: none of its samples is used")
    return warnings


def _check_unique(values: Iterable[object], what: str) -> None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise DataError(f"two {what} {value}", mend="give each its own")
        seen.add(value)
