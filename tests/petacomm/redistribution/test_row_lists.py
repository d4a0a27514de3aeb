"""Lists of rows as runs: moved and reduced rows against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from petacomm.redistribution.row_lists import RowLists

UFUNCS = {"sum": np.add, "max": np.maximum, "min": np.minimum}
# Increasing rows of 700, in runs shorter and longer than an entry of the lists can hold.
ROWS = st.lists(st.tuples(st.integers(0, 650), st.integers(1, 600)), max_size=4).map(
    lambda runs: np.unique(
        np.concatenate([np.zeros(0, int), *(np.arange(a, min(a + n, 700)) for a, n in runs)])
    )
)
LISTS = st.lists(ROWS, min_size=1, max_size=5)


def lists_of(parts):
    positions = np.concatenate(parts).astype(np.int32)
    return positions, RowLists.from_positions(positions, np.array([len(part) for part in parts]))


@given(LISTS, st.sampled_from([1, 3, 5]), st.integers(1, 3))
def test_taking_and_putting_rows(parts, k, n_threads):
    positions, lists = lists_of(parts)
    values = np.random.default_rng(1).random((700, k))
    taken = np.empty((len(positions), k))
    lists.take(values, taken, n_threads)
    np.testing.assert_array_equal(taken, values[positions])
    for number, part in enumerate(parts):
        few, target = lists.part(number), np.zeros((700, k))
        few.put(values[part], target, n_threads)
        expected = np.zeros((700, k))
        expected[part] = values[part]
        np.testing.assert_array_equal(target, expected)
        other = RowLists.from_positions(np.arange(700 - len(part), 700, dtype=np.int32))
        few.move(values, target, other, n_threads)
        np.testing.assert_array_equal(target[700 - len(part) :], values[part])


@given(LISTS, st.integers(0, 5), st.booleans(), st.sampled_from(sorted(UFUNCS)), st.integers(1, 3), st.data())
def test_rows_are_reduced_in_the_order_of_the_lists(parts, own_list, masked, op, n_threads, data):
    own_list = min(own_list, len(parts))
    positions, lists = lists_of([*parts[:own_list], np.zeros(0, int), *parts[own_list:]])
    k = data.draw(st.sampled_from([1, 3, 4, 300]))
    rng = np.random.default_rng(2)
    received, values = rng.standard_normal((len(positions), k)), rng.standard_normal((700, k))
    own = rng.random(700) < 0.5 if masked else None
    expected = values.copy()
    for row in np.unique(positions):
        at = np.flatnonzero(positions == row)
        before = sum(len(part) for part in parts[:own_list])
        terms = [received[i] for i in at if i < before]
        terms += [values[row]] if own is None or own[row] else []
        terms += [received[i] for i in at if i >= before]
        for i, term in enumerate(terms):
            expected[row] = term if i == 0 else UFUNCS[op](expected[row], term)
    lists.combine(received, own_list, op, values, n_threads, own)
    np.testing.assert_array_equal(values, expected)


def test_signs_of_zeros_are_kept():
    lists = RowLists.from_positions(np.array([0], np.int32), np.array([1, 0]))
    values = np.array([[-0.0], [-0.0]])
    lists.combine(np.array([[-0.0]]), 1, "sum", values, 1)
    assert np.signbit(values).all()


@pytest.mark.parametrize("n", [0, 1, 255, 256, 1000])
def test_a_run_takes_five_bytes(n):
    lists = RowLists.from_positions(np.arange(7, 7 + n, dtype=np.int32))
    assert lists.n_rows == n and lists.nbytes == 5 * -(-n // 255) + 16


def test_moving_lists_of_different_lengths_is_an_error():
    rows, values = RowLists.from_positions(np.arange(3, dtype=np.int32)), np.zeros((5, 1))
    with pytest.raises(ValueError, match="3 rows to the places of 2"):
        rows.move(values, values.copy(), RowLists.from_positions(np.arange(2, dtype=np.int32)), 1)
