"""Calls of a plan: in halves, with an operation at owners, with several right-hand sides, and errors."""

import gc
import weakref

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.base.errors import ConfigError, ResourceError
from petacomm.mpi import MpiCommunicator, SerialCommunicator
from petacomm.reduction import ALGORITHMS, TRANSPORTS, ReductionPlan
from petacomm.reduction import row_exchange as exchange
from petacomm.sharing import IndexMap, ReductionError


def some_keys(comm):
    return np.union1d(np.arange(50 * comm.rank, 50 * comm.rank + 120), np.arange(0, 600, 7))


def check_halves(plan, mine):
    result, reduced = plan.allreduce(mine.copy()), plan.reduce(mine.copy())
    values = mine.copy()
    plan.allreduce_begin(values)
    for begin in (plan.allreduce_begin, plan.reduce, plan.broadcast_begin):
        with pytest.raises(ReductionError, match="before allreduce has ended"):
            begin(mine)
    with pytest.raises(ReductionError, match="reduce ends, but has not begun"):
        plan.reduce_end()
    assert plan.allreduce_end() is values and values.tobytes() == result.tobytes()
    values = mine.copy()
    plan.reduce_begin(values)
    assert plan.reduce_end().tobytes() == reduced.tobytes()
    values = result.copy()
    plan.broadcast_begin(values)
    assert plan.broadcast_end().tobytes() == result.tobytes()
    with pytest.raises(ReductionError, match="has not begun"):
        plan.broadcast_end()


def check_owner_op(plan, mine):
    called = []

    def divide(rows):
        called.append(rows.shape)
        rows /= plan.multiplicity[plan.owned].reshape(-1, *[1] * (mine.ndim - 1))

    mean = plan.allreduce(mine.copy(), owner_op=divide)
    assert called == [(np.count_nonzero(plan.owned), *mine.shape[1:])]
    expected = plan.allreduce(mine.copy()) / plan.multiplicity.reshape(-1, *[1] * (mine.ndim - 1))
    np.testing.assert_allclose(mean, expected, rtol=1e-13, atol=1e-13)


def check_right_hand_sides(comm, plan, mine):
    plan.allreduce(mine.copy())  # the first call compares arguments and makes exchanges
    before = sum(traffic.calls for traffic in comm.traffic.values())
    together = plan.allreduce(mine.copy())
    calls = sum(traffic.calls for traffic in comm.traffic.values()) - before
    for i in range(mine.shape[1]):
        plan.allreduce(np.ascontiguousarray(mine[:, i]))
        before = sum(traffic.calls for traffic in comm.traffic.values())
        alone = plan.allreduce(np.ascontiguousarray(mine[:, i]))
        if comm.size > 1:
            assert sum(traffic.calls for traffic in comm.traffic.values()) - before == calls
        if plan.algorithm in ("pairwise", "owner", "butterfly"):  # others have other messages
            assert together[:, i].tobytes() == alone.tobytes()
        np.testing.assert_allclose(together[:, i], alone, rtol=1e-13, atol=1e-13)


def calls(comm):
    index_map = IndexMap(comm, some_keys(comm))
    rng = np.random.default_rng(comm.rank)
    for name in ALGORITHMS:
        plan = ReductionPlan(index_map, algorithm=name)
        check_halves(plan, rng.standard_normal((plan.index_map.n_keys, 2)))
        check_owner_op(plan, rng.standard_normal((plan.index_map.n_keys, 2)))
        check_owner_op(plan, rng.standard_normal(plan.index_map.n_keys))
        rows_of_changing_size(plan)
        check_right_hand_sides(comm, plan, rng.standard_normal((plan.index_map.n_keys, 3, 2)))
    two_plans_at_a_time(index_map)
    dropped_plans_leave_nothing(index_map)


def rows_of_changing_size(plan):
    """Call after call, so that ranks may be in different calls."""
    widths = (6, 2, 1, 6, 2, 3)
    rows = [np.full((plan.index_map.n_keys, k), i + 1.0) for i, k in enumerate(widths)]
    for values in rows:
        plan.allreduce(values)
    for i, values in enumerate(rows):
        assert (values == (i + 1.0) * plan.multiplicity[:, None]).all(), (plan.algorithm, widths[i])


def two_plans_at_a_time(index_map):
    for transport in TRANSPORTS:
        plans = [
            ReductionPlan(index_map, algorithm=name, transport=transport) for name in ("owner", "butterfly")
        ]
        rows = [np.full((index_map.n_keys, 2), i + 1.0) for i in range(2)]
        for plan, values in zip(plans, rows, strict=True):
            plan.allreduce_begin(values)
        for i, plan in enumerate(plans):
            result = plan.allreduce_end()
            np.testing.assert_array_equal(result, (i + 1.0) * np.stack([plan.multiplicity] * 2, axis=1))


def dropped_plans_leave_nothing(index_map):
    gc.disable()
    for name in ALGORITHMS:
        plan = ReductionPlan(index_map, algorithm=name, transport="persistent")
        plan.allreduce(np.zeros(index_map.n_keys))
        left = weakref.ref(plan._executor)
        del plan
        assert left() is None, f"a cycle keeps a plan of {name}, and its requests, until the collector runs"
    gc.enable()


@pytest.mark.parametrize("n_ranks", [1, 4])
def test_calls(n_ranks):
    if n_ranks == 1:
        calls(SerialCommunicator())
    else:
        run_ranks(calls, n_ranks)


def fails(message, action, kind=ReductionError):
    with pytest.raises(kind, match=message):
        action()


