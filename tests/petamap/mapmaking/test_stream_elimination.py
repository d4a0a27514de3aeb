"""Matrices of a stream's amplitudes with baselines eliminated, beside dense algebra on all of its samples."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import toeplitz

from petamap.mapmaking import stream_elimination
from petamap.mapmaking.stream_elimination import Entries, StreamSums, hat_functions

N_SAMP, STEP, WEIGHT = 90, 7, 3.0
N_KNOTS = (N_SAMP - 1) // STEP + 2
PRIOR = np.array([0.9, -0.4, 0.05])


def dense(entries, shape):
    out = np.zeros(shape)
    np.add.at(out, (entries.rows, entries.columns), entries.values)
    return out


def functions(seed):
    """Return bins of samples, of which the last has none, a polynomial, and steps of 30 samples."""
    rng = np.random.default_rng(seed)
    bins = np.eye(5)[rng.integers(0, 4, N_SAMP)]
    steps = np.repeat(np.eye(3), 30, axis=0)
    return np.column_stack([bins, np.linspace(-1, 1, N_SAMP), steps])


def eliminated(sums, own=None):
    """Return E, G and c, dense."""
    found = sums.eliminate(WEIGHT, PRIOR, None if own is None else sparse.csr_matrix(own))
    shape = N_KNOTS, sums.squares.shape[0]
    matrix = found.matrix if isinstance(found.matrix, np.ndarray) else found.matrix.toarray()
    return dense(found.coupling, shape), matrix, dense(found.answer, shape)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.0, 0.1, 0.6, 1.0]))
@pytest.mark.parametrize("most_dense", [128, 0])
def test_matrices_are_those_of_the_samples_outside_gaps(most_dense, seed, share):
    rng = np.random.default_rng(seed)
    t, gaps = functions(seed), np.flatnonzero(rng.random(N_SAMP) < share)
    gaps = np.union1d(gaps, np.arange(30, 60)) if share else gaps  # a step and cells without a sample
    own = np.diag(rng.random(t.shape[1]))
    with mock.patch.object(stream_elimination, "_DENSE", most_dense):
        sums = StreamSums.over(np.arange(N_SAMP), sparse.csr_matrix(t), STEP, N_KNOTS)
        if len(gaps):
            sums = sums.without(StreamSums.over(gaps, sparse.csr_matrix(t)[gaps], STEP, N_KNOTS))
        coupling, matrix, c = eliminated(sums, own)
        _, bare, _ = eliminated(sums)
    hats = dense(hat_functions(np.arange(N_SAMP), STEP), (N_SAMP, N_KNOTS))
    w = np.full(N_SAMP, WEIGHT)
    w[gaps] = 0
    inverse = toeplitz(np.append(PRIOR, np.zeros(N_KNOTS - len(PRIOR))))
    whole, mixed = inverse + hats.T @ (w[:, None] * hats), hats.T @ (w[:, None] * t)
    rest = t - hats @ c
    expected = c.T @ inverse @ c + rest.T @ (w[:, None] * rest) + own
    scale = WEIGHT * N_SAMP
    np.testing.assert_allclose(c, np.linalg.solve(whole, mixed), rtol=0, atol=2e-9)
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(matrix - own, bare, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(coupling, whole @ c - mixed, rtol=0, atol=2e-9 * scale)
    without = ~((w[:, None] > 0) & (t != 0)).any(axis=0)
    assert without[4] and (not share or without[7])
    assert not bare[without].any() and not bare[:, without].any() and not c[:, without].any()


def test_dense_and_sparse_matrices_are_the_same_in_long_streams():
    n_samp, step = 40_000, 16
    n_knots = (n_samp - 1) // step + 2
    t = sparse.csr_matrix(np.column_stack([np.ones(n_samp), np.linspace(-1, 1, n_samp)]))
    gaps = np.arange(1000, 3000)
    found = []
    for most in (128, 0):
        with mock.patch.object(stream_elimination, "_DENSE", most):
            sums = StreamSums.over(np.arange(n_samp), t, step, n_knots)
            sums = sums.without(StreamSums.over(gaps, t[gaps], step, n_knots))
            one = sums.eliminate(1.0, np.array([1e-3, -4e-4]), None)
        matrix = one.matrix if isinstance(one.matrix, np.ndarray) else one.matrix.toarray()
        found.append((matrix, dense(one.answer, (n_knots, 2))))
    for a, b in zip(*found, strict=True):  # differences of numbers as large as the stream is long
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * n_samp)


def test_entries_are_those_that_are_not_zero():
    matrix = np.array([[0.0, 2.0], [3.0, 0.0]])
    for one in (matrix, sparse.csr_matrix(matrix)):
        found = Entries.of(one)
        np.testing.assert_array_equal(dense(found, (2, 2)), matrix)
        assert len(found.values) == 2
    assert len(Entries.none().rows) == 0
