"""Halos with owners of the caller's: against dense NumPy, and what is refused."""

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks

from petacomm.base.errors import ConfigError
from petacomm.costs.options import TRANSPORTS
from petacomm.mpi import SerialCommunicator
from petacomm.reduction import Halo, ReductionError

N = 400
ROWS = [((), np.float64), ((3,), np.int64), ((2, 2), np.float32), ((), np.uint8)]


def dealt(comm, seed):
    """Return owned and ghost keys of each rank in any order; one rank owns nothing, one has no ghosts."""
    rng = np.random.default_rng([seed, comm.size])
    owner = rng.integers(0, comm.size, N)
    if comm.size > 2:
        owner[owner == seed % comm.size] = (seed + 1) % comm.size
    scattered = rng.permutation(N) * 10**12  # keys are numbers, not positions
    parts = []
    for rank in range(comm.size):
        owned = rng.permutation(np.flatnonzero(owner == rank))
        others = rng.permutation(np.flatnonzero(owner != rank))
        n_ghosts = 0 if rank == 1 else len(others) // (rank + 2)
        parts.append((scattered, owned, others[:n_ghosts], owner))
    return parts


def against_numpy(comm, transport):
    for seed in range(3):
        parts = dealt(comm, seed)
        keys, owned, ghosts, owner = parts[comm.rank]
        halo = Halo(comm, keys[owned], keys[ghosts], transport=transport)
        assert (halo.n_owned, halo.n_ghosts) == (len(owned), len(ghosts))
        assert np.array_equal(halo.owners, owner[ghosts])
        held = np.concatenate([owned, ghosts])
        for row, dtype in ROWS:
            whole = np.random.default_rng(seed).integers(0, 9, (N, *row)).astype(dtype)
            values = whole[held]
            values[len(owned) :] = 77
            assert halo.exchange(values) is values and np.array_equal(values, whole[held])
            check_reduction(halo, parts, held, row, dtype)


def check_reduction(halo, parts, held, row, dtype):
    """Each rank holds rank + 1 on all of its keys."""
    for op, combine in (("sum", np.add), ("max", np.maximum), ("min", np.minimum)):
        expected = np.full((N, *row), parts[0][3].reshape(N, *[1] * len(row)) + 1, dtype)
        for rank, (_, _, ghosts, _) in enumerate(parts):
            expected[ghosts] = combine(expected[ghosts], np.asarray(rank + 1, dtype))
        values = np.full((len(held), *row), halo.comm.rank + 1, dtype)
        halo.reduce(values, op)
        assert np.array_equal(values[: halo.n_owned], expected[held[: halo.n_owned]])
        assert (values[halo.n_owned :] == halo.comm.rank + 1).all()


def every_transport(comm):
    for transport in TRANSPORTS:
        against_numpy(comm, transport)


@pytest.mark.parametrize("n_ranks", [1, *cases(3, long=(2, 5))])
def test_ghosts_and_owners_against_numpy(n_ranks):
    run_ranks(every_transport, n_ranks)


def test_one_process_needs_no_mpi():
    against_numpy(SerialCommunicator(), "persistent")


def in_halves(comm):
    """Two halos are pending at once; between the halves rows are read, and owned ones added to."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    ups, downs = (Halo(comm, np.array([comm.rank]), np.array([other])) for other in (after, before))
    first, second = np.array([comm.rank, -1.0]), np.array([comm.rank, -1.0])
    ups.exchange_begin(first)
    downs.exchange_begin(second)
    assert first.tolist() == second.tolist() == [comm.rank, -1]
    assert downs.exchange_end()[1] == before and ups.exchange_end()[1] == after
    sums = np.array([1.0, 10.0])
    ups.reduce_begin(sums)
    sums[0] += 100
    with pytest.raises(ReductionError, match="exchange begins before reduce has ended"):
        ups.exchange_begin(sums)
    with pytest.raises(ReductionError, match="exchange ends, but has not begun"):
        ups.exchange_end()
    assert ups.reduce_end().tolist() == [111, 10]


@pytest.mark.parametrize("n_ranks", cases(2, long=(3, 5)))
def test_halves(n_ranks):
    run_ranks(in_halves, n_ranks)


def refusals(comm):
    last, none = comm.size - 1, np.empty(0, np.int64)

    def keys(*numbers):
        return np.array(numbers, np.int64)

    mine = keys(comm.rank)
    at_last = comm.rank == last
    for owned, ghosts, message, mend in [
        (keys(7), none, "key 7 is owned by ranks 0 and 1", "let one rank own it"),
        (
            mine,
            keys(90, 91) if at_last else none,
            f"rank {last}: no rank owns ghost 90 and 1 others",
            "give it",
        ),
        (keys(comm.rank, 50, 50) if at_last else mine, none, f"rank {last}: key 50 is twice", "once"),
        (mine, keys(0, 0) if at_last else none, f"rank {last}: ghost 0 is given twice", "once"),
        (mine, mine if at_last else none, f"rank {last}: ghost {last} is the rank's own", "leave it out"),
        (keys(-4) if at_last else mine, none, f"rank {last}: key -4 is negative", None),
        (mine.astype(np.int32) if at_last else mine, none, f"rank {last}: keys must be a one-", None),
    ]:
        with pytest.raises(ReductionError, match=message) as caught:
            Halo(comm, owned, ghosts)
        assert mend is None or mend in caught.value.mend
        assert len(set(comm.allgather(str(caught.value)))) == 1
    with pytest.raises(ConfigError, match="no transport 'pigeon'"):
        Halo(comm, mine, none, transport="pigeon")
    with pytest.raises(ReductionError, match="ranks differ: rank 0 asks for halo by"):
        Halo(comm, mine, none, transport="alltoallv" if at_last else "neighbour")


def wrong_calls(comm):
    at_last = comm.rank == comm.size - 1
    halo = Halo(comm, np.array([comm.rank]), np.array([(comm.rank + 1) % comm.size]))
    for values, message in [
        (np.zeros(3 if at_last else 2), r"values of shape \(3,\) for 2 keys"),
        (np.zeros(2, "c16" if at_last else "f8"), "values of dtype complex128"),
        (np.zeros((2, 3 if at_last else 2)), "ranks differ"),
    ]:
        with pytest.raises(ReductionError, match=message):
            halo.exchange(values)
    with pytest.raises(ReductionError, match="'or' needs integers"):
        halo.reduce(np.zeros(2), "or")
    assert halo.exchange(np.array([comm.rank, -1.0]))[1] == (comm.rank + 1) % comm.size


def test_what_is_wrong_is_told_on_all_ranks():
    run_ranks(refusals, 3)
    run_ranks(wrong_calls, 3)


def test_a_single_process_cannot_have_ghosts():
    with pytest.raises(ReductionError, match="rank 0: no rank owns ghost 5"):
        Halo(SerialCommunicator(), np.array([1]), np.array([5]))
