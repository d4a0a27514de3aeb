"""Bounds of the error in units of the noise, against dense algebra and systems solved to rounding."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix_operators import MatrixOperator, MatrixPreconditioner, positive
from small_runs import noisy_scans, run_on
from small_systems import Models, as_matrix, compressed, dense, make_system, numbered, read, recorded

from petacomm.base.errors import ConfigError
from petamap.mapmaking.cg import ConjugateGradients, cg
from petamap.mapmaking.covariance import CovarianceColumns
from petamap.mapmaking.error_bound import ErrorBound
from petamap.mapmaking.lanczos import smallest_ritz_value
from petamap.mapmaking.vectors import Unknowns, stack
from petamap.noise.model import OneOverF
from petamap.sky.healpix import Healpix

NOISES = {
    "steep": OneOverF(net=0.3, fknee=0.5, fmin=2e-3, alpha=-2.5),
    "gentle": OneOverF(net=0.3, fknee=0.05, fmin=1e-2, alpha=-1.0),
}
# where rounding does not yet show in errors and residuals
_ROUNDED = 1e-7


def fed(solver, b, tolerance=1e-13, most=3000):
    """Return the solution, the residuals of its iterates, and bounds that were fed with its scalars."""
    told, residuals = [], []

    def record(r, norm, alpha, beta):
        residuals.append(r.copy())
        told.append((norm, alpha, beta))

    (solution,) = solver.solve_many([b], tolerance, most, recorders=[record])
    norms, alphas, betas = np.array(told).T
    last = norms[0] * (solution.history[-1].relative_residual / solution.history[0].relative_residual) ** 2
    betas = np.append(betas, last / norms[-1])
    bound = ErrorBound()
    running = [bound.add(*step) for step in zip([*norms, last], [0.0, *alphas], betas, strict=True)]
    return solution, residuals, bound, np.array(running)


def flat(vectors):
    return np.concatenate([vectors.pixels.ravel(), vectors.gaps.ravel()])


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 30), power=st.floats(0.0, 4.0), helped=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_the_error_is_between_the_bounds(n, power, helped, seed):
    matrix = positive(n, seed, 10**power)
    inverse = positive(n, seed + 1, 30.0) if helped else np.eye(n)
    b = Unknowns(np.random.default_rng(seed).normal(size=(n, 1)), np.zeros((0, 1)))
    solver = ConjugateGradients(MatrixOperator(matrix), MatrixPreconditioner(inverse))
    _, residuals, bound, _ = fed(solver, b)
    errors = np.array([np.sqrt(r.pixels[:, 0] @ np.linalg.solve(matrix, r.pixels[:, 0])) for r in residuals])
    clear = errors > _ROUNDED * errors[0]
    assert np.all((bound.upper()[:-1] >= errors * (1 - 1e-6))[clear])
    assert np.all((bound.lower()[:-1] <= errors * (1 + 1e-6))[clear])
    # of the two, the lower is as good as the iterations that follow
    np.testing.assert_allclose(bound.lower()[:-1][clear], errors[clear], rtol=1e-3)
    exact = np.linalg.eigvals(inverse @ matrix).real.min()
    _, alphas, betas = np.array(bound.steps).T[:, 1:]
    assert smallest_ritz_value(alphas, np.append(0.0, betas[:-1])) > exact * (1 - 1e-6)


def test_a_mode_that_hardly_shows_is_told_of_later():
    """It is a limit of the estimate: no Ritz value knows of an eigenvalue before its mode is seen."""
    rng = np.random.default_rng(1)
    values = np.concatenate([[1e-6], rng.uniform(0.5, 1, 99)])
    modes = np.concatenate([[1.0], 30 * rng.normal(size=99)])  # in units of the noise
    b = Unknowns((np.sqrt(values) * modes)[:, None], np.zeros((0, 1)))
    exact = b.pixels[:, 0] / values
    early, late = (cg(MatrixOperator(np.diag(values)), b, tolerance=to) for to in ("1% of noise", 1e-12))
    error = np.sqrt(np.sum(values * (exact - early.map.pixels[:, 0]) ** 2))
    assert early.converged and error > 0.9
    assert late.history[early.iterations].error_bound > error
    assert late.error_bound < 0.01


def test_what_is_known_at_the_start_and_at_the_end():
    bound = ErrorBound()
    assert bound.add(4.0, 0.0, 0.0) == np.inf and bound.upper() == [np.inf]
    assert 0 < bound.add(1.0, 0.5, 0.25) < np.inf
    assert bound.add(0.0, 0.5, 0.0) == 0.0 == bound.upper()[-1]
    assert ErrorBound().add(0.0, 0.0, 0.0) == 0.0  # nothing to solve for


def observation(noise, flagged, n_samp=1500):
    rng = np.random.default_rng(8)
    made = compressed(rng, n_samp=n_samp, n_det=3, flagged=flagged, speed=0.01)
    if flagged:  # gaps of some length, as those of real data
        bad = made.flags[0].values
        bad[:] = np.repeat(rng.random((bad.shape[0], bad.shape[1] // 20)) < 0.15, 20, axis=1)
    object.__setattr__(made, "noise", Models(((NOISES[noise],),)))
    return made


@cache
def solved(noise, preconditioner, flagged):
    """Return a system, its solution to rounding, and the bounds that were fed with it."""
    made = observation(noise, flagged)
    system = make_system([made], Healpix(2, nest=True), n_lag=100, preconditioner=preconditioner)
    rhs = read(system).unknowns
    return system, rhs, *fed(system.solver(), rhs)


def norm_of(system, error):
    """Return the A-norm of an error."""
    product = system.operator().apply(stack([error]))
    return np.sqrt(flat(error) @ flat(product))


CASES = pytest.mark.parametrize("flagged", [0.0, 0.1])
EACH = [
    ("steep", "two-level"),
    ("steep", "block-diagonal"),
    ("gentle", "two-level"),
    ("gentle", "block-diagonal"),
]


@CASES
@pytest.mark.parametrize(("noise", "preconditioner"), EACH)
def test_the_error_of_maps_is_between_the_bounds(noise, preconditioner, flagged):
    system, _, solution, residuals, bound, running = solved(noise, preconditioner, flagged)
    assert solution.converged, solution.reason
    tops, floors = bound.upper(), bound.lower()
    errors = []
    for residual, top, floor in zip(residuals[::7], tops[::7], floors[::7], strict=False):
        # A^-1 r to rounding, by the other solution's own means: relative residual 1e-12 of r
        error = system.solver().solve(residual, 1e-12, 3000).map
        errors.append(norm_of(system, error))
        if errors[-1] > _ROUNDED * errors[0]:
            assert floor * (1 - 1e-6) <= errors[-1] <= top
            assert top < 60 * errors[-1] or errors[-1] > 1
    # on the way, with Ritz values that have not converged, it is an estimate
    assert np.all(running[1:] > 0.5 * floors[1 : len(running)])


@CASES
@pytest.mark.parametrize(("noise", "preconditioner"), EACH)
@pytest.mark.parametrize("wanted", [0.1, 0.01])
def test_a_share_of_the_noise_is_kept(noise, preconditioner, flagged, wanted):
    system, rhs, best, *_ = solved(noise, preconditioner, flagged)
    found = system.solver().solve(rhs, f"{100 * wanted:g}% of noise", 3000)
    error = best.map.copy()
    for part, other in zip(error, found.map, strict=True):
        part -= other
    assert found.converged and found.error_bound <= wanted and found.returned == found.iterations
    assert wanted / 50 < norm_of(system, error) <= found.error_bound
    assert f"map error {100 * found.error_bound:.2g}% of its noise <= {100 * wanted:g}%" == found.reason
    assert found.iterations < best.iterations


def test_it_is_in_units_of_the_noise_alone():
    """A tenth of signal and noise, and gains of any unit: the bounds and the stop are the same."""
    made = recorded(
        np.random.default_rng(3), 3, 300, 12, 12, ((0, 180), (180, 300)), 3.0, 0.1, weights=(1.0, 1e-4)
    )
    system = make_system([made], numbered(12), n_lag=12)
    assert set(system.projection.units) != {1.0}
    n, n_gaps = system.projection.n_local, system.projection.gaps.n
    matrix = as_matrix(system.operator(), n, 3, n_gaps)
    pixels, gaps = slice(0, 3 * n), slice(3 * n, None)
    across = matrix[pixels, gaps]
    schur = matrix[pixels, pixels] - across @ np.linalg.solve(matrix[gaps, gaps], across.T)
    told = dense([made], numbered(12), n_lag=12)
    covariance = np.linalg.inv(told.inverse)[np.ix_(told.good, told.good)]
    response = told.response[told.good]
    expected = response.T @ np.linalg.solve(covariance, response)
    rows = (3 * system.keys[:, None] + np.arange(3)).ravel()
    np.testing.assert_allclose(schur, expected[np.ix_(rows, rows)], rtol=0, atol=1e-9 * expected.max())
    _, residuals, bound, _ = fed(system.solver(), read(system).unknowns)
    for residual, floor in list(zip(residuals, bound.lower(), strict=False))[:6]:
        error = np.linalg.solve(matrix, flat(residual))
        modes = np.linalg.cholesky(schur).T @ error[pixels]
        assert np.abs(modes).max() <= np.linalg.norm(modes) <= floor * (1 + 1e-9)


@CASES
def test_large_scales(flagged):
    system, _, solution, residuals, *_ = solved("steep", "two-level", flagged)
    inverse, transfer = system.preconditioner.inverse, system.preconditioner.transfer
    n, n_gaps = system.projection.n_local, system.projection.gaps.n
    matrix = as_matrix(system.operator(), n, 3, n_gaps)
    coarse = np.zeros((3 * n + n_gaps, inverse.n_coarse))
    for row in range(3 * n):
        unit = np.zeros((n, 3, 1))
        unit[row // 3, row % 3] = 1.0
        coarse[row] = inverse._groups(transfer.restrict(unit)).ravel()
    alive = np.diag(matrix) > 0
    matrix, coarse = matrix[np.ix_(alive, alive)], coarse[alive]
    pixels = np.arange(len(alive))[alive] < 3 * n
    gaps = ~pixels
    across = matrix[np.ix_(pixels, gaps)]
    weights = (
        np.linalg.solve(matrix[np.ix_(gaps, gaps)], across.T).T if gaps.any() else np.zeros((pixels.sum(), 0))
    )
    schur = matrix[np.ix_(pixels, pixels)] - weights @ across.T
    basis = coarse[pixels]
    small = np.linalg.pinv(basis.T @ schur @ basis, rcond=1e-10)
    for step, residual in list(zip(solution.history, residuals, strict=False))[:12]:
        r = flat(residual)[alive]
        s = basis.T @ (r[pixels] - weights @ r[gaps])
        true = np.sqrt(s @ small @ s)
        assert 0.6 * true < step.coarse_error < 1.7 * true
        assert true <= step.error_bound


def test_a_tolerance_that_is_not_understood():
    b = Unknowns(np.ones((2, 1)), np.zeros((0, 1)))
    for wrong in ("1%", "1 % of noise", "1% of signal", "0% of noise", "101% of noise"):
        with pytest.raises(ConfigError, match=r"noise|bounds"):
            cg(MatrixOperator(np.eye(2)), b, tolerance=wrong)


SCANS = noisy_scans(1500, 2)
CHOICES = {"map": {"n_side": 4}, "noise": {"n_lag": 32}}


def test_a_run_to_a_share_of_the_noise(tmp_path):
    solver = run_on(SCANS, tmp_path, **CHOICES, solver={"tolerance": "2% of noise", "rcond_min": 1e-2}).solver
    assert solver.converged and solver.tolerance_of_noise and solver.tolerance == 0.02
    assert solver.reason.startswith("map error ") and "of its noise <= 2%; residual computed" in solver.reason
    assert 0.0 < solver.history[-1].error_bound <= solver.error_bound <= 0.02 < solver.history[-2].error_bound


def test_a_run_that_may_be_far_from_its_end_says_so(tmp_path):
    found = run_on(SCANS, tmp_path, **CHOICES, solver={"tolerance": 0.1, "rcond_min": 1e-2})
    assert found.solver.converged and found.solver.error_bound > 0.1
    (told,) = [text for text in found.warnings if "may be off by" in text]
    assert 'solver.tolerance = "1% of noise"' in told


def test_a_run_that_does_not_get_there_says_how_far_it_is(tmp_path):
    few = {"tolerance": "1% of noise", "max_iterations": 2, "rcond_min": 1e-2}
    found = run_on(SCANS, tmp_path, **CHOICES, solver=few)
    assert not found.solver.converged and "after the 2 iterations allowed" in found.solver.reason
    assert found.solver.error_bound > 0.01 and any("not converged: map error" in w for w in found.warnings)


def test_columns_of_a_covariance_are_not_maps():
    columns = CovarianceColumns(make_system(SCANS, Healpix(1, nest=True), n_lag=16))
    np.testing.assert_array_equal(columns.solve("1% of noise", 200).values, columns.solve(1e-6, 200).values)
