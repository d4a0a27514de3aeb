"""Hashes of the rows of a vector, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.sharing.sharing_graph import hash_numbers

SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)


def hashes_by_numpy(keys, values, kind):
    sums = np.zeros(2, np.uint64)
    for column in range(values.shape[1]):
        words = hash_numbers(np.ascontiguousarray(values[:, column]).view(np.int64))
        words += hash_numbers(keys * 8 + 4 * kind + column)
        for number, seed in enumerate(SEEDS):
            sums[number : number + 1] += hash_numbers((words ^ np.uint64(seed)).view(np.int64)).sum(
                dtype=np.uint64
            )
    return sums


@pytest.mark.parametrize("n_threads", [1, 3])
@given(
    seed=st.integers(0, 1 << 32), n=st.integers(0, 300), n_columns=st.integers(1, 4), kind=st.integers(0, 1)
)
def test_hashes_by_threads_are_those_of_numpy_in_any_order(seed, n, n_columns, kind, n_threads):
    draw = np.random.default_rng(seed)
    keys, values = draw.integers(0, 1 << 60, n), draw.standard_normal((n, n_columns))
    wanted, found = hashes_by_numpy(keys, values, kind), np.zeros(2, np.uint64)
    order = draw.permutation(n)
    for part in np.array_split(order, 2):  # ranks
        _mapmaking.add_hashes(keys[part], values[part], kind, found, n_threads)
    np.testing.assert_array_equal(found, wanted)
    if n:
        values[draw.integers(n), draw.integers(n_columns)] += 1e-12
        assert (hashes_by_numpy(keys, values, kind) != wanted).all()
