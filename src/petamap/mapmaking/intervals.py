"""Stationary intervals cut shorter than the sources have them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from petamap.data.observation import Noise, Observation
from petamap.noise.model import NoiseModel


@dataclass(frozen=True)
class _SameNoise:
    """The noise of the interval that a shorter one was cut from."""

    noise: Noise
    origins: tuple[int, ...]

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        return self.noise.noise_model(detector, self.origins[interval])


def split_intervals(observation: Observation, seconds: float) -> Observation:
    """Return the observation with no interval longer than `seconds`, each an equal part of an old one."""
    longest = max(1, round(seconds * observation.sample_rate))
    intervals: list[tuple[int, int]] = []
    origins: list[int] = []
    for number, (start, stop) in enumerate(observation.intervals):
        parts = max(1, -(-(stop - start) // longest))
        cuts = [start + (stop - start) * part // parts for part in range(parts + 1)]
        intervals += pairwise(cuts)
        origins += [number] * parts
    noise = observation.noise and _SameNoise(observation.noise, tuple(origins))
    return replace(observation, intervals=tuple(intervals), noise=noise)
