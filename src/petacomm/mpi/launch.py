"""Detection of MPI launchers, and the start of MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from petacomm.base.errors import ConfigError, ResourceError

# Variables that launchers set in each process: the number of ranks if there is such a variable, else a rank.
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE", "MV2_COMM_WORLD_SIZE")
_RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK")
_LOCAL_SIZE_VARIABLES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE")

# Settings for more ranks than cores, where MPICH's shared-memory collectives spin for seconds and Open MPI
# does not yield.
_OVERSUBSCRIBED = {
    "MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD": "100000000",
    "MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "mpir",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_mpi_yield_when_idle": "1",
}


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


def _announced(environ: Mapping[str, str]) -> int | None:
    for name in _SIZE_VARIABLES:
        if environ.get(name, "").isdigit():
            return int(environ[name])
    # Slurm sets its job variables in interactive shells too; only a job step announces ranks.
    if environ.get("SLURM_STEP_ID") and environ.get("SLURM_STEP_NUM_TASKS", "").isdigit():
        return int(environ["SLURM_STEP_NUM_TASKS"])
    return None if any(name in environ for name in _RANK_VARIABLES) else 1


def load_mpi() -> Any:
    """Start MPI and return ``mpi4py.MPI``.

    Raises
    ------
    ResourceError
        If mpi4py is not installed, or built with another MPI library than the launcher's.
    """
    expected = launched_size()
    _set_mpi_variables()
    try:
        import mpi4py

        # Only the main thread calls MPI.
        mpi4py.rc.thread_level = "funneled"
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ResourceError(
            f"started by an MPI launcher, but mpi4py cannot be used: {str(error).splitlines()[0]}",
            mend="pip install mpi4py mpich, or set PETAMAP_MPI=0 to run every process alone",
        ) from error
    size = MPI.COMM_WORLD.Get_size()
    if expected is not None and expected != size:
        raise ResourceError(
            f"the launcher started {expected} processes, but MPI sees {size}: they belong to two MPIs",
            mend="use the mpiexec of the MPI that mpi4py was built with",
        )
    return MPI


def _set_mpi_variables() -> None:
    """Set environment variables that MPI reads when it starts, unless the user has set them."""
    # petamap prints its own error message; MPICH would print a second one.
    os.environ.setdefault("MPIR_CVAR_SUPPRESS_ABORT_MESSAGE", "1")
    local = [int(os.environ[name]) for name in _LOCAL_SIZE_VARIABLES if os.environ.get(name, "").isdigit()]
    if local and local[0] > (os.cpu_count() or 1):
        for name, value in _OVERSUBSCRIBED.items():
            os.environ.setdefault(name, value)
