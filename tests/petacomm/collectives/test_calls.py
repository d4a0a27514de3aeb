"""Schedules over MPI against the collectives of the MPI library, and their traffic against simulations."""

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks
from schedules import SHAPES, algorithm_names, all_schedules

from petacomm.base.errors import UserError
from petacomm.collectives import PreparedSchedule, execute_schedule
from petacomm.collectives import calls as collectives
from petacomm.mpi import SerialCommunicator
from petacomm.schedule import (
    ScheduleError,
    communicator_grid,
    flat_messages,
    list_algorithms,
    schedule_timeline,
    segmented,
)
from petacomm.schedule.algorithms.edge_disjoint import edge_disjoint_allreduce
from petacomm.schedule.algorithms.ring import ring_allreduce
from petacomm.topology import Torus


def values_of(comm, n, dtype=np.int64):
    return np.random.default_rng(comm.rank).integers(-1000, 1000, n).astype(dtype)


def library(comm, array, collective, op, root):
    """Return the result of the MPI library."""
    result = array.copy()
    if comm.size > 1:
        ops = {"sum": comm.mpi.SUM, "max": comm.mpi.MAX, "min": comm.mpi.MIN, "or": comm.mpi.BOR}
        if collective == "broadcast":
            comm.mpi_comm.Bcast(result, root)
        elif collective == "reduce":
            comm.mpi_comm.Reduce(array, result, ops[op], root)
        else:
            comm.mpi_comm.Allreduce(array, result, ops[op])
    return result


def vectors(comm):
    torus, mesh = Torus(SHAPES[comm.size]), Torus(SHAPES[comm.size], False)
    root = comm.size // 2
    for grid, n_elements, segment in ((torus, 0, 8), (torus, 37, 64), (mesh, 10, 1 << 17)):
        array = values_of(comm, n_elements)
        given = {"grid": grid, "segment": segment}
        for name in algorithm_names("broadcast", comm.size, grid):
            got = array.copy()
            assert collectives.broadcast(comm, got, root, algorithm=name, **given).values is got
            np.testing.assert_array_equal(got, library(comm, array, "broadcast", "sum", root))
        for name in algorithm_names("reduce", comm.size, grid):
            reductions(comm, array, name, root, given)
        for name in algorithm_names("allreduce", comm.size, grid):
            mine = array.copy()
            got = collectives.allreduce(comm, mine, algorithm=name, **given).values
            np.testing.assert_array_equal(got, library(comm, array, "allreduce", "sum", root))
            np.testing.assert_array_equal(mine, array)
            collectives.allreduce(comm, mine, "max", out=mine, algorithm=name, **given)
            np.testing.assert_array_equal(mine, library(comm, array, "allreduce", "max", root))


def reductions(comm, array, name, root, given):
    for op, out in (("sum", None), ("min", array.copy())):
        kept = array.copy()
        got = collectives.reduce(comm, kept, op, root, out=out, algorithm=name, **given).values
        np.testing.assert_array_equal(kept, array)
        expected = library(comm, array, "reduce", op, root)
        if comm.rank == root:
            np.testing.assert_array_equal(got, expected)
        collectives.reduce(comm, kept, op, root, out=kept, algorithm=name, **given)
        np.testing.assert_array_equal(kept, expected if comm.rank == root else array)


def exchanges(comm):
    grid = Torus(SHAPES[comm.size])
    for n_elements in (0, 70):
        array = values_of(comm, comm.size * n_elements).reshape(comm.size, n_elements)
        expected = array.copy()
        if comm.size > 1:
            comm.mpi_comm.Alltoall(array, expected)
        for name in algorithm_names("alltoall", comm.size, grid):
            kept = array.copy()
            got = collectives.alltoall(comm, kept, algorithm=name, grid=grid).values
            np.testing.assert_array_equal(got, expected)
            np.testing.assert_array_equal(kept, array)
            collectives.alltoall(comm, kept, out=kept, algorithm=name, grid=grid)
            np.testing.assert_array_equal(kept, expected)
    counts = (comm.rank + np.arange(comm.size)) % 3 * 41
    array = values_of(comm, counts.sum(), np.float32)
    expected = comm.alltoallv(array, counts)[0]
    for name in ("published", "random-order", "all-post", "pairwise"):
        got = collectives.alltoallv(comm, array, counts, algorithm=name).values
        np.testing.assert_array_equal(got, expected)


def barriers(comm):
    for name in algorithm_names("barrier", comm.size, Torus((comm.size,))):
        collectives.barrier(comm, algorithm=name, grid=Torus(SHAPES[comm.size]))


