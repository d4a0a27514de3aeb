"""Exact sums: kernels against Python, the bound of the rounding error, and bits that never differ."""

import itertools
import math

import numpy as np
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks

from petacomm.mpi import SerialCommunicator
from petacomm.reduction import ALGORITHMS, TRANSPORTS, ReductionPlan
from petacomm.reduction._reduction import from_fixed, largest, to_fixed
from petacomm.reduction.fixed_point import FixedPoint
from petacomm.sharing import SETUPS, IndexMap

DTYPES = [np.float64, np.float32]


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=50),
    st.integers(-100, 100),
    st.integers(1, 20_000),
)
@settings(max_examples=50, derandomize=True, database=None, deadline=None)
def test_kernels_against_python(dtype, values, exponent, n_terms):
    values = np.ldexp(np.array(values), exponent).astype(dtype)[:, None]
    size = np.abs(values).max().astype(float)
    assert largest(values, 2) == size
    fixed = FixedPoint(size, n_terms)
    words, back = np.empty(values.shape, np.int64), np.empty_like(values)
    fixed.to_words(values, words)
    np.testing.assert_array_equal(words, np.rint(values.astype(float) / fixed.unit).astype(np.int64))
    assert n_terms * int(np.abs(words).max()) <= 2**62, "the largest sum does not fit"
    fixed.to_values(words, back)
    np.testing.assert_array_equal(back, (words * fixed.unit).astype(dtype))
    assert size == 0 or fixed.unit <= max(n_terms * size * 2.0**-60, 2.0**-1022)


def test_the_largest_magnitude_is_infinite_if_a_value_is_not_finite():
    assert largest(np.zeros((0, 3)), 1) == 0
    for lost in (np.nan, np.inf, -np.inf):
        for dtype in DTYPES:
            values = np.ones((1000, 1), dtype)
            values[777] = lost
            assert largest(values, 2) == np.inf


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-300, 1.0, 1.7e308])
def test_units_of_all_sizes(size):
    values = np.array([[size], [-size], [size / 3]])
    words, back = np.empty(values.shape, np.int64), np.empty_like(values)
    fixed = FixedPoint(size, 7)
    to_fixed(values, fixed.unit, words, 1)
    from_fixed(words, fixed.unit, back, 1)
    assert np.abs(back - values).max() <= fixed.unit / 2 + 2**-53 * size


def rank_keys(size, rank):
    """Return random keys of a rank; the last of several ranks has none."""
    rng = np.random.default_rng([size, rank])
    n = 0 if rank == size - 1 > 0 else 300
    return np.sort(rng.choice(700, n, replace=False))


def rank_values(keys, rank, dtype):
    rng = np.random.default_rng([rank, 5])
    return (rng.standard_normal((len(keys), 2)) * np.exp(rng.uniform(-20, 20, (len(keys), 2)))).astype(dtype)


def terms_of(comm, dtype):
    """Return keys and values of this rank, the terms of each sum, and the largest value of all ranks."""
    every_keys = [rank_keys(comm.size, r) for r in range(comm.size)]
    every = [rank_values(keys, r, dtype) for r, keys in enumerate(every_keys)]
    keys, mine = every_keys[comm.rank], every[comm.rank]
    terms = [[] for _ in range(mine.size)]
    for held, rows in zip(every_keys, every, strict=True):
        _, here, there = np.intersect1d(keys, held, return_indices=True)
        for i, row in zip(here, rows[there].astype(float), strict=True):
            for c in range(2):
                terms[2 * i + c].append(row[c])
    return keys, mine, terms, max(float(np.abs(rows).max(initial=0)) for rows in every)


def check_bits(comm, dtype):
    keys, mine, terms, size = terms_of(comm, dtype)
    most = int(comm.max(max(map(len, terms), default=1)))
    unit = FixedPoint(size, most).unit
    sums = [sum(round(term / unit) for term in cell) * unit for cell in terms]
    expected = np.array(sums, float).reshape(mine.shape).astype(dtype)
    index_map = IndexMap(comm, keys)
    for algorithm, setup, transport in itertools.zip_longest(ALGORITHMS, SETUPS, TRANSPORTS):
        plan = ReductionPlan(
            index_map,
            algorithm=algorithm or "owner",
            setup=setup or "rendezvous",
            transport=transport or "persistent",
            buffer_keys=100,
        )
        result = plan.allreduce(mine.copy(), exact=True)
        assert result.tobytes() == expected.tobytes(), f"{plan.algorithm}: other bits"
        reduced = plan.reduce(mine.copy(), exact=True)
        wanted = np.where(plan.owned[:, None], expected, mine)
        assert reduced.tobytes() == wanted.tobytes(), "ghosts keep their values"
        doubled = plan.allreduce(mine.copy(), exact=True, owner_op=double)
        assert doubled.tobytes() == (2 * expected).tobytes()
    for cell, value in zip(terms, expected.ravel().tolist(), strict=True):
        # The rounded sum differs from the true one by at most half a unit per term.
        bound = most * unit / 2 + np.finfo(dtype).eps / 2 * (abs(value) + most * unit)
        assert abs(math.fsum([*cell, -value])) <= bound


def double(rows):
    rows *= 2


def bits(comm):
    for dtype in DTYPES:
        check_bits(comm, dtype)


@pytest.mark.parametrize("n_ranks", cases(2, 5, long=(12,)))
def test_exact_sums_have_the_same_bits_by_all_algorithms(n_ranks):
    run_ranks(bits, n_ranks)


def test_exact_sums_of_a_single_process():
    bits(SerialCommunicator())


def test_exact_does_not_change_integer_sums():
    comm = SerialCommunicator()
    plan = ReductionPlan(IndexMap(comm, np.arange(4)))
    for values in (np.arange(4), np.arange(4, dtype=np.uint8)):
        np.testing.assert_array_equal(plan.allreduce(values.copy(), exact=True), values)
    assert plan.allreduce(np.array([np.inf, 1, 2, 3]), "max", exact=True)[0] == np.inf
