"""Scatters of vectors between owners and holders, against dense NumPy."""

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.mpi import SerialCommunicator
from petacomm.reduction import ALGORITHMS, OwnedRows, ReductionPlan
from petacomm.sharing import IndexMap

ROWS = [((), np.int64), ((3,), np.float64), ((2, 4), np.int64), ((), np.uint8), ((3,), np.int64)]


def keys_of(rank, size, seed):
    """Return keys of a rank; of several ranks, one has none, and one all keys."""
    rng = np.random.default_rng([seed, rank])
    if size > 2 and rank == seed % size:
        return np.empty(0, np.int64)
    if size > 2 and rank == (seed + 1) % size:
        return np.arange(500)
    return np.flatnonzero(rng.random(500) < 0.4)


def lends_and_adds_up(comm):
    rng = np.random.default_rng(1)
    for seed, algorithm in enumerate(sorted(ALGORITHMS)):
        everyone = [keys_of(rank, comm.size, seed) for rank in range(comm.size)]
        keys = everyone[comm.rank]
        holders = np.bincount(np.concatenate(everyone), minlength=500)
        rows = OwnedRows(ReductionPlan(IndexMap(comm, keys), algorithm=algorithm))
        assert np.array_equal(rows.keys, keys[rows.plan.owned]) and rows.n_held == len(keys)
        assert comm.sum(rows.n_owned) == np.count_nonzero(holders)
        for shape, dtype in ROWS:
            whole = rng.integers(0, 100, (500, *shape)).astype(dtype)
            own = whole[rows.keys]
            held = rows.scatter_fwd(own)
            assert held.dtype == dtype and np.array_equal(held, whole[keys])
            assert np.array_equal(rows.select_owned(held), own)
            # one buffer for both scatters; a single process needs none
            assert np.shares_memory(rows.held_buffer(own), held) or not len(keys)
            assert comm.size > 1 or np.shares_memory(held, own)
            out = rows.held_buffer(own) if comm.size == 1 else np.empty_like(own)
            added = rows.scatter_rev(held, out)
            assert added is out or comm.size == 1
            factor = holders[rows.keys].reshape(-1, *[1] * len(shape))
            assert np.array_equal(added, (whole[rows.keys] * factor).astype(dtype))


def two_plans_in_flight(comm):
    plans = [
        OwnedRows(ReductionPlan(IndexMap(comm, keys_of(comm.rank, comm.size, seed)), algorithm="owner"))
        for seed in (0, 1)
    ]
    owned = [(10 * rows.keys + number).astype(np.int64) for number, rows in enumerate(plans)]
    for rows, own in zip(plans, owned, strict=True):
        rows.scatter_fwd_begin(own)
    for number in (1, 0):
        keys = plans[number].plan.index_map.keys
        assert np.array_equal(plans[number].scatter_fwd_end(), 10 * keys + number)


@pytest.mark.parametrize("n_ranks", [2, 3, 5])
def test_forward_and_reverse_scatters(n_ranks):
    run_ranks(checks, n_ranks)


def checks(comm):
    lends_and_adds_up(comm)
    two_plans_in_flight(comm)


def test_one_process_copies_nothing():
    checks(SerialCommunicator())
