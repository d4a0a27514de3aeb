"""Communicators that a user gives: petacomm's, or mpi4py's, which are taken over."""

from __future__ import annotations

from typing import Any

from petacomm.base.errors import ConfigError
from petacomm.mpi import Communicator, MpiCommunicator, SerialCommunicator, world


def given_communicator(comm: Any) -> Communicator:
    """Return the communicator that a user gives; None is all processes. Collective.

    Parameters
    ----------
    comm : Communicator, mpi4py.MPI.Comm or None
        That of mpi4py is duplicated once, so that messages of the user's program cannot interfere.

    Raises
    ------
    ConfigError
        If it is none, or has no rank here.
    """
    if comm is None:
        return world()
    if hasattr(comm, "sparse_alltoallv"):
        found: Communicator = comm
        return found
    if not hasattr(comm, "py2f"):
        raise ConfigError(
            f"{type(comm).__name__} is no communicator", where="comm",
            mend="give that of petacomm.world(), of mpi4py, or leave it away",
        )  # fmt: skip
    if not comm:
        raise ConfigError("this process is not in it", where="comm", mend="call on its ranks alone")
    return SerialCommunicator() if comm.Get_size() == 1 else MpiCommunicator.of_handle(comm.py2f())
