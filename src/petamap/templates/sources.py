"""Sources of templates: they add unknowns to the observations of the sources before them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from petacomm.base.errors import ConfigError
from petacomm.base.name_patterns import choose_names
from petacomm.base.options import option
from petamap.data.observation import Observation
from petamap.data.selection import observations_option
from petamap.data.source import SourceContext
from petamap.data.template import AmplitudePrior, IndependentPrior, NoisePrior, Sharing, Template
from petamap.templates.kinds import (
    AzimuthSynchronous,
    Baselines,
    PlateSynchronous,
    SubscanPolynomials,
    azimuth_span,
)
from petamap.templates.simulated import SimulatedTemplate


@dataclass(frozen=True)
class TemplateOptions:
    """Observations that have the template, and the size that it is expected to have."""

    observations: tuple[str, ...] = observations_option()
    rms: float = option(
        0.0, dimension="temperature", minimum=0.0,
        help="of the amplitudes, independent of each other, zero in the mean; 0 K: they may be of any size",
    )  # fmt: skip
    simulate: float = option(
        0.0, dimension="temperature", minimum=0.0,
        help="rms of amplitudes that are drawn and added to the data; 0 K: the data have the signal",
    )  # fmt: skip
    solve: bool = option(True, help="solve for the amplitudes; false: the signal is only simulated")


@dataclass(frozen=True)
class SharedTemplateOptions(TemplateOptions):
    """Template whose amplitudes streams may have in common."""

    per: str = option(
        "interval", choices=("interval", "observation", "run"),
        help="interval: each has amplitudes of its own; observation: all its intervals have the same; "
        "run: all observations, too",
    )  # fmt: skip
    all_detectors: bool = option(False, help="all detectors have the same amplitudes")


@dataclass(frozen=True)
class OffsetsOptions(SharedTemplateOptions):
    """Unknown offset of each detector in each stationary interval."""


@dataclass(frozen=True)
class BaselinesOptions(TemplateOptions):
    """Unknown constant of each detector in each stretch of time, as destripers have."""

    length: float = option(60.0, dimension="time", minimum=1e-3, help="of a stretch at most")
    prior: str = option(
        "none", choices=("none", "noise"),
        help="noise: they are the correlated noise's means in the stretches, with noise.kernel = \"white\"",
    )  # fmt: skip


@dataclass(frozen=True)
class PolynomialsOptions(TemplateOptions):
    """Unknown Legendre polynomials of time of each detector, for each subscan."""

    order: int = option(2, minimum=0, maximum=30, help="the highest")


@dataclass(frozen=True)
class AzimuthSynchronousOptions(SharedTemplateOptions):
    """Unknown function of azimuth of each detector in each stationary interval: pickup from the ground."""

    order: int = option(
        0, minimum=0, maximum=30, help="highest Legendre polynomial over the range of azimuths"
    )
    bins: int = option(0, minimum=0, maximum=10_000, help="over the range of azimuths, instead of an order")
    harmonics: int = option(0, minimum=0, maximum=100, help="instead, for telescopes that turn all around")
    drift: float = option(
        0.0, dimension="time", minimum=0.0, help="it changes linearly between such times; 0 s: fixed"
    )


@dataclass(frozen=True)
class PlateSynchronousOptions(SharedTemplateOptions):
    """Unknown harmonics of the half-wave plate's angle, of each detector in each stationary interval."""

    first: int = option(1, minimum=1, maximum=32, help="harmonic")
    last: int = option(8, minimum=1, maximum=32, help="harmonic")
    drift: float = option(
        0.0, dimension="time", minimum=0.0, help="they change linearly between such times; 0 s: fixed"
    )


class TemplateSource:
    """Base class of sources that add a template."""

    options: ClassVar[type] = TemplateOptions

    def __init__(self, options: Any, context: SourceContext) -> None:
        self._options, self._context = options, context

    def template(self) -> Template:
        """Return the template of the options."""
        raise NotImplementedError

    @property
    def sharing(self) -> Sharing | None:
        """Which streams have the same amplitudes."""
        o = self._options
        return Sharing(o.per, o.all_detectors) if o.per != "interval" or o.all_detectors else None

    @property
    def prior(self) -> AmplitudePrior | None:
        """What the options say of the amplitudes."""
        return IndependentPrior(self._options.rms) if self._options.rms else None

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Add the template to observations.

        Raises
        ------
        ConfigError
            If there is no such observation, or it has the same template already.
        """
        chosen = choose_names(
            self._options.observations, (one.name for one in observations), "observation",
            where=self._context.place("observations"),
        )  # fmt: skip
        self.chosen = [one for one in observations if one.name in chosen]
        return [self._extended(one) if one.name in chosen else one for one in observations]

    def _extended(self, observation: Observation) -> Observation:
        template, o = self.template_of(observation), self._options
        if o.simulate:
            signal = SimulatedTemplate(observation, template, o.simulate, self._context.seed)
            observation = dataclasses.replace(observation, signals=(*observation.signals, signal))
        return with_template(observation, template) if o.solve else observation

    def template_of(self, observation: Observation) -> Template:
        """Return the template of one of the `chosen` observations."""
        return self.template()


def with_template(observation: Observation, template: Template) -> Observation:
    """Return an observation with a template more, which it must not have yet."""
    if any(other.name == template.name for other in observation.templates):
        raise ConfigError(
            f"{template.name} twice", where=f"observation {observation.name}", mend="take one of them away"
        )
    return dataclasses.replace(observation, templates=(*observation.templates, template))


class OffsetsSource(TemplateSource):
    """Source of offsets."""

    options: ClassVar[type] = OffsetsOptions

    def template(self) -> Template:
        """Return a constant for each stationary interval."""
        return Baselines(prior=self.prior, sharing=self.sharing)


class BaselinesSource(TemplateSource):
    """Source of baselines."""

    options: ClassVar[type] = BaselinesOptions

    def template(self) -> Template:
        """Return a constant for each stretch of time."""
        return Baselines(self._options.length, self.prior)

    @property
    def prior(self) -> AmplitudePrior | None:
        """What the options say of the constants."""
        if self._options.prior == "none":
            return super().prior
        if self._options.rms:
            raise ConfigError(
                "baselines have two priors", where=self._context.place("rms"), mend="leave rms away"
            )
        return NoisePrior()


class PolynomialsSource(TemplateSource):
    """Source of polynomials."""

    options: ClassVar[type] = PolynomialsOptions

    def template(self) -> Template:
        """Return Legendre polynomials for each subscan."""
        return SubscanPolynomials(self._options.order, self.prior)


class AzimuthSynchronousSource(TemplateSource):
    """Source of signals that depend on azimuth."""

    options: ClassVar[type] = AzimuthSynchronousOptions

    def template(self) -> Template:
        """Return polynomials, bins or harmonics of azimuth."""
        o = self._options
        return AzimuthSynchronous(o.order, o.harmonics, o.bins, o.drift, self.prior, self.sharing)

    def template_of(self, observation: Observation) -> Template:
        """Return functions over the range of azimuths of all intervals that share them."""
        template, per = self.template(), self._options.per
        if per == "interval":
            return template
        span = azimuth_span(self.chosen if per == "run" else [observation])
        return dataclasses.replace(cast(AzimuthSynchronous, template), span=span)


class PlateSynchronousSource(TemplateSource):
    """Source of signals that depend on the angle of the half-wave plate."""

    options: ClassVar[type] = PlateSynchronousOptions

    def template(self) -> Template:
        """Return harmonics of the angle."""
        o = self._options
        return PlateSynchronous(o.first, o.last, o.drift, self.prior, self.sharing)
