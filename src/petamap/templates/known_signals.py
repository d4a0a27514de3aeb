"""Known signals with unknown factors: gains that drift, and temperature that leaks into polarization."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.name_patterns import choose_names
from petacomm.base.options import option
from petamap.data.observation import Observation, Signal
from petamap.data.selection import observations_option
from petamap.data.source import SourceContext, source_class
from petamap.data.template import IndependentPrior, TemplateTerm
from petamap.templates.kinds import cell_edges
from petamap.templates.sources import with_template


@dataclass(frozen=True, eq=False)
class KnownSignal:
    """Signal that each detector has times an unknown factor in each cell (implements `DetectorTemplate`).

    T a = a_cell M(p_t). Of M, 8 bytes a sample of each detector are kept.

    Attributes
    ----------
    signal : Signal
        M, of this observation, in its unit: `SkySignal`, `DipoleSignal` or any other.
    name : str
    length : float
        Of a cell at most, seconds; 0: the whole stationary interval.
    rms : float
        Standard deviation of the factors, independent of each other and zero in the mean; 0: of any size.
    """

    signal: Signal
    name: str = "gain-drift"
    length: float = 0.0
    rms: float = 0.0
    has_unit = False

    def term(self, observation: Observation, start: int, stop: int) -> TemplateTerm:
        """Return the cells, which all detectors have."""
        edges = cell_edges(stop - start, self.length * observation.sample_rate)
        return TemplateTerm("columns", 1, edges)

    def detector_term(self, observation: Observation, detector: int, start: int, stop: int) -> TemplateTerm:
        """Return the signal of a detector, divided by its largest absolute value in the interval.

        Raises
        ------
        ConfigError
            If a value is not finite.
        """
        values = np.zeros(stop - start)
        self.signal.add_signal(detector, start, stop, values)
        if not np.isfinite(values).all():
            raise ConfigError(
                f"the known signal of template {self.name} is not finite",
                where=f"observation {observation.name}, detector {observation.detectors[detector]}, "
                f"sample {start + int(np.flatnonzero(~np.isfinite(values))[0])}",
                mend="give a map that has all pixels of the scan",
            )
        largest = float(np.abs(values).max(initial=0.0)) or 1.0
        prior = IndependentPrior(self.rms * largest) if self.rms else None
        term = self.term(observation, start, stop)
        return dataclasses.replace(term, values=values[None] / largest, prior=prior, divisor=largest)


@dataclass(frozen=True)
class LeakageOptions:
    """Unknown factor on the known temperature of the sky, of each detector in each stationary interval."""

    map: str = option(path=True, help="FITS map, as that of sky-map, of which I is taken")
    rms: float = option(
        minimum=1e-12, maximum=1e3,
        help="of the factors, such as 0.01; without it their mean would be the calibration of the map",
    )  # fmt: skip
    observations: tuple[str, ...] = observations_option()


@dataclass(frozen=True)
class GainDriftOptions:
    """Unknown errors of each detector's gain in stretches of time, by a signal that is known."""

    rms: float = option(
        minimum=1e-12, maximum=1e3,
        help="of relative errors, such as 0.01; without it their mean would be the calibration of the map",
    )  # fmt: skip
    map: str | None = option(
        None, path=True, help="FITS map of the signal, as that of sky-map; default: the dipole"
    )
    observer: str = option("earth", choices=("earth", "l2"), help="of the dipole")
    observations: tuple[str, ...] = observations_option()
    length: float = option(
        0.0, dimension="time", minimum=0.0, help="of a stretch at most; 0 s: a stationary interval"
    )


class LeakageSource:
    """Source of leakage of temperature."""

    options: ClassVar[type] = LeakageOptions
    name = "leakage"

    def __init__(self, options: Any, context: SourceContext) -> None:
        self._options, self._context = options, context

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Add the template to observations.

        Raises
        ------
        ConfigError
            If there is no such observation, it has the same template already, or the known signal is not
            one of it (`SkyMapSource`, `DipoleSource`).
        """
        o = self._options
        names = (one.name for one in observations)
        where = self._context.places.get("observations")
        chosen = choose_names(o.observations, names, "observation", where=where)
        found = list(observations)
        places = [k for k, one in enumerate(found) if one.name in chosen]
        bare = [dataclasses.replace(found[k], signals=()) for k in places]
        for k, seen in zip(places, self._known(bare), strict=True):
            template = KnownSignal(seen.signals[0], self.name, getattr(o, "length", 0.0), o.rms)
            found[k] = with_template(found[k], template)
        return found

    def _known(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return observations with the known signal alone: what a source of it adds."""
        return self._seen(observations, "sky-map", map=self._options.map, polarized=False)

    def _seen(self, observations: Sequence[Observation], kind: str, **choices: Any) -> list[Observation]:
        source = source_class(kind)
        return source(source.options(**choices), self._context).extend(observations)


class GainDriftSource(LeakageSource):
    """Source of errors of gains."""

    options: ClassVar[type] = GainDriftOptions
    name = "gain-drift"

    def _known(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return observations with the map or the dipole alone."""
        if self._options.map is None:
            return self._seen(observations, "dipole", observer=self._options.observer)
        return self._seen(observations, "sky-map", map=self._options.map)