def counted(comm):
    """Simulated bytes equal executed bytes."""
    for schedule in all_schedules(comm.size, 29, Torus(SHAPES[comm.size]), root=comm.size - 1):
        work = np.ones(schedule.n_elements, np.int64)
        moved = execute_schedule(comm, schedule, [work])
        table = schedule_timeline(schedule, 8)
        sent = table[table["source"] == comm.rank]
        assert moved.bytes == sent["bytes"].sum()
        assert moved.received == table[table["destination"] == comm.rank]["bytes"].sum()
        flat = flat_messages(schedule, 8)
        mine = flat.source == comm.rank
        assert moved.bytes == (flat.bytes * flat.copies)[mine].sum()
        assert moved.bytes - moved.emulated_bytes == flat.bytes[mine].sum()
        assert moved.emulated_messages == (flat.copies - 1)[mine].sum()


def prepared(comm):
    """A prepared schedule can be executed on several arrays."""
    schedule = segmented(edge_disjoint_allreduce(Torus(SHAPES[comm.size]), 50), 8)
    once = PreparedSchedule(comm, schedule)
    for i in range(3):
        work = values_of(comm, 50) + i
        expected = library(comm, work, "allreduce", "sum", 0)
        moved = once.run([work])
        np.testing.assert_array_equal(work, expected)
        assert moved == execute_schedule(comm, schedule, [work])


def all_of_it(comm):
    prepared(comm)
    vectors(comm)
    exchanges(comm)
    barriers(comm)
    counted(comm)


def test_a_single_process():
    all_of_it(SerialCommunicator())


@pytest.mark.parametrize("n_ranks", cases(3, 6, long=(2, 4, 8, 12)))
def test_all_algorithms_against_the_library(n_ranks):
    run_ranks(all_of_it, n_ranks, timeout=240)


def kinds_of_arrays(comm):
    grid = Torus((comm.size,))
    table = np.zeros(9, [("x", "f8"), ("n", "i2")])
    table["n"] = comm.rank
    collectives.broadcast(comm, table, 1, algorithm="streams", grid=grid)
    assert (table["n"] == 1).all()
    strided = np.full((6, 8), comm.rank, np.float32)[::2, 1::3]
    assert collectives.broadcast(comm, strided, 1).values is strided
    assert (strided == 1).all()
    given = np.full(7, comm.rank)
    got = collectives.broadcast(comm, read_only(given) if comm.rank == 2 else given, 2).values
    assert (got == 2).all()
    flags = np.arange(comm.size) == comm.rank
    assert collectives.allreduce(comm, flags, "or").values.all()
    transposed = np.full((3, 4), comm.rank + 1.0).T
    collectives.allreduce(comm, transposed, out=transposed, algorithm="ring")
    assert (transposed == comm.size * (comm.size + 1) / 2).all()
    rows = np.arange(comm.size * 6.0).reshape(comm.size, 2, 3) + 100 * comm.rank
    got = collectives.alltoall(comm, rows, algorithm="bruck").values
    expected = np.stack([rows[comm.rank] + 100 * (r - comm.rank) for r in range(comm.size)])
    np.testing.assert_array_equal(got, expected)
    values = np.random.default_rng(comm.rank).standard_normal(50)
    for name in [of.name for of in list_algorithms("allreduce") if of.name != "tree"]:
        got = collectives.allreduce(comm, values, algorithm=name, grid=grid).values
        assert len({each.tobytes() for each in comm.allgather(got)}) == 1  # the same bits on all ranks
        np.testing.assert_allclose(got, comm.allreduce(values.copy()), rtol=1e-12, atol=1e-13)


def sub_communicator(comm):
    """Ranks on four nodes across the periodic boundary of a machine, in another order than the nodes."""
    machine = Torus((4, 4, 4))
    grid, ranks = communicator_grid(machine, machine.node_at([[x, y, 3] for y in (1, 2) for x in (3, 0)]))
    assert ranks is not None
    array = values_of(comm, 300, np.float64)
    for name in ("streams", "hamiltonian", "lines"):
        got = collectives.allreduce(comm, array, algorithm=name, grid=grid, ranks=ranks).values
        np.testing.assert_array_equal(got, library(comm, array, "allreduce", "sum", 0))
    for root in range(4):
        got = collectives.broadcast(comm, array.copy(), root, algorithm="streams", grid=grid, ranks=ranks)
        np.testing.assert_array_equal(got.values, library(comm, array, "broadcast", "sum", root))
        got = collectives.reduce(comm, array, "sum", root, algorithm="hamiltonian", grid=grid, ranks=ranks)
        if comm.rank == root:
            np.testing.assert_array_equal(got.values, library(comm, array, "allreduce", "sum", root))
        else:
            library(comm, array, "allreduce", "sum", root)
    collectives.barrier(comm, grid=grid, ranks=ranks)


