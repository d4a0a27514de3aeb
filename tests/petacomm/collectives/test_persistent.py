"""Collectives that go on beside other work: the bits of those that are waited for at once, in any order."""

import numpy as np
import pytest
from mpi import run_ranks
from schedules import SHAPES, algorithm_names

import petacomm
from petacomm.base.errors import UserError
from petacomm.mpi import SerialCommunicator
from petacomm.schedule import ScheduleError
from petacomm.topology import Torus


def values_of(comm, turn, n=37):
    return np.random.default_rng([comm.rank, turn]).standard_normal(n) * 10.0 ** np.arange(-10, n - 10)


def same_bits(comm):
    grid, root = Torus(SHAPES[comm.size]), comm.size // 2
    for collective in ("broadcast", "reduce", "allreduce"):
        for name in algorithm_names(collective, comm.size, grid):
            if name in ("tree", "interrupt"):  # of integers
                continue
            given = {"algorithm": name, "grid": grid, "segment": 64}
            rooted = given if collective == "allreduce" else given | {"root": root}
            plan = petacomm.PersistentCollective(comm, collective, np.empty(37), **rooted)
            for turn in range(3):
                array = values_of(comm, turn)
                plan.start(array)
                while turn == 1 and not plan.test():
                    pass
                found = plan.wait()
                expected = getattr(petacomm, collective)(comm, array.copy(), **rooted)
                if expected.values is None:
                    assert found is None
                else:
                    assert found.tobytes() == expected.values.tobytes(), (collective, name)
                assert plan.traffic == expected.traffic


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4])
def test_bits_and_traffic_of_the_call_that_waits(n_ranks):
    run_ranks(same_bits, n_ranks)


def several_at_once(comm):
    plans = [
        petacomm.PersistentCollective(comm, "allreduce", np.empty(37), algorithm=name)
        for name in ("ring", "recursive-doubling", "ring")
    ]
    for turn in range(4):
        arrays = [values_of(comm, 3 * turn + k) for k in range(3)]
        order = np.roll(np.arange(3), comm.rank)  # another one first on each rank
        for k in order:
            plans[k].start(arrays[k])
            arrays[k][...] = np.nan  # is read already
        other = petacomm.allreduce(comm, np.array([comm.rank])).values
        assert other[0] == comm.size * (comm.size - 1) // 2
        for k in order[::-1]:
            found = plans[k].wait()
            values = [np.random.default_rng([r, 3 * turn + k]).standard_normal(37) for r in range(comm.size)]
            np.testing.assert_allclose(found, sum(values) * 10.0 ** np.arange(-10, 27), rtol=1e-10)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_several_under_way_in_any_order(n_ranks):
    run_ranks(several_at_once, n_ranks)


def ends_without_wait(comm):
    """A rank that does much else is not waited for by those that test."""
    total = petacomm.PersistentCollective(comm, "allreduce", np.empty(1, np.int64), "max")
    total.start(np.array([comm.rank]))
    if comm.rank == 0:
        while not total.test():
            pass
    assert total.wait().tolist() == [comm.size - 1]
    assert "under_way=False" in repr(total)


def test_tests_alone_come_to_the_end():
    run_ranks(ends_without_wait, 3)


def test_wrong_calls():
    comm = SerialCommunicator()
    total = petacomm.PersistentCollective(comm, "allreduce", np.empty(3))
    with pytest.raises(ScheduleError, match="not started"):
        total.wait()
    with pytest.raises(ScheduleError, match="not started"):
        total.test()
    with pytest.raises(ScheduleError, match=r"an array of float32 \(3,\) where float64 \(3,\) was told"):
        total.start(np.ones(3, np.float32))
    total.start(np.ones(3))
    with pytest.raises(ScheduleError, match="started twice"):
        total.start(np.ones(3))
    assert total.test() and total.wait().tolist() == [1, 1, 1]
    with pytest.raises(UserError, match="no persistent collective 'alltoall'"):
        petacomm.PersistentCollective(comm, "alltoall", np.empty(3))
    with pytest.raises(UserError, match="like"):
        petacomm.PersistentCollective(comm, "allreduce", 3.0)
