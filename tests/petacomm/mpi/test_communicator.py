"""All collectives against NumPy, in one process and on several ranks."""

import os

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.base.errors import ConfigError
from petacomm.base.launcher import launched_size
from petacomm.mpi import SerialCommunicator, communicator
from petacomm.mpi import message_size as messages

RANK_COUNTS = [2, 5]


def parts_of_a_reduction(comm):
    """Ranks get parts of different lengths; rank 0 of several gets none."""
    counts = 3 * np.arange(comm.size) if comm.size > 1 else np.array([3])
    mine = slice(counts[: comm.rank].sum(), counts[: comm.rank + 1].sum())
    for dtype in (np.int64, np.float64, np.float32, np.uint8):
        whole = (100 * np.arange(2 * counts.sum()).reshape(-1, 2)).astype(dtype)
        for op, expected in [("sum", whole * dtype(comm.size)), ("max", whole)]:
            part = np.empty((counts[comm.rank], 2), dtype)
            comm.reduce_scatter(whole.copy(), counts, part, op)
            np.testing.assert_array_equal(part, expected[mine])
        gathered = np.empty_like(whole)
        comm.allgatherv(whole[mine].copy(), counts, gathered)
        np.testing.assert_array_equal(gathered, whole)
        gathered = np.zeros_like(whole)
        exchange = comm.gather_exchange(whole[mine].copy(), counts, gathered)
        exchange.start()
        exchange.wait()
        np.testing.assert_array_equal(gathered, whole)


def collectives(comm):
    ranks = np.arange(comm.size)
    for dtype in (np.int64, np.float64, np.float32, np.uint8):
        mine = np.arange(6, dtype=dtype).reshape(2, 3) + dtype(comm.rank)
        every = np.arange(6).reshape(2, 3)[None] + ranks[:, None, None]
        for op, ufunc in [("sum", np.add), ("max", np.maximum), ("min", np.minimum)]:
            result = mine.copy()
            assert comm.allreduce(result, op) is result
            np.testing.assert_array_equal(result, ufunc.reduce(every, axis=0))
    flags = comm.allreduce(ranks == comm.rank, "or")
    assert flags.all() and flags.dtype == bool
    assert comm.sum(comm.rank + 1) == (ranks + 1).sum()
    parts_of_a_reduction(comm)
    assert comm.max(comm.rank / 2) == (comm.size - 1) / 2
    assert comm.bcast({"rank": comm.rank}, comm.size - 1) == {"rank": comm.size - 1}
    assert comm.gather(comm.rank) == (ranks.tolist() if comm.rank == 0 else None)
    assert comm.allgather(comm.rank) == ranks.tolist()
    assert comm.node_size() == comm.size
    comm.barrier()
    rows_between_ranks(comm)


def threads_of_ranks(comm):
    rank = comm.rank
    communicator.processor_quota = lambda: None
    del os.environ["OMP_NUM_THREADS"]
    bound = {
        "each has four": (range(4 * rank, 4 * rank + 4), 4),
        "all share 64": (range(64), 64 // comm.size),
        "the first has two alone, and all share six": (
            range(0 if rank == 0 else 2, 8), 6 // comm.size + 2 * (rank == 0)
        ),
        "fewer than ranks": (range(1), 1),
    }  # fmt: skip
    for how, (processors, expected) in bound.items():
        communicator.allowed_processors = lambda processors=processors: list(processors)
        assert comm.threads() == expected, how
    communicator.allowed_processors = lambda: list(range(64))
    communicator.processor_quota = lambda: 4.0 * comm.size
    assert comm.threads() == 4
    os.environ["OMP_NUM_THREADS"] = "3,1"
    assert comm.threads() == 3


@pytest.mark.parametrize("n_ranks", RANK_COUNTS)
def test_processors_are_divided_among_the_ranks_that_may_use_them(n_ranks):
    run_ranks(threads_of_ranks, n_ranks)


def rows_between_ranks(comm):
    # Rank r sends (r + s) % 3 rows to rank s, each holding r, s and a number.
    counts = (comm.rank + np.arange(comm.size)) % 3
    rows = [[comm.rank, to, i] for to in range(comm.size) for i in range(counts[to])]
    received, received_counts = comm.alltoallv(np.array(rows, np.int64).reshape(-1, 3), counts)
    np.testing.assert_array_equal(received_counts, counts)
    expected = [[of, comm.rank, i] for of in range(comm.size) for i in range(counts[of])]
    np.testing.assert_array_equal(received, np.array(expected).reshape(-1, 3))
    mine = np.full((comm.rank, 2), comm.rank, np.float64)
    every = np.repeat(np.arange(comm.size), np.arange(comm.size))[:, None] * np.ones(2)
    gathered, gathered_counts = comm.allgather_rows(mine)
    np.testing.assert_array_equal(gathered, every)
    np.testing.assert_array_equal(gathered_counts, np.arange(comm.size))
    at_root = comm.gather_rows(mine, comm.size - 1)
    assert (at_root is None) == (comm.rank < comm.size - 1)
    if at_root is not None:
        np.testing.assert_array_equal(at_root, every)


def small_messages(comm):
    messages.MESSAGE_BYTES = 40
    collectives(comm)
    before = comm.traffic["allreduce"].calls
    comm.allreduce(np.zeros(19))
    assert comm.traffic["allreduce"].calls - before == 4


def test_a_single_process():
    collectives(SerialCommunicator())


@pytest.mark.parametrize("n_ranks", RANK_COUNTS)
def test_several_ranks(n_ranks):
    run_ranks(collectives, n_ranks)


def test_messages_above_the_limit_are_split():
    run_ranks(small_messages, 3)


@pytest.mark.parametrize(
    ("environ", "size"),
    [
        ({}, 1),
        ({"PMI_RANK": "0", "PMI_SIZE": "4"}, 4),
        ({"PMIX_RANK": "0"}, None),
        ({"OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "1"}, 3),
        ({"SLURM_JOB_ID": "1", "SLURM_NTASKS": "8"}, 1),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8"}, 8),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "²"}, 1),
        ({"PMI_RANK": "0", "PMI_SIZE": "4", "PETAMAP_MPI": "0"}, 1),
        ({"PETAMAP_MPI": "1"}, None),
    ],
)
def test_launchers_are_detected_by_their_variables(environ, size):
    assert launched_size(environ) == size


def test_petamap_mpi_is_zero_or_one():
    with pytest.raises(ConfigError, match="PETAMAP_MPI is 'yes'"):
        launched_size({"PETAMAP_MPI": "yes"})


def refuse_inter_communicators(comm):
    world = comm.mpi_comm
    mine = world.Split(world.rank % 2, world.rank)
    inter = mine.Create_intercomm(0, world, 1 - world.rank % 2)
    with pytest.raises(ConfigError, match=r"an inter-communicator .*MPI_Intercomm_merge"):
        communicator.MpiCommunicator.of_handle(inter.py2f())
    merged = inter.Merge(bool(world.rank % 2))
    assert communicator.MpiCommunicator.of_handle(merged.py2f()).size == comm.size


def test_inter_communicators_of_programs_are_refused():
    run_ranks(refuse_inter_communicators, 3, timeout=60)