def bad_keys(comm, last):
    for bad, message in [
        ([3, 3], "key 3 at position 0 is repeated"),
        ([5, 2], "key 5 at position 0 comes before 2"),
        ([-1, 2], "key -1 is negative"),
        ([2, 2**63 - 1], "key 9223372036854775807 is too large"),
        ([1, 7], "key 7 is none of 7 keys"),
    ]:
        keys = np.array(bad if last else [1, 2], np.int64)
        fails(message, lambda keys=keys: IndexMap(comm, keys, 7))
    for bad, given in [(np.array([1, 2], np.int32), r"int32 of shape \(2,\)"), ([1, 2], "list")]:
        keys = bad if last else np.array([1, 2])
        fails(f"a one-dimensional int64 array, not {given}", lambda keys=keys: IndexMap(comm, keys))


def bad_plans(comm, last):
    index_map = IndexMap(comm, np.array([1, 2, 9], np.int64))
    fails("ranks differ", lambda: ReductionPlan(index_map, algorithm="dense" if last else "pairwise"))
    fails("ranks differ", lambda: ReductionPlan(index_map, transport="persistent" if last else "alltoallv"))
    for choice, message in [
        ({"transport": "alltoall"}, "did you mean 'alltoallv'"),
        ({"algorithm": "pairwse"}, "did you mean 'pairwise'"),
        ({"radix": 1}, "radix 1"),
        ({"checks": "each"}, "no checks 'each'"),
        ({"theta": float("nan")}, "theta nan"),
    ]:
        given = choice if last else {}
        fails(message, lambda given=given: ReductionPlan(index_map, **given), ConfigError)
    other = IndexMap(MpiCommunicator(comm.mpi_comm), index_map.keys)
    given = other if last else index_map
    fails("another communicator", lambda: ReductionPlan(given, comm=comm))


def bad_values(comm, last, plan):
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    fails("ranks differ", lambda: plan.allreduce(np.zeros((3, 2 if last else 3))))
    fails("ranks differ", lambda: plan.allreduce(np.zeros(3, np.int64 if last else np.float64)))
    fails("ranks differ", lambda: (plan.reduce if last else plan.allreduce)(np.zeros(3)))
    fails("ranks differ", lambda: plan.allreduce(np.zeros(3), "max" if last else "sum"))
    fails("ranks differ", lambda: plan.allreduce(np.zeros(3), exact=last))
    fails("ranks differ", lambda: plan.allreduce(np.zeros(3), owner_op=print if last else None))
    fails("shape", lambda: plan.allreduce(np.zeros(2 if last else 3)))
    fails("NumPy array", lambda: plan.allreduce([0.0] * 3 if last else np.zeros(3)))
    fails("dtype int32", lambda: plan.allreduce(np.zeros(3, np.int32)))
    fails("no operation 'mean'", lambda: plan.allreduce(np.zeros(3), "mean"))
    fails("no operation '\\['sum'\\]'", lambda: plan.allreduce(np.zeros(3), ["sum"] if last else "sum"))
    fails("dtype: is no dtype", lambda: plan.empty((3,), "float46"), ConfigError)
    fails("'or' needs integers", lambda: plan.allreduce(np.zeros(3), "or"))
    fails("contiguous", lambda: plan.allreduce(np.zeros((3, 6))[:, ::2]))
    fails("writeable", lambda: plan.allreduce(read_only if last else np.zeros(3)))
    for lost in (np.nan, np.inf):
        values = np.array([1.0, lost, 2.0]) if last else np.ones(3)
        fails(f"rank {comm.size - 1}: a value is not finite", lambda v=values: plan.allreduce(v, exact=True))


def too_many_rows(comm):
    exchange._MOST_ROWS = 5
    for name in ("pairwise", "owner", "butterfly"):
        index_map = IndexMap(comm, np.arange(100 if comm.rank < 2 else 0, dtype=np.int64))
        # Two of three ranks exchange rows; the third must raise the error, too.
        fails("rows at once", lambda m=index_map, n=name: ReductionPlan(m, algorithm=n), ResourceError)
    exchange._MOST_ROWS = 2**31 - 1


def faults(comm):
    last = comm.rank == comm.size - 1
    bad_keys(comm, last)
    bad_plans(comm, last)
    for checks in ("every", "first"):
        plan = ReductionPlan(IndexMap(comm, np.array([1, 2, 9], np.int64)), checks=checks)
        bad_values(comm, last, plan)
    plan = ReductionPlan(IndexMap(comm, np.array([1, 2, 9], np.int64)), checks="every")
    for values in (np.zeros(3), np.zeros((3, 2)), np.zeros((3, 3)), np.zeros(3, np.int64)):
        plan.allreduce(values)
        plan.allreduce(values, exact=True)
        plan.reduce(values)
    # Also in a call that all ranks have made before.
    bad_values(comm, last, plan)
    assert (plan.allreduce(np.ones(3)) == comm.size).all(), "errors do not change the plan"
    too_many_rows(comm)


def test_errors_of_one_rank_are_raised_on_all():
    run_ranks(faults, 3)


def test_errors_of_a_single_process():
    comm = SerialCommunicator()
    bad_keys(comm, True)
    plan = ReductionPlan(IndexMap(comm, np.arange(3)))
    fails("shape", lambda: plan.allreduce(np.zeros(2)))
    fails("writeable", lambda: plan.allreduce(np.broadcast_to(np.zeros(1), 3)))
    fails("not finite", lambda: plan.reduce(np.full(3, np.nan), exact=True))
    fails(
        "did you mean 'neighbour'", lambda: ReductionPlan(plan.index_map, transport="neighbor"), ConfigError
    )
