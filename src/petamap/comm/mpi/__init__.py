"""The communicator: mpi4py where it is there, one process where it is not."""

from petamap.comm.mpi.communicator import Communicator, MpiCommunicator
from petamap.comm.mpi.errors import agree, collective_errors, together
from petamap.comm.mpi.execute import Moved, Prepared, execute
from petamap.comm.mpi.nodes import SharedWindow
from petamap.comm.mpi.serial import SerialCommunicator, world
from petamap.comm.mpi.two_phase import exact_allreduce

__all__ = [
    "Communicator",
    "Moved",
    "MpiCommunicator",
    "Prepared",
    "SerialCommunicator",
    "SharedWindow",
    "agree",
    "collective_errors",
    "exact_allreduce",
    "execute",
    "together",
    "world",
]