def test_ranks_in_another_order_than_their_nodes():
    run_ranks(sub_communicator, 4)


def test_arrays_of_all_kinds():
    run_ranks(kinds_of_arrays, 5)


def read_only(array):
    array.flags.writeable = False
    return array


def wrong_calls(comm):
    me = comm.rank
    wrong = {
        "different 'n_elements'": lambda: collectives.allreduce(comm, np.zeros(4 + (me == 1))),
        "different 'root'": lambda: collectives.broadcast(comm, np.zeros(4), me),
        "different 'algorithm'": lambda: collectives.barrier(comm, algorithm=("published", "lines")[me % 2]),
        "different 'dtype'": lambda: collectives.allreduce(comm, np.zeros(4, ("f8", "c8")[me % 2])),
        "different 'op'": lambda: collectives.allreduce(comm, np.zeros(4), ("max", "min")[me % 2]),
        "'or' cannot combine elements of float64": lambda: collectives.allreduce(comm, np.zeros(4), "or"),
        "unknown operation 'mean'": lambda: collectives.allreduce(comm, np.zeros(4), "mean"),
        "structured array": lambda: collectives.reduce(comm, np.zeros(4), "maxloc"),
        "element by element": lambda: collectives.allreduce(comm, np.zeros(4), lambda a, b: (a + b).sum()),
        "cannot combine": lambda: collectives.allreduce(comm, np.zeros(4), lambda a: a),
        "different 'itemsize'": lambda: collectives.broadcast(comm, np.zeros(4, ("f4", "f8")[me % 2])),
        "a grid of 2x4 has 8 nodes": lambda: collectives.barrier(comm, grid=Torus((2, 4))),
        "fill a rectangle": lambda: collectives.broadcast(comm, np.zeros(4), algorithm="streams"),
        "elements are integers": lambda: collectives.allreduce(comm, np.zeros(4), algorithm="tree"),
        "for 3 ranks": lambda: collectives.alltoall(comm, np.zeros(4)),
        "do not fit": lambda: collectives.alltoallv(comm, np.zeros(4), np.full(3, 1 + (me == 2))),
        "no rank 3": lambda: collectives.reduce(comm, np.zeros(4), root=3 if me == 0 else 0),
        "into one of": lambda: collectives.allreduce(comm, np.zeros(4), out=np.zeros(4 - (me == 2))),
        "Python objects": lambda: collectives.broadcast(comm, np.array([None])),
        r"float64 \(3,\) into one of float64 \(1, 3\)": lambda: collectives.alltoall(
            comm, np.zeros(3), out=np.zeros((1, 3) if me == 2 else 3)
        ),
        r"float64 \(3,\) into one of int64 \(3,\)": lambda: collectives.alltoall(
            comm, np.zeros(3), out=np.zeros(3, (float, int)[me % 2])
        ),
        "read-only array": lambda: collectives.broadcast(comm, read_only(np.zeros(4))),
        r"written to a read-only": lambda: collectives.allreduce(
            comm, np.zeros(4), out=read_only(np.zeros(4)) if me == 1 else None
        ),
    }
    for message, call in wrong.items():
        with pytest.raises(ScheduleError, match=message):
            call()
    ones = np.ones(3, (int, float)[me % 2])
    of_one_rank = {
        "different 'segment'": lambda: collectives.allreduce(comm, np.zeros(4), segment=8 - 16 * (me == 1)),
        "must be an array of NumPy": lambda: collectives.allreduce(comm, np.zeros(4), out=me == 1 or None),
        "must be text": lambda: collectives.barrier(comm, algorithm="auto" if me else 3),
        "must be whole numbers": lambda: collectives.alltoallv(comm, np.zeros(3), ones),
    }
    for message, call in of_one_rank.items():
        with pytest.raises(UserError, match=message):
            call()
    collectives.barrier(comm)


def test_invalid_calls_are_errors_on_all_ranks():
    run_ranks(wrong_calls, 3)


def test_schedules_fit_their_ranks_and_arrays():
    with pytest.raises(ScheduleError, match="2 ranks and 1 processes"):
        execute_schedule(SerialCommunicator(), ring_allreduce(2, 4), [np.zeros(4)])
    with pytest.raises(ScheduleError, match="3 elements, and a schedule of 4"):
        execute_schedule(SerialCommunicator(), ring_allreduce(1, 4), [np.zeros(3)])
