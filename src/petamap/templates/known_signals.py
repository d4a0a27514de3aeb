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
from petacomm.base.typing import FloatArray, Int32Array
from petamap.data.observation import Observation, Signal, sky_signals
from petamap.data.selection import observations_option
from petamap.data.source import SourceContext, source_class
from petamap.data.template import IndependentPrior, Sharing, TemplateTerm
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.protocol import Pointing
from petamap.simulation.sky import unpolarized
from petamap.templates.kinds import cell_edges
from petamap.templates.simulated import SimulatedTemplate
from petamap.templates.sources import with_template

# Error between the values that are kept of a smooth signal, relative to the largest: errors of a gain of 1%
# then leave a millionth of the signal at most. The samples between them at most, and at least in the mean,
# for values (12 bytes each) to be kept instead of all samples.
_ACCURACY, _LONGEST, _KNOTS = 1e-4, 1024, 3


@dataclass(frozen=True, eq=False)
class KnownSignal:
    """Signal that each detector has times an unknown factor in each cell (implements `DetectorTemplate`).

    T a = a_cell M(p_t). Of M, nothing is kept where it is the same for all samples of a pixel, and values
    between which it is linear where it is smooth; else 8 bytes a sample of each detector.

    Attributes
    ----------
    signal : Signal, optional
        M, of this observation, in its unit: `SkySignal`, `DipoleSignal` or any other. An attribute `largest`,
        what no sample exceeds, spares a pass over the samples. None: the temperature of the map of the run,
        which is made in rounds until it is known (`petamap.mapmaking.own_temperature`).
    name : str
    length : float
        Of a cell at most, seconds; 0: the whole stationary interval.
    rms : float
        Standard deviation of the factors, independent of each other and zero in the mean; 0: of any size.
    sharing : Sharing, optional
        Streams with the same factors; then of one cell.
    """

    signal: Signal | None
    name: str = "gain-drift"
    length: float = 0.0
    rms: float = 0.0
    sharing: Sharing | None = None
    has_unit = False
    of_sky = True

    def term(self, observation: Observation, start: int, stop: int) -> TemplateTerm:
        """Return the cells, which all detectors have."""
        edges = cell_edges(stop - start, self.length * observation.sample_rate)
        return TemplateTerm("columns", 1, edges)

    def detector_term(self, observation: Observation, detector: int, start: int, stop: int) -> TemplateTerm:
        """Return the signal of a detector, divided by what no sample exceeds.

        Raises
        ------
        ConfigError
            If a value is not finite, or streams with other signals share a factor.
        """
        term, of_pixels = self.term(observation, start, stop), getattr(self.signal, "of_pixels", None)
        largest, values, knots = self._largest(observation), None, None
        if largest is None or of_pixels is None:
            samples = self._values(observation, detector, start, stop)
            largest = float(np.abs(samples).max(initial=0.0)) if largest is None else largest
            found = linear_knots(samples, _ACCURACY * largest)
            if _KNOTS * len(found) < len(samples):
                knots, values = found, samples[None, found] / (largest or 1.0)
        divisor = largest or 1.0

        def read(begin: int, end: int) -> FloatArray:
            values = self._values(observation, detector, start + begin, start + end)
            return values[None] / divisor

        return dataclasses.replace(
            term,
            values=values,
            knots=knots,
            read=read if values is None else None,
            of_pixels=of_pixels,
            prior=IndependentPrior(self.rms * divisor) if self.rms else None,
            divisor=divisor,
        )

    def _largest(self, observation: Observation) -> float | None:
        known: float | None = getattr(self.signal, "largest", None)
        if known is None and self.sharing is not None:
            raise ConfigError(
                f"template {self.name}: streams share a factor on a signal of which the largest is not known",
                where=f"observation {observation.name}",
                mend="give each stationary interval its own",
            )
        return known

    def _values(self, observation: Observation, detector: int, start: int, stop: int) -> FloatArray:
        assert self.signal is not None, "rounds of maps come first"
        values = np.zeros(stop - start)
        self.signal.add_signal(detector, start, stop, values)
        if not np.isfinite(values).all():
            raise ConfigError(
                f"the known signal of template {self.name} is not finite",
                where=f"observation {observation.name}, detector {observation.detectors[detector]}, "
                f"sample {start + int(np.flatnonzero(~np.isfinite(values))[0])}",
                mend="give a map that has all pixels of the scan",
            )
        return values


