"""Redistribution against the global array, for all methods, layouts, dtypes and numbers of ranks."""

import itertools
import math
import resource

import numpy as np
import pytest
from cases import cases
from mpi import launch, run_ranks
from numpy.lib.stride_tricks import as_strided

from petacomm.base.errors import ConfigError, DataError
from petacomm.mpi import SerialCommunicator
from petacomm.mpi import message_size as messages
from petacomm.mpi.datatypes import Datatypes, message_pieces
from petacomm.redistribution import METHODS, ArrayLayout, DatatypeError, Redistribution

SHAPES = [(7,), (5, 6), (1, 9, 2), (3, 0, 4), (4, 3, 5), (2, 3, 2, 3)]
DTYPES = ["f8", "u1", "c16", "V12", "f4"]
# More ranks than cores are slow.
N_CASES = {1: 30, 2: 25, 3: 16, 4: 12, 6: 6, 8: 4}


def grids(n_ranks, n_axes):
    if n_axes == 1:
        yield (n_ranks,)
        return
    for first in range(1, n_ranks + 1):
        if n_ranks % first == 0:
            for rest in grids(n_ranks // first, n_axes - 1):
                yield (first, *rest)


def made(rng, shape, dtype):
    whole = np.frombuffer(rng.bytes(math.prod(shape) * np.dtype(dtype).itemsize), dtype)
    return whole.reshape(shape)


def case(rng, size):
    """Return two layouts of an array, and the array."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    every = list(grids(size, len(shape)))
    layouts = [
        ArrayLayout(shape, every[rng.integers(len(every))], tuple(rng.permutation(len(shape))))
        for _ in range(2)
    ]
    return *layouts, made(rng, shape, DTYPES[rng.integers(len(DTYPES))])


def held(layout, whole, rank):
    mine = layout.empty(rank, whole.dtype)
    mine[...] = whole[layout.box(rank)]
    return mine


def same_bits(array, expected):
    return np.ascontiguousarray(array).tobytes() == np.ascontiguousarray(expected).tobytes()


def check(comm, before, after, whole, method):
    plan = Redistribution(comm, before, after, whole.dtype, method)
    source = held(before, whole, comm.rank)
    expected = whole[after.box(comm.rank)]
    target = plan.run(source)
    assert same_bits(target, expected), (before, after, method)
    # Again, into the same memory, then from memory that the node shares.
    after.in_memory_order(target).reshape(-1).view(np.uint8)[...] = 255
    assert same_bits(plan.run(source, target), expected)
    in_window = plan.empty_source()
    in_window[...] = source
    assert same_bits(plan.run(in_window, target), expected)
    plan.free()


def redistributions(comm):
    rng = np.random.default_rng(comm.size)
    for _ in range(N_CASES[comm.size]):
        before, after, whole = case(rng, comm.size)
        for method in METHODS:
            check(comm, before, after, whole, method)


def cut(comm):
    messages.MESSAGE_BYTES = 40
    N_CASES[comm.size] = 10
    redistributions(comm)


@pytest.mark.parametrize("n_ranks", cases(1, 3, 6, long=(2, 4, 8)))
def test_all_methods_give_the_same_bits(n_ranks):
    run_ranks(redistributions, n_ranks)


def test_a_single_process_needs_no_mpi():
    redistributions(SerialCommunicator())


def test_large_messages_are_split():
    run_ranks(cut, 3)


def test_several_nodes_of_several_ranks(monkeypatch):
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", "2")
    run_ranks(redistributions, 3)


def huge(comm):
    """Layouts of 64 GiB without their memory: counts and offsets are right above 2^31."""
    types = Datatypes(comm)
    n = 1 << 16
    whole = as_strided(np.zeros(1, complex), (n, n), (16 * n, 16))
    before, after = ArrayLayout((n, n), (comm.size, 1)), ArrayLayout((n, n), (1, comm.size))
    total = 0
    for other, box in after.overlaps(before.box(comm.rank)):
        parts = list(message_pieces(whole[box]))
        assert max(part.nbytes for part in parts) <= messages.MESSAGE_BYTES
        total += sum(part.nbytes for part in parts)
        assert sum(part.nbytes for part in parts) == 16 * (n // comm.size) ** 2, other
        for part in (*parts[:2], parts[-1].T):
            buffer = types.strided(part)
            assert buffer.n * buffer.datatype.Get_size() == part.nbytes
            assert buffer.datatype.Get_extent() == (0, part.strides[0])
        offset = parts[-1].__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        assert offset > 1 << 31
        assert types.strided_part(whole, parts[-1]).Get_true_extent()[0] == offset
    assert total == 16 * n * n // comm.size
    types.free()


def test_counts_beyond_two_gigabytes():
    run_ranks(huge, 2)


def refusals(comm):
    last = comm.rank == comm.size - 1
    before, after = ArrayLayout((6, 6), (comm.size, 1)), ArrayLayout((6, 6), (1, comm.size))
    plan = Redistribution(comm, before, after)
    good, target = np.ones(before.local_shape(comm.rank)), np.ones(after.local_shape(comm.rank))
    bad = {
        "float32, not float64": (good.astype("f4"), target),
        "int, not float64": (3, target),
        "shape (1, 1)": (good[:1, :1], target),
        "not contiguous": (np.empty((2 * len(good), 6))[::2], target),
        "lies in the source": (good, good.reshape(-1)[: target.size].reshape(target.shape)),
    }
    for message, (source, to) in bad.items():
        arrays = (source, to) if last else (good, target)
        said = None
        try:
            plan.run(*arrays)
        except DatatypeError as error:
            said = str(error)
        assert said is not None and message in said and f"rank {comm.size - 1}" in said, (said, message)
        assert comm.allgather(said) == [said] * comm.size
    wrong = [
        (before, ArrayLayout((6, 7), (1, comm.size)), "two arrays"),
        (before, ArrayLayout((6, 6), (1, comm.size + 1)), "processes"),
        (before, ArrayLayout((6, 6), (1, comm.size), (1, 0)) if last else after, "ranks differ"),
    ]
    for one, other, message in wrong:
        with pytest.raises(DatatypeError, match=message) as caught:
            Redistribution(comm, one, other)
        assert len(set(comm.allgather(str(caught.value)))) == 1
    wrong_words = [({"method": "quick"}, "no method"), ({"dtype": object}, "without objects")]
    wrong_words += [
        ({"checks": "frist"}, "no checks 'frist' .did you mean 'first'"),
        ({"checks": None}, "no checks"),
    ]
    wrong_words += [
        ({"dtype": "float46"}, "dtype: is no dtype of NumPy: 'float46'"),
        ({"dtype": 3}, "no dtype"),
    ]
    for words, message in wrong_words:
        with pytest.raises(ConfigError, match=message):
            Redistribution(comm, before, after, **(words if last else {}))
    assert plan.run(np.ones(good.shape)).all(), "errors do not change the plan"


def test_invalid_arguments_are_errors_on_all_ranks():
    run_ranks(refusals, 3)


@pytest.mark.parametrize(
    ("shape", "grid", "order"),
    [((), (), ()), ((3, -1), (1, 1), ()), ((3, 3), (2,), ()), ((3,), (0,), ()), ((3, 3), (1, 2), (0, 0))],
)
def test_invalid_layouts(shape, grid, order):
    with pytest.raises(DatatypeError):
        ArrayLayout(shape, grid, order)


def test_parts_of_ranks_that_a_layout_does_not_have():
    layout = ArrayLayout((6, 4), (3, 1))
    for rank in (-1, 3, None, 0.5):
        for call in (layout.box, layout.local_shape, lambda one: layout.empty(one, float)):
            with pytest.raises(ConfigError, match="rank: "):
                call(rank)
    with pytest.raises(ConfigError, match="dtype: is no dtype"):
        layout.empty(0, "float46")
    with pytest.raises(DatatypeError, match=r"shape \(7,\) for a part of shape \(2, 4\)"):
        layout.local_array(np.zeros(7), 0)
    with pytest.raises(DataError, match="must be an array"):
        layout.local_array([0.0] * 8, 0)


def test_boxes_cover_an_array_once():
    for shape, size in itertools.product(SHAPES, (1, 4, 6)):
        for grid in grids(size, len(shape)):
            layout = ArrayLayout(shape, grid)
            count = np.zeros(shape, int)
            for rank in range(size):
                count[layout.box(rank)] += 1
            assert (count == 1).all()
            found = dict(layout.overlaps(layout.box(size - 1)))
            assert list(found) == ([size - 1] if 0 not in layout.local_shape(size - 1) else [])


def test_a_box_is_what_numpy_understands_by_it():
    layout = ArrayLayout((6, 4), (2, 1))
    whole = dict(layout.overlaps((slice(None), slice(-2, None))))
    assert whole == {0: np.s_[0:3, 2:4], 1: np.s_[3:6, 2:4]}
    assert dict(layout.overlaps(np.s_[:2, :100])) == {0: np.s_[0:2, 0:4]}


@pytest.mark.parametrize(
    "box", [(), (slice(2),), np.s_[:2, :2, :2], np.s_[::2, :], np.s_[::-1, :], (1, 2), 5]
)
def test_what_is_no_box_is_refused(box):
    with pytest.raises(DatatypeError, match=r"is no box of an array of shape \(6, 4\)"):
        list(ArrayLayout((6, 4), (2, 1)).overlaps(box))


def halves(comm):
    plan = Redistribution(
        comm, ArrayLayout((8, 4), (comm.size, 1)), ArrayLayout((8, 4), (1, comm.size)), "i8"
    )
    source = np.full(plan.before.local_shape(comm.rank), comm.rank)
    plan.start(source)
    with pytest.raises(DatatypeError, match="before the last one has ended"):
        plan.start(source)
    np.testing.assert_array_equal(plan.wait()[:, 0], np.repeat(np.arange(comm.size), 8 // comm.size))
    with pytest.raises(DatatypeError, match="no redistribution is pending"):
        plan.wait()


def test_calls_in_two_halves():
    run_ranks(halves, 2)


def many_plans(comm):
    before, after = ArrayLayout((9, 8), (comm.size, 1)), ArrayLayout((9, 8), (1, comm.size), (1, 0))
    source, target = before.empty(comm.rank, "c16"), after.empty(comm.rank, "c16")
    methods = [method for method in METHODS if method != "shared"]
    for n in (500, 10_000):
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(n):
            Redistribution(comm, before, after, "c16", methods[i % len(methods)]).run(source, target)
        for _ in range(n // 20):
            Redistribution(comm, before, after, "c16", "shared").run(source, target)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert grown < 2000, f"{grown} kB more after 10000 plans"


@pytest.mark.long
def test_dropped_plans_free_their_memory():
    run_ranks(many_plans, 2)


def dropped_in_flight(comm):
    for method in METHODS:
        plan = Redistribution(
            comm, ArrayLayout((8, 4), (comm.size, 1)), ArrayLayout((8, 4), (1, comm.size)), "i8", method
        )
        plan.start(np.zeros(plan.before.local_shape(comm.rank), np.int64))
        del plan
    comm.barrier()


def test_plans_dropped_in_flight_do_not_hang():
    assert "freeing" not in run_ranks(dropped_in_flight, 2).err


def kept_to_the_end(comm):
    global left
    left = Redistribution(
        comm, ArrayLayout((8, 4), (comm.size, 1)), ArrayLayout((8, 4), (1, comm.size)), "i8", "packed"
    )
    left.run(np.zeros(left.before.local_shape(comm.rank), np.int64))


def test_plans_that_are_never_dropped_are_freed_too():
    ended = launch(kept_to_the_end, 2)
    assert (ended.code, ended.out) == (0, "")
    assert "freeing" not in ended.err
