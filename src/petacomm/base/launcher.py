"""What MPI launchers announce to the processes that they start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from petacomm.base.errors import ConfigError

# Variables that launchers set in each process: the number of ranks if there is such a variable, and the rank.
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE", "MV2_COMM_WORLD_SIZE")
_RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK")
_OTHER_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PALS_RANKID", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
# Those and what jobs of one size differ in: where ranks of MPICH find their launcher, and names of jobs.
_JOB_VARIABLES = (
    *_SIZE_VARIABLES,
    *_RANK_VARIABLES,
    *_OTHER_RANK_VARIABLES,
    "PMI_FD",
    "PMI_PORT",
    "PMIX_NAMESPACE",
)


def launched_size(environ: Mapping[str, str] = os.environ) -> int | None:
    """Return the number of ranks that a launcher announces: 1 without one, None if it announces no number.

    ``PETAMAP_MPI=0`` disables MPI, ``PETAMAP_MPI=1`` requires it whatever the launcher announces.

    Raises
    ------
    ConfigError
        If ``PETAMAP_MPI`` is neither 0 nor 1.
    """
    setting = environ.get("PETAMAP_MPI", "")
    if setting not in ("", "0", "1"):
        raise ConfigError(f"PETAMAP_MPI is '{setting}'", mend="1 asks for MPI, 0 keeps it away")
    if setting == "0":
        return 1
    size = _announced(environ)
    return None if setting == "1" and size == 1 else size


def launched_rank(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the rank that a launcher announces to this process; None if it announces none."""
    names = _RANK_VARIABLES + _OTHER_RANK_VARIABLES
    return next((environ[name] for name in names if environ.get(name)), None)


def launcher_process(environ: Mapping[str, str] = os.environ, processes: Path = Path("/proc")) -> int | None:
    """Return the process that started this rank: the nearest that was not told what a launcher tells a rank.

    It is not the parent where scripts or supervisors are between. None without a launcher, and where the
    system does not say.
    """
    told = {name: environ[name] for name in _JOB_VARIABLES if name in environ}
    process = _parent(processes / "self") if told else None
    while process and _variables(processes / str(process), _JOB_VARIABLES) == told:
        process = _parent(processes / str(process))
    return process or None


def _parent(process: Path) -> int | None:
    """Return the number of the parent of a process; None if it is not to be found."""
    try:
        fields = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(fields[1])
    except (OSError, ValueError, IndexError):
        return None


def _variables(process: Path, names: tuple[str, ...]) -> dict[str, str] | None:
    """Return those of some variables that a process was started with; None if they may not be read."""
    try:
        text = (process / "environ").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    pairs = (line.partition("=") for line in text.split("\0"))
    return {name: value for name, _, value in pairs if name in names}


def _announced(environ: Mapping[str, str]) -> int | None:
    for name in _SIZE_VARIABLES:
        if environ.get(name, "").isdecimal():
            return int(environ[name])
    # Slurm sets its job variables in interactive shells too; only a job step announces ranks.
    if environ.get("SLURM_STEP_ID") and environ.get("SLURM_STEP_NUM_TASKS", "").isdecimal():
        return int(environ["SLURM_STEP_NUM_TASKS"])
    return None if any(name in environ for name in _RANK_VARIABLES) else 1
