"""Reductions against dense NumPy: every algorithm, set-up and transport, on every number of ranks."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks

from petamap.comm.mpi import SerialCommunicator
from petamap.comm.reduction import ALGORITHMS, SETUPS, TRANSPORTS, IndexMap, ReductionPlan
from petamap.comm.reduction.algorithms.butterfly import hops

# Ranks beyond the cores of a small machine wait for each other most of the time.
N_PATTERNS = {1: 20, 2: 8, 3: 6, 5: 3, 8: 1, 12: 1}
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


def scan_pattern(size):
    """Rings that drift from rank to rank and meet at a pole; the last rank has seen nothing."""
    rings = [np.union1d(np.arange(200 * r, 200 * r + 500), np.arange(0, 5000, 97)) for r in range(size)]
    return [*rings[:-1], np.zeros(0, np.int64)] if size > 1 else rings


def make_patterns(size):
    patterns = [scan_pattern(size)]

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


def check_graph(comm, plan, pattern):
    keys = pattern[comm.rank]
    every = np.concatenate(pattern)
    assert plan.n_global == len(np.unique(every))
    distinct, counts = np.unique(every, return_counts=True)
    np.testing.assert_array_equal(plan.multiplicity, counts[np.searchsorted(distinct, keys)])
    owners = np.concatenate(comm.allgather(keys[plan.owned]))
    np.testing.assert_array_equal(np.sort(owners), distinct)


def check_calls(comm, plan, pattern, calls, seed):
    rng = np.random.default_rng(seed)
    for k, dtype, op in calls:
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


def reductions(comm):
    patterns = make_patterns(comm.size)
    for number, pattern in enumerate(patterns):
        index_map = IndexMap(comm, pattern[comm.rank])
        first = ReductionPlan(index_map)
        # Every algorithm meets every transport, and every set-up, over the patterns.
        ways = itertools.product(enumerate(ALGORITHMS), range(3 if number == 0 else 1))
        for (i, algorithm), j in ways:
            plan = ReductionPlan(
                index_map,
                algorithm=algorithm,
                setup=list(SETUPS)[(i + j + number) % len(SETUPS)],
                transport=TRANSPORTS[(i + j + number) % len(TRANSPORTS)],
                buffer_keys=100 if number else 1000,
                radix=2 + (number + j) % 3,
                theta=(0.9, 0.5, 2.0)[(number + j) % 3],
                mu=2 + number % 2,
            )
            if number % 2 == 0:
                check_graph(comm, plan, pattern)
            assert np.array_equal(plan.owned, first.owned), "owners depend on the set-up"
            calls = CALLS if number == 1 else CALLS[:2] if number == 0 else [CALLS[number % len(CALLS)]]
            check_calls(comm, plan, pattern, calls, number)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5, 8, 12])
def test_reductions_against_numpy(n_ranks):
    run_ranks(reductions, n_ranks)


def test_serial_plan_is_the_same_code():
    comm = SerialCommunicator()
    for pattern in make_patterns(1):
        for algorithm in ALGORITHMS:
            plan = ReductionPlan(IndexMap(comm, pattern[0]), algorithm=algorithm)
            check_graph(comm, plan, pattern)
            check_calls(comm, plan, pattern, CALLS, 1)
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


@pytest.mark.parametrize(("size", "radix"), [(1, 4), (2, 2), (7, 2), (12, 3), (13, 4), (64, 4), (97, 5)])
def test_hops_bring_every_key_home_in_few_messages(size, radix):
    ways = [list(hops(rank, size, radix)) for rank in range(size)]
    assert len({len(way) for way in ways}) == 1, "all ranks go through the same layers"
    home = np.arange(size)
    place = np.tile(home[:, None], size)  # where what begins on a rank stands, by home
    for layer in range(len(ways[0])):
        place = np.array([ways[r][layer] for r in range(size)])[place, home[None, :]]
        for rank in range(size):
            targets = ways[rank][layer]
            assert len(np.setdiff1d(targets, rank)) <= radix - 1
    np.testing.assert_array_equal(place, np.tile(home, (size, 1)))


def test_find():
    index_map = IndexMap(SerialCommunicator(), np.array([2, 5, 7], np.int64))
    assert index_map.find(np.array([7, 1, 2, 8], np.int64)).tolist() == [2, -1, 0, -1]
