"""Reductions in shared memory, on one node and on several emulated nodes, against NumPy."""

import gc
import itertools
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks
from reduction_oracle import CALLS, check_calls, make_values, reduce_densely, scan_pattern

from petacomm.mpi import SerialCommunicator
from petacomm.reduction import ReductionPlan
from petacomm.sharing import IndexMap


def patterns(size):
    rng = np.random.default_rng(size)
    yield scan_pattern(size)
    yield [np.flatnonzero(rng.random(800) < 0.3) for _ in range(size)]
    yield [np.flatnonzero(rng.random(300) < 0.5) if rank % 2 else np.arange(0) for rank in range(size)]
    yield [np.arange(0) for _ in range(size)]
    yield [np.array([7, 2**62 + rank, 2**63 - 2]) for rank in range(size)]
    # Longer than the longest run.
    yield [np.arange(140_000) for _ in range(size)]


def check_in_place(comm, plan, pattern, seed):
    """Vectors made by the plan, their views, and vectors that only some ranks made by it."""
    rng = np.random.default_rng(seed)
    for k, dtype, op in CALLS[:5] if seed == 0 else CALLS[1:2]:
        values = [make_values(rng, keys, k, dtype) for keys in pattern]
        mine = values[comm.rank]
        expected = plan.allreduce(mine.copy(), op)
        reduced = plan.reduce(mine.copy(), op)
        vector, other = plan.empty(mine.shape, dtype), plan.empty(mine.shape, dtype)
        for use in (vector, other, vector[:], other if comm.rank else vector, mine if comm.rank else vector):
            use[...] = values[comm.rank]
            assert plan.allreduce(use, op).tobytes() == expected.tobytes()
        vector[...] = mine = make_values(rng, pattern[comm.rank], k, dtype)
        assert plan.reduce(vector, op).tobytes() == plan.reduce(mine.copy(), op).tobytes()
        assert plan.broadcast(vector).tobytes() == plan.broadcast(vector.copy()).tobytes()
        vector[...] = values[comm.rank]
        assert reduced.shape == vector.shape


def check_views(comm, plan, keys):
    """A view with rows of another size is an ordinary array."""
    vector = plan.empty((len(keys), 4), np.float64)
    vector[...] = 1.0
    narrow = vector.reshape(-1)[: 2 * len(keys)].reshape(-1, 2)
    plan.allreduce(narrow)
    np.testing.assert_array_equal(narrow, np.repeat(plan.multiplicity[:, None], 2, axis=1))
    bits = vector.view(np.int64)
    bits[...] = 1
    assert (plan.allreduce(bits) == plan.multiplicity[:, None]).all()


def reduce_and_broadcast(comm, plan, keys):
    values = np.ones((len(keys), 2))
    plan.allreduce_begin(values)
    plan.allreduce_end()
    np.testing.assert_array_equal(values[:, 0], plan.multiplicity)


# Between nodes all keys by owners, or each class of keys of "hybrid" and mixtures.
WAYS = [
    {"algorithm": "hierarchical"},
    {"algorithm": "hybrid"},
    {"algorithm": "hybrid", "theta": 2.0, "mu": 3},
    {"algorithm": "hybrid", "theta": 0.5, "mu": 1},
]


def exactly(comm, plan, keys):
    """Exact sums have the same bits by all algorithms."""
    values = [make_values(np.random.default_rng(9), mine, 3, np.float64) for mine in keys]
    other = ReductionPlan(plan.index_map, algorithm="owner")
    one, two = (each.allreduce(values[comm.rank].copy(), exact=True) for each in (plan, other))
    assert one.tobytes() == two.tobytes()


def reductions(comm):
    # More ranks than cores are slow.
    few = comm.size > 6
    for number, pattern in enumerate(itertools.islice(patterns(comm.size), 2 if few else None)):
        keys = [keys.astype(np.int64) for keys in pattern]
        for way in WAYS if comm.node_of.any() else WAYS[:2]:
            plan = ReductionPlan(IndexMap(comm, keys[comm.rank]), **way)
            reduce_and_broadcast(comm, plan, keys[comm.rank])
            if len(keys[0]) > 100_000:
                break
            first = number == 0 and way in WAYS[:2]
            check_calls(comm, plan, keys, CALLS if first and not few else CALLS[1:3], number)
            if way in WAYS[:2] and not few:
                check_in_place(comm, plan, keys, number)
                check_views(comm, plan, keys[comm.rank])
            exactly(comm, plan, keys)
    wide = make_values(np.random.default_rng(1), np.arange(40), 1000, np.float64)
    plan = ReductionPlan(IndexMap(comm, np.arange(40)), algorithm="hierarchical")
    total = reduce_densely([np.arange(40)] * comm.size, [wide] * comm.size, "max")
    reduced = plan.reduce(wide.copy(), "max")
    np.testing.assert_array_equal(plan.broadcast(reduced)[7], total[7])
    assert plan.allreduce(np.zeros((40, 0))).shape == (40, 0)


def mapped():
    return sum("petamap-" in line for line in Path("/proc/self/maps").read_text().splitlines())


def leaks(comm):
    keys = np.arange(10 * comm.rank, 10 * comm.rank + 30)
    kept = []
    for i in range(12):
        plan = ReductionPlan(IndexMap(comm, keys), algorithm="hierarchical")
        plan.allreduce(np.ones((30, 2)))
        vector = plan.empty((30, 2), np.float64)
        plan.allreduce(vector)
        if i % 4 == comm.rank:
            kept.append(plan)
    del plan, vector, kept
    gc.collect()
    assert mapped() == 0


def everything(comm):
    reductions(comm)
    if comm.size > 1:
        leaks(comm)


@pytest.mark.parametrize(
    ("n_ranks", "per_node"),
    cases((2, None), (3, 1), (5, 2), long=((5, None), (5, 1), (6, 2), (12, 3))),
)
def test_reductions_in_shared_memory(n_ranks, per_node, monkeypatch):
    if per_node:
        monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", str(per_node))
    run_ranks(everything, n_ranks)


def test_a_single_process():
    everything(SerialCommunicator())
