"""Communicators over mpi4py or of one process, shared memory, datatypes, gathers, exchanges, autotuning.

Must not import: any other room of petacomm but base.
"""

from petacomm.mpi.agreement import agree, agree_on_errors, error_of, is_agreed
from petacomm.mpi.communicator import Communicator, MpiCommunicator
from petacomm.mpi.errors import collective_errors
from petacomm.mpi.node_arrays import (
    collect_on_nodes,
    exchange_on_nodes,
    fill_on_nodes,
    make_on_nodes,
    share_on_nodes,
    spread_on_nodes,
)
from petacomm.mpi.ordered_gather import gather_in_order
from petacomm.mpi.serial import SerialCommunicator, world
from petacomm.mpi.shared_memory import SharedWindow

__all__ = [
    "Communicator",
    "MpiCommunicator",
    "SerialCommunicator",
    "SharedWindow",
    "agree",
    "agree_on_errors",
    "collect_on_nodes",
    "collective_errors",
    "error_of",
    "exchange_on_nodes",
    "fill_on_nodes",
    "gather_in_order",
    "is_agreed",
    "make_on_nodes",
    "share_on_nodes",
    "spread_on_nodes",
    "world",
]
