"""Conjugate gradients with operators and preconditioners of one's own, against dense algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix_operators import MatrixOperator, MatrixPreconditioner, positive
from mpi import run_ranks
from small_runs import noisy_scans
from small_systems import make_system, read

from petacomm.base.errors import ConvergenceError
from petamap.mapmaking.cg import ConjugateGradients, cg
from petamap.mapmaking.linear_operators import IdentityPreconditioner, Preconditioner, exact_dots
from petamap.mapmaking.vectors import Unknowns, stack
from petamap.sky.healpix import Healpix


def vector(n, seed, n_stokes=1):
    rng = np.random.default_rng(seed)
    return Unknowns(rng.normal(size=(n, n_stokes)), rng.normal(size=(2, 1)))


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 12), n_stokes=st.sampled_from([1, 3]), seed=st.integers(0, 2**32 - 1))
def test_any_positive_operator_is_solved(n, n_stokes, seed):
    matrix, b = positive(n, seed), vector(n, seed + 1, n_stokes)
    found = cg(MatrixOperator(matrix), b, tolerance=1e-10, max_iterations=200)
    assert found.converged, found.reason
    np.testing.assert_allclose(found.map.pixels, np.linalg.solve(matrix, b.pixels), rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.map.gaps, b.gaps, rtol=0, atol=1e-7)


def test_the_inverse_as_preconditioner_needs_one_iteration():
    matrix, b = positive(30, 3), vector(30, 4)
    alone = cg(MatrixOperator(matrix), b, tolerance=1e-8)
    helped = cg(MatrixOperator(matrix), b, MatrixPreconditioner(np.linalg.inv(matrix)), tolerance=1e-8)
    assert helped.iterations == 1 < alone.iterations
    np.testing.assert_allclose(helped.map.pixels, np.linalg.solve(matrix, b.pixels), rtol=1e-7)


def ill_conditioned(n=60, condition=1e8):
    """Return A and b of which the residual finds no smaller value for more than 100 iterations on the way."""
    b = Unknowns(np.random.default_rng(1).normal(size=(n, 1)), np.zeros((0, 1)))
    return MatrixOperator(np.diag(np.geomspace(1.0, condition, n))), b


def residuals(solution):
    return np.array([step.relative_residual for step in solution.history])


def test_a_solution_that_still_converges_is_not_stopped():
    solution = cg(*ill_conditioned(), tolerance=1e-9, max_iterations=2000)
    assert solution.converged and solution.returned == solution.iterations, solution.reason
    records = np.flatnonzero(np.diff(np.minimum.accumulate(residuals(solution))) < 0)
    assert np.diff(records, prepend=0).max() > 100


@pytest.mark.parametrize("most", [2, 300])
def test_the_iterate_of_the_smallest_residual_is_returned(most):
    operator, b = ill_conditioned()
    solution = cg(operator, b, tolerance=1e-9, max_iterations=most)
    found = residuals(solution)
    assert solution.returned == 1 + np.argmin(found[1:]) < solution.iterations == most
    assert solution.relative_residual == found[1:].min() < 0.7 * found[-1]
    np.testing.assert_allclose(solution.true_residual, solution.relative_residual, rtol=1e-4)
    assert f"{solution.relative_residual:.2g} in iteration {solution.returned}" in solution.reason
    again = cg(operator, b, tolerance=0, max_iterations=solution.returned)
    np.testing.assert_array_equal(solution.map.pixels, again.map.pixels)


def test_the_iterations_without_a_smaller_residual_can_be_limited():
    solution = cg(*ill_conditioned(), tolerance=1e-9, max_iterations=2000, stall_iterations=50)
    assert solution.iterations == solution.returned + 50 < 2000 and not solution.converged
    assert "no smaller residual in 50 iterations" in solution.reason


@pytest.mark.parametrize(("operator", "preconditioner"), [(-1, 1), (1, -1)])
def test_what_is_not_positive_is_refused(operator, preconditioner):
    eye = np.eye(4)
    with pytest.raises(ConvergenceError, match="not positive"):
        cg(MatrixOperator(operator * eye), vector(4, 1), MatrixPreconditioner(preconditioner * eye))


@pytest.mark.parametrize(("operator", "preconditioner"), [(-1.0, 1.0), (1.0, -1.0)])
def test_what_only_rounding_shows_ends_the_iterations_with_the_best_iterate(operator, preconditioner):
    """A direction that is not positive has 1e-9 of the right-hand side: as undetermined modes by rounding."""
    values, signs = np.array([1.0, 2.0, 4.0, operator]), np.array([1.0, 1.0, 1.0, preconditioner])
    b = Unknowns(np.array([[1.0], [1.0], [1.0], [1e-9]]), np.zeros((0, 1)))
    solution = cg(MatrixOperator(np.diag(values)), b, MatrixPreconditioner(np.diag(signs)), tolerance=1e-12)
    assert not solution.converged and solution.error is None
    assert (
        "rounding allows no smaller residual, or the" in solution.reason and "not positive" in solution.reason
    )
    assert solution.relative_residual < 3e-9
    np.testing.assert_allclose(solution.map.pixels[:3, 0], [1, 0.5, 0.25], rtol=0, atol=1e-8)
    np.testing.assert_allclose(solution.true_residual, solution.relative_residual, rtol=0.1)


def test_what_a_start_left_is_solved_for_as_far_as_the_rounding_of_the_whole_allows():
    """The last direction, of which the start left rounding alone, is not positive: it had been an error."""
    solver = ConjugateGradients(
        MatrixOperator(np.diag([1.0, 2.0, 4.0, -1e-3])), MatrixPreconditioner(np.eye(4))
    )
    rhs = Unknowns(np.array([[1e-7], [1e-7], [1e-7], [2e-12]]), np.zeros((0, 1)))
    whole = Unknowns(np.ones((4, 1)), np.zeros((0, 1)))
    with pytest.raises(ConvergenceError, match="the noise model is not positive"):
        solver.solve(rhs, 1e-6, 100)
    for tolerance in (1e-6, 1e-12):
        solution = solver.solve(rhs, tolerance, 100, whole=whole)
        assert solution.converged == (tolerance == 1e-6)
        assert "rounding allows no smaller" in solution.reason or solution.converged
        np.testing.assert_allclose(solution.map.pixels[:3, 0], [1e-7, 5e-8, 2.5e-8], atol=1e-11)
    alone, left = (solver.solve(whole, 1e-1, 2, whole=one) for one in (None, whole))
    np.testing.assert_array_equal(alone.map.pixels, left.map.pixels)


def test_several_right_hand_sides_are_each_solved_as_alone():
    solver = ConjugateGradients(MatrixOperator(positive(20, 5)), IdentityPreconditioner())
    rhs = [vector(20, seed) for seed in range(3)]
    rhs[1].pixels *= 1e-9
    alone = [solver.solve(one, 1e-8, 100).map.pixels for one in rhs]
    for one, other in zip(alone, solver.solve_many(rhs, 1e-8, 100), strict=True):
        np.testing.assert_allclose(one, other.map.pixels, rtol=1e-6)


def test_exact_dots_are_rounded_once():
    big = Unknowns(np.array([[1e30], [1.0], [-1e30]]), np.array([[2.0**-60]]))
    ones = Unknowns(np.ones((3, 1)), np.ones((1, 1)))
    from petacomm.base.exact import round_limbs

    (limbs,) = exact_dots(stack([big]), stack([ones]))
    assert round_limbs(limbs) == 1.0


class SameBlocks(Preconditioner):
    """The block-diagonal preconditioner by the interface alone, so that no kernel fuses it."""

    def __init__(self, blocks):
        self.blocks = blocks

    def apply(self, vectors):
        return self.blocks.apply(vectors)


def own_preconditioner(comm):
    system = make_system(noisy_scans(3000, 2), Healpix(4, nest=True), comm, n_lag=64)
    rhs = read(system)
    b = rhs.unknowns
    fused = system.solver().solve(b, 1e-8, 300)
    own = cg(system.operator(), b, SameBlocks(system.preconditioner), tolerance=1e-8, max_iterations=300)
    assert fused.converged and own.converged and abs(fused.iterations - own.iterations) <= 1
    size = comm.max(np.abs(fused.map.pixels).max())
    np.testing.assert_allclose(own.map.pixels, fused.map.pixels, rtol=0, atol=1e-6 * size)


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_a_preconditioner_of_ones_own_on_a_real_system(n_ranks):
    run_ranks(own_preconditioner, n_ranks)