def linear_knots(samples: FloatArray, accuracy: float) -> Int32Array:
    """Return samples, the first and last among them, between which all are linear to an accuracy.

    Linear interpolation over h samples is wrong by h^2 / 8 times the largest second difference in between at
    most. Stretches of 2, 4 and more samples, each of two shorter ones, are divided where that is too much.
    """
    n = len(samples)
    bends = np.zeros(-(-n // _LONGEST) * _LONGEST)
    bends[1 : n - 1] = np.abs(np.diff(samples, 2))
    chosen = np.zeros(len(bends), np.bool_)
    chosen[::_LONGEST] = chosen[n - 1] = True
    length = 2
    while length <= _LONGEST:
        bends = np.maximum(bends[::2], bends[1::2])
        chosen[length // 2 :: length] |= bends > 8 * accuracy / length**2
        length *= 2
    return np.flatnonzero(chosen[:n]).astype(np.int32)


def temperature_pointing(observation: Observation) -> Pointing:
    """Return the pointing with which all streams see the temperature that leaks."""
    pointing = observation.pointing
    assert pointing is not None
    return pointing.of_intensity() if isinstance(pointing, CompressedPointing) else pointing


@dataclass(frozen=True)
class KnownSignalOptions:
    """Observations that have the template, and the size of its factors."""

    rms: float = option(
        minimum=1e-12, maximum=1e3,
        help="of the factors, such as 0.01; without it their mean would be the calibration of the map",
    )  # fmt: skip
    observations: tuple[str, ...] = observations_option()
    simulate: float = option(
        0.0, minimum=0.0, maximum=1e3,
        help="rms of factors that are drawn, times the signal added to the data; 0: the data have it",
    )  # fmt: skip
    solve: bool = option(True, help="solve for the factors; false: the signal is only simulated")


@dataclass(frozen=True)
class LeakageOptions(KnownSignalOptions):
    """Unknown factor of each detector on the temperature of the sky."""

    map: str | None = option(
        None,
        path=True,
        help="FITS map, as that of sky-map, of which I is taken; default: the run's own, in rounds",
    )
    per: str = option(
        "interval", choices=("interval", "observation", "run"),
        help="interval: each has a factor of its own; observation: all its intervals have the same; "
        "run: all observations, too",
    )  # fmt: skip


@dataclass(frozen=True)
class GainDriftOptions(KnownSignalOptions):
    """Unknown errors of each detector's gain in stretches of time, by a signal that is known."""

    map: str | None = option(
        None, path=True, help="FITS map of the signal, as that of sky-map; default: the dipole"
    )
    observer: str = option("earth", choices=("earth", "l2"), help="of the dipole")
    length: float = option(
        0.0, dimension="time", minimum=0.0, help="of a stretch at most; 0 s: a stationary interval"
    )


class KnownSignalSource:
    """Base class of sources of unknown factors on a known signal."""

    options: ClassVar[type] = KnownSignalOptions

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
        where = self._context.place("observations")
        chosen = choose_names(o.observations, names, "observation", where=where)
        found = list(observations)
        for place, one in enumerate(found):
            if one.name in chosen:
                found[place] = self._extended(one)
        return found

    def _extended(self, one: Observation) -> Observation:
        o, template = self._options, self.template(one)
        if o.simulate:
            known = self._simulated(one) if template.signal is None else [template.signal]
            # the same factors on all, since they are those of the template's name
            parts = tuple(
                SimulatedTemplate(
                    one, dataclasses.replace(template, signal=part), o.simulate, self._context.seed
                )
                for part in known
            )
            one = dataclasses.replace(one, signals=(*one.signals, *parts))
        return with_template(one, template) if o.solve else one

    def template(self, observation: Observation) -> KnownSignal:
        """Return the template of an observation."""
        raise NotImplementedError

    def _simulated(self, observation: Observation) -> list[Signal]:
        """Return the signals that are known where the template's is not yet."""
        raise NotImplementedError

    def _seen(self, observation: Observation, kind: str, **choices: Any) -> Signal:
        """Return what a source of another kind adds to an observation."""
        source = source_class(kind)
        bare = dataclasses.replace(observation, signals=())
        (seen,) = source(source.options(**choices), self._context).extend([bare])
        return seen.signals[0]


class LeakageSource(KnownSignalSource):
    """Source of leakage of temperature."""

    options: ClassVar[type] = LeakageOptions

    def template(self, observation: Observation) -> KnownSignal:
        """Return the template of a map's temperature, or of that of the run's own."""
        o, signal = self._options, None
        if o.map is not None:
            seeing = dataclasses.replace(observation, pointing=temperature_pointing(observation))
            signal = self._seen(seeing, "sky-map", map=o.map, polarized=False)
        sharing = None if o.per == "interval" else Sharing(o.per)
        return KnownSignal(signal, "leakage", rms=o.rms, sharing=sharing)

    def _simulated(self, observation: Observation) -> list[Signal]:
        """Return the temperature of the sky that is simulated so far."""
        pointing = temperature_pointing(observation)
        skies = [unpolarized(signal, pointing) for signal in sky_signals(observation)]
        if not skies:
            raise ConfigError(
                "no sky is simulated of which temperature could leak",
                where=self._context.place("simulate"),
                mend="give a map, or a sky-map or sky-spectra before",
            )  # fmt: skip
        return skies


class GainDriftSource(KnownSignalSource):
    """Source of errors of gains."""

    options: ClassVar[type] = GainDriftOptions

    def template(self, observation: Observation) -> KnownSignal:
        """Return the template of a map or of the dipole."""
        o = self._options
        if o.map is None:
            signal = self._seen(observation, "dipole", observer=o.observer)
        else:
            signal = self._seen(observation, "sky-map", map=o.map)
        return KnownSignal(signal, "gain-drift", o.length, o.rms)
