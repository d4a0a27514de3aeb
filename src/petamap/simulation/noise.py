"""Simulated noise, computed on demand: instrumental noise of detectors, and a common mode."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import require_file
from petacomm.base.options import option
from petacomm.base.typing import FloatArray
from petamap.data.observation import Noise, Observation
from petamap.data.source import SourceContext
from petamap.noise.common_modes import CommonNoise
from petamap.noise.model import NoiseModel, OneOverF, TabulatedPsd, noise_key
from petamap.noise.psd import check_noise_model
from petamap.simulation import _simulation
from petamap.simulation.noise_filters import FilterCascade, design_cascade, interpolation_weights
from petamap.simulation.random_keys import Purpose, gaussians, random_stream, random_streams

_SHARED = 0xFFFFFFFF  # detector number of streams that all detectors share


@dataclass(frozen=True)
class UniformNoise:
    """Noise model common to all detectors and intervals (implements `Noise`)."""

    model: NoiseModel
    same_in_intervals = True

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the model."""
        return self.model


class SimulatedNoise:
    """Gaussian noise, stationary in each interval (implements `Signal`).

    The noise of a sample is a function of seed, realization, uid of the observation, detector, interval and
    sample. Intervals are independent; samples outside of them have no noise.

    Parameters
    ----------
    observation : Observation
        Gives uid, sample rate and intervals; without intervals the observation is one interval.
    noise : Noise
        Noise models.
    seed, realization : int
        Keys of the random numbers.
    scale : float
        Factor on the noise.
    """

    any_order = True

    def __init__(
        self, observation: Observation, noise: Noise, seed: int, realization: int, scale: float = 1.0
    ) -> None:
        self.noise = noise
        self.scale = scale
        self._observation = observation
        self._intervals = observation.intervals or ((0, observation.n_samp),)
        self._stops = [stop for _, stop in self._intervals]
        self._seed, self._realization = seed, realization
        self._cascades: dict[Hashable, FilterCascade] = {}

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add the noise of samples [start, stop) of a detector to `out`, float64 (stop - start,).

        Raises
        ------
        DataError
            If the noise model of the detector is not valid.
        """
        self.add(Purpose.NOISE, detector, detector, self.scale, start, stop, out)

    def add(
        self, purpose: Purpose, key: int, detector: int, scale: float, start: int, stop: int, out: FloatArray
    ) -> None:
        """Add the noise of the random stream `key` with the noise model of `detector`, times `scale`."""
        for number in range(bisect_right(self._stops, start), len(self._intervals)):
            first, last = (min(max(edge, start), stop) for edge in self._intervals[number])
            if first >= last:
                break
            cascade = self.cascade(detector, number)
            words = random_streams(
                purpose, self._seed, self._realization, self._observation.uid, key, number, cascade.n_levels
            )
            part = out[first - start : last - start]
            _simulation.add_noise(cascade.filters, interpolation_weights(), words, first, scale, part, 1)

    def cascade(self, detector: int, interval: int) -> FilterCascade:
        """Return the filters for the noise of a detector in an interval."""
        model, one = self.noise.noise_model(detector, interval), self._observation
        key = noise_key(model)
        if key not in self._cascades:
            check_noise_model(model, f"{one.name}, detector {one.detectors[detector]}, interval {interval}")
            self._cascades[key] = _cached_cascade(key, one.sample_rate, one.n_samp / one.sample_rate)
        return self._cascades[key]


class CommonMode:
    """Noise common to all detectors, with a coefficient for each (implements `Signal`).

    Parameters
    ----------
    shared : SimulatedNoise
        Noise of the mode.
    coefficients : float64 (n_det,)
    """

    def __init__(self, shared: SimulatedNoise, coefficients: FloatArray) -> None:
        self.shared = shared
        self.coefficients = coefficients

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, float64 (stop - start,)."""
        scale = self.shared.scale * float(self.coefficients[detector])
        self.shared.add(Purpose.COMMON_MODE, _SHARED, 0, scale, start, stop, out)


@dataclass(frozen=True)
class ModelOptions:
    """A noise model: 1/f noise by its parameters, or a PSD from a file."""

    net: float | None = option(None, dimension="noise", minimum=0.0, help="white level")
    fknee: float = option(0.0, dimension="frequency", minimum=0.0, help="knee; 0 is white noise")
    fmin: float = option(0.0, dimension="frequency", minimum=0.0, help="the spectrum is flat below this")
    alpha: float = option(
        -1.0, minimum=-10.0, maximum=0.0, help="slope of the spectrum at low frequency, negative"
    )
    psd: str | None = option(
        None, path=True, help="instead: a text file with frequency in Hz and one-sided PSD in K^2/Hz a line"
    )
    scale: float = option(1.0, help="factor on the noise")
    seed: int = option(0, help="added to the seed of the run")
    realization: int = option(0, help="added to the realization of the run")


@dataclass(frozen=True)
class NoiseSourceOptions(ModelOptions):
    """Instrumental noise, by the observation's own model unless one is given here."""


