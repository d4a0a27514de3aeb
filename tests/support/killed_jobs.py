"""Commands that are ended by signals at chosen moments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import kill
from mpi import MPIEXEC

from petacomm.recording.recorded_job import launcher_kind

SECONDS = 300.0  # that no job needs, on a busy machine either


class Job:
    """A petamap command in processes of its own, under mpiexec for several ranks."""

    def __init__(self, words, n_ranks, folder, **environ):
        launcher = [str(MPIEXEC), "-n", str(n_ranks)] if n_ranks > 1 else []
        if launcher and not MPIEXEC.exists():
            pytest.skip("no mpiexec beside this Python: pip install mpich")
        self.launched = bool(launcher)
        self.log = Path(folder) / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*launcher, sys.executable, "-m", "petamap.cli.main", *words],
                stdout=log, stderr=log, cwd=folder, start_new_session=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"} | environ,
            )  # fmt: skip

    def stop(self, number=signal.SIGTERM):
        """Ask the job to stop by a signal, and return that which was sent.

        Open MPI's launcher kills all ranks on SIGTERM, and passes SIGUSR1 on.
        """
        if self.launched and launcher_kind(str(MPIEXEC)) == "open-mpi":
            number = signal.SIGUSR1
        self.process.send_signal(number)
        return number

    def said(self):
        """Return what the job has said so far."""
        return self.log.read_text(errors="replace")

    def wait_for(self, text):
        """Wait until the job has said something, or has ended."""
        end = time.monotonic() + SECONDS
        while text not in self.said() and self.process.poll() is None:
            assert time.monotonic() < end, self.said()
            time.sleep(0.005)

    def end(self):
        """Wait for the end of the job, and return its exit code."""
        return self.process.wait(SECONDS)

    def kill(self):
        """Kill all processes of the job at once; return whether it had not ended before."""
        running = self.process.poll() is None
        kill(self.process)
        return running
