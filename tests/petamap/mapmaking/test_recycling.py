"""A space learnt on some right-hand sides, used on others."""

import math

import numpy as np
import pytest
from small_runs import noisy_scans
from small_systems import (
    datasets,
    gradients_of,
    make_system,
    numbered,
    read_many,
    recorded,
    solve,
    unknowns,
)

from petamap.mapmaking import _mapmaking
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.vectors import stack
from petamap.sky.healpix import Healpix

TOLERANCE = 1e-9


@pytest.fixture(scope="module")
def slow_system():
    made = noisy_scans(6000, 3)
    system = make_system(made, Healpix(8, nest=True), n_lag=512)
    return system, unknowns(read_many(system, datasets(made, 4)))


def test_a_space_makes_iterations_fewer_and_the_map_the_same(slow_system):
    system, rhs = slow_system
    gradients = gradients_of(system)
    space = Deflation.train(gradients, rhs[:2], 1e-10, 200, 20)
    assert space.n_vectors == 20
    for one in rhs[2:]:
        alone = gradients.solve(one, TOLERANCE, 300)
        helped = gradients.solve(one, TOLERANCE, 300, deflation=space)
        assert alone.converged and helped.converged and helped.true_residual <= 2 * TOLERANCE
        assert helped.iterations <= 0.8 * alone.iterations
        # the residual bounds the error, as M^-1 A has no eigenvalue below a hundredth
        size = np.abs(alone.map.pixels).max()
        np.testing.assert_allclose(helped.map.pixels, alone.map.pixels, rtol=0, atol=1e-5 * size)


def test_a_space_does_not_depend_on_what_was_done_before(slow_system):
    system, rhs = slow_system
    first, second = (Deflation.train(gradients_of(system), rhs[:2], 1e-6, 60, 5) for _ in range(2))
    np.testing.assert_array_equal(first.vectors.vectors.pixels, second.vectors.vectors.pixels)
    np.testing.assert_array_equal(first.images.vectors.gaps, second.images.vectors.gaps)


def test_a_space_is_the_same_however_many_are_learnt_from_at_once(slow_system):
    system, rhs = slow_system
    gradients = gradients_of(system)
    spaces = [Deflation.train(gradients, rhs[:3], 1e-6, 60, 5, at_once) for at_once in (1, 2, 8)]
    for other in spaces[1:]:
        np.testing.assert_array_equal(spaces[0].vectors.vectors.pixels, other.vectors.vectors.pixels)
        assert spaces[0].undeflated_iterations == other.undeflated_iterations


def test_a_space_of_all_solves_at_once():
    made = [recorded(np.random.default_rng(3), 3, 900, 6, 12)]
    system = make_system(made, numbered(6), n_lag=12, flags="cut")
    rhs = unknowns(read_many(system, datasets(made, 2)))
    gradients = gradients_of(system)
    units = []
    for at in range(18):
        units.append(rhs[0].zeros_like())
        units[-1].pixels.flat[at] = 1
    vectors = stack(units, 24)
    images = [gradients.operator.apply(stack([one])).column(0) for one in units]
    space = Deflation(vectors, stack(images, 24), 18, system.comm, 1)
    solution = gradients.solve(rhs[1], 1e-8, 5, deflation=space)
    assert solution.converged and solution.iterations == 0
    np.testing.assert_allclose(solution.map.pixels, gradients.solve(rhs[1], 1e-12, 99).map.pixels, rtol=1e-8)


def test_nothing_to_learn_is_no_space(slow_system):
    system, rhs = slow_system
    gradients = gradients_of(system)
    space = Deflation.train(gradients, [rhs[0].zeros_like()], 1e-6, 60, 5)
    assert space.n_vectors == 0
    found = gradients.solve(rhs[1], 1e-6, 100, deflation=space)
    alone = gradients.solve(rhs[1], 1e-6, 100)
    assert found.iterations == alone.iterations
    np.testing.assert_array_equal(found.map.pixels, alone.map.pixels)
    assert solve(system).converged


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(("n_vectors", "width"), [(8, 1), (24, 3), (16, 8)])
def test_kernels_of_a_space(n_vectors, width, n_threads):
    values, n, low_bits = np.random.default_rng(n_vectors), 300, 40
    vectors = values.standard_normal((n, 3, n_vectors)) * 10.0 ** values.integers(-9, 0, (n, 3, 1))
    given = values.standard_normal((n, 3, width)) * 10.0 ** values.integers(-9, 0, (n, 3, 1))
    own, scales = np.full(n_vectors, 0.125), np.full(width, 2.0**38)
    sums = np.zeros((width, 2, n_vectors), np.int64)
    _mapmaking.space_products(vectors, given, own, scales, low_bits, sums, n_threads)
    found = (sums[:, 0] + sums[:, 1] * 2.0**-low_bits) / (0.125 * 2.0**38)
    for column in range(width):
        for vector in range(n_vectors):
            terms = (vectors[..., vector] * given[..., column]).ravel()
            exact = math.fsum(terms)
            # each term is rounded at 2^-76 of what the scales have room for
            assert abs(found[column, vector] - exact) <= 900 * 2.0**-75 + 1e-15 * abs(exact)
    to, largest = given.copy(), np.zeros(width)
    amounts = values.standard_normal((width, n_vectors))
    _mapmaking.space_add(vectors, amounts, to, largest, n_threads)
    expected = given + np.einsum("psv,kv->psk", vectors, amounts)
    np.testing.assert_allclose(to, expected, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(largest, np.abs(to).sum(axis=1).max(axis=0))
