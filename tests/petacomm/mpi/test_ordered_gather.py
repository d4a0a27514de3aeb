"""Items that ranks make and rank 0 takes in order: whole, no more than a few ahead, and the end of faults."""

import os
import time

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.base.errors import DataError
from petacomm.mpi import ordered_gather
from petacomm.mpi.ordered_gather import gather_in_order

N_ITEMS = 40


def gather(comm, makers, take, fails=None):
    """Gather items of growing size, with the number of each; return those that this rank has made."""
    made = []

    def items():
        for number, rank in enumerate(makers):
            if rank == comm.rank:
                if number == fails:
                    raise DataError(f"item {number} is bad")
                made.append(number)
                yield np.full(1000 * number, number, np.uint8)

    gather_in_order(comm, makers, items(), take)
    return made


def check_order(comm):
    for makers in ([k % comm.size for k in range(N_ITEMS)], [comm.size - 1] * N_ITEMS, []):
        taken = []
        made = gather(comm, makers, lambda number, item, taken=taken: taken.append((number, item)))
        assert made == [number for number, rank in enumerate(makers) if rank == comm.rank]
        if comm.rank:
            assert not taken
            continue
        assert [number for number, _ in taken] == [*range(len(makers))]
        assert all(len(item) == 1000 * number and (item == number).all() for number, item in taken)


def check_faults(comm):
    makers = [k % comm.size for k in range(N_ITEMS)]

    def full(number, item):
        if number == 7:
            raise DataError("no room for item 7")

    for fails in (0, 1, 13, N_ITEMS - 1):
        with pytest.raises(DataError, match=f"item {fails} is bad"):
            gather(comm, makers, lambda number, item: None, fails)
    made = []
    with pytest.raises(DataError, match="no room for item 7"):
        made = gather(comm, [k % comm.size for k in range(10**6)], full)
    assert not made
    check_order(comm)  # no message is left over


def check_others_wait(comm):
    """See that a rank makes no more than a few items that rank 0 has not taken."""
    makers, made, ahead = [1] * N_ITEMS, [], []
    window = comm.shared_window(8 if comm.rank == 0 else 0)
    n_taken = window.bytes[:8].view(np.int64)

    def items():
        for number in range(N_ITEMS if comm.rank == 1 else 0):
            ahead.append(number - n_taken[0])
            yield np.full(5, number, np.uint8)

    def take(number, item):
        made.append(item)
        n_taken[0] = number + 1

    gather_in_order(comm, makers, items(), take)
    assert len(made) == (N_ITEMS if comm.rank == 0 else 0)
    assert not ahead or max(ahead) <= ordered_gather._AHEAD + 1


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_items_come_in_order(n_ranks):
    run_ranks(check_order, n_ranks)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_a_fault_of_any_rank_is_raised_on_all(n_ranks):
    run_ranks(check_faults, n_ranks)


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_are_a_few_items_ahead(n_ranks):
    run_ranks(check_others_wait, n_ranks)


def check_others_have_the_processor(comm):
    """See that rank 0 gives way while it waits for an item, and for the end."""
    turns = []

    def noted():
        turns.append(1)
        os_sched_yield()

    os_sched_yield, ordered_gather.os.sched_yield = os.sched_yield, noted

    def items():
        for _ in range(comm.rank):
            time.sleep(0.05)
            yield np.zeros(5, np.uint8)

    try:
        gather_in_order(comm, [1], items(), lambda number, item: None)
    finally:
        ordered_gather.os.sched_yield = os_sched_yield
    assert bool(turns) == (comm.rank == 0)


def test_a_rank_that_waits_gives_way():
    run_ranks(check_others_have_the_processor, 2)
