"""Dipole of the cosmic microwave background that the motion of the observer makes: solar and orbital."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petacomm.base.typing import FloatArray
from petacomm.base.units import DEGREE
from petamap.data.checks import check_dates, check_given, error_location
from petamap.data.observation import Observation
from petamap.data.source import SourceContext
from petamap.pointing import frames, quaternion
from petamap.pointing.ephemeris import AU, ECCENTRICITY_SQUARED, EQUATOR
from petamap.pointing.protocol import Pointing
from petamap.simulation.sky import intensity_gains, required_pointing, with_signal
from petamap.sky.image import unit_vectors
from petamap.sky.map_units import to_kelvin

LIGHT = 299792458.0  # m/s
_MOON_OVER_BOTH = 1 / (1 + 81.300569)  # mass of the Moon in that of Earth and Moon
_L2 = 1.01004  # distance of L2 from the Sun in that of Earth and Moon
_KNOTS = (3600.0, 60.0)  # seconds, of velocities without and with the rotation of the Earth
_CHUNK = 8192


@dataclass(frozen=True)
class DipoleOptions:
    """The dipole by the motion of the Sun and of the Earth, in thermodynamic temperature; unpolarized."""

    parts: str = option(
        "both",
        choices=("both", "solar", "orbital"),
        help="motion of the Sun, of the observer about the barycentre of the solar system, or their sum",
    )
    order: str = option(
        "exact", choices=("exact", "second", "first"), help="in the velocity: exact, or an expansion"
    )
    observer: str = option(
        "earth", choices=("earth", "l2"), help="centre of the Earth, or the point L2 behind Earth and Moon"
    )
    site_latitude: float | None = option(
        None, dimension="angle", help="of a site that turns with the Earth; default: none"
    )
    site_longitude: float | None = option(None, dimension="angle", help="of the site, east positive")
    temperature: float = option(
        2.72548, dimension="temperature", minimum=0.0, help="of the background (Fixsen 2009)"
    )
    solar_speed: float = option(369.82, minimum=0.0, maximum=1e5, help="km/s (Planck 2018 I)")
    solar_lon: float = option(264.021 * DEGREE, dimension="angle", help="galactic longitude of that motion")
    solar_lat: float = option(48.253 * DEGREE, dimension="angle", help="galactic latitude of that motion")
    scale: float = option(1.0, help="factor on the signal; -1 takes the dipole off recorded data")


def earth_velocity(times: npt.ArrayLike, observer: str = "earth") -> FloatArray:
    """Return the velocity of the Earth, or of L2, against the barycentre of the solar system.

    ERFA's ephemeris (epv00, after VSOP2000; 11 mm/s at most off DE405) is that of astropy without files. L2
    of the Sun and the barycentre of Earth and Moon is 1.01004 times as far from the Sun; the halo orbits
    about it, of some 0.3 km/s, are left out.

    Parameters
    ----------
    times : (n,) float
        Unix seconds. TT is taken as UTC + 69.184 s; a second more changes velocities by 6 mm/s.
    observer : {"earth", "l2"}

    Returns
    -------
    float64 (n, 3)
        m/s, equatorial (ICRS).
    """
    import erfa

    days = (np.asarray(times, np.float64) + frames.TT_MINUS_UTC) / 86400
    heliocentric, barycentric = (part["v"] for part in erfa.epv00(frames.UNIX_EPOCH, days))
    if observer == "l2":
        moon = erfa.moon98(frames.UNIX_EPOCH, days)["v"]  # about the Earth
        barycentric += (_L2 - 1) * heliocentric + _L2 * _MOON_OVER_BOTH * moon
    velocity: FloatArray = barycentric * (AU / 86400)
    return velocity


def site_velocity(times: npt.ArrayLike, latitude: float, longitude: float) -> FloatArray:
    """Return the velocity of a site at sea level by the rotation of the Earth, to the east.

    Parameters
    ----------
    times : (n,) float
        Unix seconds.
    latitude, longitude : float
        Geodetic coordinates, radians, east positive.

    Returns
    -------
    float64 (n, 3)
        m/s, equatorial (ICRS), with the accuracy of `frames.horizon_to_equatorial`.
    """
    seconds = np.asarray(times, np.float64)
    east = quaternion.rotate(
        frames.horizon_to_equatorial(float(seconds[0]), seconds - seconds[0], latitude, longitude),
        [0.0, -1.0, 0.0],
    )
    radius = EQUATOR / np.sqrt(1 - ECCENTRICITY_SQUARED * np.sin(latitude) ** 2) * np.cos(latitude)
    velocity: FloatArray = radius * frames.SIDEREAL_RATE * east
    return velocity


def doppler_temperature(
    beta: FloatArray, directions: FloatArray, temperature: float, order: str
) -> FloatArray:
    """Return the change of the temperature of the background for a moving observer.

    T0 / (gamma (1 - beta.n)) - T0 (Peebles & Wilkinson 1968, Phys. Rev. 174, 2168); to second order it is
    T0 (beta.n + (beta.n)^2 - beta^2 / 2), to first T0 beta.n.

    Parameters
    ----------
    beta : float64 (n, 3)
        Velocity / c.
    directions : float64 (n, 3)
        Unit vectors of the lines of sight.
    temperature : float
        T0.
    order : {"exact", "second", "first"}

    Returns
    -------
    float64 (n,)
        In the unit of `temperature`.
    """
    # Sums of three in a fixed order: bits do not depend on how many samples are asked for.
    along = beta[:, 0] * directions[:, 0] + beta[:, 1] * directions[:, 1] + beta[:, 2] * directions[:, 2]
    if order == "first":
        return temperature * along
    squared = beta[:, 0] * beta[:, 0] + beta[:, 1] * beta[:, 1] + beta[:, 2] * beta[:, 2]
    if order == "second":
        return temperature * (along + along * along - 0.5 * squared)
    shifted: FloatArray = temperature * (np.sqrt(1 - squared) / (1 - along) - 1)
    return shifted


@dataclass(frozen=True, eq=False)
class DipoleSignal:
    """Dipole in the detectors of an observation, without beams (implements `Signal`).

    Attributes
    ----------
    pointing : Pointing
    frame : str
        Frame of the pointing.
    start_time, sample_rate : float
        Unix seconds of sample 0, Hz.
    n_samp : int
    options : DipoleOptions
    factor : float
        Of the signal, from K_CMB to the unit of the observation.
    """

    of_sky = any_order = True

    pointing: Pointing
    frame: str
    start_time: float
    sample_rate: float
    n_samp: int
    options: DipoleOptions
    factor: float

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, float64 (stop - start,).

        Raises
        ------
        DataError
            If the pointing has no directions.
        """
        for first in range(start, stop, _CHUNK):
            last = min(first + _CHUNK, stop)
            directions, _ = self.pointing.directions(detector, first, last)
            gains = intensity_gains(self.pointing, detector, first, last)
            beta = self.velocities(first, last) / LIGHT
            options = self.options
            signal = self.factor * doppler_temperature(beta, directions, options.temperature, options.order)
            out[first - start : last - start] += signal if gains is None else gains * signal

    @property
    def largest(self) -> float | None:
        """Return what no sample exceeds, if that is known without its gain."""
        if self.pointing.has_gains:
            return None
        beta = float(np.linalg.norm(self._knots[1], axis=1).max()) / LIGHT
        return abs(self.factor) * self.options.temperature * beta / (1 - beta)

    def velocities(self, start: int, stop: int) -> FloatArray:
        """Return the velocity of the observer at samples [start, stop), m/s in the frame of the pointing."""
        knots, velocities = self._knots
        times = self.start_time + np.arange(start, stop) / self.sample_rate
        return np.stack([np.interp(times, knots, velocities[:, axis]) for axis in range(3)], axis=1)

    @cached_property
    def _knots(self) -> tuple[FloatArray, FloatArray]:
        """Times and velocities between which velocities are interpolated linearly, to 2 mm/s."""
        options = self.options
        step = _KNOTS[options.site_latitude is not None]
        first = np.floor(self.start_time / step)
        last = np.ceil((self.start_time + self.n_samp / self.sample_rate) / step)
        times = np.arange(first, last + 1) * step
        total = np.zeros((len(times), 3))
        if options.parts != "solar":
            total += earth_velocity(times, options.observer)
            if options.site_latitude is not None and options.site_longitude is not None:
                total += site_velocity(times, options.site_latitude, options.site_longitude)
        turned = quaternion.rotate(frames.frame_rotation("equatorial", self.frame), total)
        if options.parts != "orbital":
            towards = unit_vectors(np.array([options.solar_lon]), np.array([options.solar_lat]))
            turned += (
                options.solar_speed
                * 1e3
                * quaternion.rotate(frames.frame_rotation("galactic", self.frame), towards)
            )
        return times, turned


