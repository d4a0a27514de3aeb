"""Tests of compressed pointing against NumPy, SciPy, and a Mueller-matrix computation."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

from petacomm.base.errors import DataError
from petamap.pointing import quaternion as quat
from petamap.pointing.boresight import (
    Boresight,
    boresight_from_times,
    compress_boresight,
    pointing_error,
)
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import SampledPlate, UniformPlate
from petamap.pointing.unit_knots import unit_quaternions

TURN = 2 * np.pi
RNG = np.random.default_rng(5)
IDENTITY = [[0.0, 0.0, 0.0, 1.0]]


def spinning(n, rate=0.01):
    """Return a spin about an axis that precesses and nutates: not a constant rotation."""
    t = np.arange(n)
    axis = quat.from_angles(1.1 + 0.2 * np.sin(1e-3 * t), 2e-3 * t, 0.0)
    return quat.multiply(quat.multiply(axis, quat.about_z(rate * t)), quat.about_y(0.9))


def some_detectors(n):
    return quat.from_angles(RNG.uniform(0, 0.1, n), RNG.uniform(0, TURN, n), RNG.uniform(0, TURN, n))


def turns(angle):
    """Return radians in units of 2 pi / 2^32, wrapped and rounded; float64 has enough bits."""
    return np.round(np.mod(np.asarray(angle) / TURN, 1.0) * 2.0**32).astype(np.int64)


def assert_same_angle(given, radians, within):
    difference = (given.astype(np.int64) - turns(radians) + 2**31) % 2**32 - 2**31
    assert np.abs(difference).max() <= within


def cosmo_angle(q):
    """Return the polarization angle without quaternion identities: atan2(X . east, X . south)."""
    z, x = quat.rotate(q, [0, 0, 1.0]), quat.rotate(q, [1.0, 0, 0])
    east = np.stack([-z[:, 1], z[:, 0], 0 * z[:, 0]], axis=1)
    south = np.cross(east, z)
    return np.arctan2(np.sum(x * east, 1), np.sum(x * south, 1))


@pytest.mark.parametrize(("spacing", "offset"), [(7.0, 0.0), (33.25, -12.5), (1.0, 0.0), (1.0, -0.5)])
def test_slerp_against_scipy(spacing, offset):
    n = 3000
    n_knots = int(np.ceil((n - 1 - offset) / spacing)) + 1
    knots = spinning(n_knots, rate=0.01 * spacing)
    boresight = Boresight(knots, n, spacing, offset, order="slerp")
    positions = offset + spacing * np.arange(n_knots)
    samples = np.minimum(np.arange(n), positions[-1])
    expected = Slerp(positions, Rotation.from_quat(knots))(samples)
    error = (expected.inv() * Rotation.from_quat(boresight.quaternions(0, n))).magnitude()
    assert error.max() < 1e-12


def test_directions_and_angles_of_detectors_off_the_boresight():
    """Lines of sight are rounded to steps of 2^-42: three components, each doubled in the angle."""
    n, detectors = 2000, some_detectors(5)
    full = spinning(n)
    pointing = CompressedPointing(Boresight(full, n), detectors)
    for detector in range(5):
        q = quat.multiply(full, detectors[detector])
        vectors, angles = pointing.directions(detector, 0, n)
        np.testing.assert_allclose(vectors, quat.rotate(q, [0, 0, 1.0]), rtol=0, atol=2.0**-41)
        assert_same_angle(angles, 2 * cosmo_angle(q), 1)
        np.testing.assert_allclose(
            pointing.quaternions(detector, 0, n),
            quat.multiply(unit_quaternions(full), detectors[detector]),
            rtol=0,
            atol=2e-15,
        )


def test_order_of_cubic_interpolation():
    n = 4097
    steady = quat.multiply(quat.about_z(0.02 * np.arange(n)), quat.about_y(1.4))
    error = pointing_error(Boresight(steady[::64], n, 64), steady)
    assert error.max_arcsec < 1e-6 and error.max_roll_arcsec < 1e-6
    inner = [Boresight(spinning(n)[::h], n, h) for h in (16, 32)]
    fine, coarse = (pointing_error(b, spinning(n)[200:3800], 200).max_arcsec for b in inner)
    assert 12 < coarse / fine < 20


def rotation_matrix_of_stokes(angle):
    """Return the Mueller matrix from (I, Q, U) to axes rotated by `angle`."""
    c, s = np.cos(2 * angle), np.sin(2 * angle)
    return np.array([[1, 0, 0], [0, c, s], [0, -s, c]])


@pytest.mark.parametrize("plate", ["uniform", "sampled"])
def test_half_wave_plate_against_mueller_matrices(plate):
    """Sky -> telescope axes -> plate axes -> ideal plate -> detector axes -> partial polarizer."""
    n, rate, phase, epsilon = 400, 0.37, 0.8, 0.07
    boresight = spinning(n)
    p, t, gamma = 0.7, 0.03, 1.1
    detector = quat.multiply(quat.multiply(quat.about_z(p), quat.about_y(t)), quat.about_z(gamma - p))
    chi = phase + rate * np.arange(n)
    hwp = UniformPlate(phase, rate) if plate == "uniform" else SampledPlate(np.mod(chi, TURN))
    pointing = CompressedPointing(Boresight(boresight, n), detector, epsilon=[epsilon], plate=hwp)
    _, angles = pointing.directions(0, 0, n)
    # X of the focal plane, transported to the detector, is X of the detector rotated by -gamma
    focal_x = cosmo_angle(quat.multiply(boresight, quat.multiply(detector, quat.about_z(-gamma))))
    ideal_plate = np.diag([1.0, 1.0, -1.0])
    polarizer = np.array([1.0, (1 - epsilon) / (1 + epsilon), 0.0])
    for sample in range(0, n, 7):
        chain = rotation_matrix_of_stokes(chi[sample]) @ rotation_matrix_of_stokes(focal_x[sample])
        chain = ideal_plate @ chain
        row = polarizer @ rotation_matrix_of_stokes(gamma - chi[sample]) @ chain
        phi, e = angles[sample] * TURN / 2**32, pointing.efficiency(0)
        np.testing.assert_allclose([1, e * np.cos(phi), e * np.sin(phi)], row, rtol=0, atol=1e-8)


def test_half_wave_plate_against_the_formula():
    n, chi = 100, 0.3 + 0.05 * np.arange(100)
    q = spinning(n)
    pointing = CompressedPointing(Boresight(q, n), IDENTITY, gamma=[0.4], plate=UniformPlate(0.3, 0.05))
    theta = 2 * (0.4 - chi) - cosmo_angle(q)
    assert_same_angle(pointing.directions(0, 0, n)[1], -2 * theta, 3)


@pytest.mark.parametrize(("spacing", "n_knots"), [(1.0, 300), (1.0, 310), (9.0, 35), (0.5, 600), (300.0, 2)])
def test_half_wave_plate_between_its_samples(spacing, n_knots):
    """Linear between knots, which may stand at every sample."""
    n, rng = 300, np.random.default_rng(1)
    turned = np.cumsum(rng.uniform(-0.3, 0.5, n_knots))  # radians
    sight = quat.from_angles(0.05, 1.0, 0.3)
    turning, at_rest = (
        CompressedPointing(Boresight(spinning(n), n), sight, plate=plate).directions(0, 0, n)[1]
        for plate in (SampledPlate(turned, spacing), UniformPlate(0.0, 0.0))
    )
    places = np.arange(n) / spacing
    first = np.clip(np.floor(places).astype(int), 0, n_knots - 2)
    chi = turned[first] + (places - first) * (turned[first + 1] - turned[first])
    assert_same_angle(turning - at_rest, 4 * chi, 3)


def test_phase_of_a_long_uniform_rotation():
    n, rate = 2_000_000_000, 2 * np.pi * 2.0 / 200
    pointing = CompressedPointing(Boresight(IDENTITY, n, n), IDENTITY, plate=UniformPlate(0.0, rate))
    angles = pointing.directions(0, n - 4, n)[1]
    # the rate is 1/100 turn to one part in 2^53, hence 2e7 turns are accurate to a few 1e-9
    assert_same_angle(angles, 4 * TURN * np.mod(np.arange(n - 4, n), 100) / 100, 64)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_sample_ranges_give_the_same_bits(data):
    n = 5000
    order = data.draw(st.sampled_from(["slerp", "cubic"]))
    spacing = data.draw(st.sampled_from([1.0, 3.0, 41.7, 160.0]))
    n_knots = int(np.ceil((n - 1) / spacing)) + 1
    plate = data.draw(
        st.sampled_from([None, UniformPlate(0.1, 0.7), SampledPlate(np.arange(600) * 0.4, 9.0)])
    )
    boresight = Boresight(spinning(n_knots, 0.004 * spacing), n, spacing, order=order)
    pointing = CompressedPointing(boresight, quat.from_angles(0.05, 1.0, 0.3), plate=plate)
    vectors, all_angles = pointing.directions(0, 0, n)
    cuts = sorted({0, n, *data.draw(st.lists(st.integers(1, n - 1), max_size=12))})
    for start, stop in itertools.pairwise(cuts):
        part, angles = pointing.directions(0, start, stop)
        assert part.tobytes() == vectors[start:stop].tobytes()
        assert angles.tobytes() == all_angles[start:stop].tobytes()


def test_reported_error_of_compression():
    full = spinning(10_000)
    boresight = compress_boresight(full, 0.05)
    error = pointing_error(boresight, full)
    assert error.max_arcsec <= 0.05 and boresight.spacing > 7
    exact = quat.rotate(full, [0, 0, 1.0])
    given = CompressedPointing(boresight, IDENTITY).directions(0, 0, len(full))[0]
    arcsec = np.degrees(quat.angle_between(exact, given)) * 3600
    assert arcsec.max() == pytest.approx(error.max_arcsec, rel=1e-3)


def test_signs_of_quaternions():
    full = spinning(601)
    flipped = full * RNG.choice([-1.0, 1.0], size=(601, 1))
    for step in (1, 20):
        a, b = (Boresight(q[::step], 601, step).quaternions(0, 601) for q in (full, flipped))
        np.testing.assert_allclose(np.abs(np.sum(a * b, axis=1)), 1.0, rtol=0, atol=1e-14)


def test_irregular_times():
    n, rate = 1000, 20.0
    times = np.sort(RNG.uniform(99.0, 151.0, 3000))
    turn = quat.multiply(quat.about_z(0.1 * times), quat.about_y(1.0))
    boresight = boresight_from_times(times, turn, start_time=100.0, sample_rate=rate, n_samp=n)
    clock = 100.0 + np.arange(n) / rate
    expected = quat.multiply(quat.about_z(0.1 * clock), quat.about_y(1.0))
    assert pointing_error(boresight, expected).max_arcsec < 1e-6


@pytest.mark.parametrize("bad", [[0, 0, 0, 0], [np.nan, 0, 0, 1], [np.inf, 0, 0, 1]])
def test_invalid_knots_are_named(bad):
    knots = spinning(10)
    knots[6] = bad
    with pytest.raises(DataError, match="knot 6"):
        Boresight(knots, 10)


def test_invalid_arguments():
    knots = spinning(10)
    with pytest.raises(DataError, match=r"to sample|reach"):
        Boresight(knots, 11)
    with pytest.raises(DataError, match="knot 4"):
        Boresight(np.concatenate([knots[:5], quat.multiply(knots[5:], quat.about_y(2.0))]), 10)
    with pytest.raises(DataError, match="sample 3"):
        boresight_from_times([0, 1, 2, 2, 4.0], knots[:5], start_time=0, sample_rate=1, n_samp=4)
    with pytest.raises(DataError, match="samples from"):
        boresight_from_times([0, 1, 2, 3, 4.0], knots[:5], start_time=0, sample_rate=1, n_samp=40)
    pointing = CompressedPointing(Boresight(knots, 10), IDENTITY)
    for detector, start, stop in [(1, 0, 1), (-1, 0, 1), (0, -1, 1), (0, 0, 11), (0, 5, 4)]:
        with pytest.raises(DataError):
            pointing.directions(detector, start, stop)
    with pytest.raises(DataError, match="epsilon"):
        CompressedPointing(Boresight(knots, 10), IDENTITY, epsilon=[1.5])
    with pytest.raises(DataError, match="half-wave plate known"):
        CompressedPointing(Boresight(knots, 10), IDENTITY, plate=SampledPlate(np.zeros(3)))
    with pytest.raises(DataError, match="detector 0"):
        CompressedPointing(Boresight(knots, 10), [[0.0, 0, 0, 0]])


def test_angles_at_the_poles():
    pointing = CompressedPointing(Boresight(IDENTITY, 3, 3), IDENTITY)
    vectors, angles = pointing.directions(0, 0, 3)
    np.testing.assert_array_equal(vectors, [[0, 0, 1]] * 3)
    np.testing.assert_array_equal(angles, 0)


class Nested:
    """Minimal nested HEALPix pixelization for `expand`."""

    def __init__(self, n_side):
        self.grid = np.array([1.0, n_side])


@pytest.mark.parametrize("n_side", [1, 64, 512, 8192])
def test_pixels_against_healpy(n_side):
    healpy = pytest.importorskip("healpy")
    n = 20_000
    full = spinning(n)
    pointing = CompressedPointing(Boresight(full[::20], n, 20.03, -5.0), some_detectors(2))
    pixels, angles = np.empty(n - 7, np.int32), np.empty(n - 7, np.uint32)
    pointing.expand(Nested(n_side), 1, 3, n - 4, pixels, angles)
    vectors, expected_angles = pointing.directions(1, 3, n - 4)
    np.testing.assert_array_equal(pixels, healpy.vec2pix(n_side, *vectors.T, nest=True))
    np.testing.assert_array_equal(angles, expected_angles)
    gains = np.zeros(n - 7, np.float32)
    pointing.expand(Nested(n_side), 1, 3, n - 4, pixels, None, gains)
    assert np.all(gains == 1)


def test_boresight_function_is_called_at_first_use():
    calls = []

    def boresight():
        calls.append(1)
        return Boresight(spinning(50), 50)

    pointing = CompressedPointing(boresight, IDENTITY, n_samp=50)
    assert pointing.n_samp == 50 and pointing.n_det == 1 and not calls
    expected = CompressedPointing(boresight(), IDENTITY).directions(0, 0, 50)[0]
    np.testing.assert_array_equal(pointing.directions(0, 0, 50)[0], expected)
    pointing.directions(0, 3, 4)
    assert len(calls) == 2
    with pytest.raises(DataError, match="50 samples for 49"):
        CompressedPointing(boresight, IDENTITY, n_samp=49).directions(0, 0, 1)


@pytest.mark.parametrize("n", [2, 3, 1 << 14, (1 << 14) + 1, (1 << 14) + 2, 40_000])
def test_knots_are_normalized_and_aligned_as_a_whole(n):
    rng = np.random.default_rng(n)
    turns = quat.from_half_rotation_vector(np.cumsum(rng.normal(0, 0.05, (n, 3)), axis=0))
    given = turns * rng.uniform(0.5, 2, (n, 1)) * rng.choice([-1.0, 1.0], (n, 1))
    expected = quat.align_signs(given / np.linalg.norm(given, axis=1)[:, None])
    assert np.array_equal(Boresight(given, n).knots, expected)


def test_a_bad_knot_is_named_wherever_it_is():
    given = np.tile([0.0, 0.0, 0.0, 1.0], (40_000, 1))
    given[20_000] = [1.0, 0.0, 0.0, 0.0]
    with pytest.raises(DataError, match="knot 19999: turns by 180 deg"):
        Boresight(given, 40_000)
    given[20_000, 2] = np.nan
    with pytest.raises(DataError, match=r"knot 20000: quaternion .* is no rotation"):
        Boresight(given, 40_000)
