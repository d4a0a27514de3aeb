"""Simulated glitches of cosmic rays, which decay, and steps of the level."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petacomm.base.typing import FloatArray, Int64Array
from petamap.data.observation import Observation, Signal
from petamap.data.source import SourceContext
from petamap.simulation.random_keys import Purpose, random_stream, uniforms

_CELLS_PER_EVENT = 8  # cells in the mean time between events, at most one of which is in a cell
_DECAYED = 40.0  # decay times after which a glitch is over: exp(-40) is rounding


@dataclass(frozen=True)
class RandomEvents:
    """Samples at which something happens, at random and independently of each other.

    Time is divided into cells of an eighth of the mean time between events; a cell has an event with
    probability 1/8 at a uniformly distributed sample. It depends only on (seed, uid, detector, cell).

    Attributes
    ----------
    purpose : Purpose
    cell : int
        Length of a cell in samples.
    seed, uid : int
        Keys of the random numbers.
    """

    purpose: Purpose
    cell: int
    seed: int
    uid: int

    def within(self, detector: int, start: int, stop: int) -> tuple[Int64Array, FloatArray]:
        """Return the samples of the events in [start, stop), and numbers of theirs in [0, 1), (n,) each."""
        first, last = max(0, start // self.cell), max(0, (stop - 1) // self.cell + 1)
        words = random_stream(self.purpose, self.seed, 0, self.uid, detector)
        numbers = uniforms(words, 3 * (last - first), 3 * first).reshape(-1, 3)
        samples = np.arange(first, last) * self.cell + (numbers[:, 1] * self.cell).astype(np.int64)
        chosen = (numbers[:, 0] < 1 / _CELLS_PER_EVENT) & (samples >= start) & (samples < stop)
        return samples[chosen], numbers[chosen, 2]


@dataclass(frozen=True)
class CosmicRays:
    """Glitches that begin within a sample and decay exponentially (implements `Signal`).

    Attributes
    ----------
    events : RandomEvents
    amplitude : float
        Of the smallest; the largest have ten times that, log-uniformly distributed.
    decay : float
        Samples in which a glitch falls to 1/e; 0: it has one sample.
    """

    events: RandomEvents
    amplitude: float
    decay: float

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of the glitches to `out`, float64 (stop - start,)."""
        length = int(_DECAYED * self.decay) + 1
        samples, numbers = self.events.within(detector, start - length, stop)
        for sample, number in zip(samples.tolist(), numbers.tolist(), strict=True):
            begin, end = max(sample, start), min(sample + length, stop)
            times = np.arange(begin - sample, end - sample) / max(self.decay, 1e-9)
            out[begin - start : max(end - start, 0)] += self.amplitude * 10.0**number * np.exp(-times)


@dataclass(frozen=True)
class LevelSteps:
    """Steps of the level, up or down, each from its sample on (implements `Signal`).

    Attributes
    ----------
    events : RandomEvents
    height : float
    """

    events: RandomEvents
    height: float

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of the level to `out`, float64 (stop - start,)."""
        samples, numbers = self.events.within(detector, 0, stop)
        changes = np.where(numbers < 0.5, -self.height, self.height)
        levels = np.concatenate([[0.0], np.cumsum(changes)])
        out += levels[np.searchsorted(samples, np.arange(start, stop), side="right")]


@dataclass(frozen=True)
class CosmicRaysOptions:
    """Glitches of cosmic rays, which decay, of each detector at times of its own."""

    every: float = option(
        60.0, dimension="time", minimum=1e-3, maximum=1e9, help="mean time from one to the next"
    )
    amplitude: float = option(
        0.05, dimension="temperature", minimum=0.0,
        help="of the smallest; the largest have ten times that, evenly in their logarithm",
    )  # fmt: skip
    decay: float = option(0.01, dimension="time", minimum=0.0, help="time in which a glitch falls to 1/e")
    seed: int = option(0, help="added to the seed of the run")


@dataclass(frozen=True)
class StepsOptions:
    """Steps of the level, up or down, of each detector at times of its own: flux jumps."""

    every: float = option(
        1800.0, dimension="time", minimum=1e-3, maximum=1e9, help="mean time from one to the next"
    )
    height: float = option(0.05, dimension="temperature", minimum=0.0, help="change of the level")
    seed: int = option(0, help="added to the seed of the run")


class _EventsSource:
    """Base class of sources of events: adds a signal to the observations of the sources before."""

    options: ClassVar[type]
    purpose: ClassVar[Purpose]

    def __init__(self, options: Any, context: SourceContext) -> None:
        self._options, self._context = options, context

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with the signal added.

        Raises
        ------
        ConfigError
            If there are more events than one in eight samples.
        """
        return [dataclasses.replace(o, signals=(*o.signals, self._signal(o))) for o in observations]

    def _events(self, observation: Observation) -> RandomEvents:
        cell = round(self._options.every * observation.sample_rate / _CELLS_PER_EVENT)
        if cell < 1:
            raise ConfigError(
                "less than 8 samples from one event to the next", where=observation.name,
                mend="give a longer time between them with `every`",
            )  # fmt: skip
        seed = self._context.seed + self._options.seed
        return RandomEvents(self.purpose, cell, seed, observation.uid)

    def _signal(self, observation: Observation) -> Signal:
        raise NotImplementedError


class CosmicRaysSource(_EventsSource):
    """Source of glitches of cosmic rays."""

    options: ClassVar[type] = CosmicRaysOptions
    purpose = Purpose.GLITCHES

    def _signal(self, observation: Observation) -> Signal:
        decay = self._options.decay * observation.sample_rate
        return CosmicRays(self._events(observation), float(self._options.amplitude), decay)


class StepsSource(_EventsSource):
    """Source of steps of the level."""

    options: ClassVar[type] = StepsOptions
    purpose = Purpose.STEPS

    def _signal(self, observation: Observation) -> Signal:
        return LevelSteps(self._events(observation), float(self._options.height))
