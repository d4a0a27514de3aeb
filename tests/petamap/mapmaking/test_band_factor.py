"""Cholesky factors of baselines and eigenvalues of Lanczos matrices against dense algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petamap.mapmaking.band_factor import factorize_baselines
from petamap.mapmaking.lanczos import extreme_ritz_values, lanczos_matrix

BAND = 8


def matrices(lengths, seed):
    rng = np.random.default_rng(seed)
    knots = np.concatenate([[0], np.cumsum(lengths)])
    priors = rng.normal(size=(len(lengths), BAND + 1))
    priors[:, 0] = 1 + 2 * np.abs(priors[:, 1:]).sum(axis=1)
    beside = rng.uniform(0, 1, knots[-1])
    return knots, priors, rng.uniform(2, 5, knots[-1]), beside


def dense(knots, priors, diagonal, beside, stream):
    n = knots[stream + 1] - knots[stream]
    own = slice(knots[stream], knots[stream + 1])
    matrix = np.diag(diagonal[own]) + np.diag(beside[own][: n - 1], 1) + np.diag(beside[own][: n - 1], -1)
    lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return matrix + np.where(lag <= BAND, priors[stream][np.minimum(lag, BAND)], 0.0)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(0, 2**32))
def test_factors_are_those_of_dense_matrices(lengths, seed):
    knots, *given_matrices = matrices(lengths, seed)
    factor = factorize_baselines(knots, *given_matrices)
    for stream, n in enumerate(lengths):
        lower = np.linalg.cholesky(dense(knots, *given_matrices, stream))
        rows = factor[knots[stream] : knots[stream + 1]]
        for i in range(n):
            expected = np.zeros(BAND + 1)
            near = min(i, BAND)
            expected[: near + 1] = lower[i, i - near : i + 1][::-1]
            expected[0] = 1 / expected[0]
            np.testing.assert_allclose(rows[i], expected, rtol=1e-11, atol=1e-12)


def test_a_rank_without_streams_has_no_factor():
    none = np.zeros(0)
    assert factorize_baselines(np.zeros(1, np.int64), none, none, none).shape == (0, BAND + 1)


def test_a_matrix_that_is_not_positive_is_told_with_its_knot():
    knots, priors, diagonal, beside = matrices([5, 7], 1)
    diagonal[8] = -1e3
    with pytest.raises(np.linalg.LinAlgError, match="at knot 8"):
        factorize_baselines(knots, priors, diagonal, beside)


@pytest.mark.parametrize("n", [1, 2, 40, 200, 201, 400])
def test_ritz_values_are_eigenvalues_of_the_lanczos_matrix(n):
    rng = np.random.default_rng(n)
    alphas, betas = rng.uniform(0.5, 2, n), rng.uniform(0.1, 0.5, n)
    diagonal, beside = lanczos_matrix(alphas, betas)
    values = np.linalg.eigvalsh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
    np.testing.assert_allclose(
        extreme_ritz_values(alphas, betas), (max(values[0], 0), values[-1]), rtol=1e-12, atol=1e-13
    )
