"""Noise of streams with too few good samples to measure it: that of the nearest streams which have enough.

The last interval of an observation is short, or most of a detector's samples are flagged: such streams are
part of all real data, and add little to a map.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np

from petamap.data.observation import Observation
from petamap.noise.model import EstimatedPsd, TabulatedPsd

StreamKey = tuple[int, int, int]  # observation, detector and interval
_NAMED = 3  # streams in a warning


class NearestStreams:
    """The measured streams nearest to others, in the intervals of a run one after the other.

    Parameters
    ----------
    observations : sequence of Observation
    spectra : mapping
        Of streams; those that were not measured from data are not taken from.
    """

    def __init__(
        self, observations: Sequence[Observation], spectra: Mapping[StreamKey, TabulatedPsd]
    ) -> None:
        self._observations = observations
        self._firsts = np.cumsum([0, *(len(one.intervals) for one in observations)])
        self._of_detector: dict[str, list[StreamKey]] = {}
        self._of_interval: dict[int, list[StreamKey]] = {}
        self._levels: dict[StreamKey, float] = {}
        for key, psd in sorted(spectra.items()):
            if isinstance(psd, EstimatedPsd):
                self._levels[key] = float(psd.values[-1])
                self._of_detector.setdefault(self._name(key), []).append(key)
                self._of_interval.setdefault(self._place(key), []).append(key)
        self._places = sorted(self._of_interval)

    def of(self, key: StreamKey) -> StreamKey | None:
        """Return the stream whose noise another takes; None where none was measured.

        That of the same detector, by name, in the nearest interval, the earlier of two as near; where the
        detector was measured nowhere, the detector of median white noise in the nearest interval.
        """
        place = self._place(key)
        if same := self._of_detector.get(self._name(key)):
            places = [self._place(one) for one in same]
            return same[_nearest(places, place)]
        if not self._places:
            return None
        detectors = self._of_interval[self._places[_nearest(self._places, place)]]
        return sorted(detectors, key=lambda one: (self._levels[one], one))[(len(detectors) - 1) // 2]

    def _name(self, key: StreamKey) -> str:
        return self._observations[key[0]].detectors[key[1]]

    def _place(self, key: StreamKey) -> int:
        """Return the number of a stream's interval among those of the run."""
        return int(self._firsts[key[0]]) + key[2]


def _nearest(places: Sequence[int], place: int) -> int:
    """Return which of increasing places is nearest to one, the first of two."""
    after = bisect_left(places, place)
    return min((k for k in (after - 1, after) if 0 <= k < len(places)), key=lambda k: abs(places[k] - place))


def describe_substitutes(
    substitutes: Mapping[StreamKey, StreamKey], observations: Sequence[Observation]
) -> str:
    """Return a warning of streams that have the noise of others, of which some are named."""
    pairs = sorted(substitutes.items())
    named = [f"that of {_described(one, observations)} from {_other(one, other, observations)}"
             for one, other in pairs[:_NAMED]]  # fmt: skip
    more = [f"and {len(pairs) - _NAMED} more"] if len(pairs) > _NAMED else []
    streams = "a stream" if len(pairs) == 1 else f"{len(pairs)} streams"
    return (
        f"too few good samples to measure the noise of {streams}, which is taken from others: "
        f"{', '.join(named + more)}; flag what is not to be mapped"
    )


def _described(key: StreamKey, observations: Sequence[Observation]) -> str:
    one = observations[key[0]]
    return f"observation {one.name}, detector {one.detectors[key[1]]}, interval {key[2]}"


def _other(key: StreamKey, other: StreamKey, observations: Sequence[Observation]) -> str:
    """Return what differs of the stream that noise is taken from."""
    one, parts = observations[other[0]], []
    if other[0] != key[0]:
        parts.append(f"observation {one.name}")
    if one.detectors[other[1]] != observations[key[0]].detectors[key[1]]:
        parts.append(f"detector {one.detectors[other[1]]}")
    if other[0] != key[0] or other[2] != key[2]:
        parts.append(f"interval {other[2]}")
    return ", ".join(parts)