@dataclass(frozen=True)
class CommonModeOptions(ModelOptions):
    """Noise that all detectors share: one stream an observation, a coefficient a detector."""

    coefficients: tuple[float, ...] = option((), help="one a detector; all 1 where none are given")
    spread: float = option(
        0.0, minimum=0.0, help="standard deviation of random departures of the coefficients"
    )
    simulate: bool = option(True, help="false: the data have it already; only its noise model is given")


class _ModelSource:
    """Base class of sources of noise with a model of their own or that of the observation."""

    part: ClassVar[str] = "noise"

    def __init__(self, options: Any, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._own = _model_of_options(options, context)

    def _simulated(self, observation: Observation, noise: Noise) -> SimulatedNoise:
        options, context = self._options, self._context
        seed, realization = context.seed + options.seed, context.realization + options.realization
        return SimulatedNoise(observation, noise, seed, realization, options.scale)


class NoiseSource(_ModelSource):
    """Source of instrumental noise, and of a noise model for observations that have none."""

    options: ClassVar[type] = NoiseSourceOptions

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with simulated noise added.

        Raises
        ------
        ConfigError
            If neither the options nor an observation have a noise model.
        """
        return [self._with_noise(observation) for observation in observations]

    def _with_noise(self, observation: Observation) -> Observation:
        noise = self._own or observation.noise
        if noise is None:
            raise ConfigError(
                "has no noise model to simulate", where=observation.name, mend="give net or psd to the source"
            )
        signals = (*observation.signals, self._simulated(observation, noise))
        return dataclasses.replace(observation, signals=signals, noise=observation.noise or noise)


class CommonModeSource(_ModelSource):
    """Source of noise common to all detectors of an observation, and of its model.

    Raises
    ------
    ConfigError
        If the options have no noise model.
    """

    options: ClassVar[type] = CommonModeOptions

    def __init__(self, options: CommonModeOptions, context: SourceContext) -> None:
        super().__init__(options, context)
        if self._own is None:
            raise ConfigError("the common mode has no noise model", mend="give net or psd")

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with the common mode added.

        Raises
        ------
        ConfigError
            If the number of coefficients is not the number of detectors, or their squares are not finite.
        """
        return [self._with_mode(observation) for observation in observations]

    def _with_mode(self, observation: Observation) -> Observation:
        assert self._own is not None
        coefficients = self._coefficients(observation)
        scaled = float(self._options.scale) * coefficients
        sizes = np.abs(scaled[scaled != 0])
        if not np.all((sizes >= 1e-30) & (sizes <= 1e30)):
            what = f"coefficients times scale are of sizes {sizes.min():g} to {sizes.max():g}"
            raise ConfigError(what, where="common-mode", mend="0, or 1e-30 to 1e30")
        common = CommonNoise(scaled, self._own.model)
        signals = observation.signals
        if self._options.simulate:
            signals = (*signals, CommonMode(self._simulated(observation, self._own), coefficients))
        return dataclasses.replace(
            observation, signals=signals, common_noise=(*observation.common_noise, common)
        )

    def _coefficients(self, observation: Observation) -> FloatArray:
        given = self._options.coefficients or (1.0,) * observation.n_det
        if len(given) != observation.n_det:
            raise ConfigError(
                f"{len(given)} coefficients for {observation.n_det} detectors", where=observation.name
            )
        seed = self._context.seed + self._options.seed
        words = random_stream(Purpose.COEFFICIENTS, seed, 0, observation.uid)
        return np.array(given) + float(self._options.spread) * gaussians(words, len(given))


def read_psd(path: Path) -> TabulatedPsd:
    """Read a PSD from a text file of two columns: frequency in Hz, one-sided PSD in K^2/Hz; # for comments.

    Raises
    ------
    DataError
        If the file cannot be read or is not a PSD.
    """
    try:
        columns = np.loadtxt(require_file(path), ndmin=2)
    except (OSError, ValueError) as error:
        raise DataError(f"is no table of numbers: {error}", where=str(path)) from None
    if columns.ndim != 2 or columns.shape[1] != 2:
        raise DataError(f"has {columns.shape[1]} columns, not frequency and PSD", where=str(path))
    table = TabulatedPsd(np.ascontiguousarray(columns[:, 0]), np.ascontiguousarray(columns[:, 1]))
    check_noise_model(table, str(path))
    return table


def _model_of_options(options: ModelOptions, context: SourceContext) -> UniformNoise | None:
    if options.psd is not None:
        return UniformNoise(context.read(read_psd, context.folder / options.psd))
    if options.net is None:
        if options.fknee:
            raise ConfigError("fknee is given without net", mend="give both, or none")
        return None
    model = OneOverF(options.net, options.fknee, options.fmin, options.alpha)
    try:
        check_noise_model(model)
    except DataError as error:
        raise ConfigError(error.what) from None
    return UniformNoise(model)


@lru_cache(maxsize=4096)
def _cached_cascade(key: OneOverF | tuple[Any, ...], rate: float, duration: float) -> FilterCascade:
    """Return the cascade of the noise model of a `noise_key`, which the signals of all realizations share."""
    model: NoiseModel = key if isinstance(key, OneOverF) else key[0](*map(np.frombuffer, key[1:]))
    return design_cascade(model, rate, duration)
