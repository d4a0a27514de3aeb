"""Reductions against dense NumPy, for all algorithms, set-ups, transports and numbers of ranks."""

import itertools

import numpy as np
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks
from reduction_oracle import CALLS, check_calls, scan_pattern

from petacomm.mpi import SerialCommunicator
from petacomm.reduction import ALGORITHMS, TRANSPORTS, ReductionPlan
from petacomm.sharing import SETUPS, IndexMap
from petacomm.sharing.nested_groups import layer_targets, message_bounds

# More ranks than cores are slow.
N_PATTERNS = {1: 20, 2: 8, 3: 6, 5: 3, 8: 1, 12: 1}


def key_patterns(size):
    """Return keys of all ranks: none, few, runs, or most of a small or very large range."""
    one_rank = st.one_of(
        st.just([]),
        st.lists(st.integers(0, 40), unique=True, max_size=40),
        st.lists(st.integers(0, 2**62), unique=True, max_size=5),
        st.builds(lambda begin, n: list(range(begin, begin + n)), st.integers(0, 300), st.integers(1, 300)),
    )
    return st.lists(one_rank.map(sorted), min_size=size, max_size=size)


def make_patterns(size):
    patterns = [scan_pattern(size)]

    @settings(max_examples=N_PATTERNS[size], derandomize=True, database=None, deadline=None)
    @given(key_patterns(size))
    def keep(pattern):
        patterns.append([np.array(keys, np.int64) for keys in pattern])

    keep()
    return patterns


def check_graph(comm, plan, pattern):
    keys = pattern[comm.rank]
    every = np.concatenate(pattern)
    assert plan.n_global == len(np.unique(every))
    distinct, counts = np.unique(every, return_counts=True)
    np.testing.assert_array_equal(plan.multiplicity, counts[np.searchsorted(distinct, keys)])
    owners = np.concatenate(comm.allgather(keys[plan.owned]))
    np.testing.assert_array_equal(np.sort(owners), distinct)


def reductions(comm):
    patterns = make_patterns(comm.size)
    for number, pattern in enumerate(patterns):
        index_map = IndexMap(comm, pattern[comm.rank])
        first = ReductionPlan(index_map)
        # Over the patterns, each algorithm is combined with all transports and set-ups.
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


@pytest.mark.parametrize("n_ranks", cases(1, 2, 3, 5, long=(8, 12)))
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
    plan = ReductionPlan(IndexMap(comm, keys), algorithm="pairwise")
    share = np.count_nonzero(plan.owned) / len(keys) * comm.size
    assert 0.8 < share < 1.2, share
    assert np.count_nonzero(np.diff(plan.owned)) < len(keys) / 64, "runs of consecutive keys have one owner"
    # All ranks hold all keys: "pairwise" sends each key to all ranks, "owner" to and from owners.
    assert plan.bytes_per_call(3, 8) == (comm.size - 1) * len(keys) * 24
    before = comm.traffic["alltoallv"].bytes
    plan.allreduce(np.zeros((len(keys), 3)))
    plan.allreduce(np.zeros((len(keys), 3)))
    assert comm.traffic["alltoallv"].bytes - before == 2 * plan.bytes_per_call(3, 8)


def test_ownership_is_balanced_and_bytes_are_counted():
    run_ranks(ownership, 3)


@pytest.mark.parametrize(("size", "radix"), [(1, 4), (2, 2), (7, 2), (12, 3), (13, 4), (64, 4), (97, 5)])
def test_layers_send_all_keys_to_their_final_ranks(size, radix):
    ways = [list(layer_targets(rank, size, radix)) for rank in range(size)]
    assert len({len(way) for way in ways}) == 1, "all ranks have the same layers"
    home = np.arange(size)
    most = list(message_bounds(size, radix))
    place = np.tile(home[:, None], size)  # where what begins on a rank stands, by home
    for layer in range(len(ways[0])):
        place = np.array([ways[r][layer] for r in range(size)])[place, home[None, :]]
        sent = [np.setdiff1d(ways[rank][layer], rank) for rank in range(size)]
        assert max(map(len, sent)) <= radix - 1
        out, back = most[layer]
        assert out.tolist() == list(map(len, sent))
        assert back.tolist() == np.bincount(np.concatenate(sent), minlength=size).tolist()
    np.testing.assert_array_equal(place, np.tile(home, (size, 1)))


def test_global_to_local():
    index_map = IndexMap(SerialCommunicator(), np.array([2, 5, 7], np.int64))
    assert index_map.global_to_local(np.array([7, 1, 2, 8], np.int64)).tolist() == [2, -1, 0, -1]
