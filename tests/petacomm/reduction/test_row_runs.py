"""Reductions of rows in shared memory: the kernels against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from petacomm.reduction._reduction import RunTable, merge_runs, reduce_runs


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6, 300])
@pytest.mark.parametrize("n_holders", [2, 3, 9])
def test_runs_of_all_lengths(k, n_holders):
    rng = np.random.default_rng(5)
    lengths = rng.permutation(np.arange(1, 40)).astype(np.uint16)
    n_keys = int(lengths.sum())
    rows = rng.standard_normal((n_holders * n_keys, k))
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    entries = (starts[:, np.newaxis] + n_keys * np.arange(n_holders)).astype(np.uint32).reshape(-1)
    expected = rows.reshape(n_holders, n_keys, k)[0].copy()
    for other in rows.reshape(n_holders, n_keys, k)[1:]:
        expected += other  # in the order of the holders: the same bits
    counts = np.full(len(lengths), n_holders, np.uint16)
    first = np.zeros(1, np.int64)
    table = RunTable(lengths, counts, entries, first)
    reduce_runs(table, rows, None, None, None, "sum", "everywhere", 1)
    np.testing.assert_array_equal(
        rows.reshape(n_holders, n_keys, k), np.broadcast_to(expected, (n_holders, n_keys, k))
    )


@pytest.mark.parametrize("op", ["sum", "max"])
@pytest.mark.parametrize(("before", "n_holders", "after"), [(0, 3, 1), (2, 2, 0), (1, 1, 2), (1, 300, 1)])
def test_nodes_in_order_with_rows_among_slots(before, n_holders, after, op):
    rng = np.random.default_rng(7)
    n_keys, k = 400, 3
    rows = rng.standard_normal((n_holders * n_keys + 1, k))
    slots = rng.standard_normal(((before + after) * n_keys, k))
    parts = slots.reshape(-1, n_keys, k)
    reduce = np.add if op == "sum" else np.maximum
    here = rows[:n_keys].copy()
    for other in rows[n_keys:-1].reshape(-1, n_keys, k):
        here = reduce(here, other)
    terms = [*parts[:before], here, *parts[before:]]
    expected = terms[0].copy()
    for term in terms[1:]:
        expected = reduce(expected, term)
    of_slots = len(rows) + n_keys * np.arange(before + after)
    entries = np.insert(of_slots, before, n_keys * np.arange(n_holders)).astype(np.uint32)
    first = np.zeros(1, np.int64)
    table = RunTable(np.array([n_keys], np.uint16), np.array([len(entries)], np.uint16), entries, first)
    reduce_runs(table, rows, None, slots, None, op, "in_node_order", 1)
    np.testing.assert_array_equal(
        rows[:-1].reshape(n_holders, n_keys, k), np.broadcast_to(expected, (n_holders, n_keys, k))
    )


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_reduce_blocks_of_runs(n_threads):
    """A table of more than two blocks of 1024 runs."""
    rng = np.random.default_rng(6)
    lengths, n_holders = rng.integers(1, 4, 3000).astype(np.uint16), 3
    n_keys = int(lengths.sum())
    rows = rng.standard_normal((n_holders * n_keys, 2))
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    entries = (starts[:, np.newaxis] + n_keys * np.arange(n_holders)).astype(np.uint32).reshape(-1)
    one, two, three = rows.reshape(n_holders, n_keys, 2).copy()
    counts = np.full(len(lengths), n_holders, np.uint16)
    table = RunTable(lengths, counts, entries, n_holders * np.arange(0, len(lengths), 1024))
    reduce_runs(table, rows, None, None, None, "sum", "everywhere", n_threads)
    np.testing.assert_array_equal(rows, np.tile(one + two + three, (n_holders, 1)))


@pytest.mark.parametrize(
    ("second", "third"),
    [
        ((7, 2), (6, 3)),
        ((7, 2), (8, 1)),
        ((7, 2), (7, 2)),
        ((7, 0), (9, 2)),
        ((7, -3), (9, 2)),
        ((2, 1), (9, 2)),
    ],
)
def test_intervals_that_do_not_increase(second, third):
    intervals = np.zeros((4, 5), np.int64)
    intervals[:, :2] = (2, 3), second, third, (0, 30)
    with pytest.raises(ValueError, match="keys that increase in each list"):
        merge_runs(intervals, np.array([0, 3, 4]), 0, 50, None, None)


@given(st.lists(st.tuples(st.integers(-5, 30), st.integers(-3, 9)), max_size=8), st.data())
def test_any_intervals_end(pairs, data):
    intervals = np.zeros((len(pairs), 5), np.int64)
    intervals[:, :2] = np.array(pairs).reshape(-1, 2)
    cut = data.draw(st.integers(0, len(pairs)))
    lists = np.array([0, cut, len(pairs)])
    low, high = sorted(data.draw(st.tuples(st.integers(-3, 35), st.integers(-3, 35))))
    increase = all(
        (one[1:, 0] >= one[:-1, :2].sum(axis=1)).all() and (one[:, 1] > 0).all()
        for one in (intervals[:cut], intervals[cut:])
    )
    try:
        merge_runs(intervals, lists, low, high, None, None)
    except ValueError:
        assert not increase
