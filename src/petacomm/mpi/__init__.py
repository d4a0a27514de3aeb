"""The communicator: mpi4py where it is there, one process where it is not."""

from petacomm.mpi.agreement import agree, together
from petacomm.mpi.communicator import Communicator, MpiCommunicator
from petacomm.mpi.errors import collective_errors
from petacomm.mpi.serial import SerialCommunicator, world
from petacomm.mpi.shared_memory import SharedWindow

__all__ = [
    "Communicator",
    "MpiCommunicator",
    "SerialCommunicator",
    "SharedWindow",
    "agree",
    "collective_errors",
    "together",
    "world",
]
