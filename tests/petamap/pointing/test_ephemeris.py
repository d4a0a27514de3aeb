"""Tests of the directions of bodies against astropy's ephemeris."""

import numpy as np
import pytest
from astropy import units
from astropy.coordinates import EarthLocation, get_body_barycentric
from astropy.time import Time
from astropy.utils import iers

from petacomm.base.errors import ConfigError
from petamap.pointing.ephemeris import BODIES, body_directions, site_positions
from petamap.pointing.quaternion import angle_between

ARCSEC = np.pi / 180 / 3600
TIMES = 1.6e9 + 7.3e6 * np.arange(20) + 777.0
SITE = tuple(np.radians([-22.96, -67.79]))


@pytest.fixture(autouse=True)
def no_network():
    with iers.conf.set_temp("auto_download", False), iers.conf.set_temp("iers_degraded_accuracy", "ignore"):
        yield


def location():
    return EarthLocation.from_geodetic(SITE[1] * units.rad, SITE[0] * units.rad)


def seen(body, site):
    """Return the vectors of a body from the Earth, with light time, by astropy's positions."""
    now = Time(TIMES, format="unix")
    here = get_body_barycentric("earth", now, "builtin").xyz.to_value("m").T
    if site:
        here = here + location().get_gcrs_posvel(now)[0].xyz.to_value("m").T
    delay = np.zeros(len(TIMES))
    for _ in range(3):
        then = Time(TIMES - delay, format="unix")
        vectors = get_body_barycentric(body, then, "builtin").xyz.to_value("m").T - here
        delay = np.linalg.norm(vectors, axis=1) / 299792458.0
    return vectors


@pytest.mark.parametrize("site", [None, SITE])
@pytest.mark.parametrize("body", BODIES)
def test_directions_are_those_of_astropy(body, site):
    # UT1 is up to 0.9 s from UTC, in which a site moves 420 m: 0.24 arcsec at the distance of the Moon
    tolerance = 0.3 if body == "moon" else 0.1
    # one by one, since the precession of a site is that of the first of its times
    found = np.concatenate([body_directions(body, [time], site) for time in TIMES])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=0, atol=1e-15)
    assert angle_between(found, seen(body, site)).max() < tolerance * ARCSEC


def test_the_moon_from_a_site_is_where_its_parallax_puts_it():
    parallax = angle_between(body_directions("moon", TIMES), body_directions("moon", TIMES, SITE))
    assert np.degrees(parallax).max() > 0.6 and np.degrees(parallax).max() < 1.03


def test_positions_of_a_site_are_those_of_astropy():
    times = TIMES[0] + 3600.0 * np.arange(24)
    expected = location().get_gcrs_posvel(Time(times, format="unix"))[0].xyz.to_value("m").T
    assert np.abs(site_positions(times, *SITE) - expected).max() < 450  # 0.9 s of rotation


def test_an_unknown_body_is_told():
    with pytest.raises(ConfigError, match=r"unknown body 'pluto'"):
        body_directions("pluto", TIMES)
