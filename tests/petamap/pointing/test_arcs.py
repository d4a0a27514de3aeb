"""Tests of pointing that is expanded arc by arc, and for all detectors of a line of sight together."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petamap.pointing import quaternion as quat
from petamap.pointing.boresight import Boresight, PiecewiseBoresight
from petamap.pointing.compressed import CompressedPointing, lines_of_sight
from petamap.pointing.focalplane import hexagonal
from petamap.pointing.half_wave_plate import UniformPlate
from petamap.sky.healpix import Healpix

TURN = 2 * np.pi


def motion(n, rate, opening):
    """Return a spin at `opening` about an axis near the equator, which nods."""
    t = np.arange(n)
    axis = quat.from_angles(1.5 + 0.1 * np.sin(2e-4 * t), 1e-4 * t, 0.0)
    return quat.multiply(quat.multiply(axis, quat.about_z(rate * t)), quat.about_y(opening))


def scan(n, spacing, rate=1e-3, opening=0.9, order="cubic", **more):
    """Return the pointing of two pairs; knots need not stand at samples."""
    n_knots = int(np.ceil(n / spacing)) + 2
    knots = Boresight(motion(4 * n_knots, rate * spacing / 4, opening)[::4], n, spacing, -0.4, order=order)
    return CompressedPointing(knots, hexagonal(4, 0.03).quaternions, **more)


def expand(pointing, sky, detector, start, stop, with_angles=True):
    pixels = np.empty(stop - start, np.int32)
    angles = np.empty(stop - start, np.uint32) if with_angles else None
    pointing.expand(sky, detector, start, stop, pixels, angles)
    return pixels, angles


def one_by_one(pointing, sky, detector):
    """Return pixels and angles computed from the direction of each sample."""
    vectors, angles = pointing.directions(detector, 0, pointing.n_samp)
    pixels = np.empty(pointing.n_samp, np.int32)
    sky.pixels_of(vectors, pixels)
    return pixels, angles


def assert_alike(pointing, sky, detector):
    pixels, angles = expand(pointing, sky, detector, 0, pointing.n_samp)
    expected_pixels, expected_angles = one_by_one(pointing, sky, detector)
    np.testing.assert_array_equal(pixels, expected_pixels)
    assert np.abs((angles - expected_angles).astype(np.int32)).max() <= 1


@pytest.mark.parametrize("nest", [False, True])
@pytest.mark.parametrize(("spacing", "rate"), [(32.5, 1e-3), (100.0, 4e-3), (256.0, 1e-3), (1000.0, 1e-5)])
def test_arcs_against_samples(spacing, rate, nest):
    """The scan meets the poles within a degree, and the borders of the polar caps everywhere."""
    pointing = scan(30_000, spacing, rate, opening=np.pi / 2)
    for detector in range(4):
        assert_alike(pointing, Healpix(1024, nest), detector)


def test_arcs_of_slerp_with_a_plate():
    pointing = scan(5000, 64.0, order="slerp", plate=UniformPlate(0.3, 0.1))
    assert_alike(pointing, Healpix(256), 3)


def test_arcs_end_with_pieces():
    parts = [scan(n, spacing).boresight for n, spacing in ((300, 64.0), (37, 64.0), (500, 33.0), (90, 1.0))]
    pointing = CompressedPointing(PiecewiseBoresight(parts), hexagonal(2, 0.03).quaternions)
    assert_alike(pointing, Healpix(512, nest=True), 1)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_sample_ranges_give_the_same_bits(data):
    n, sky = 3000, Healpix(64, nest=data.draw(st.booleans()))
    opening = data.draw(st.sampled_from([0.9, np.pi / 2]))  # the second one meets the poles
    pointing = scan(n, data.draw(st.sampled_from([40.0, 64.0, 300.7])), opening=opening)
    pixels, angles = expand(pointing, sky, 2, 0, n)
    cuts = sorted({0, n, *data.draw(st.lists(st.integers(1, n - 1), max_size=12))})
    for start, stop in itertools.pairwise(cuts):
        part, of_part = expand(pointing, sky, 2, start, stop)
        np.testing.assert_array_equal(part, pixels[start:stop])
        np.testing.assert_array_equal(of_part, angles[start:stop])
        np.testing.assert_array_equal(part, expand(pointing, sky, 2, start, stop, with_angles=False)[0])


def test_a_boresight_that_rests_at_the_pole():
    pointing = CompressedPointing(Boresight(np.tile([0.0, 0, 0, 1], (5, 1)), 400, 100.0), [[0.0, 0, 0, 1]])
    pixels, angles = expand(pointing, Healpix(8, nest=True), 0, 0, 400)
    assert len(set(pixels.tolist())) == 1 and not angles.any()


def test_lines_of_sight():
    rng = np.random.default_rng(1)
    theta, phi, psi = (rng.uniform(0, top, 50) for top in (np.pi, TURN, TURN))
    theta[0], phi[0] = 0.0, 0.0
    pairs = [quat.from_angles(theta, phi, psi + turn) for turn in (0, np.pi / 2, 3.0)]
    detectors = np.concatenate([pairs[0], -pairs[1], pairs[2]])
    sights, sight_of, angles = lines_of_sight(detectors)
    assert len(sights) == 50
    np.testing.assert_array_equal(sight_of[:50], sight_of[50:100])
    np.testing.assert_array_equal(sight_of[:50], sight_of[100:])
    again = quat.multiply(sights[sight_of], quat.about_z(angles))
    np.testing.assert_allclose(np.abs(np.sum(again * detectors, axis=1)), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(
        quat.rotate(again, [0, 0, 1.0]), quat.rotate(detectors, [0, 0, 1.0]), rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(
        quat.rotate(again, [1.0, 0, 0]), quat.rotate(detectors, [1.0, 0, 0]), rtol=0, atol=1e-12
    )


def test_a_pair_has_its_pixels_in_common():
    pointing = scan(3000, 64.0)
    (first, angles), (second, turned) = (expand(pointing, Healpix(512), d, 0, 3000) for d in (2, 3))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(turned - angles, np.uint32(1 << 31))
