"""Exact floating-point sums by integer all-reduces, on any number of ranks and by any algorithm."""

import math

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.base.exact import exact_sum
from petacomm.collectives import exact_allreduce
from petacomm.mpi import SerialCommunicator
from petacomm.schedule import ScheduleError, list_algorithms
from petacomm.topology import Torus

N_TERMS = 12


def terms(n_elements=40):
    rng = np.random.default_rng(5)
    values = rng.standard_normal((N_TERMS, n_elements)) * 10.0 ** rng.integers(-30, 30, (N_TERMS, n_elements))
    values[1::2, ::3] = -values[::2, ::3]  # sums of 0, to the last bit
    values[:, 5] = 0.0
    values[:, 7] = np.round(values[:, 7] * 8 / abs(values[:, 7]).max()) / 8
    values[:, 8] = [1.0, 2.0**-53, 2.0**-900, *[0.0] * (N_TERMS - 3)]
    return values


def any_ranks(comm):
    """Each rank contributes one term."""
    values = terms()[: comm.size]
    expected = [exact_sum(column) for column in values.T]
    kept = values[comm.rank].copy()
    np.testing.assert_array_equal(exact_allreduce(comm, kept, algorithm="tree").values, expected)
    np.testing.assert_array_equal(kept, values[comm.rank])
    exact_allreduce(comm, kept, out=kept)
    np.testing.assert_array_equal(kept, expected)


def wrong_values(comm):
    for bad, message in ((math.nan, "element 2 is nan"), (2.0**900, r"element 2 is 8\.45")):
        values = np.array([1.0, 2.0, bad if comm.rank == comm.size - 1 else 3.0])
        with pytest.raises(ScheduleError, match=message):
            exact_allreduce(comm, values)
    with pytest.raises(ScheduleError, match="an exact sum of int64"):
        exact_allreduce(comm, np.arange(3))
    last = comm.rank == comm.size - 1
    for out in (np.zeros((3, 1)), np.zeros(3, np.float32)):
        with pytest.raises(ScheduleError, match=r"float64 \(3,\) into one of"):
            exact_allreduce(comm, np.ones(3), out=out if last else np.zeros(3))


def test_a_single_process():
    any_ranks(SerialCommunicator())
    wrong_values(SerialCommunicator())


@pytest.mark.parametrize("n_ranks", [2, 3, 5])
def test_sums_are_correctly_rounded_on_any_ranks(n_ranks):
    run_ranks(any_ranks, n_ranks)


def test_all_algorithms_give_the_same_bits():
    run_ranks(all_algorithms, N_TERMS)


def all_algorithms(comm):
    values = terms()
    expected = [math.fsum(column) for column in values.T]
    for of in list_algorithms("allreduce"):
        total = np.zeros((5, 8))
        row = values[comm.rank].reshape(5, 8)
        done = exact_allreduce(comm, row, out=total, algorithm=of.name, grid=Torus((3, 4)))
        assert done.values is total and done.traffic.bytes > 0
        np.testing.assert_array_equal(total.reshape(-1), expected)


def test_invalid_values_are_errors_on_all_ranks():
    run_ranks(wrong_values, 3)
