"""Kinds of templates: offsets, baselines, polynomials, and signals synchronous with azimuth or plate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array, UInt32Array
from petamap.data.observation import AzimuthTrack, Observation
from petamap.data.template import AmplitudePrior, Sharing, TemplateTerm
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import UniformPlate, plate_angles
from petamap.templates.subscans import find_subscans

_CIRCLE = 2 * math.pi
# Azimuths that range over less leave harmonics almost linearly dependent.
_ALL_AROUND = 0.9 * _CIRCLE
# Azimuths so little below a span are at its beginning, radians.
_ROUNDING = 1e-9


def cell_edges(n_samp: int, length: float) -> Int64Array:
    """Return the edges of cells of about equal length, at most `length` samples; one cell if that is 0.

    Raises
    ------
    ConfigError
        If that is less than a sample.
    """
    if 0 < length < 1:
        raise ConfigError(f"template amplitudes for each {length:g} samples", mend="at least a sample each")
    n = max(1, math.ceil(n_samp / length)) if length else 1
    return np.arange(n + 1, dtype=np.int64) * n_samp // n


def _refuse_drift(name: str, drift: float, sharing: Sharing | None) -> None:
    """Raise an error if amplitudes that drift are to be the same at other times."""
    if drift and sharing and sharing.time != "interval":
        raise ConfigError(
            "amplitudes that drift are not the same in all intervals", where=name, mend="leave the drift away"
        )


def azimuth_span(observations: Sequence[Observation]) -> tuple[float, float]:
    """Return the range of azimuths of all stationary intervals, radians, at most a whole turn.

    Raises
    ------
    ConfigError
        If the azimuth of an observation is not known.
    """
    low, high, middle = math.inf, -math.inf, None
    for observation in observations:
        track = _azimuth_track(observation, "azimuth-synchronous")
        for start, stop in observation.intervals:
            if start == stop:
                continue
            azimuths = np.unwrap(track.azimuths(start, stop))
            mean = float(azimuths[0])
            middle = mean if middle is None else middle
            azimuths += _CIRCLE * round((middle - mean) / _CIRCLE)
            low, high = min(low, float(azimuths.min())), max(high, float(azimuths.max()))
    return low, min(high, low + _CIRCLE)


def _azimuth_track(observation: Observation, name: str) -> AzimuthTrack:
    if observation.azimuth is None:
        raise ConfigError(
            "the azimuth is not known", where=f"observation {observation.name}, template {name}",
            mend="take it away, or use a source that gives the azimuth, as ground does",
        )  # fmt: skip
    return observation.azimuth


@dataclass(frozen=True)
class Baselines:
    """A constant for each stretch of time (implements `Template`): a destriper's baselines.

    Attributes
    ----------
    length : float
        Of a stretch at most, seconds; 0: the whole stationary interval, an offset.
    prior : AmplitudePrior, optional
        With `NoisePrior`, that of Madam's.
    sharing : Sharing, optional
        Of offsets alone.
    """

    length: float = 0.0
    prior: AmplitudePrior | None = None
    sharing: Sharing | None = None

    @property
    def name(self) -> str:
        """What it is."""
        return "baselines" if self.length else "offsets"

    def term(self, observation: Observation, start: int, stop: int) -> TemplateTerm:
        """Return the constants."""
        cells = cell_edges(stop - start, self.length * observation.sample_rate)
        # all of the length of the longest, but for the last one
        edges = np.append(np.arange(0, stop - start, np.diff(cells).max()), stop - start)
        return TemplateTerm("constant", 1, edges, prior=self.prior)


@dataclass(frozen=True)
class SubscanPolynomials:
    """Legendre polynomials of time for each subscan (implements `Template`).

    Attributes
    ----------
    order : int
        The highest.
    prior : AmplitudePrior, optional
    """

    order: int
    prior: AmplitudePrior | None = None
    name = "polynomials"

    def term(self, observation: Observation, start: int, stop: int) -> TemplateTerm:
        """Return P_0 to P_order of time, which runs from -1 to 1 in each subscan."""
        edges = find_subscans(observation, start, stop)
        lengths = np.diff(edges)
        within = np.arange(stop - start) - np.repeat(edges[:-1], lengths)
        values = (2 * within + 1) / np.repeat(lengths, lengths) - 1.0
        return TemplateTerm("legendre", self.order + 1, edges, first=0, values=values[None], prior=self.prior)


@dataclass(frozen=True)
class AzimuthSynchronous:
    """Function of azimuth for each detector and interval, fixed or drifting (implements `Template`).

    Attributes
    ----------
    order : int
        Highest Legendre polynomial of azimuth, from 1 on: the constant is an offset.
    harmonics : int
        Of azimuth, for a telescope that turns all around.
    bins : int
        Bins of equal width over the range of azimuths. One of the three is not 0.
    span : (float, float), optional
        Range of azimuths, radians; by default that of each interval, which those that share have to give.
    drift : float
        Seconds between the times of which amplitudes are solved for, linear between them; 0: fixed.
    prior : AmplitudePrior, optional
    sharing : Sharing, optional
        Without a drift.
    """

    order: int = 0
    harmonics: int = 0
    bins: int = 0
    drift: float = 0.0
    prior: AmplitudePrior | None = None
    sharing: Sharing | None = None
    span: tuple[float, float] | None = None
    name = "azimuth-synchronous"

    def __post_init__(self) -> None:
        if sum(n > 0 for n in (self.order, self.harmonics, self.bins)) != 1:
            raise ConfigError(
                "a function of azimuth has an order, harmonics or bins", where=self.name,
                mend="set one of the three",
            )  # fmt: skip
        _refuse_drift(self.name, self.drift, self.sharing)

    def term(self, observation: Observation, start: int, stop: int) -> TemplateTerm:
        """Return polynomials, harmonics or bins of azimuth."""
        where = f"observation {observation.name}, template {self.name}"
        azimuths = np.unwrap(_azimuth_track(observation, self.name).azimuths(start, stop))
        edges = cell_edges(stop - start, self.drift * observation.sample_rate)
        drifts, swept = self.drift > 0, float(np.ptp(azimuths))
        low, high = self.span or (float(azimuths.min()), float(azimuths.max()))
        if self.span:
            # the same turn as the span's
            azimuths = low + (azimuths - low + _ROUNDING) % _CIRCLE - _ROUNDING
        if self.harmonics:
            if swept < _ALL_AROUND:
                raise ConfigError(
                    f"harmonics of azimuths that range over {math.degrees(swept):.0f} deg", where=where,
                    mend="set order or bins instead: such harmonics would be almost the same",
                )  # fmt: skip
            turns = _turns(azimuths / _CIRCLE)
            return TemplateTerm("fourier", self.harmonics, edges, drifts, turns=turns, prior=self.prior)
        phase = np.clip((azimuths - low) / max(high - low, 1e-12), 0.0, 1.0)
        if self.bins:
            numbers = np.minimum((phase * self.bins).astype(np.int32), self.bins - 1)
            return TemplateTerm("bins", self.bins, edges, drifts, bins=numbers, prior=self.prior)
        values = 2 * phase[None] - 1
        return TemplateTerm("legendre", self.order, edges, drifts, values=values, prior=self.prior)


@dataclass(frozen=True)
class PlateSynchronous:
    """Harmonics of the angle of the half-wave plate, with amplitudes that drift (implements `Template`).

    Attributes
    ----------
    first, last : int
        Harmonics.
    drift : float
        Seconds between the times of which amplitudes are solved for, linear between them; 0: fixed.
    prior : AmplitudePrior, optional
    sharing : Sharing, optional
        Without a drift.
    """

    first: int = 1
    last: int = 8
    drift: float = 0.0
    prior: AmplitudePrior | None = None
    sharing: Sharing | None = None
    name = "plate-synchronous"

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last:
            raise ConfigError(f"harmonics {self.first} to {self.last}", where=self.name, mend="begin below")
        _refuse_drift(self.name, self.drift, self.sharing)

    def term(self, observation: Observation, start: int, stop: int) -> TemplateTerm:
        """Return cos and sin of the harmonics."""
        turns = plate_turns(observation, start, stop)
        edges = cell_edges(stop - start, self.drift * observation.sample_rate)
        n, drifts = self.last - self.first + 1, self.drift > 0
        return TemplateTerm("fourier", n, edges, drifts, self.first, turns=turns, prior=self.prior)


def plate_turns(observation: Observation, start: int, stop: int) -> UInt32Array:
    """Return the angle of the half-wave plate at samples [start, stop), in units of 2 pi / 2^32.

    Raises
    ------
    ConfigError
        If the observation has no plate.
    """
    pointing = observation.pointing
    plate = pointing.plate if isinstance(pointing, CompressedPointing) else None
    if plate is None or plate == UniformPlate(0.0, 0.0):
        raise ConfigError(
            "there is no half-wave plate", where=f"observation {observation.name}",
            mend="take the template away, or set the plate of the source",
        )  # fmt: skip
    angles = plate_angles(plate, np.arange(start, stop, dtype=np.float64))
    return _turns(angles / _CIRCLE)


def _turns(angles: FloatArray) -> UInt32Array:
    """Return angles in turns as multiples of 2^-32."""
    return np.round((angles % 1.0) * 2.0**32).astype(np.uint64).astype(np.uint32)


@dataclass(frozen=True, eq=False)
class Columns:
    """Functions of time that the user gives, the same for all detectors (implements `Template`).

    Attributes
    ----------
    values : float64 (n, n_samp)
        Of all samples of the observation.
    name : str
    prior : AmplitudePrior, optional
        Of the columns divided by their largest absolute values.
    """

    values: FloatArray
    name: str = "columns"
    prior: AmplitudePrior | None = None

    def term(self, observation: Observation, start: int, stop: int) -> TemplateTerm:
        """Return the columns, each divided by its largest absolute value in the interval."""
        if self.values.ndim != 2 or self.values.shape[1] != observation.n_samp:
            raise ConfigError(
                f"columns of shape {self.values.shape}", where=f"observation {observation.name}",
                mend=f"give (n, {observation.n_samp})",
            )  # fmt: skip
        part = self.values[:, start:stop]
        if not np.isfinite(part).all():
            raise ConfigError("a column is not finite", where=f"observation {observation.name}")
        largest = np.abs(part).max(axis=1, keepdims=True, initial=0.0)
        scaled = np.ascontiguousarray(part / np.where(largest > 0, largest, 1.0))
        edges = cell_edges(stop - start, 0.0)
        return TemplateTerm("columns", len(part), edges, values=scaled, prior=self.prior)
