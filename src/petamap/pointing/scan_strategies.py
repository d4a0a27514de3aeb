"""Scan strategies: motions of the boresight as pure functions of time, which `motion` samples at knots."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array
from petamap.pointing import frames, quaternion
from petamap.pointing.motion import Motion

YEAR = 365.2422 * 86400.0  # tropical, seconds
_J2000 = 946728000.0  # Unix seconds
_SUN_AT_J2000 = math.radians(280.4603)  # mean longitude


def step_number(seconds: FloatArray, rest: float, turn: float) -> FloatArray:
    """Return the number of the rest, from time 0 on, which increases smoothly during the turn after it."""
    number, within = np.divmod(seconds, rest + turn)
    u = np.maximum(within - rest, 0.0) / turn
    return number + u * u * u * (10 - 15 * u + 6 * u * u)


def turn_ranges(rest: float, turn: float, n_samp: int, sample_rate: float) -> Int64Array:
    """Return the sample ranges [start, stop) of the turns, (n, 2), of which rests and turns take seconds."""
    period = rest + turn
    last = math.ceil(n_samp / sample_rate / period)
    starts = np.arange(last + 1) * period + rest
    ranges = np.ceil(np.stack([starts, starts + turn], axis=1) * sample_rate)
    clipped = np.clip(ranges, 0, n_samp).astype(np.int64)
    return clipped[clipped[:, 0] < clipped[:, 1]]


def satellite(
    *,
    spin_period: float = 60.0,
    opening: float = math.radians(85),
    precession_period: float = YEAR / 2,
    precession_angle: float = math.radians(7.5),
    year: float = YEAR,
    repointing_period: float = 0.0,
    repointing_time: float = 300.0,
    start_time: float = _J2000,
) -> Motion:
    """Return the motion of a spinning satellite in ecliptic coordinates; the defaults resemble Planck.

    The spin axis precesses with the period `precession_period` at `precession_angle` from the direction
    opposite to the mean Sun; the boresight rotates about it at the angle `opening`. The spin axis moves
    continuously, or rests at where it would be in the middle of each `repointing_period` and then moves to
    the next place, as Planck's did by 2 arcmin. X of the telescope points to the spin axis.

    Parameters
    ----------
    spin_period, precession_period : float
        Seconds; a precession period of 0 means no precession.
    opening, precession_angle : float
        Radians.
    year : float
        Period of the Sun's motion in seconds; smaller values accelerate the mission.
    repointing_period, repointing_time : float
        Seconds from one repointing of the spin axis to the next, and that each takes, at the end of the
        period; a period of 0 moves the axis continuously.
    start_time : float
        Unix seconds.

    Returns
    -------
    Motion
        Function of seconds since `start_time`.

    Raises
    ------
    ConfigError
        If the spin period or the year is not positive, or repointings take no time or all of it.
    """
    for what, value in (("spin period", spin_period), ("year", year)):
        if not value > 0:
            raise ConfigError(f"a {what} of {value} s", mend="give a positive one")
    if repointing_period and not 0 < repointing_time < repointing_period:
        what = f"repointings that take {repointing_time:g} s, every {repointing_period:g} s"
        raise ConfigError(what, mend="give a time that is shorter than the period, and not 0")
    rest = repointing_period - repointing_time
    from_axis = quaternion.multiply(quaternion.about_y(opening), quaternion.about_z(math.pi))

    def phase(start: float, seconds: FloatArray, period: float) -> FloatArray:
        # The remainder is exact, so that small times since the start keep all their digits.
        return 2 * math.pi * (math.fmod(start, period) + seconds) / period

    def function(start: float, ahead: float, seconds: FloatArray) -> FloatArray:
        moved = seconds
        if repointing_period:
            moved = repointing_period * (step_number(seconds, rest, repointing_time) + 0.5)
        longitude = _SUN_AT_J2000 + math.pi + phase(start - _J2000, moved, year)
        anti_sun = quaternion.multiply(quaternion.about_z(longitude), quaternion.about_y(math.pi / 2))
        precession = phase(start, moved, precession_period) if precession_period else 0.0 * moved
        axis = quaternion.multiply(quaternion.about_z(precession), quaternion.about_y(precession_angle))
        spin = quaternion.multiply(quaternion.about_z(phase(start, seconds, spin_period) + ahead), from_axis)
        return quaternion.multiply(quaternion.multiply(anti_sun, axis), spin)

    # The Sun's motion is a constant rotation of the sky: all depends on the phases of spin and precession.
    starts = [start_time + k * precession_period / 16 for k in range(16)]
    if not repointing_period:
        windows = tuple((partial(function, start, 0.0), spin_period) for start in starts)
        return Motion(partial(function, start_time, 0.0), windows=windows)
    phases = 2 * math.pi / 8 * np.arange(8)  # at which repointings may meet the spin
    windows = tuple((partial(function, *both), repointing_period) for both in product(starts, phases))
    return Motion(partial(function, start_time, 0.0), (rest, repointing_time), windows)


# of legs and turn-arounds, s
_SHORTEST, _LONGEST = 1e-3, 1e9


@dataclass(frozen=True)
class Sweep:
    """Back-and-forth motion: legs at constant speed, turn-arounds along half a sine beyond their ends.

    Attributes
    ----------
    width : float
        Length of a leg, in any unit.
    speed : float
        Speed on the legs, in that unit per second.
    acceleration : float
        Largest acceleration, in the middle of a turn-around, in that unit per second^2.

    Raises
    ------
    ConfigError
        If one is not positive, or a leg or turn-around takes a time that no scan has.
    """

    width: float
    speed: float
    acceleration: float

    def __post_init__(self) -> None:
        for name in ("width", "speed", "acceleration"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"a scan {name} of {value}", mend="give a positive one")
        if not _SHORTEST <= self.leg <= _LONGEST:
            what = f"{self.width:g} of width at a speed of {self.speed:g} take {self.leg:g} s"
            raise ConfigError(what, mend=f"{_SHORTEST:g} to {_LONGEST:g} s: change the speed or the width")
        if not self.turn <= _LONGEST:
            what = f"a turn-around at a speed of {self.speed:g} takes {self.turn:g} s"
            raise ConfigError(what, mend=f"at most {_LONGEST:g} s: give a larger acceleration")

    @property
    def leg(self) -> float:
        """Duration of a leg in seconds."""
        return self.width / self.speed

    @property
    def turn(self) -> float:
        """Duration of a turn-around in seconds."""
        return math.pi * self.speed / self.acceleration

    def motion(self, function: Callable[[FloatArray], FloatArray], n_legs: int) -> Motion:
        """Return a motion along the sweep that repeats itself, up to a rotation, after a number of legs."""
        return Motion(function, (self.leg, self.turn), ((function, n_legs * (self.leg + self.turn)),))

    def position(self, seconds: FloatArray) -> FloatArray:
        """Return the position, 0 to width on the legs and outside in turn-arounds."""
        number, within = np.divmod(seconds, self.leg + self.turn)
        turned = np.maximum(within - self.leg, 0.0) / self.turn
        beyond = self.speed**2 / self.acceleration * np.sin(math.pi * turned)
        forth = self.speed * np.minimum(within, self.leg) + beyond
        return np.where(number % 2 == 0, forth, self.width - forth)

    def leg_number(self, seconds: FloatArray) -> FloatArray:
        """Return the number of the leg, which increases smoothly during a turn-around."""
        return step_number(seconds, self.leg, self.turn)

    def turnarounds(self, n_samp: int, sample_rate: float) -> Int64Array:
        """Return the sample ranges [start, stop) of turn-arounds, (n, 2); sample 0 begins a leg."""
        return turn_ranges(self.leg, self.turn, n_samp, sample_rate)


def constant_elevation(
    sweep: Sweep, *, azimuth: float, elevation: float, latitude: float, longitude: float, start_time: float
) -> Motion:
    """Return the motion of a ground-based telescope that sweeps in azimuth, in equatorial (ICRS) coordinates.

    The accuracy is that of `frames.horizon_to_equatorial`, 35 arcsec. X of the telescope points to the
    horizon.

    Parameters
    ----------
    sweep : Sweep
        Motion in azimuth, in radians and seconds; the first leg begins at `start_time`.
    azimuth : float
        Lower end of the legs, radians from north to east.
    elevation, latitude, longitude : float
        Radians.
    start_time : float
        Unix seconds.

    Returns
    -------
    Motion
        Function of seconds since `start_time`.

    Raises
    ------
    ConfigError
        If the elevation is not between 0 and 90 degrees.
    """
    if not 0 < elevation < math.pi / 2:
        raise ConfigError(f"an elevation of {math.degrees(elevation):g} deg", mend="0 to 90 deg, exclusive")

    def function(seconds: FloatArray) -> FloatArray:
        horizon = frames.horizon_to_equatorial(start_time, seconds, latitude, longitude)
        return quaternion.multiply(
            horizon, frames.horizon_pointing(azimuth + sweep.position(seconds), elevation)
        )

    return sweep.motion(function, 2)


def raster(
    sweep: Sweep,
    *,
    longitude: float,
    latitude: float,
    rows: int,
    row_spacing: float,
    position_angle: float = 0.0,
) -> Motion:
    """Return the motion of a raster scan around a point of the sky, first to last row and back.

    Parameters
    ----------
    sweep : Sweep
        Motion along the rows, in radians and seconds.
    longitude, latitude : float
        Centre, radians, in the frame of the map.
    rows : int
        Number of rows, at least 2.
    row_spacing : float
        Radians.
    position_angle : float
        Rotation of rows and polarization axes from east to north, radians.

    Returns
    -------
    Motion
        Function of seconds since the beginning of the first row.

    Raises
    ------
    ConfigError
        If there are fewer than two rows.
    """
    if rows < 2:
        raise ConfigError(f"a raster of {rows} rows", mend="give at least 2")

    def offsets(seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
        row = (rows - 1) - np.abs(np.mod(sweep.leg_number(seconds), 2 * (rows - 1)) - (rows - 1))
        return sweep.position(seconds) - 0.5 * sweep.width, row_spacing * (row - 0.5 * (rows - 1))

    about = _motion_about(longitude, latitude, position_angle, offsets)
    return sweep.motion(about, 2 * (rows - 1))


def daisy(
    *, longitude: float, latitude: float, radius: float, speed: float, position_angle: float = 0.0
) -> Motion:
    """Return the motion of a daisy scan: an oscillation through the centre whose direction rotates.

    The direction turns 1 / pi times as fast as the phase of the oscillation.

    Parameters
    ----------
    longitude, latitude, radius : float
        Centre and amplitude, radians.
    speed : float
        Speed at the centre, radians per second.
    position_angle : float
        Direction of the first oscillation from east to north, radians.

    Returns
    -------
    Motion
        Function of seconds.

    Raises
    ------
    ConfigError
        If the radius or the speed is not positive.
    """
    if not (radius > 0 and speed > 0):
        raise ConfigError(f"a daisy of radius {radius} rad at {speed} rad/s", mend="give positive values")

    def offsets(seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
        phase = speed / radius * seconds
        direction = 1 / math.pi * phase
        distance = radius * np.sin(phase)
        return distance * np.cos(direction), distance * np.sin(direction)

    about = _motion_about(longitude, latitude, position_angle, offsets)
    # The direction turns at a constant rate, which is a rotation of the sky.
    return Motion(about, windows=((about, math.pi * radius / speed),))


def _motion_about(
    longitude: float,
    latitude: float,
    position_angle: float,
    offsets: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
) -> Callable[[FloatArray], FloatArray]:
    centre = quaternion.from_angles(math.pi / 2 - latitude, longitude, position_angle)

    def motion(seconds: FloatArray) -> FloatArray:
        east, north = offsets(seconds)
        # With X to the south and Y to the east, the offset (-north, east) is a rotation about (-east,
        # -north).
        return quaternion.multiply(centre, tilt_rotation(east, north))

    return motion


def tilt_rotation(east: FloatArray, north: FloatArray) -> FloatArray:
    """Return the rotations that move Z by offsets (radians) along a great circle, with X to the south."""
    return quaternion.from_half_rotation_vector(
        np.stack([-0.5 * east, -0.5 * north, np.zeros_like(east)], axis=-1)
    )
