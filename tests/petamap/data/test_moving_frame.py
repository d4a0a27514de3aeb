"""Tests of coordinates that move: bodies stay at the centre, azimuth and elevation are those of the scan."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from made_observations import observation

from petacomm.base.errors import ConfigError
from petamap.data.config import open_sources, parse_config
from petamap.data.moving_frame import MovingFrameOptions, MovingFrameSource
from petamap.data.observation import Observation
from petamap.data.source import SourceContext
from petamap.pointing import frames, quaternion
from petamap.pointing.boresight import Boresight, turned_boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.ephemeris import BODIES, body_directions

ARCSEC = np.pi / 180 / 3600
SITE = tuple(np.radians([-22.96, -67.79]))
PLACE = {"site_latitude": SITE[0], "site_longitude": SITE[1]}
START, N, RATE = 1.75e9 + 0.3, 1800, 0.25  # two hours


def towards(vectors, frame="equatorial", tilt=0.0):
    """Return an observation that follows directions, or points north of them by an angle."""
    x, y, z = quaternion.rotate(frames.frame_rotation("equatorial", frame), vectors).T
    theta = np.arccos(np.clip(z, -1, 1)) - tilt
    knots = quaternion.from_angles(theta, np.arctan2(y, x), np.zeros(len(x)))
    pointing = CompressedPointing(Boresight(knots, len(x)), [[0.0, 0.0, 0.0, 1.0]])
    return Observation(
        name="a", uid=1, n_samp=len(x), sample_rate=RATE, detectors=("d",), start_time=START,
        intervals=((0, len(x)),), pointing=pointing, frame=frame,
    )  # fmt: skip


def moving(one, **options):
    return MovingFrameSource(MovingFrameOptions(**options), SourceContext(Path())).extend([one])[0]


@pytest.mark.parametrize("frame", frames.FRAMES)
@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_is_followed_stays_at_the_centre(body, frame):
    vectors = body_directions(body, START + np.arange(N) / RATE, SITE)
    turned = moving(towards(vectors, frame), centre=body, **PLACE)
    assert turned.frame == "offset"
    found, _ = turned.pointing.directions(0, 0, N)
    assert quaternion.angle_between(found, np.array([1.0, 0.0, 0.0])).max() < 0.05 * ARCSEC


@pytest.mark.parametrize("north", frames.FRAMES)
def test_north_is_up_and_angles_are_kept(north):
    vectors = body_directions("moon", START + np.arange(N) / RATE, SITE)
    one = towards(vectors, north, tilt=0.01)
    found, angles = moving(one, centre="moon", north=north, **PLACE).pointing.directions(0, 0, N)
    np.testing.assert_allclose(found[:, 2], np.sin(0.01), rtol=0, atol=1e-6)
    np.testing.assert_allclose(found[:, 1], 0, rtol=0, atol=1e-6)
    assert (
        np.abs(angles.astype(np.int32)).max() * 360 / 2**32 < 1e-3
    )  # X points to the south before and after


def test_azimuth_and_elevation_of_a_scan_are_those_of_its_options(tmp_path):
    text = """
    [map]
    n_side = 16
    [[source]]
    kind = "ground"
    n_det = 1
    sample_rate = "10 Hz"
    duration = "1 h"
    n_observations = 2
    azimuth_min = "100 deg"
    azimuth_max = "130 deg"
    elevation = "47 deg"
    frame = "galactic"
    turnarounds = "keep"
    [[source]]
    kind = "moving-frame"
    centre = "horizon"
    site_latitude = "-22.96 deg"
    site_longitude = "-67.79 deg"
    """
    for one in open_sources(parse_config(text, tmp_path / "a.toml")):
        x, y, z = one.pointing.directions(0, 0, one.n_samp)[0].T
        assert np.abs(np.arcsin(z) - np.radians(47)).max() < 1.2 * ARCSEC
        azimuth = -np.degrees(np.arctan2(y, x))
        assert azimuth.min() < 100.0 and azimuth.max() > 130.0
        assert azimuth.min() > 98.999 and azimuth.max() < 131.001  # of 1 deg at 1 deg/s^2
        legs = (azimuth > 100.1) & (azimuth < 129.9)
        steps = np.abs(np.diff(azimuth))[legs[1:] & legs[:-1]]
        np.testing.assert_allclose(steps, 0.1, rtol=0, atol=2e-3)  # 1 deg/s at 10 Hz


def test_sparse_knots_become_as_many_as_the_turn_needs():
    spacing, n_samp = 64.0, 6400
    t = np.arange(0, n_samp + 2 * spacing, spacing)
    scan = quaternion.from_angles(1.0 + 0 * t, 0.002 * t, 0 * t)
    sparse = Boresight(scan, n_samp, spacing, -10.0, "slerp")

    def turn(samples):
        return quaternion.about_y(3e-4 * np.asarray(samples))

    exact = quaternion.multiply(turn(np.arange(n_samp)), sparse.quaternions(0, n_samp))
    for tolerance in (10.0, 0.1):
        turned = turned_boresight(sparse, turn, tolerance)
        error = quaternion.multiply(quaternion.conjugate(exact), turned.quaternions(0, n_samp))
        angles = 2 * np.linalg.norm(error[:, :3], axis=1)
        assert angles.max() < 1.5 * tolerance * ARCSEC
        assert 1 <= turned.pieces[0].spacing < spacing
    plain = Boresight(quaternion.multiply(turn(t - 10), scan), n_samp, spacing, -10.0, "slerp")
    error = quaternion.multiply(quaternion.conjugate(exact), plain.quaternions(0, n_samp))
    assert 2 * np.abs(error[:, :3]).max() > 50 * ARCSEC  # what the test would see without more knots


def test_nothing_to_turn_is_told(tmp_path):
    text = '[map]\nn_side = 4\n[[source]]\nkind = "moving-frame"\ncentre = "sun"\n'
    config = parse_config(
        text + '[[source]]\nkind = "satellite"\nsample_rate = "1 Hz"\n', tmp_path / "a.toml"
    )
    with pytest.raises(ConfigError, match=r"a.toml:5: no source before it gives observations for the moving"):
        open_sources(config)


def test_samples_do_not_depend_on_the_pieces():
    one = moving(observation(n_samp=300), centre="jupiter")
    whole = one.pointing.directions(1, 0, 300)[0]
    parts = [one.pointing.directions(1, a, b)[0] for a, b in ((0, 1), (1, 77), (77, 300))]
    assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"centre": "moon"}, r"run.toml:9: moon needs the latitude and the longitude of a site"),
        ({}, {"centre": "horizon", "site_latitude": 0.1}, "horizon needs the latitude and the longitude"),
        ({"frame": "offset"}, {"centre": "sun"}, "observation first: has no directions on the sky"),
        ({"pointing": None}, {"centre": "sun"}, "has no directions on the sky that could be turned to sun"),
        ({"start_time": 3.0}, {"centre": "sun"}, "begins at 3 s of Unix time: nobody says when"),
    ],
)
def test_what_cannot_be_is_told(changes, options, message):
    one = dataclasses.replace(observation(), **changes)
    with pytest.raises(ConfigError, match=message):
        source = MovingFrameSource(
            MovingFrameOptions(**options), SourceContext(Path(), places={"centre": "run.toml:9"})
        )
        source.extend([one])
