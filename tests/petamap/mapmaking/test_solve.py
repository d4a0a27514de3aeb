"""Whole solutions against dense ones, and how conjugate gradients end."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks
from small_systems import (
    Models,
    Samples,
    dense,
    full_map,
    make_system,
    n_gap_samples,
    numbered,
    read,
    recorded,
    solve,
)

from petacomm.base.errors import ConvergenceError
from petacomm.mpi import SerialCommunicator
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.normal_operator import NormalOperator
from petamap.mapmaking.right_hand_side import binned_map
from petamap.noise.model import InverseLags


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["I", "QU", "IQU"]),
    st.sampled_from([0, 2, 9]),
    st.sampled_from([None, 3.0]),
    st.sampled_from([0.0, 0.15]),
    st.sampled_from([0.0, 0.1]),
)
def test_equals_the_dense_solution_of_the_good_samples(seed, stokes, n_lag, gains, flagged, outside):
    rng = np.random.default_rng(seed)
    made = [
        recorded(rng, 2, 200, 6, n_lag, ((0, 90), (97, 200)), gains, flagged, outside, (1.0, 0.2)),
        recorded(rng, 1, 60, 6, n_lag, None, gains, name="other", uid=2),
    ]
    system = make_system(made, numbered(6), stokes=stokes, n_lag=n_lag)
    assert not system.statistics.dead.any()
    solution = solve(system)
    assert solution.converged
    expected = dense(made, numbered(6), stokes, n_lag).map().reshape(6, -1)
    found = full_map(system, solution.map.pixels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_samples_of_pixels_that_are_cut_count_as_flagged():
    rng = np.random.default_rng(8)
    made = recorded(rng, 2, 300, 6, 5, flagged=0.1)
    pixels, angles = np.empty((2, 300), np.int32), np.empty((2, 300), np.uint32)
    for detector in range(2):
        made.pointing.expand(numbered(6), detector, 0, 300, pixels[detector], angles[detector])
    angles[pixels == 3] = 77  # one angle does not tell I from Q
    pointing = type(made.pointing)(pixels, numbered(6), angles=angles, efficiencies=[0.9, 0.9])
    made = dataclasses.replace(made, pointing=pointing)
    system = make_system([made], numbered(6), n_lag=5)
    np.testing.assert_array_equal(system.keys[system.statistics.dead], [3])
    assert not system.statistics.covariance[system.statistics.dead].any()
    solution = solve(system)
    expected = dense([made], numbered(6), "IQU", 5, dead=(3,)).map().reshape(6, 3)
    alive = [0, 1, 2, 4, 5]
    np.testing.assert_allclose(
        full_map(system, solution.map.pixels)[alive], expected[alive], rtol=0, atol=1e-10
    )


def test_levels_is_exact_for_gaps_of_one_sample_and_cut_for_white_noise():
    rng = np.random.default_rng(4)
    made = recorded(rng, 1, 300, 5, 4)
    flags = np.zeros((1, 300), bool)
    flags[0, 10::17] = True
    made = dataclasses.replace(made, flags=(recorded(rng, flagged=0.1).flags[0].__class__(flags),))
    exact, levels = (
        solve(make_system([made], numbered(5), n_lag=4, flags=how)).map.pixels for how in ("exact", "levels")
    )
    np.testing.assert_allclose(exact, levels, rtol=0, atol=1e-10)
    exact, cut = (
        solve(make_system([made], numbered(5), n_lag=0, flags=how)).map.pixels for how in ("exact", "cut")
    )
    np.testing.assert_allclose(exact, cut, rtol=0, atol=1e-12)


@pytest.mark.parametrize("uniform", [False, True])
def test_binned_map_and_covariance(uniform):
    rng = np.random.default_rng(11)
    made = [recorded(rng, 3, 400, 7, 5, ((0, 150), (150, 400)), 2.0, 0.1, 0.1, (1.0, 0.03))]
    system = make_system(made, numbered(7), n_lag=5, uniform_binning=uniform)
    parts = dense(made, numbered(7), "IQU", 5)
    weights = np.diag(parts.inverse)
    covariance = np.linalg.inv(parts.response.T @ (weights[:, None] * parts.response))
    upper = np.triu_indices(3)
    for pixel in range(7):
        block = covariance[3 * pixel : 3 * pixel + 3, 3 * pixel : 3 * pixel + 3]
        np.testing.assert_allclose(system.statistics.covariance[pixel], block[upper], rtol=1e-11)
        values = np.linalg.eigvalsh(block)
        assert system.statistics.rcond[pixel] == pytest.approx(values[0] / values[-1], rel=1e-10)
    hits = (parts.response.reshape(-1, 7, 3)[:, :, 0] != 0).sum(axis=0)
    np.testing.assert_array_equal(system.statistics.hits, hits)
    assert n_gap_samples(system) == (~parts.good).sum()
    w = np.ones_like(weights) if uniform else weights
    expected = np.linalg.lstsq(parts.response * np.sqrt(w)[:, None], parts.data * np.sqrt(w), rcond=None)[
        0
    ].reshape(7, 3)
    found = binned_map(system, read(system))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_a_noiseless_sky_comes_back_whatever_the_flagged_samples_hold():
    rng = np.random.default_rng(2)
    made = recorded(rng, 2, 500, 6, 9, flagged=0.2)
    parts = dense([made], numbered(6), "IQU", 9)
    sky = rng.standard_normal(18)
    values = (parts.response @ sky).reshape(2, 500)
    values[~parts.good.reshape(2, 500)] = np.nan
    made = dataclasses.replace(made, signals=(Samples(values),))
    found = solve(make_system([made], numbered(6), n_lag=9)).map.pixels
    np.testing.assert_allclose(found.ravel(), sky, rtol=0, atol=1e-11)


# --- conjugate gradients


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(21)
    return [recorded(rng, 3, 600, 20, 12, ((0, 250), (250, 600)), None, 0.1, 0.0, (1.0, 0.01, 0.3))]


def test_history_falls_to_the_tolerance(case):
    solution = solve(make_system(case, numbered(20), n_lag=12), 1e-8)
    history = [step.relative_residual for step in solution.history]
    assert history[0] == 1 and history[-1] <= 1e-8 < min(history[:-1])
    assert [step.number for step in solution.history] == list(range(solution.iterations + 1))
    assert solution.converged and "1e-08" in solution.reason
    assert solution.true_residual == pytest.approx(history[-1], rel=1e-4)


def test_all_preconditioners_reach_the_same_map(case):
    maps = {
        name: solve(make_system(case, numbered(20), n_lag=12, preconditioner=name), 1e-13)
        for name in ("block-diagonal", "diagonal", "none")
    }
    assert all(solution.converged for solution in maps.values())
    for name in ("diagonal", "none"):
        np.testing.assert_allclose(
            maps[name].map.pixels, maps["block-diagonal"].map.pixels, rtol=0, atol=1e-10
        )
    assert maps["block-diagonal"].iterations < maps["none"].iterations


@pytest.mark.parametrize("stokes", ["I", "QU", "IQU"])
@pytest.mark.parametrize("name", ["diagonal", "none"])
def test_simple_preconditioners_are_diagonal(case, stokes, name):
    system = make_system(case, numbered(20), n_lag=12, stokes=stokes, preconditioner=name)
    n = len(stokes)
    i, j = np.triu_indices(n)
    pixels = system.preconditioner.blocks.pixels
    assert not pixels[:, i != j].any() and (pixels[:, i == j] > 0).all()


def test_no_signal_is_an_empty_map_at_once(case):
    silent = [dataclasses.replace(case[0], signals=())]
    solution = solve(make_system(silent, numbered(20), n_lag=12), 0.0)
    assert solution.converged and solution.iterations == 0 and solution.true_residual == 0
    assert not solution.map.pixels.any()


def test_no_iterations_allowed(case):
    solution = solve(make_system(case, numbered(20), n_lag=12), 1e-6, 0)
    assert not solution.converged and solution.iterations == 0
    assert solution.true_residual == 1 and "0 iterations allowed" in solution.reason


@pytest.mark.parametrize("most", [400, 3000])
def test_a_tolerance_of_zero_ends_with_the_best_map(case, most):
    system = make_system(case, numbered(20), n_lag=12)
    solution = solve(system, 0.0, most)
    assert not solution.converged or solution.history[-1].relative_residual == 0
    assert solution.true_residual < 1e-11
    assert all(math.isfinite(step.relative_residual) for step in solution.history)
    expected = dense(case, numbered(20), "IQU", 12).map().reshape(20, 3)
    np.testing.assert_allclose(solution.map.pixels, expected, rtol=0, atol=1e-10)


def test_a_kernel_that_is_not_positive_is_refused(case):
    lags = np.array([1.0, 0.9, -0.9, 0.9, -0.9, 0.0])
    wrong = [dataclasses.replace(case[0], noise=Models(((InverseLags(lags),),)))]
    with pytest.raises(ConvergenceError, match="not positive"):
        solve(make_system(wrong, numbered(20), n_lag=5), 1e-10)


def test_a_solver_that_gets_nowhere_says_so(case, monkeypatch):
    system = make_system(case, numbered(20), n_lag=12)

    # An operator that is blurred on purpose cannot bring the residual below what the blur allows.
    class Blurred(NormalOperator):
        def add_up(self, vectors, largest, out):
            steps, copies = super().add_up(vectors, largest, out)
            assert copies is None  # of one thread
            out.pixels.view(np.int64)[:] &= ~((1 << 45) - 1)
            return steps, copies

    rhs = read(system)
    operator = Blurred(system.projection, system.noise, system.shared, system.statistics.hits_max)
    solver = ConjugateGradients(operator, system.preconditioner)
    solution = solver.solve(rhs.unknowns, 1e-15, 5000, stall_iterations=100)
    assert not solution.converged
    assert "stalled" in solution.reason and solution.iterations < 5000 and solution.true_residual > 1e-6


def each_row_is_solved_for_once(comm):
    made = [recorded(np.random.default_rng(21), 3, 900, 40, 12, ((0, 500), (500, 900)), None, 0.1)]
    for flags in ("exact", "cut"):
        alone = make_system(made, numbered(40), SerialCommunicator(), n_lag=12, flags=flags)
        system = make_system(made, numbered(40), comm, n_lag=12, flags=flags)
        expected, found = solve(alone, 1e-8).map, solve(system, 1e-8).map
        assert len(found.pixels) == len(system.keys) == len(system.statistics.hits)
        assert comm.sum(len(system.keys)) == len(alone.keys) < comm.sum(system.projection.n_local)
        assert flags == "cut" or comm.sum(len(found.gaps)) == len(expected.gaps)
        mine = np.searchsorted(alone.keys, system.keys)
        np.testing.assert_array_equal(found.pixels, expected.pixels[mine])


def test_each_row_is_solved_for_once():
    run_ranks(each_row_is_solved_for_once, 3)
