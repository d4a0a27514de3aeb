"""An observation: what a run knows of one stretch of data, whoever provides the parts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from petacomm.base.typing import FloatArray, UInt8Array
from petamap.noise.model import NoiseModel
from petamap.pointing.protocol import Pointing


class Signal(Protocol):
    """Something that contributes to the time stream: a file, a sky, a noise simulation. Contributions add."""

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, float64 (stop - start,).

        Any range gives the same numbers, whoever asks and in whatever pieces.
        """
        ...


class SharingSignal(Signal, Protocol):
    """A signal that costs less for several data sets at once than for each alone: a sky, by its pointing."""

    @property
    def alike(self) -> Hashable:
        """What signals must have in common to be added together."""
        ...

    @staticmethod
    def add_together(
        signals: Sequence[Any], detector: int, start: int, stop: int, outs: Sequence[FloatArray]
    ) -> None:
        """Add each of the signals, which are alike, to its own out: the bits that `add_signal` gives."""
        ...


def add_signals(
    datasets: Sequence[Sequence[Signal]], detector: int, start: int, stop: int, outs: Sequence[FloatArray]
) -> None:
    """Add samples [start, stop) of the signals of each data set to its own out, float64 (stop - start,).

    Signals at the same place in their data sets that are alike are added together. Each out gets its signals
    in their order, so its bits do not depend on the other data sets.
    """
    for place in range(max((len(signals) for signals in datasets), default=0)):
        groups: dict[Hashable, list[int]] = {}
        for number, signals in enumerate(datasets):
            if place < len(signals):
                groups.setdefault(getattr(signals[place], "alike", number), []).append(number)
        for numbers in groups.values():
            found = [datasets[number][place] for number in numbers]
            if len(found) == 1:
                found[0].add_signal(detector, start, stop, outs[numbers[0]])
            else:
                shared = cast(SharingSignal, found[0])
                shared.add_together(found, detector, start, stop, [outs[number] for number in numbers])


class Flags(Protocol):
    """Something that says which samples must not be used."""

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out` to 1 where a sample of [start, stop) is bad; leave the rest as it is."""
        ...


class Noise(Protocol):
    """Something that knows the noise of each detector in each stationary interval."""

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the model of a detector in an interval of the observation."""
        ...


@dataclass(frozen=True)
class Observation:
    """One stretch of data of a set of detectors with a common clock.

    Attributes
    ----------
    name : str
        Unique in a run.
    uid : int
        Key of its random numbers, 0 <= uid < 2^32.
    n_samp : int
        Samples of each detector.
    sample_rate : float
        Hz.
    detectors : tuple of str
        Names; everywhere else a detector is its index here.
    start_time : float
        Unix seconds of the first sample.
    intervals : tuple of (int, int)
        Stationary intervals [start, stop), increasing and disjoint; samples outside are not used.
    pointing : Pointing, optional
        Where the detectors look.
    signals : tuple of Signal
        What adds up to the time stream.
    flags : tuple of Flags
        What is united to the bad samples.
    noise : Noise, optional
        The noise model; the map-maker asks for it unless it is told to estimate.
    unit : str
        Unit of the signal.
    """

    name: str
    uid: int
    n_samp: int
    sample_rate: float
    detectors: tuple[str, ...]
    start_time: float = 0.0
    intervals: tuple[tuple[int, int], ...] = ()
    pointing: Pointing | None = None
    signals: tuple[Signal, ...] = ()
    flags: tuple[Flags, ...] = ()
    noise: Noise | None = None
    unit: str = "K_CMB"
    meta: dict[str, object] = field(default_factory=dict, compare=False)

    @property
    def n_det(self) -> int:
        """Number of detectors."""
        return len(self.detectors)
