"""What MPI launchers announce to the processes that they start."""

from __future__ import annotations

import os
from collections.abc import Mapping

from petacomm.base.errors import ConfigError

# Variables that launchers set in each process: the number of ranks if there is such a variable, and the rank.
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE", "MV2_COMM_WORLD_SIZE")
_RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK")
_OTHER_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PALS_RANKID", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")


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


def _announced(environ: Mapping[str, str]) -> int | None:
    for name in _SIZE_VARIABLES:
        if environ.get(name, "").isdecimal():
            return int(environ[name])
    # Slurm sets its job variables in interactive shells too; only a job step announces ranks.
    if environ.get("SLURM_STEP_ID") and environ.get("SLURM_STEP_NUM_TASKS", "").isdecimal():
        return int(environ["SLURM_STEP_NUM_TASKS"])
    return None if any(name in environ for name in _RANK_VARIABLES) else 1
