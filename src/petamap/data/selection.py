"""Choice of observations and detectors of a source, the same for all formats and simulations."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from petacomm.base.name_patterns import choose_names
from petacomm.base.options import option
from petacomm.base.typing import Float32Array, FloatArray, Int32Array, UInt8Array, UInt32Array
from petamap.data.derived_signal import DerivedSignal
from petamap.data.node_reads import Read
from petamap.data.observation import Flags, Noise, Observation, flag_reads
from petamap.data.source import SourceContext
from petamap.noise.model import NoiseModel
from petamap.pointing.protocol import Pointing
from petamap.pointing.sampled import DirectedPointing
from petamap.sky.pixelization import Pixelization


def detectors_option() -> Any:
    """Return the option ``detectors`` of a source that gives observations."""
    return option((), help="names, patterns as LFI28*, or beginnings of names; default: all")


def observations_option() -> Any:
    """Return the option ``observations`` of a source that gives observations."""
    return option((), help="names, patterns as night-0*, or beginnings of names; default: all")


def select_observations(
    given: Sequence[Observation],
    context: SourceContext,
    *,
    observations: Sequence[str],
    detectors: Sequence[str],
) -> list[Observation]:
    """Return the chosen observations with their chosen detectors, in their order; reads no samples.

    Observations that have none of the chosen detectors are left out.

    Parameters
    ----------
    given : sequence of Observation
    context : SourceContext
        Says in messages where the options stand.
    observations, detectors : sequence of str
        Names, patterns or beginnings of names (`petacomm.base.name_patterns`); all where there are none.

    Raises
    ------
    ConfigError
        If a name or pattern fits no observation, or no detector of the chosen observations.
    """
    if not observations and not detectors:
        return list(given)
    names = choose_names(
        observations, (one.name for one in given), "observation", where=context.place("observations")
    )
    chosen = [one for one in given if one.name in names]
    kept = choose_names(
        detectors,
        (name for one in chosen for name in one.detectors),
        "detector",
        where=context.place("detectors"),
    )
    return [_with_detectors(one, kept) for one in chosen if kept.intersection(one.detectors)]


def first_samples(given: Sequence[Observation], fraction: float) -> list[Observation]:
    """Return the first observations, with a fraction of the samples that all have in their intervals.

    The intervals of the last one end there; samples after them are not used, but are still there to be read.
    """
    all_samples = sum(one.n_det * (stop - start) for one in given for start, stop in one.intervals)
    kept, left = [], math.ceil(fraction * all_samples)
    for one in given:
        intervals = []
        for start, stop in one.intervals:
            n = min(stop - start, -(-left // one.n_det))
            if n > 0:
                intervals.append((start, start + n))
                left -= n * one.n_det
        if intervals or not all_samples:
            kept.append(dataclasses.replace(one, intervals=tuple(intervals)))
    return kept


def _with_detectors(observation: Observation, kept: set[str]) -> Observation:
    numbers = tuple(number for number, name in enumerate(observation.detectors) if name in kept)
    if len(numbers) == observation.n_det:
        return observation
    return dataclasses.replace(
        observation,
        detectors=tuple(observation.detectors[number] for number in numbers),
        pointing=_chosen_pointing(observation.pointing, numbers),
        signals=tuple(ChosenSignal(signal, numbers) for signal in observation.signals),
        flags=tuple(ChosenFlags(flags, numbers) for flags in observation.flags),
        noise=ChosenNoise(observation.noise, numbers) if observation.noise else None,
    )


def _chosen_pointing(pointing: Pointing | None, numbers: tuple[int, ...]) -> Pointing | None:
    if isinstance(pointing, DirectedPointing):
        return pointing.of_detectors(numbers)
    return None if pointing is None else ChosenPointing(pointing, numbers)


@dataclass(frozen=True, eq=False)
class ChosenSignal(DerivedSignal):
    """Signal of some detectors (implements `Signal`).

    Attributes
    ----------
    numbers : tuple of int
        Number in `signal` of each detector.
    """

    numbers: tuple[int, ...]

    @property
    def in_memory(self) -> bool:
        """Whether samples are had for a copy of memory."""
        return bool(getattr(self.signal, "in_memory", False))

    def inputs(self, detector: int, start: int, stop: int) -> tuple[int, int, int]:
        """Return the detector and the samples of `signal` that samples [start, stop) of one are made of."""
        return self.numbers[detector], start, stop

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, float64 (stop - start,)."""
        self.signal.add_signal(self.numbers[detector], start, stop, out)


@dataclass(frozen=True, eq=False)
class ChosenFlags:
    """Flags of some detectors (implements `Flags`).

    Attributes
    ----------
    flags : Flags
    numbers : tuple of int
        Number in `flags` of each detector.
    """

    flags: Flags
    numbers: tuple[int, ...]

    def flag_reads(self, detector: int, start: int, stop: int) -> list[Read]:
        """Return what is read for samples [start, stop) of the flags of a detector."""
        return flag_reads([self.flags], self.numbers[detector], start, stop)

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out`, uint8 (stop - start,), to 1 for bad samples of [start, stop)."""
        self.flags.or_flags(self.numbers[detector], start, stop, out)


@dataclass(frozen=True, eq=False)
class ChosenNoise:
    """Noise of some detectors (implements `Noise`).

    Attributes
    ----------
    noise : Noise
    numbers : tuple of int
        Number in `noise` of each detector.
    """

    noise: Noise
    numbers: tuple[int, ...]

    @property
    def same_in_intervals(self) -> bool:
        """Whether models are the same in all intervals."""
        return bool(getattr(self.noise, "same_in_intervals", False))

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the noise model of a detector in an interval."""
        return self.noise.noise_model(self.numbers[detector], interval)


class ChosenPointing:
    """Pointing of some detectors of an observation, for kinds of pointing that are not compressed.

    Implements `Pointing`, with the ``pixelization`` of recorded pixels.

    Parameters
    ----------
    pointing : Pointing
    numbers : tuple of int
        Number in `pointing` of each detector.
    """

    def __init__(self, pointing: Pointing, numbers: tuple[int, ...]) -> None:
        self._pointing, self._numbers = pointing, numbers
        self.pixelization: Pixelization | None = getattr(pointing, "pixelization", None)

    @property
    def n_samp(self) -> int:
        """Number of samples of the observation."""
        return self._pointing.n_samp

    @property
    def n_det(self) -> int:
        """Number of detectors that were chosen."""
        return len(self._numbers)

    @property
    def has_gains(self) -> bool:
        """Whether the intensity weight varies from sample to sample."""
        return self._pointing.has_gains

    def intensity(self, detector: int) -> float:
        """Return the intensity weight of a detector."""
        return self._pointing.intensity(self._numbers[detector])

    def efficiency(self, detector: int) -> float:
        """Return the polarization efficiency of a detector."""
        return self._pointing.efficiency(self._numbers[detector])

    def expand(
        self,
        pixelization: Pixelization,
        detector: int,
        start: int,
        stop: int,
        pixels: Int32Array,
        angles: UInt32Array | None,
        gains: Float32Array | None = None,
    ) -> None:
        """Write pixel numbers, response angles and gains of samples [start, stop) to arrays."""
        number = self._numbers[detector]
        self._pointing.expand(pixelization, number, start, stop, pixels, angles, gains)

    def directions(self, detector: int, start: int, stop: int) -> tuple[FloatArray, UInt32Array]:
        """Return unit vectors (n, 3) and response angles (n,)."""
        return self._pointing.directions(self._numbers[detector], start, stop)
