"""Signals that come while MPI starts, when it waits for all ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from commands import kill, run_command
from mpi import MPIEXEC

from petacomm.base.signal_errors import forget_signal, raise_of_signal
from petacomm.base.threads import allowed_processors
from petacomm.mpi import launch

# One rank is in MPI_Init when the signal comes, the other ends by it before that.
PROGRAM = """
import os, sys, time
from petacomm.base.launcher import launched_rank
from petacomm.cli import parser
from petacomm.mpi import world

def work(arguments):
    os.write(1, b"begun\\n")  # at once: lines of two ranks may else be mixed
    if launched_rank() == "1":
        time.sleep(60)
    world()
    return 0

def build():
    made = parser.Parser(prog="work")
    made.set_defaults(handler=work, command="work")
    return made

sys.exit(parser.run_command(build, None))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_ranks_that_wait_for_others_to_start(number):
    if not MPIEXEC.exists():
        pytest.skip("no mpiexec beside this Python: pip install mpich")
    process = subprocess.Popen(
        [str(MPIEXEC), "-n", "2", sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True, env=os.environ | {"PETAMAP_MPI": "1"},
    )  # fmt: skip
    try:
        assert [process.stdout.readline() for _ in range(2)] == ["begun\n"] * 2
        time.sleep(0.5)
        process.send_signal(number)
        said = process.communicate(timeout=20)[1]
    finally:
        kill(process)
    assert process.returncode != 0 and "Traceback" not in said


def test_handlers_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    with launch._signals_at_once():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)] == before


def test_signals_that_are_ignored_stay_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with launch._signals_at_once():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_went_lost_is_raised_before_mpi_starts():
    with pytest.raises(KeyboardInterrupt):
        raise_of_signal(KeyboardInterrupt(), signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt), launch._signals_at_once():
            pytest.fail("MPI starts")
    finally:
        forget_signal()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# Says whether ranks give way while they wait; each is bound to one processor before if told "bound".
SHARED = """
import os, sys
from petacomm.base.launcher import launched_rank
from petacomm.mpi import launch, world

if sys.argv[1] == "bound":
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[int(launched_rank()) % len(allowed)]})
world()
os.write(1, f"{all(name in os.environ for name in launch.OVERSUBSCRIBED)}\\n".encode())
"""
IN_A_SCRIPT = ["sh", "-c", '"$0" "$@"; exit $?']


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks on this system")
@pytest.mark.parametrize("how", ["bound", "free", "in a script"])
@pytest.mark.parametrize("masked", [True, False])
def test_ranks_know_that_they_share_the_processors_of_their_launcher(masked, how):
    if not MPIEXEC.exists():
        pytest.skip("no mpiexec beside this Python: pip install mpich")
    allowed = allowed_processors()[: 1 if masked else 2]
    if len(allowed) == 1 and not masked:
        pytest.skip("one processor")
    between = IN_A_SCRIPT if how == "in a script" else []
    ranks = [str(MPIEXEC), "-n", "2", *between, sys.executable, "-c", SHARED, how]
    mask = f"import os, sys; os.sched_setaffinity(0, {set(allowed)}); os.execv(sys.argv[1], sys.argv[1:])"
    environ = {name: value for name, value in os.environ.items() if name not in launch.OVERSUBSCRIBED}
    said = run_command([sys.executable, "-c", mask, *ranks], check=True, timeout=60, env=environ).stdout
    assert said.split() == [str(masked)] * 2
