"""Observations and the interfaces of their parts: signals, flags and noise."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np

from petacomm.base.display import Displayed, some_names
from petacomm.base.typing import FloatArray, UInt8Array
from petacomm.mpi import Communicator
from petamap.data.node_reads import Read
from petamap.data.template import Template
from petamap.noise.common_modes import CommonNoise
from petamap.noise.model import NoiseModel
from petamap.pointing.protocol import Pointing


class Signal(Protocol):
    """Contribution to the time stream: a file, a simulated sky, simulated noise. Contributions add.

    That of a simulated sky alone has an attribute `of_sky`, which is True. One whose samples are had as
    quickly in any order has `any_order`, which is True; others are read detector by detector. Of these, one
    whose samples are had for a copy of memory has `in_memory`, which is True. One that is made of what the
    ranks of a node can share has a method `share`, which all ranks call with a communicator before they read;
    one of a sky has an attribute `shared_sky`, with `is_made`, `find` and `costs` as of `Sky`. One that reads
    files may have a method `signal_reads`, whose arguments are those of `add_signal` without `out` and which
    returns what it reads for them.
    """

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, float64 (stop - start,).

        The samples do not depend on the range in which they are computed.
        """


class BatchedSignal(Signal, Protocol):
    """Signal that is cheaper for several data sets at once, such as skies with a common pointing."""

    @property
    def batch_key(self) -> Hashable:
        """Key that is equal for signals that can be added in one batch."""

    @staticmethod
    def add_signal_batch(
        signals: Sequence[Any], detector: int, start: int, stop: int, outs: Sequence[FloatArray]
    ) -> None:
        """Add each signal, all with the same `batch_key`, to its array of `outs`, bitwise as `add_signal`."""


def add_signals(
    datasets: Sequence[Sequence[Signal]], detector: int, start: int, stop: int, outs: Sequence[FloatArray]
) -> None:
    """Add samples [start, stop) of the signals of each data set to its array of `outs`.

    Signals with the same position in their data sets and the same `batch_key` are added in one batch. Each
    array gets its signals in their order, hence its bits do not depend on the other data sets.

    Parameters
    ----------
    datasets : sequence of sequence of Signal
    detector, start, stop : int
    outs : sequence of float64 (stop - start,)
        One array for each data set.
    """
    for position in range(max((len(signals) for signals in datasets), default=0)):
        groups: dict[Hashable, list[int]] = {}
        for number, signals in enumerate(datasets):
            if position < len(signals):
                groups.setdefault(getattr(signals[position], "batch_key", number), []).append(number)
        for numbers in groups.values():
            batch = [datasets[number][position] for number in numbers]
            if len(batch) == 1:
                batch[0].add_signal(detector, start, stop, outs[numbers[0]])
            else:
                batched = cast(BatchedSignal, batch[0])
                batched.add_signal_batch(batch, detector, start, stop, [outs[number] for number in numbers])


def are_any_order(datasets: Iterable[Iterable[Iterable[Signal]]]) -> bool:
    """Return whether the samples of all signals of data sets are had as quickly in any order."""
    return _all_have("any_order", datasets)


def are_made(datasets: Iterable[Iterable[Iterable[Signal]]]) -> bool:
    """Return whether samples of data sets are made as they are asked for: not read, nor all copied."""
    return are_any_order(datasets) and not _all_have("in_memory", datasets)


def _all_have(attribute: str, datasets: Iterable[Iterable[Iterable[Signal]]]) -> bool:
    return all(getattr(one, attribute, False) for dataset in datasets for some in dataset for one in some)


def share_signals(datasets: Iterable[Iterable[Iterable[Signal]]], comm: Communicator) -> None:
    """Make what ranks can share once on each node, of the signals of data sets. Collective."""
    for dataset in datasets:
        for signals in dataset:
            for signal in signals:
                if (share := getattr(signal, "share", None)) is not None:
                    share(comm)


def share_templates(observations: Iterable[Observation], comm: Communicator) -> None:
    """Make what ranks can share once on each node, of signals that templates know. Collective."""
    known = (getattr(template, "signal", None) for one in observations for template in one.templates)
    share_signals([[[signal for signal in known if signal is not None]]], comm)


def signal_reads(signals: Iterable[Signal], detector: int, start: int, stop: int) -> list[Read]:
    """Return what signals tell that they read of files for samples [start, stop) of a detector."""
    return [one for each in signals for one in _reads(each, "signal_reads", detector, start, stop)]


def flag_reads(flags: Iterable[Flags], detector: int, start: int, stop: int) -> list[Read]:
    """Return what flags tell that they read of files for samples [start, stop) of a detector."""
    return [one for each in flags for one in _reads(each, "flag_reads", detector, start, stop)]


def pointing_reads(pointing: Pointing | None, detector: int, start: int, stop: int) -> list[Read]:
    """Return what pointing tells that it reads of files, as samples, for [start, stop) of a detector."""
    return _reads(pointing, "pointing_reads", detector, start, stop)


def _reads(one: Any, name: str, detector: int, start: int, stop: int) -> list[Read]:
    # of the class: pointing that is read when an attribute is missing should not be read for this
    tell: Callable[[Any, int, int, int], list[Read]] | None = getattr(type(one), name, None)
    return [] if tell is None else tell(one, detector, start, stop)


