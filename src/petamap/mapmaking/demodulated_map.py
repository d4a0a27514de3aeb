"""The map of demodulated streams beside that of a run: white weights, templates fitted to the streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from petamap.data.demodulation import STREAMS, demodulated
from petamap.data.low_pass import LowPassOptions
from petamap.data.observation import Observation
from petamap.data.template import Sharing, Template, TemplateTerm
from petamap.mapmaking.filter_and_bin import white_options
from petamap.mapmaking.noise_kernels import ModelOf, declared_model
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.system import MapmakingSystem, set_up
from petamap.noise.model import NoiseModel

# Templates that streams have as detectors do; the plate's signal is rejected by the low-pass.
_OF_STREAMS = "offsets", "baselines", "polynomials", "azimuth-synchronous"
_REJECTED = "plate-synchronous"


@dataclass(frozen=True)
class _NoiseOfRun:
    """Noise that a run weighs an observation by (implements `Noise`)."""

    observation: Observation
    model_of: ModelOf

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the noise model of a detector in an interval."""
        return self.model_of(self.observation, detector, interval)


@dataclass(frozen=True, eq=False)
class IntensityTemplate:
    """Template of detectors for their streams of intensity, which alone have slow signals (a `Template`)."""

    template: Template

    @property
    def name(self) -> str:
        """What it is."""
        return self.template.name

    @property
    def sharing(self) -> Sharing | None:
        """Which streams have the same amplitudes."""
        return getattr(self.template, "sharing", None)

    def concerns(self, detector: int, start: int, stop: int) -> bool:
        """Return whether a stream is one of intensity."""
        return detector % len(STREAMS) == 0

    def term(self, observation: Observation, start: int, stop: int) -> TemplateTerm:
        """Return the functions of the samples of an interval of the streams."""
        return self.template.term(observation, start, stop)


def demodulated_streams(
    observations: Sequence[Observation], options: LowPassOptions, model_of: ModelOf = declared_model
) -> tuple[list[Observation], set[str]]:
    """Return the demodulated streams of observations, and the names of templates that they cannot have.

    Streams of intensity have the templates of their detectors, but for the signal of the plate: that is
    rejected, as slow signals are in streams of polarization.

    Raises
    ------
    ConfigError
        If an observation has no plate that turns steadily, or its rates and the band do not go together.
    """
    found, lost = [], set[str]()
    for one in observations:
        bare = replace(one, templates=(), common_noise=(), noise=_NoiseOfRun(one, model_of))
        streams = demodulated(bare, options)
        kept = tuple(IntensityTemplate(each) for each in one.templates if each.name in _OF_STREAMS)
        lost |= {each.name for each in one.templates} - {*_OF_STREAMS, _REJECTED}
        found.append(replace(streams, templates=kept))
    return found, lost


def demodulated_observations(setup: RunSetup) -> list[Observation]:
    """Return the demodulated streams of a run's observations, and warn of templates that they cannot have.

    Raises
    ------
    ConfigError
        See `demodulated_streams`.
    """
    found, lost = demodulated_streams(setup.observations, setup.config.demodulation, setup.model_of)
    if lost:
        setup.warn(f"the map of demodulated streams is made without the templates {', '.join(sorted(lost))}")
    return found


def demodulated_system(setup: RunSetup, streams: Sequence[Observation]) -> MapmakingSystem:
    """Return the system of demodulated streams: white noise, flagged samples left out. Collective."""
    options = white_options(setup.options())
    common = setup.comm, setup.timers, setup.progress
    return set_up(streams, setup.pixelization, options, declared_model, *common)
