"""Reductions against dense NumPy, on every number of ranks, with every algorithm and set-up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks

from petamap.base.errors import ConfigError
from petamap.comm.mpi import SerialCommunicator
from petamap.comm.reduction import ALGORITHMS, SETUPS, IndexMap, ReductionError, ReductionPlan

# Ranks beyond the cores of a small machine wait for each other most of the time.
N_PATTERNS = {1: 20, 2: 10, 3: 6, 5: 2}
CALLS = [
    (3, np.int64, "sum"),
    (3, np.float64, "sum"),
    (1, np.int64, "sum"),
    (6, np.int64, "max"),
    (4, np.float64, "min"),
    (6, np.float32, "max"),
    (1, np.uint8, "or"),
    (2, np.uint8, "sum"),
]
UFUNCS = {"sum": np.add, "max": np.maximum, "min": np.minimum, "or": np.bitwise_or}


def key_patterns(size):
    """Keys of every rank: none, few, runs, or most of a small or very large range."""
    one_rank = st.one_of(
        st.just([]),
        st.lists(st.integers(0, 40), unique=True, max_size=40),
        st.lists(st.integers(0, 2**62), unique=True, max_size=5),
        st.builds(lambda begin, n: list(range(begin, begin + n)), st.integers(0, 300), st.integers(1, 300)),
    )
    return st.lists(one_rank.map(sorted), min_size=size, max_size=size)


def make_patterns(size):
    patterns = []

    @settings(max_examples=N_PATTERNS[size], derandomize=True, database=None, deadline=None)
    @given(key_patterns(size))
    def keep(pattern):
        patterns.append([np.array(keys, np.int64) for keys in pattern])

    keep()
    return patterns


def make_values(rng, keys, k, dtype):
    if dtype == np.uint8:
        return rng.integers(0, 256, (len(keys), k), dtype)
    if dtype == np.int64:
        return rng.integers(-(2**63), 2**63, (len(keys), k), dtype, endpoint=False)
    return rng.standard_normal((len(keys), k)).astype(dtype)


def reduce_densely(pattern, values, op):
    """The whole vector on every key, by NumPy, one rank after another."""
    total = {}
    for keys, rows in zip(pattern, values, strict=True):
        for key, row in zip(keys.tolist(), rows, strict=True):
            total[key] = UFUNCS[op](total[key], row) if key in total else row
    return total


def at(total, keys, like):
    return np.array([total[key] for key in keys.tolist()], like.dtype).reshape(like.shape)


def check_plan(comm, plan, pattern, rng):
    keys = pattern[comm.rank]
    every = np.concatenate(pattern)
    assert plan.n_global == len(np.unique(every))
    np.testing.assert_array_equal(plan.multiplicity, [np.sum(every == key) for key in keys])
    owners = np.concatenate(comm.allgather(keys[plan.owned]))
    np.testing.assert_array_equal(np.sort(owners), np.unique(every))
    # The set-ups give the same graph, so one of them meets every dtype.
    for k, dtype, op in CALLS if plan.setup == "rendezvous" else CALLS[:2]:
        values = [make_values(rng, rank_keys, k, dtype) for rank_keys in pattern]
        check_verbs(comm, plan, pattern, values, op)


def check_verbs(comm, plan, pattern, values, op):
    keys, mine, owned = pattern[comm.rank], values[comm.rank], plan.owned
    total = reduce_densely(pattern, values, op)
    result = plan.allreduce(mine.copy(), op)
    if mine.dtype.kind == "f" and op == "sum":
        np.testing.assert_allclose(result, at(total, keys, mine), rtol=1e-13, atol=1e-13)
        if plan.algorithm in ("pairwise", "owner"):
            assert result.tobytes() == at(total, keys, mine).tobytes(), "not in rank order"
    else:
        np.testing.assert_array_equal(result, at(total, keys, mine))
    for other_keys, other in comm.allgather((keys, result)):
        _, here, there = np.intersect1d(keys, other_keys, return_indices=True)
        assert result[here].tobytes() == other[there].tobytes(), "copies differ"
    reduced = plan.reduce(mine.copy(), op)
    np.testing.assert_array_equal(reduced[~owned], mine[~owned])
    np.testing.assert_allclose(reduced[owned], result[owned], rtol=1e-13, atol=1e-13)
    copied = plan.broadcast(np.where(owned[:, None], result, np.zeros_like(result)))
    assert copied.tobytes() == result.tobytes()
    check_halves(plan, mine, op, result, reduced)


def check_halves(plan, mine, op, result, reduced):
    values = mine.copy()
    plan.allreduce_begin(values, op)
    for begin in (plan.allreduce_begin, plan.reduce, plan.broadcast_begin):
        with pytest.raises(ReductionError, match="before allreduce has ended"):
            begin(mine)
    with pytest.raises(ReductionError, match="reduce ends, but has not begun"):
        plan.reduce_end()
    assert plan.allreduce_end() is values and values.tobytes() == result.tobytes()
    values = mine.copy()
    plan.reduce_begin(values, op)
    assert plan.reduce_end().tobytes() == reduced.tobytes()
    values = result.copy()
    plan.broadcast_begin(values)
    assert plan.broadcast_end().tobytes() == result.tobytes()
    with pytest.raises(ReductionError, match="has not begun"):
        plan.broadcast_end()


def reductions(comm):
    for number, pattern in enumerate(make_patterns(comm.size)):
        results = []
        for algorithm in ALGORITHMS:
            for setup in SETUPS:
                plan = ReductionPlan(
                    IndexMap(comm, pattern[comm.rank]), algorithm=algorithm, setup=setup, buffer_keys=100
                )
                check_plan(comm, plan, pattern, np.random.default_rng(number))
                results.append(plan.owned)
        assert all(np.array_equal(owned, results[0]) for owned in results), "owners depend on the set-up"


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_reductions_against_numpy(n_ranks):
    run_ranks(reductions, n_ranks)


def test_serial_plan_is_the_same_code():
    comm = SerialCommunicator()
    for pattern in make_patterns(1):
        for algorithm in ALGORITHMS:
            plan = ReductionPlan(IndexMap(comm, pattern[0]), algorithm=algorithm)
            check_plan(comm, plan, pattern, np.random.default_rng(1))
            assert plan.bytes_per_call(3, 8) == 0


def ownership(comm):
    keys = np.arange(64_000, dtype=np.int64)
    plan = ReductionPlan(IndexMap(comm, keys))
    share = np.count_nonzero(plan.owned) / len(keys) * comm.size
    assert 0.8 < share < 1.2, share
    assert np.count_nonzero(np.diff(plan.owned)) < len(keys) / 64, "runs of 64 neighbours stay together"
    # All ranks hold all keys: pairwise sends everything to everyone, owners half of it both ways.
    assert plan.bytes_per_call(3, 8) == (comm.size - 1) * len(keys) * 24
    before = comm.traffic["alltoallv"].bytes
    plan.allreduce(np.zeros((len(keys), 3)))
    plan.allreduce(np.zeros((len(keys), 3)))
    assert comm.traffic["alltoallv"].bytes - before == 2 * plan.bytes_per_call(3, 8)


def test_ownership_is_balanced_and_bytes_are_counted():
    run_ranks(ownership, 3)


def faults(comm):
    def fails(message, action):
        with pytest.raises(ReductionError, match=message):
            action()

    last = comm.rank == comm.size - 1
    for bad, message in [
        ([3, 3], "key 3 at position 0 is repeated"),
        ([5, 2], "key 5 at position 0 comes before 2"),
        ([-1, 2], "key -1 is negative"),
    ]:
        keys = np.array(bad if last else [1, 2], np.int64)
        fails(message, lambda keys=keys: IndexMap(comm, keys))
    fails("one-dimensional int64", lambda: IndexMap(comm, np.array([1, 2], np.int32)))
    index_map = IndexMap(comm, np.array([1, 2, 9], np.int64))
    fails("ranks differ", lambda: ReductionPlan(index_map, algorithm="dense" if last else "pairwise"))
    plan = ReductionPlan(index_map)
    fails("ranks differ", lambda: plan.allreduce(np.zeros((3, 2 if last else 3))))
    fails("ranks differ", lambda: plan.allreduce(np.zeros(3, np.int64 if last else np.float64)))
    fails("shape", lambda: plan.allreduce(np.zeros(2 if last else 3)))
    fails("dtype int32", lambda: plan.allreduce(np.zeros(3, np.int32)))
    fails("no operation 'mean'", lambda: plan.allreduce(np.zeros(3), "mean"))
    fails("'or' needs integers", lambda: plan.allreduce(np.zeros(3), "or"))
    fails("contiguous", lambda: plan.allreduce(np.zeros((3, 6))[:, ::2]))


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_faults_of_one_rank_are_raised_on_all(n_ranks):
    if n_ranks > 1:
        run_ranks(faults, n_ranks)
    with pytest.raises(ConfigError, match="did you mean 'pairwise'"):
        ReductionPlan(IndexMap(SerialCommunicator(), np.zeros(0, np.int64)), algorithm="pairwse")


def test_find():
    index_map = IndexMap(SerialCommunicator(), np.array([2, 5, 7], np.int64))
    assert index_map.find(np.array([7, 1, 2, 8], np.int64)).tolist() == [2, -1, 0, -1]
