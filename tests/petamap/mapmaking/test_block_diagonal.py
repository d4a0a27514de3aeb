"""Sparse matrices of blocks on the diagonal beside SciPy's, and bands beside Toeplitz matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import block_diag, toeplitz

import petamap.mapmaking._mapmaking as _mapmaking
from petamap.mapmaking.block_diagonal import BlockMatrixBuilder
from petamap.mapmaking.stream_elimination import Entries


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=6),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(0, 2**32 - 1),
)
def test_products_are_those_of_scipy(shapes, width, seed):
    rng = np.random.default_rng(seed)
    blocks = [rng.standard_normal(shape) * (rng.random(shape) < 0.6) for shape in shapes]
    made = BlockMatrixBuilder()
    for block in blocks:
        entries = Entries.of(block)
        order = rng.permutation(len(entries.values))  # in any order
        made.add(Entries(*(one[order] for one in entries)), *block.shape)
    whole = sparse.csr_matrix(block_diag(np.zeros((0, 0)), *blocks))
    matrix = made.matrix(1)
    assert matrix.nnz == whole.nnz
    values, back = rng.standard_normal((whole.shape[1], width)), rng.standard_normal((whole.shape[0], width))
    np.testing.assert_array_equal(matrix @ values, whole @ values)
    np.testing.assert_array_equal(matrix.transposed_times(back), whole.T @ back)


@pytest.mark.parametrize("width", [1, 8])
def test_threads_share_blocks(width):
    rng = np.random.default_rng(1)
    # so many that more than one thread is taken
    shapes = [(int(n), int(m)) for n, m in rng.integers(0, 90, (300, 2))]
    entries = [Entries.of(rng.standard_normal(shape)) for shape in shapes]

    def products(n_threads):
        made = BlockMatrixBuilder()
        for shape, one in zip(shapes, entries, strict=True):
            made.add(one, *shape)
        matrix = made.matrix(n_threads)
        values = np.random.default_rng(2).standard_normal((sum(m for _, m in shapes), width))
        found = matrix @ values
        return found, matrix.transposed_times(found)

    assert sum(len(one.values) for one in entries) > 1 << 18
    for one, other in zip(products(1), products(3), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("width", [1, 2, 8])
def test_bands_are_toeplitz_matrices(width, n_threads):
    rng = np.random.default_rng(width)
    lengths = [3, 0, 1, 30, 9, 2000]
    knots = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    lags = rng.standard_normal((len(lengths), 1 + _mapmaking.BASELINE_BAND))
    values = rng.standard_normal((int(knots[-1]), width))
    found = np.empty_like(values)
    _mapmaking.multiply_bands(knots, lags, values, found, n_threads)
    for row, begin, end in zip(lags, knots[:-1], knots[1:], strict=True):
        first = np.zeros(max(end - begin, len(row)))
        first[: len(row)] = row
        expected = toeplitz(first)[: end - begin, : end - begin] @ values[begin:end]
        np.testing.assert_allclose(found[begin:end], expected, rtol=0, atol=1e-12)
