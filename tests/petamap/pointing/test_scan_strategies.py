"""Tests of scan strategies and frames against astropy and against their definitions."""

import numpy as np
import pytest

from petacomm.base.errors import ConfigError
from petamap.pointing import frames, quaternion
from petamap.pointing import scan_strategies as scan

ARCSEC = np.pi / 180 / 3600
RNG = np.random.default_rng(1)


def unit_vectors(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def lines_of_sight(q):
    return quaternion.rotate(q, [0.0, 0.0, 1.0])


def astropy_frame(name):
    from astropy import coordinates

    ecliptic = coordinates.BarycentricMeanEcliptic(equinox="J2000")
    return {"equatorial": coordinates.ICRS(), "galactic": coordinates.Galactic(), "ecliptic": ecliptic}[name]


@pytest.mark.parametrize("given", frames.FRAMES)
@pytest.mark.parametrize("wanted", frames.FRAMES)
def test_frames_against_astropy(given, wanted):
    from astropy.coordinates import SkyCoord

    vectors = unit_vectors(RNG.normal(size=(20, 3)))
    sky = SkyCoord(*vectors.T, representation_type="cartesian", frame=astropy_frame(given))
    expected = sky.transform_to(astropy_frame(wanted)).cartesian.xyz.value.T
    turned = quaternion.rotate(frames.frame_rotation(given, wanted), vectors)
    np.testing.assert_allclose(turned, expected, rtol=0, atol=1e-12)


def test_horizon_against_astropy():
    import warnings

    from astropy import units as u
    from astropy.coordinates import ICRS, AltAz, EarthLocation, SkyCoord
    from astropy.time import Time
    from astropy.utils import iers

    site = EarthLocation(lat=-22.96 * u.deg, lon=-67.79 * u.deg, height=5190 * u.m)
    unix = 1.51e9 + np.linspace(0, 86000, 50)
    azimuth, elevation = RNG.uniform(0, 2 * np.pi, 50), RNG.uniform(0.3, 1.4, 50)
    with iers.conf.set_temp("auto_download", False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        altaz = AltAz(obstime=Time(unix, format="unix"), location=site)
        sky = SkyCoord(azimuth * u.rad, elevation * u.rad, frame=altaz).transform_to(ICRS())
    expected = sky.cartesian.xyz.value.T
    horizon = frames.horizon_to_equatorial(unix[0], unix - unix[0], np.radians(-22.96), np.radians(-67.79))
    given = lines_of_sight(quaternion.multiply(horizon, frames.horizon_pointing(azimuth, elevation)))
    error = quaternion.angle_between(given, expected) / ARCSEC
    assert error.max() < 35
    assert error.min() > 0.01  # aberration is neglected


@pytest.mark.parametrize("year", [1970, 1998.3, 2026.9, 2060])
def test_precession_and_nutation_are_those_of_the_matrix_of_erfa(year):
    import erfa

    days = (year - 1970) * 365.25
    vectors = np.random.default_rng(4).normal(size=(50, 3))
    turned = quaternion.rotate(frames._precession(days), vectors)
    matrix = erfa.pnm06a(frames.UNIX_EPOCH, days)
    np.testing.assert_allclose(turned, vectors @ matrix.T, rtol=0, atol=1e-14)


def spin_axis(q):
    return quaternion.rotate(q, [np.sin(np.radians(85)), 0, np.cos(np.radians(85))])


def test_a_spin_axis_that_rests_and_steps():
    steady = scan.satellite(start_time=1.6e9)
    stepped = scan.satellite(start_time=1.6e9, repointing_period=3600.0, repointing_time=240.0)
    hours = 3600.0 * np.arange(48)
    middles = spin_axis(steady(hours + 1800))
    for within in (0.0, 1.0, 1800.0, 3359.9):  # at rest, where the steady one is in the middle of the hour
        axis = spin_axis(stepped(hours + within))
        np.testing.assert_allclose(quaternion.angle_between(axis, middles), 0, rtol=0, atol=3e-8)
    steps = quaternion.angle_between(middles[1:], middles[:-1])
    # the Sun moves by 2.5 arcmin in an hour, and the precession by 0.6
    assert np.all(np.abs(np.degrees(steps) * 60 - 2.5) < 0.7)
    halfway = spin_axis(stepped(hours[:-1] + 3360 + 120))
    for other in (middles[1:], middles[:-1]):
        np.testing.assert_allclose(quaternion.angle_between(halfway, other), steps / 2, rtol=1e-3)
    # the spin goes on meanwhile, and the motion has no jumps
    times = np.arange(3300, 3700, 0.1)
    turns = quaternion.angle_between(lines_of_sight(stepped(times[1:])), lines_of_sight(stepped(times[:-1])))
    rate = 2 * np.pi / 60 * np.sin(np.radians(85)) * 0.1
    np.testing.assert_allclose(turns, rate, rtol=1e-3)


@pytest.mark.parametrize("seconds", [0.0, 3600.0, 4000.0, -1.0])
def test_steps_take_a_part_of_the_period(seconds):
    with pytest.raises(ConfigError, match="repointings that take"):
        scan.satellite(repointing_period=3600.0, repointing_time=seconds)


def test_satellite_motion():
    day = 86400.0
    motion = scan.satellite(start_time=1.6e9)
    since_start = np.arange(0, 365 * day, 1234.5)
    q, seconds = motion(since_start), 1.6e9 + since_start
    # in the telescope frame the spin axis is 85 degrees from Z towards X
    axis = quaternion.rotate(q, [np.sin(np.radians(85)), 0, np.cos(np.radians(85))])
    longitude = np.radians(280.4603) + np.pi + 2 * np.pi * (seconds - 946728000) / (365.2422 * day)
    anti_sun = np.stack([np.cos(longitude), np.sin(longitude), 0 * longitude], axis=1)
    np.testing.assert_allclose(quaternion.angle_between(axis, anti_sun), np.radians(7.5), rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        quaternion.angle_between(axis, lines_of_sight(q)), np.radians(85), rtol=0, atol=1e-12
    )
    # one turn per minute: 120 degrees about the spin axis in 20 s
    a, b = lines_of_sight(motion(since_start[:1])), lines_of_sight(motion(since_start[:1] + 20))
    chord = 2 * np.arcsin(np.sin(np.radians(85)) * np.sin(np.radians(60)))
    assert quaternion.angle_between(a, b)[0] == pytest.approx(chord, abs=1e-5)


def test_mean_sun_against_the_true_sun():
    from astropy.coordinates import get_sun
    from astropy.time import Time

    seconds = 1.5e9 + np.arange(10) * 3e6
    motion = scan.satellite(opening=0.0, precession_angle=0.0, start_time=1.5e9)
    sun = unit_vectors(get_sun(Time(seconds, format="unix")).cartesian.xyz.value.T)
    sun = quaternion.rotate(frames.frame_rotation("equatorial", "ecliptic"), sun)
    angle = quaternion.angle_between(lines_of_sight(motion(seconds - 1.5e9)), -sun)
    assert np.degrees(angle).max() < 2.5  # the equation of centre is 1.9 degrees


def test_speed_and_acceleration_of_sweeps():
    sweep = scan.Sweep(width=20.0, speed=1.5, acceleration=2.5)
    step = 1e-3
    position = sweep.position(np.arange(0, 200, step))
    speed, acceleration = np.diff(position) / step, np.diff(position, 2) / step**2
    assert np.abs(speed).max() == pytest.approx(1.5, rel=1e-6)
    assert np.abs(acceleration).max() == pytest.approx(2.5, rel=1e-3)
    assert position.min() == pytest.approx(-(1.5**2) / 2.5, rel=1e-3)
    assert position.max() == pytest.approx(20 + 1.5**2 / 2.5, rel=1e-3)


def test_turnarounds_are_the_samples_of_changing_speed():
    sweep, rate, n = scan.Sweep(10.0, 1.5, 2.5), 50.0, 5000
    seconds = np.arange(n) / rate
    bad = np.zeros(n, bool)
    for start, stop in sweep.turnarounds(n, rate):
        bad[start:stop] = True
    tiny = 1e-4
    later, earlier = (sweep.position(seconds + s * tiny) for s in (1, -1))
    full_speed = np.abs(np.abs(later - earlier) / (2 * tiny) - 1.5) < 1e-3
    assert np.mean(bad == full_speed) < 1e-2  # the speed changes slowly at both ends of a turn-around
    outside = (sweep.position(seconds) < -1e-9) | (sweep.position(seconds) > 10 + 1e-9)
    assert not np.any(outside & ~bad)
    assert 0.1 < bad.mean() < 0.3


def test_constant_elevation_on_the_ground():
    from petamap.pointing.frames import horizon_to_equatorial

    site = {"latitude": np.radians(-22.96), "longitude": np.radians(-67.79)}
    sweep = scan.Sweep(np.radians(40), np.radians(1), np.radians(1))
    motion = scan.constant_elevation(sweep, azimuth=1.0, elevation=0.9, start_time=1.6e9, **site)
    seconds = np.arange(0, 3600, 7.0)
    up = lines_of_sight(quaternion.multiply(
        quaternion.conjugate(horizon_to_equatorial(1.6e9, seconds, **site)), motion(seconds)))  # fmt: skip
    np.testing.assert_allclose(np.arcsin(up[:, 2]), 0.9, rtol=0, atol=1e-9)
    azimuth = np.mod(np.arctan2(-up[:, 1], up[:, 0]), 2 * np.pi)
    np.testing.assert_allclose(azimuth, 1.0 + sweep.position(seconds), rtol=0, atol=1e-9)
    # independent of the range of samples
    np.testing.assert_array_equal(motion(seconds)[100:120], motion(seconds[100:120]))


def test_raster():
    arcmin = np.pi / 180 / 60
    sweep = scan.Sweep(30 * arcmin, 1 * arcmin, 2 * arcmin)
    motion = scan.raster(sweep, longitude=1.0, latitude=-0.7, rows=7, row_spacing=3 * arcmin)
    period = sweep.leg + sweep.turn
    ends = np.ravel(np.arange(14)[:, None] * period + [0, sweep.leg])
    centre = quaternion.from_angles(np.pi / 2 + 0.7, 1.0, 0.0)
    south, east, _ = (
        quaternion.rotate(quaternion.conjugate(centre), lines_of_sight(motion(ends))) / arcmin
    ).T
    np.testing.assert_allclose(east[::2], 15 * np.tile([-1, 1], 7), rtol=0, atol=1e-3)
    np.testing.assert_allclose(east[1::2], 15 * np.tile([1, -1], 7), rtol=0, atol=1e-3)
    rows = [0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0, 1]
    np.testing.assert_allclose(-south[::2], 3 * np.array(rows) - 9, rtol=0, atol=1e-3)
    np.testing.assert_allclose(south[1::2], south[::2], rtol=0, atol=1e-3)
    # longitude increases to the east
    assert np.mod(np.arctan2(*lines_of_sight(motion(ends[1:2]))[0, 1::-1]), 2 * np.pi) > 1.0


def test_position_angle_of_a_raster():
    sweep = scan.Sweep(0.01, 0.001, 0.01)
    motion = scan.raster(
        sweep, longitude=0.0, latitude=0.0, rows=3, row_spacing=0.004, position_angle=np.radians(30)
    )
    begin = 2 * (sweep.leg + sweep.turn)  # the third row, which is scanned in the direction of the first
    ends = lines_of_sight(motion(np.array([begin, begin + sweep.leg])))
    east, north = (ends[1] - ends[0])[1:]
    assert np.degrees(np.arctan2(north, east)) == pytest.approx(30, abs=1e-6)
    # the polarization axis, which points south at 0, is rotated by the same angle towards east
    axis = quaternion.rotate(motion(np.array([begin + 0.5 * sweep.leg])), [1.0, 0, 0])[0]
    assert np.degrees(np.arctan2(axis[1], -axis[2])) == pytest.approx(30, abs=0.1)


def test_daisy():
    motion = scan.daisy(longitude=1.0, latitude=0.5, radius=0.01, speed=0.002)
    sight = lines_of_sight(motion(np.linspace(0, 600, 5001)))
    centre = np.array([np.cos(0.5) * np.cos(1.0), np.cos(0.5) * np.sin(1.0), np.sin(0.5)])
    distance = quaternion.angle_between(sight, centre)
    assert distance.max() == pytest.approx(0.01, rel=1e-3) and distance.min() < 1e-5
    speed = quaternion.angle_between(sight[1:], sight[:-1]) / (600 / 5000)
    assert speed[0] == pytest.approx(0.002, rel=1e-2)


def test_invalid_scans():
    with pytest.raises(ConfigError, match="speed"):
        scan.Sweep(1.0, 0.0, 1.0)
    with pytest.raises(ConfigError, match=r"take 1e\+300 s \(0.001 to 1e\+09 s"):
        scan.Sweep(1.0, 1e-300, 1.0)
    with pytest.raises(ConfigError, match="larger acceleration"):
        scan.Sweep(1.0, 1.0, 1e-300)
    with pytest.raises(ConfigError, match="elevation"):
        scan.constant_elevation(
            scan.Sweep(1, 1, 1), azimuth=0, elevation=2.0, latitude=0, longitude=0, start_time=0
        )
    with pytest.raises(ConfigError, match="rows"):
        scan.raster(scan.Sweep(1, 1, 1), longitude=0, latitude=0, rows=1, row_spacing=1)
    with pytest.raises(ConfigError, match="did you mean 'galactic'"):
        frames.frame_rotation("galaktic", "equatorial")
