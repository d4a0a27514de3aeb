"""Tests of the dipole: closed forms, astropy's ephemeris, pieces, and what cannot be."""

import dataclasses
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_observations import observation

from petacomm.base.errors import ConfigError
from petamap.data.config import open_sources, parse_config
from petamap.data.observation import read_signal
from petamap.data.source import SourceContext
from petamap.pointing.frames import FRAMES, frame_rotation
from petamap.simulation.dipole import (
    LIGHT,
    DipoleOptions,
    DipoleSource,
    doppler_temperature,
    earth_velocity,
    site_velocity,
)

CONTEXT = SourceContext(Path())
TIMES = 1.6e9 + 5e6 * np.arange(40) + 1234.5  # six years


def dipole(one, **options):
    """Return an observation with the dipole alone."""
    bare = dataclasses.replace(one, signals=(), unit="K_CMB")
    return DipoleSource(DipoleOptions(**options), CONTEXT).extend([bare])[0]


@pytest.fixture
def no_network():
    from astropy.utils import iers

    with iers.conf.set_temp("auto_download", False), iers.conf.set_temp("iers_degraded_accuracy", "ignore"):
        yield


def test_velocity_of_the_earth_against_astropy(no_network):
    from astropy.coordinates import get_body_barycentric, get_body_barycentric_posvel
    from astropy.time import Time

    _, velocity = get_body_barycentric_posvel("earth", Time(TIMES, format="unix"), "builtin")
    assert np.abs(earth_velocity(TIMES) - velocity.xyz.to_value("m/s").T).max() < 0.01

    def position(body, seconds):
        return get_body_barycentric(body, Time(TIMES + seconds, format="unix"), "builtin").xyz.to_value("m").T

    def l2(seconds):
        sun, earth, moon = (position(body, seconds) for body in ("sun", "earth", "moon"))
        return sun + 1.01004 * (earth + (moon - earth) / 82.300569 - sun)

    assert np.abs(earth_velocity(TIMES, "l2") - (l2(300) - l2(-300)) / 600).max() < 0.05
    speed = np.linalg.norm(earth_velocity(TIMES), axis=1)
    assert ((speed > 29.2e3) & (speed < 30.4e3)).all()


def test_velocity_of_a_site_against_astropy(no_network):
    from astropy import units
    from astropy.coordinates import EarthLocation
    from astropy.time import Time

    latitude, longitude = np.radians([-22.96, -67.79])
    times = 1.7e9 + 3600.0 * np.arange(30)
    site = EarthLocation.from_geodetic(longitude * units.rad, latitude * units.rad)
    _, velocity = site.get_gcrs_posvel(Time(times, format="unix"))
    expected = velocity.xyz.to_value("m/s").T
    assert np.abs(site_velocity(times, latitude, longitude) - expected).max() < 0.1  # of 428


@settings(max_examples=50)
@given(st.floats(0, 0.9), st.floats(-1, 1))
def test_closed_forms(speed, cosine):
    directions = np.array([[cosine, np.sqrt(1 - cosine**2), 0.0]])
    beta = np.array([[speed, 0.0, 0.0]])
    (exact,), (second,), (first,) = (
        doppler_temperature(beta, directions, 2.0, order) for order in ("exact", "second", "first")
    )
    # the Lorentz transformation of a photon's energy, from the direction in the rest frame of the background
    seen = (cosine - speed) / (1 - speed * cosine)
    gamma = 1 / np.sqrt(1 - speed**2)
    assert exact == pytest.approx(2.0 * (gamma * (1 + speed * seen) - 1), abs=1e-12)
    assert first == pytest.approx(2.0 * speed * cosine, abs=1e-15)
    assert second == pytest.approx(first + 2.0 * speed**2 * (cosine**2 - 0.5), abs=1e-15)
    if speed < 0.1:
        assert abs(exact - second) <= 2.0 * 4 * speed**3 + 1e-15
        assert abs(second - first) <= 2.0 * speed**2


@pytest.mark.parametrize("frame", FRAMES)
def test_solar_dipole_is_that_of_planck_in_every_frame(frame):
    one = dataclasses.replace(observation(n_samp=2000, plate=None), frame=frame)
    signal = read_signal(dipole(one, parts="solar", order="first"), 1, 0, 2000)
    directions, _ = one.pointing.directions(1, 0, 2000)
    from astropy import units
    from astropy.coordinates import SkyCoord

    towards = SkyCoord(264.021 * units.deg, 48.253 * units.deg, frame="galactic")
    name = {"equatorial": "icrs", "ecliptic": "barycentricmeanecliptic"}.get(frame, frame)
    vector = towards.transform_to(name).cartesian.xyz.value
    # the speed is published to 0.005 km/s, 0.046 uK
    np.testing.assert_allclose(signal, 3362.08e-6 * directions @ vector, rtol=0, atol=4.6e-8)


def test_orbital_dipole_of_a_circular_orbit():
    # beta of the Earth points 90 deg behind the Sun: with 29.78 km/s the amplitude is 270.7 uK within 1.7%
    one = dataclasses.replace(observation(n_samp=2000, plate=None), frame="ecliptic")
    found = dipole(one, parts="orbital", order="first")
    signal = read_signal(found, 0, 0, 2000)
    directions, _ = one.pointing.directions(0, 0, 2000)
    days = (one.start_time - 946728000.0) / 86400
    sun = np.radians(280.46 + 0.9856474 * days) + np.radians(1.915) * np.sin(
        np.radians(357.528 + 0.9856003 * days)
    )
    along = directions @ [np.cos(sun - np.pi / 2), np.sin(sun - np.pi / 2), 0.0]
    np.testing.assert_allclose(signal, 2.72548 * 29.78e3 / LIGHT * along, rtol=0, atol=0.025 * 271e-6)


