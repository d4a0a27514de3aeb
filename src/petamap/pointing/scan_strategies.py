"""Scan strategies: motions of the boresight as pure functions of time.

A motion takes seconds (n,) and returns quaternions (n, 4); `boresight.follow` lays knots on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array
from petamap.pointing import frames, quaternion

Motion: TypeAlias = Callable[[FloatArray], FloatArray]

YEAR = 365.2422 * 86400.0  # tropical, seconds
_J2000 = 946728000.0  # Unix seconds
_SUN_AT_J2000 = math.radians(280.4603)  # mean longitude


def satellite(
    *,
    spin_period: float = 60.0,
    opening: float = math.radians(85),
    precession_period: float = YEAR / 2,
    precession_angle: float = math.radians(7.5),
    year: float = YEAR,
) -> Motion:
    """Return the motion of a spinning satellite in ecliptic coordinates; the default is like Planck's.

    The spin axis stays `precession_angle` from the point opposite to the (mean) Sun, which moves by a degree
    a day, and goes round it once in `precession_period`; the line of sight turns about it at `opening`.
    Planck moved its spin axis in steps of 2 arcmin; here it moves steadily. The telescope's X points to the
    spin axis.

    Parameters
    ----------
    spin_period, precession_period : float
        Seconds; a precession period of 0 is none.
    opening, precession_angle : float
        Radians.
    year : float
        Seconds in which the Sun goes round; less than a real year hurries the mission.

    Returns
    -------
    Motion
        Of Unix seconds.
    """
    for what, value in (("spin period", spin_period), ("year", year)):
        if not value > 0:
            raise ConfigError(f"a {what} of {value} s", mend="give a positive one")
    precession_rate = 2 * math.pi / precession_period if precession_period else 0.0
    sight = quaternion.multiply(quaternion.about_y(opening), quaternion.about_z(math.pi))

    def motion(seconds: FloatArray) -> FloatArray:
        longitude = _SUN_AT_J2000 + math.pi + 2 * math.pi * (seconds - _J2000) / year
        away = quaternion.multiply(quaternion.about_z(longitude), quaternion.about_y(math.pi / 2))
        axis = quaternion.multiply(
            quaternion.about_z(precession_rate * seconds), quaternion.about_y(precession_angle)
        )
        spin = quaternion.multiply(quaternion.about_z(2 * math.pi * seconds / spin_period), sight)
        return quaternion.multiply(quaternion.multiply(away, axis), spin)

    return motion


@dataclass(frozen=True)
class Sweep:
    """To and fro over a width: constant speed on the legs, half a harmonic swing beyond their ends.

    Attributes
    ----------
    width, speed, acceleration : float
        In any unit, and that unit a second and a second^2; the acceleration is the largest, in mid-turn.
    """

    width: float
    speed: float
    acceleration: float

    def __post_init__(self) -> None:
        for name in ("width", "speed", "acceleration"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"a scan {name} of {value}", mend="give a positive one")

    @property
    def leg(self) -> float:
        """Seconds across the width."""
        return self.width / self.speed

    @property
    def turn(self) -> float:
        """Seconds of a turn-around."""
        return math.pi * self.speed / self.acceleration

    def position(self, seconds: FloatArray) -> FloatArray:
        """Return where it is, 0 to width on the legs and beyond in turn-arounds."""
        number, within = np.divmod(seconds, self.leg + self.turn)
        turned = np.maximum(within - self.leg, 0.0) / self.turn
        beyond = self.speed**2 / self.acceleration * np.sin(math.pi * turned)
        forth = self.speed * np.minimum(within, self.leg) + beyond
        place: FloatArray = np.where(number % 2 == 0, forth, self.width - forth)
        return place

    def leg_number(self, seconds: FloatArray) -> FloatArray:
        """Return the number of the leg, passing smoothly to the next one in the turn-around."""
        number, within = np.divmod(seconds, self.leg + self.turn)
        u = np.maximum(within - self.leg, 0.0) / self.turn
        smooth: FloatArray = number + u * u * u * (10 - 15 * u + 6 * u * u)
        return smooth

    def turnarounds(self, n_samp: int, sample_rate: float, begin: float = 0.0) -> Int64Array:
        """Return the sample ranges [start, stop), (n, 2), of turn-arounds; sample 0 is at second `begin`."""
        period = self.leg + self.turn
        first = math.floor(begin / period) - 1
        last = math.ceil((begin + n_samp / sample_rate) / period)
        starts = np.arange(first, last + 1) * period + self.leg
        ranges = np.ceil((np.stack([starts, starts + self.turn], axis=1) - begin) * sample_rate)
        clipped = np.clip(ranges, 0, n_samp).astype(np.int64)
        inside: Int64Array = clipped[clipped[:, 0] < clipped[:, 1]]
        return inside


def constant_elevation(
    sweep: Sweep, *, azimuth: float, elevation: float, latitude: float, longitude: float, start_time: float
) -> Motion:
    """Return the motion of a telescope on the ground that sweeps in azimuth, in equatorial (ICRS)
    coordinates.

    The accuracy is that of `frames.horizon_to_equatorial`, 35 arcsec. The telescope's X points to the
    horizon.

    Parameters
    ----------
    sweep : Sweep
        Azimuth, radians and seconds; the first leg begins at `start_time`.
    azimuth : float
        Lower end of the legs, radians from north to east.
    elevation, latitude, longitude : float
        Radians.
    start_time : float
        Unix seconds.

    Returns
    -------
    Motion
        Of seconds since `start_time`.
    """
    if not 0 < elevation < math.pi / 2:
        raise ConfigError(f"an elevation of {math.degrees(elevation):g} deg", mend="0 to 90 deg, exclusive")

    def motion(seconds: FloatArray) -> FloatArray:
        at = np.concatenate([[0.0], seconds])  # the horizon is referred to the start, whatever is asked for
        horizon = frames.horizon_to_equatorial(start_time + at, latitude, longitude)[1:]
        return quaternion.multiply(horizon, frames.at_horizon(azimuth + sweep.position(seconds), elevation))

    return motion


def raster(
    sweep: Sweep,
    *,
    longitude: float,
    latitude: float,
    rows: int,
    row_spacing: float,
    position_angle: float = 0.0,
) -> Motion:
    """Return a raster about a point of the sky, row after row and back again.

    Parameters
    ----------
    sweep : Sweep
        Along the rows, radians and seconds.
    longitude, latitude : float
        Of the centre, radians, in the frame of the map.
    rows : int
    row_spacing : float
        Radians.
    position_angle : float
        By which rows are turned from east to north, radians; the polarization axes turn with them.

    Returns
    -------
    Motion
        Of seconds since the first row began.
    """
    if rows < 2:
        raise ConfigError(f"a raster of {rows} rows", mend="give at least 2")

    def offsets(seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
        row = (rows - 1) - np.abs(np.mod(sweep.leg_number(seconds), 2 * (rows - 1)) - (rows - 1))
        return sweep.position(seconds) - 0.5 * sweep.width, row_spacing * (row - 0.5 * (rows - 1))

    return _about(longitude, latitude, position_angle, offsets)


def daisy(
    *,
    longitude: float,
    latitude: float,
    radius: float,
    speed: float,
    ratio: float = 1 / math.pi,
    position_angle: float = 0.0,
) -> Motion:
    """Return a daisy about a point of the sky: a swing through the centre whose direction turns.

    Parameters
    ----------
    longitude, latitude, radius : float
        Radians.
    speed : float
        At the centre, radians a second.
    ratio : float
        Rate at which the direction turns, over the rate of the swing.
    position_angle : float
        Of the first swing, from east to north, radians.

    Returns
    -------
    Motion
        Of seconds.
    """
    if not (radius > 0 and speed > 0):
        raise ConfigError(f"a daisy of radius {radius} rad at {speed} rad/s", mend="give positive values")

    def offsets(seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
        swing = speed / radius * seconds
        return (
            radius * np.sin(swing) * np.cos(ratio * swing),
            radius * np.sin(swing) * np.sin(ratio * swing),
        )

    return _about(longitude, latitude, position_angle, offsets)


def _about(
    longitude: float,
    latitude: float,
    position_angle: float,
    offsets: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
) -> Motion:
    centre = quaternion.from_angles(math.pi / 2 - latitude, longitude, position_angle)

    def motion(seconds: FloatArray) -> FloatArray:
        east, north = offsets(seconds)
        # with X to the south and Y to the east, tilting to (-north, east) turns about (-east, -north)
        return quaternion.multiply(centre, tilted(east, north))

    return motion


def tilted(east: FloatArray, north: FloatArray) -> FloatArray:
    """Return the rotations that tilt Z by offsets (radians) on the great circle, X to the south."""
    return quaternion.exponential(np.stack([-0.5 * east, -0.5 * north, np.zeros_like(east)], axis=-1))
