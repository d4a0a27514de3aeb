"""An error on any rank ends the job within seconds, with one message and its exit code."""

import os
import sys
import time

import numpy as np
import pytest
from commands import run_command
from mpi import MPIEXEC, launch

from petacomm.base.errors import ConfigError, DataError, Termination
from petacomm.base.timers import Timers
from petacomm.mpi import (
    SerialCommunicator,
    agree,
    agree_on_errors,
    collective_errors,
    error_of,
    gather_in_order,
)

SECONDS = 5.0


def one_rank_in_compute_one_in_a_collective(comm):
    if comm.rank == 1:
        raise DataError("sample 7 is not finite", where="file.h5")
    if comm.rank == 0:
        time.sleep(60)
    comm.barrier()


def two_ranks_of_three(comm):
    if comm.rank > 0:
        raise DataError(f"fault of rank {comm.rank}")
    comm.allreduce(np.zeros(10))


def all_ranks(comm):
    raise ConfigError("no such key", where="run.toml:3")


def one_after_another(comm):
    comm.barrier()
    time.sleep((2 - comm.rank) * 0.35)  # the lowest fails while the highest is about to print
    raise DataError(f"fault of rank {comm.rank}")


def last_rank_first(comm):
    """All fail, the others while the last one prints, however long that takes."""

    class Told(DataError):
        def __str__(self):
            for rank in (0, 1):
                comm.mpi_comm.send(None, rank)
            return super().__str__()

    if comm.rank == 2:
        raise Told("fault of rank 2")
    comm.mpi_comm.recv(source=2)
    raise DataError(f"fault of rank {comm.rank}")


def agreed(comm):
    agree(comm, DataError("fault of rank 1") if comm.rank >= 1 else None)


def agreed_amid_an_own_fault(comm):
    try:
        agree(comm, DataError("fault of all"))
    except DataError:
        if comm.rank == 1:  # as where a signal arrives before the agreed error is raised
            time.sleep(0.2)
            raise DataError("fault of rank 1") from None
        raise


def agreed_by_two_of_three(comm):
    part = comm.split(int(comm.rank > 0))
    if comm.rank > 0:
        agree(part, DataError("fault of two"))
    comm.barrier()


def stopped_while_it_makes_items(comm):
    """A signal reaches rank 1 while rank 0, which it sends to, is busy with an item."""

    def items():
        for _ in range(100 if comm.rank == 1 else 0):
            yield np.zeros(8, np.uint8)
            if comm.rank == 1:
                raise Termination("terminated while it makes items")

    gather_in_order(comm, [1] * 100, items(), lambda number, item: time.sleep(60))


def stopped_amid_work_of_some(comm):
    """A signal reaches one of two ranks that work together; the third has already agreed."""
    part = comm.split(int(comm.rank > 0))

    def work():
        if comm.rank == 2:
            raise Termination("terminated amid it")
        part.barrier()

    agree(comm, error_of(work))


def worked_alone(comm):
    with agree_on_errors(comm):
        np.zeros(3)[comm.rank + 1]


def unforeseen(comm):
    if comm.rank == 1:
        raise KeyError("unforeseen")
    comm.barrier()


def leaves_quietly(comm):
    if comm.rank == 1:
        sys.exit(4)
    comm.barrier()


def without_memory_alone(comm):
    with Timers().phase("noise kernels"), Timers().phase("part of it"):
        if comm.rank == 1:
            np.zeros((2**45, 8))
        comm.barrier()


def without_memory_in_agreement(comm):
    with Timers().phase("data"), agree_on_errors(comm):
        if comm.rank == 2:
            raise MemoryError


def without_memory_on_all(comm):
    with Timers().phase("pointing"):
        raise MemoryError("std::bad_alloc")


def test_one_rank_that_exits_ends_all():
    ended = launch(leaves_quietly, 3, timeout=30)
    said = ended.err
    if MPIEXEC.with_name("prterun").exists():
        # Open MPI's launcher prints which rank ended the job.
        said = said.split("-" * 74)[0]
    assert (ended.code, said) == (4, "")


@pytest.mark.parametrize(
    ("function", "message", "code"),
    [
        (one_rank_in_compute_one_in_a_collective, "petamap: error: file.h5: sample 7 is not finite", 3),
        (two_ranks_of_three, "petamap: error: fault of rank 1", 3),
        (all_ranks, "petamap: error: run.toml:3: no such key", 2),
        (one_after_another, "petamap: error: fault of rank", 3),
        (last_rank_first, "petamap: error: fault of rank 2", 3),
        (agreed, "petamap: error: fault of rank 1", 3),
        (agreed_amid_an_own_fault, "petamap: error: fault of all", 3),
        (agreed_by_two_of_three, "petamap: error: fault of two", 3),
        (stopped_while_it_makes_items, "petamap: terminated while it makes items", 143),
        (stopped_amid_work_of_some, "petamap: terminated amid it", 143),
        (
            without_memory_alone,
            "error: rank 1 has no memory left in phase 'noise kernels': Unable to alloc",
            5,
        ),
        (without_memory_in_agreement, "error: rank 2 has no memory left in phase 'data' (use more", 5),
        (without_memory_on_all, "rank 0 has no memory left in phase 'pointing': std::bad_alloc (use", 5),
        (worked_alone, "IndexError: index 3 is out of bounds", 1),
        (unforeseen, "KeyError: 'unforeseen'", 1),
    ],
)
def test_one_message_and_the_exit_code(function, message, code):
    ended = launch(function, 3, timeout=30)
    assert ended.code == code, ended.err
    assert ended.err.count(message) == 1 and ended.err.count("petamap: error") <= 1, ended.err
    assert ended.err.count("Traceback") == (code == 1), ended.err
    assert "Abort(" not in ended.err and "BAD TERMINATION" not in ended.err + ended.out
    assert ended.seconds < SECONDS + 2, "beyond the start of Python"


def test_a_single_process_has_the_same_exit_codes(capsys):
    with pytest.raises(SystemExit) as exit_info, collective_errors(SerialCommunicator()):
        raise DataError("bad", where="x.fits", mend="mend it")
    assert exit_info.value.code == 3
    assert capsys.readouterr().err == "petamap: error: x.fits: bad (mend it)\n"


def test_a_launcher_without_mpi4py_is_an_error_with_a_remedy():
    program = "import sys; sys.modules['mpi4py'] = None\nfrom petacomm.mpi import world\nworld()"
    ended = run_command([sys.executable, "-c", program], env=os.environ | {"PMI_RANK": "0", "PMI_SIZE": "2"})
    assert ended.returncode == 1 and "pip install mpi4py mpich" in ended.stderr
