"""Vectors side by side, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from petamap.mapmaking.vectors import largest_sizes


@given(st.integers(0, 70), st.sampled_from([1, 2, 4, 8]), st.integers(1, 3), st.integers(0, 2**32))
def test_largest_sizes(n, width, n_threads, seed):
    values = np.random.default_rng(seed).normal(size=(n, width))
    np.testing.assert_array_equal(largest_sizes(values, n_threads), np.abs(values).max(axis=0, initial=0.0))
    several = np.asfortranarray(np.stack([values, 2 * values], axis=1))
    np.testing.assert_array_equal(largest_sizes(several), 2 * largest_sizes(values))


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [13, 300_007])
def test_what_is_no_number_is_told_of_its_column_alone(n, bad, width):
    values = np.random.default_rng(n).normal(size=(n, width))
    for row in (0, n // 2, n - 1):
        with_one = values.copy()
        with_one[row, width - 1] = bad
        found = largest_sizes(with_one, 2)
        np.testing.assert_array_equal(found[:-1], np.abs(values).max(axis=0)[:-1])
        assert np.isnan(found[-1])
