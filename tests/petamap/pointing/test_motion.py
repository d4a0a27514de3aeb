"""Tests of knots on motions: the error that is told is true for every sample of random scans."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from petacomm.base.errors import DataError
from petamap.pointing import quaternion
from petamap.pointing import scan_strategies as scan
from petamap.pointing.boresight import Boresight, PiecewiseBoresight, piecewise_boresight, pointing_error
from petamap.pointing.motion import Motion, choose_knot_spacing, place_knots, sample_motion

DEGREE = math.pi / 180
SITE = {"latitude": -22.96 * DEGREE, "longitude": -67.79 * DEGREE}


def ground(width, speed, acceleration):
    sweep = scan.Sweep(width * DEGREE, speed * DEGREE, acceleration * DEGREE)
    return scan.constant_elevation(
        sweep, azimuth=140 * DEGREE, elevation=50 * DEGREE, start_time=1.76e9, **SITE
    )


def raster(width, speed, acceleration):
    sweep = scan.Sweep(width / 30 * DEGREE, speed * DEGREE, acceleration * DEGREE)
    return scan.raster(sweep, longitude=1.0, latitude=0.3, rows=5, row_spacing=0.02)


def daisy(width, speed, acceleration):
    return scan.daisy(longitude=1.0, latitude=0.3, radius=width / 30 * DEGREE, speed=speed * DEGREE)


def satellite(width, speed, acceleration):
    return scan.satellite(
        start_time=1.76e9, spin_period=width / speed * 10, precession_period=3000 / acceleration,
        precession_angle=45 * DEGREE, opening=50 * DEGREE,
    )  # fmt: skip


def stepping(width, speed, acceleration):
    return scan.satellite(
        start_time=1.76e9, spin_period=width / speed * 10, precession_period=3e5 / acceleration,
        precession_angle=45 * DEGREE, repointing_period=10 * width, repointing_time=width,
    )  # fmt: skip


def assert_error_is_true(motion, n_samp, rate, tolerance):
    spacing = choose_knot_spacing(motion, n_samp, rate, tolerance)
    boresight = place_knots(motion, n_samp, rate, spacing.samples)
    assert boresight.n_samp == n_samp
    truth = pointing_error(boresight, motion(np.arange(n_samp) / rate))
    assert truth.max_arcsec <= max(spacing.error.max_arcsec, 1e-8)
    assert truth.max_roll_arcsec <= max(spacing.error.max_roll_arcsec, 1e-8)
    assert spacing.error.max_total_arcsec <= tolerance
    return boresight


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([ground, raster, daisy, satellite, stepping]),
    st.floats(2, 80), st.floats(0.05, 3), st.floats(0.2, 10),
    st.sampled_from([7.3, 20.0, 200.0]), st.integers(1, 40_000), st.sampled_from([0.01, 1.0, 60.0]),
)  # fmt: skip
@example(ground, 80.0, 0.4, 1.0, 200.0, 240_000, 1.0)  # turn-arounds far from both ends
@example(ground, 80.0, 0.5, 1.0, 500.0, 600_000, 1.0)
@example(raster, 30.0, 0.1, 1.0, 200.0, 240_000, 1.0)
@example(stepping, 80.0, 3.0, 10.0, 20.0, 40_000, 0.01)
@example(raster, 2.0, 3.0, 10.0, 7.3, 1000, 0.01)  # turn-arounds of few samples
def test_the_error_is_true_for_every_sample(kind, width, speed, acceleration, rate, n_samp, tolerance):
    assert_error_is_true(kind(width, speed, acceleration), n_samp, rate, tolerance)


def test_knots_adapt_to_the_pieces_of_a_scan():
    motion = ground(80.0, 0.4, 1.0)
    boresight = assert_error_is_true(motion, 240_000, 200.0, 1.0)
    spacings = {piece.spacing for piece in boresight.pieces}
    assert len(spacings) == 2 and max(spacings) > 2000 and min(spacings) < 100
    assert sum(len(piece.knots) for piece in boresight.pieces) < 240_000 / 1000


def test_a_spacing_is_valid_for_later_observations():
    spacing = choose_knot_spacing(ground(20.0, 1.0, 1.0), 20_000, 50.0, 0.5)
    sweep = scan.Sweep(20 * DEGREE, 1 * DEGREE, 1 * DEGREE)
    later = scan.constant_elevation(
        sweep, azimuth=140 * DEGREE, elevation=50 * DEGREE, start_time=1.77e9 + 12345.6, **SITE
    )
    truth = pointing_error(place_knots(later, 20_000, 50.0, spacing.samples), later(np.arange(20_000) / 50))
    assert truth.max_arcsec <= spacing.error.max_arcsec


def test_a_long_mission_of_a_satellite():
    motion = scan.satellite(start_time=1.6e9)
    boresight, error = sample_motion(motion, 4_000_000, 78.77)
    assert boresight.spacing >= 512 and error.max_total_arcsec < 0.1
    for start in np.random.default_rng(3).integers(0, 3_990_000, 20):
        exact = motion(np.arange(start, start + 5000) / 78.77)
        assert pointing_error(boresight, exact, int(start)).max_arcsec <= error.max_arcsec


def test_pieces_that_are_too_long_to_be_looked_at_have_a_knot_at_every_sample():
    motion = scan.satellite(start_time=1.6e9, repointing_period=1e9, repointing_time=1.0)
    spacing = choose_knot_spacing(motion, 500, 200.0, 0.1)
    assert spacing.samples == ()
    assert pointing_error(place_knots(motion, 500, 200.0, ()), motion(np.arange(500) / 200)).max_arcsec < 1e-8


def test_a_function_is_looked_at_over_the_whole_observation():
    def jolt(seconds):  # steady, but for half a second
        return quaternion.about_y(1 + 0.01 * seconds + 0.01 * np.exp(-(((seconds - 200) / 0.1) ** 2)))

    boresight, error = sample_motion(jolt, 30_000, 100.0, tolerance_arcsec=1.0)
    truth = pointing_error(boresight, jolt(np.arange(30_000) / 100.0))
    assert truth.max_arcsec <= error.max_arcsec <= 1.0


def test_a_motion_that_no_spacing_follows_has_a_knot_at_every_sample():
    wild = Motion(lambda seconds: quaternion.about_y(0.4 * np.sin(1e4 * seconds)))
    spacing = choose_knot_spacing(wild, 500, 20.0, 0.1)
    assert spacing.samples == () and spacing.extremes == (1.0, 1.0)
    boresight = place_knots(wild, 500, 20.0, spacing.samples)
    np.testing.assert_allclose(np.abs(np.sum(boresight.knots * wild(np.arange(500) / 20), axis=1)), 1)


@pytest.mark.parametrize("stride", [1, 7, 100, 5000])
def test_pieces_are_decimated_and_rotated_like_their_samples(stride):
    motion = ground(10.0, 1.0, 1.0)
    boresight = place_knots(motion, 9000, 20.0, (50.0, 7.0))
    assert isinstance(boresight, PiecewiseBoresight) and len(boresight.pieces) > 50
    whole = boresight.quaternions(0, 9000)
    sparse = boresight.decimated(stride)
    np.testing.assert_allclose(sparse.quaternions(0, sparse.n_samp), whole[::stride], rtol=0, atol=1e-13)
    turn = quaternion.from_angles(0.3, 0.4, 0.5)
    np.testing.assert_allclose(
        boresight.rotated(turn).quaternions(0, 9000), quaternion.multiply(turn, whole), rtol=0, atol=1e-12
    )
    np.testing.assert_array_equal(boresight.quaternions(1234, 5678), whole[1234:5678])


def test_pieces_that_are_made_at_once_have_the_bits_of_each():
    rng = np.random.default_rng(7)
    axes = quaternion.from_angles(*rng.normal(0, 1, (3, 4)))
    signs = rng.choice([-1.0, 1.0], (4, 9, 1))
    steps = quaternion.about_z(np.linspace(0, 1, 9))
    turns = [s * 1.1 * quaternion.multiply(a, steps) for a, s in zip(axes, signs, strict=True)]
    turns.append(turns[0][:1])
    places = [(81, 10.0, 0.0), (70, 10.0, -3.0), (9, 1.0, 0.0), (5, 10.0, 0.0), (1, 2.0, -0.5)]
    places = [(*place, order) for place, order in zip(places, ["cubic", "slerp"] * 3, strict=False)]
    found = piecewise_boresight(turns, places)
    for one, knots, place in zip(found.pieces, turns, places, strict=True):
        alone = Boresight(knots, *place)
        assert one.knots.tobytes() == alone.knots.tobytes() and not one.knots.flags.writeable
        assert (one.n_samp, one.spacing, one.offset, one.order, one.degree) == (*place, alone.degree)
    turns[2][4] = quaternion.multiply(turns[2][4], quaternion.about_z(3.0))
    with pytest.raises(DataError, match="to the next knot"):
        piecewise_boresight(turns, places)


def test_pieces_use_no_knots_of_each_other():
    turn = quaternion.about_z(np.linspace(0, 0.3, 4))
    jump = PiecewiseBoresight([Boresight(turn, 31, 10.0), Boresight(turn[::-1], 31, 10.0)])
    forth = Boresight(turn, 31, 10.0).quaternions(0, 31)
    np.testing.assert_allclose(
        jump.quaternions(0, 62), np.concatenate([forth, forth[::-1]]), rtol=0, atol=1e-15
    )
