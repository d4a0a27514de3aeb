"""Ranks that end without a word are told by the process beside them, with rank, signal and phase."""

import os
import signal
import sys
import time

import pytest
from commands import run_command
from mpi import MPIEXEC, launch

from petacomm.base.phases import clear_note
from petacomm.base.timers import Timers

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="children end with their parent on Linux alone"
)


def in_the_middle(comm, end):
    with Timers().phase("pointing"):
        comm.barrier()
        if comm.rank == 1:
            end()
        time.sleep(30)


def killed(comm):
    in_the_middle(comm, lambda: os.kill(os.getpid(), signal.SIGKILL))


def killed_between_phases(comm):
    with Timers().phase("sources"):
        pass
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(30)


def leaves_with_success(comm):
    in_the_middle(comm, lambda: os._exit(0))


def ends_well(comm):
    with Timers().phase("pointing"):
        comm.barrier()
    clear_note()


@pytest.mark.parametrize(
    ("function", "how"),
    [
        (
            killed,
            "was ended by signal 9 (SIGKILL) in phase 'pointing' (the system does so where memory is short",
        ),
        (killed_between_phases, "was ended by signal 9 (SIGKILL) after phase 'sources' (the system"),
        (leaves_with_success, "ended before its work was done, with exit code 0, in phase 'pointing'"),
    ],
)
def test_a_rank_that_ends_without_a_word_is_told(function, how):
    ended = launch(function, 2, timeout=30, supervised=True)
    assert ended.code != 0 and ended.seconds < 15
    lines = [line for line in ended.err.splitlines() if line.startswith("petamap: error:")]
    assert len(lines) == 1 and how in lines[0], ended.err
    assert lines[0].startswith("petamap: error: rank 1 (process ")


def test_a_rank_that_ends_before_mpi_starts_does_not_leave_the_others_waiting():
    program = """
import os
from petacomm.cli.supervisor import supervise
supervise("petamap")
if os.environ.get("PMI_RANK", os.environ.get("PMIX_RANK")) == "1":
    os._exit(3)
from petacomm.mpi import world
world()
"""
    command = [str(MPIEXEC), "-n", "2", sys.executable, "-c", program]
    ended = run_command(command, timeout=30)
    assert ended.returncode != 0
    assert "ended before its work was done, with exit code 3, at its start" in ended.stderr


def test_a_command_of_a_script_that_has_started_mpi_ends():
    program = """
from mpi4py import MPI
from petacomm.cli.supervisor import supervise
supervise("petamap")
MPI.COMM_WORLD.barrier()
"""
    command = [str(MPIEXEC), "-n", "2", sys.executable, "-c", program]
    assert run_command(command, timeout=30).returncode == 0


def test_a_signal_while_ranks_meet_first_ends_all():
    program = """
import os, signal, sys, time
from petacomm import mpi
from petamap.cli import start_petamap
whole = mpi.world

def interrupted():
    comm = whole()
    if comm.rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    comm.barrier()
    time.sleep(60)

mpi.world = interrupted
sys.argv[1:] = ["simulate", "--example", "ground", "--out", "never"]
start_petamap()
"""
    ended = run_command([str(MPIEXEC), "-n", "3", sys.executable, "-c", program], timeout=30)
    assert ended.returncode != 0 and "Traceback" not in ended.stderr


def test_a_rank_that_ends_well_is_not_told():
    ended = launch(ends_well, 2, timeout=30, supervised=True)
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize(("told", "said"), [(True, ""), (False, "petamap: ended by SIGTERM\n")])
def test_a_signal_of_the_launcher_after_the_end_was_told_is_not_told(told, said):
    """Open MPI's launcher ends the others so once a rank has ended with an error."""
    program = f"""
import os, signal, time
from petacomm.base.phases import clear_note
from petacomm.cli.supervisor import supervise
supervise("petamap")
if {told}:
    clear_note()
os.kill(os.getppid(), signal.SIGTERM)
time.sleep(30)
"""
    environ = os.environ | {"PMI_RANK": "0", "PMI_SIZE": "2"}
    ended = run_command([sys.executable, "-c", program], env=environ)
    assert ended.returncode == -signal.SIGTERM and ended.stderr == said


def test_a_signal_sent_before_the_child_is_waited_for_is_passed_on():
    """Even where the launcher left SIGTERM blocked and SIGCHLD ignored."""
    program = """
import os, signal, time
from petacomm.cli.supervisor import supervise
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
supervise("petamap")
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
time.sleep(30)
"""
    environ = os.environ | {"PMI_RANK": "0", "PMI_SIZE": "2"}
    ended = run_command([sys.executable, "-c", program], env=environ, timeout=20)
    assert ended.returncode == -signal.SIGTERM and ended.stderr == "petamap: ended by SIGTERM\n"
