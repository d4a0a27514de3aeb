"""Tests of pointing given for each sample: quaternions of angles, and of length 1."""

import numpy as np
import pytest

from petamap.pointing import _pointing as kernels
from petamap.pointing import quaternion
from petamap.pointing.sampled import attitudes_of_angles
from petamap.pointing.unit_knots import unit_quaternions


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.mark.parametrize("largest", [0.01, 3.0, 1e5])
def test_attitudes_are_those_of_long_doubles(rng, largest):
    theta = rng.uniform(0, np.pi, 1003)  # a rest of every vector
    phi, psi = rng.uniform(-largest, largest, (2, 1003))
    half, plus, minus = (np.longdouble(one) for one in (0.5 * theta, 0.5 * (phi + psi), 0.5 * (psi - phi)))
    parts = [(np.sin, np.sin, minus), (np.sin, np.cos, minus), (np.cos, np.sin, plus), (np.cos, np.cos, plus)]
    expected = np.stack([of(half) * turn(angle) for of, turn, angle in parts], 1)
    found = attitudes_of_angles(theta, phi, psi)
    assert np.max(np.abs(found - expected)) < 4e-16
    one = attitudes_of_angles(theta[:1], phi[:1], psi[:1])
    assert one.tobytes() == found[:1].tobytes()


def test_attitudes_are_products_of_rotations(rng):
    theta, phi, psi = rng.uniform(0, 3, (3, 20))
    expected = quaternion.from_angles(theta, phi, psi)
    assert np.allclose(attitudes_of_angles(theta, phi, psi), expected, rtol=0, atol=1e-15)
    assert np.array_equal(attitudes_of_angles(theta, phi, None), attitudes_of_angles(theta, phi, 0 * psi))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_attitudes_that_are_not_finite(bad):
    angles = np.array([1.0, bad, 2.0])
    good = np.ones(3)
    for given in ((angles, good, good), (good, angles, good), (good, good, angles)):
        found = attitudes_of_angles(*given)
        assert np.isfinite(found[[0, 2]]).all() and np.isnan(found[1]).all()


def test_quaternions_of_length_1_have_the_bits_of_a_boresight(rng):
    given = rng.normal(size=(1001, 4))
    found = np.empty_like(given)
    kernels.unit(given, found)
    assert found.tobytes() == unit_quaternions(given).tobytes()


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="angles of each sample"):
        kernels.attitudes(np.ones(3), np.ones(2), np.ones(3), np.ones((3, 4)))
    with pytest.raises(ValueError, match=r"quaternions of shape \(n, 4\)"):
        kernels.unit(np.ones((3, 4)), np.ones((3, 3)))