def test_both_have_terms_that_neither_has_alone():
    one = observation(n_samp=2000, plate=None)
    both, solar, orbital = (
        read_signal(dipole(one, parts=parts), 0, 0, 2000) for parts in ("both", "solar", "orbital")
    )
    assert 1e-8 < np.abs(both - solar - orbital).max() < 1e-6
    first = [
        read_signal(dipole(one, parts=p, order="first"), 0, 0, 2000) for p in ("both", "solar", "orbital")
    ]
    np.testing.assert_allclose(first[0], first[1] + first[2], rtol=0, atol=1e-16)


def test_a_site_adds_the_rotation_of_the_earth():
    one = dataclasses.replace(observation(n_samp=2000, plate=None), sample_rate=0.02, frame="equatorial")
    site = {"site_latitude": -0.4, "site_longitude": -1.18}
    still, turning = (dipole(one, order="first", **options) for options in ({}, site))
    difference = read_signal(turning, 0, 0, 2000) - read_signal(still, 0, 0, 2000)
    times = one.start_time + np.arange(2000) / 0.02
    velocity = site_velocity(times, -0.4, -1.18)
    directions, _ = one.pointing.directions(0, 0, 2000)
    expected = 2.72548 / LIGHT * np.sum(velocity * directions, axis=1)
    np.testing.assert_allclose(difference, expected, rtol=0, atol=1e-10)
    assert 3e-6 < np.abs(difference).max() < 4.3e-6


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 20_000), min_size=2, max_size=6, unique=True).map(sorted))
def test_samples_do_not_depend_on_the_pieces(edges):
    one = dipole(observation(n_samp=20_000, plate=None))
    parts = [read_signal(one, 0, a, b) for a, b in pairwise(edges)]
    assert np.array_equal(np.concatenate(parts), read_signal(one, 0, edges[0], edges[-1]))


def test_interpolated_velocities_are_those_of_the_ephemeris():
    one = dataclasses.replace(observation(n_samp=5000, plate=None), sample_rate=1e-3, frame="equatorial")
    signal = dipole(one, parts="orbital").signals[0]
    times = one.start_time + np.arange(5000) / 1e-3
    assert np.abs(signal.velocities(0, 5000) - earth_velocity(times)).max() < 3e-3


def test_units_scale_and_realizations():
    one = observation(n_samp=100, plate=None)
    bare = dataclasses.replace(one, signals=())
    (micro,) = DipoleSource(DipoleOptions(scale=-1), CONTEXT).extend([bare])
    np.testing.assert_allclose(read_signal(micro, 0, 0, 100), -1e6 * read_signal(dipole(one), 0, 0, 100))
    assert getattr(DipoleSource, "part", None) is None


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        (
            {"frame": "offset"},
            {},
            "observation first: the dipole needs pointing on the sky, not in frame offset",
        ),
        ({"frame": None}, {}, "not in a frame that nobody tells"),
        ({"unit": "MJy/sr"}, {}, "the dipole is in K_CMB, the signal in 'MJy/sr'"),
        ({"start_time": 12.0}, {}, r"begins at 12 s of Unix time: nobody says when it was observed"),
        ({"pointing": None}, {}, "first: has no pointing to look at the sky with"),
        ({}, {"site_latitude": 0.1}, "a site has a latitude and a longitude"),
        ({}, {"site_latitude": 0.1, "site_longitude": 0.1, "observer": "l2"}, "L2 has no sites"),
    ],
)
def test_what_cannot_be_is_told(changes, options, message):
    one = dataclasses.replace(observation(), **changes)
    with pytest.raises(ConfigError, match=message):
        DipoleSource(DipoleOptions(**options), CONTEXT).extend([one])


def test_nothing_to_add_to_is_told():
    with pytest.raises(ConfigError, match="no source before it gives observations for the dipole"):
        DipoleSource(DipoleOptions(), CONTEXT).extend([])


def test_a_map_of_the_dipole_has_its_amplitude(tmp_path):
    """The dipole fitted to the binned directions of a whole-sky scan is that of the options."""
    text = """
    [map]
    n_side = 16
    [[source]]
    kind = "satellite"
    sample_rate = "1 Hz"
    duration = "6 h"
    opening = "50 deg"
    precession_angle = "45 deg"
    precession_period = "96 min"
    [[source]]
    kind = "dipole"
    parts = "solar"
    order = "first"
    """
    (one,) = open_sources(parse_config(text, tmp_path / "a.toml"))
    directions, _ = one.pointing.directions(0, 0, one.n_samp)
    fitted, *_ = np.linalg.lstsq(directions, read_signal(one, 0, 0, one.n_samp), rcond=None)
    lon, lat = np.radians([264.021, 48.253])
    unit = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
    np.testing.assert_allclose(fitted, 2.72548 * 369.82e3 / LIGHT * np.array(unit), rtol=1e-9)
    assert frame_rotation("galactic", one.frame)[3] == pytest.approx(1)