class Flags(Protocol):
    """Flags of bad samples.

    Those of samples that are no data, as of glitches, have an attribute `unsound`, which is True: what is
    made of them is bad as well. Those that read files may have a method `flag_reads`, as signals
    `signal_reads`.
    """

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out`, uint8 (stop - start,), to 1 for bad samples of [start, stop); leave the others."""


class Noise(Protocol):
    """Noise models of all detectors and stationary intervals of an observation.

    Those that are the same in all intervals have an attribute `same_in_intervals`, which is True: what is
    made of them is then made once.
    """

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the noise model of a detector in an interval of the observation."""


class AzimuthTrack(Protocol):
    """Azimuth of the telescope of an observation."""

    def azimuths(self, start: int, stop: int) -> FloatArray:
        """Return the azimuth of samples [start, stop), (stop - start,), radians from north to east."""


@dataclass(frozen=True)
class DetectorNoise:
    """Noise model of each detector, common to all intervals (implements `Noise`)."""

    models: tuple[NoiseModel, ...]
    same_in_intervals = True

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the model of a detector."""
        return self.models[detector]


@dataclass(frozen=True, repr=False)
class Observation(Displayed):
    """Contiguous range of samples of a set of detectors with common sampling.

    Parameters
    ----------
    name : str
        Unique in a run.
    uid : int
        Key of the random numbers of the observation, 0 <= uid < 2^32.
    n_samp : int
        Number of samples of each detector.
    sample_rate : float
        Hz.
    detectors : tuple of str
        Names of the detectors; elsewhere a detector is given by its index in this tuple.
    start_time : float
        Unix time of the first sample in seconds.
    intervals : tuple of (int, int)
        Stationary intervals [start, stop), increasing and disjoint; samples outside are not used.
    pointing : Pointing, optional
        Pointing of the detectors.
    frame : str, optional
        Frame of the pointing: "equatorial", "galactic" or "ecliptic"; or "offset", of offsets from a source
        that may move, which are mapped as they are. Required for maps of the sky; numbered pixels have none.
    signals : tuple of Signal
        Contributions to the time stream, which are added.
    flags : tuple of Flags
        Flags of bad samples; a sample is bad if any of them says so.
    noise : Noise, optional
        Noise models; required for map-making unless the noise is estimated.
    common_noise : tuple of CommonNoise
        Noise that the detectors share, beside that of each.
    templates : tuple of Template
        Contributions to the signal that are solved for with the map.
    azimuth : AzimuthTrack, optional
        Azimuth of the telescope, for templates that depend on it.
    unit : str
        Unit of the signal.
    meta : dict
        Additional information, such as the file that the observation was read from.

    Examples
    --------
    >>> import petamap
    >>> observation = petamap.Observation(
    ...     name="night-1", uid=1, n_samp=1000, sample_rate=50.0, detectors=("A", "B"),
    ...     intervals=((0, 1000),),
    ... )
    >>> observation.n_det
    2
    """

    name: str
    uid: int
    n_samp: int
    sample_rate: float
    detectors: tuple[str, ...]
    start_time: float = 0.0
    intervals: tuple[tuple[int, int], ...] = ()
    pointing: Pointing | None = None
    frame: str | None = None
    signals: tuple[Signal, ...] = ()
    flags: tuple[Flags, ...] = ()
    noise: Noise | None = None
    common_noise: tuple[CommonNoise, ...] = ()
    templates: tuple[Template, ...] = ()
    azimuth: AzimuthTrack | None = None
    unit: str = "K_CMB"
    meta: dict[str, object] = field(default_factory=dict, compare=False)

    def _facts(self) -> dict[str, object]:
        return {
            "name": self.name,
            "detectors": some_names(self.detectors),
            "n_samp": f"{self.n_samp:,}",
            "sample_rate": f"{self.sample_rate:g} Hz",
            "intervals": len(self.intervals),
            "frame": self.frame or "unknown",
            "signals": len(self.signals),
            "flags": len(self.flags),
            "noise": None if self.noise is None else type(self.noise).__name__,
            "unit": self.unit,
        }

    @property
    def n_det(self) -> int:
        """Number of detectors."""
        return len(self.detectors)


def read_signal(observation: Observation, detector: int, start: int, stop: int) -> FloatArray:
    """Return the sum of all signals of samples [start, stop), float64 (stop - start,)."""
    signal = np.zeros(stop - start)
    add_signals([observation.signals], detector, start, stop, [signal])
    return signal


def sky_signals(observation: Observation) -> list[Signal]:
    """Return the signals of an observation that are a simulated sky alone."""
    return [signal for signal in observation.signals if getattr(signal, "of_sky", False)]


def read_flags(observation: Observation, detector: int, start: int, stop: int) -> UInt8Array:
    """Return the union of all flags of samples [start, stop), uint8 (stop - start,)."""
    flags = np.zeros(stop - start, np.uint8)
    for part in observation.flags:
        part.or_flags(detector, start, stop, flags)
    return flags


def noise_models(observation: Observation) -> Iterator[list[NoiseModel]]:
    """Yield the noise models of all intervals of each detector, of an observation with noise."""
    assert observation.noise is not None
    for detector in range(observation.n_det):
        intervals = range(len(observation.intervals))
        yield [observation.noise.noise_model(detector, interval) for interval in intervals]


def same_in_intervals(observation: Observation) -> bool:
    """Return whether each detector has the same noise model in all intervals, as far as is known."""
    return bool(getattr(observation.noise, "same_in_intervals", observation.noise is None))


def noise_in_common(observation: Observation, interval: int) -> list[CommonNoise]:
    """Return the noise that the detectors share in an interval."""
    return [one for one in observation.common_noise if one.interval in (None, interval)]