class DipoleSource:
    """Source of the signal of the dipole, which is known: the same in all realizations."""

    options: ClassVar[type] = DipoleOptions

    def __init__(self, options: DipoleOptions, context: SourceContext) -> None:
        self._options = options
        if (options.site_latitude is None) != (options.site_longitude is None):
            raise ConfigError(
                "a site has a latitude and a longitude",
                where=context.place("site_latitude", "site_longitude"),
                mend="give site_latitude and site_longitude, or neither",
            )
        if options.site_latitude is not None and options.observer == "l2":
            raise ConfigError(
                "L2 has no sites",
                where=context.place("observer"),
                mend='leave site_latitude and site_longitude out, or write observer = "earth"',
            )

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with the dipole added.

        Raises
        ------
        ConfigError
            If there are no observations, or one has no pointing on the sky, no time, or another unit than
            those of K_CMB.
        """
        check_given(observations, "the dipole")
        return [with_signal(one, self._signal(one)) for one in observations]

    def _signal(self, observation: Observation) -> DipoleSignal:
        frame, where = observation.frame, error_location(observation)
        if frame not in frames.FRAMES:
            given = f"frame {frame}" if frame else "a frame that nobody tells"
            raise ConfigError(
                f"the dipole needs pointing on the sky, not in {given}",
                where=where,
                mend=f'say frame = "{frames.FRAMES[0]}", or another of the sky',
            )
        if self._options.parts != "solar":
            check_dates(observation)
        factor, unit = to_kelvin(observation.unit)
        if unit != "K_CMB":
            raise ConfigError(
                f"the dipole is in K_CMB, the signal in '{observation.unit}'",
                where=where,
                mend="convert the signal",
            )
        return DipoleSignal(
            required_pointing(observation),
            frame,
            observation.start_time,
            observation.sample_rate,
            observation.n_samp,
            self._options,
            self._options.scale / factor,
        )
