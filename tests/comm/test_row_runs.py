"""Reductions of rows in shared memory: the kernel beside NumPy."""

import numpy as np
import pytest
from petamap.comm._comm import Flow, Operation, reduce_runs


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
    reduce_runs(
        lengths, counts, entries, first, rows, None, None, None, Operation.sum, Flow.everywhere, 1
    )  # fmt: skip
    np.testing.assert_array_equal(
        rows.reshape(n_holders, n_keys, k), np.broadcast_to(expected, (n_holders, n_keys, k))
    )
