"""An all-to-all in which most ranks have nothing to say to each other.

An ordinary one tells all ranks how much comes from whom, which alone takes a message for each pair of them.
Here a rank sends what it has, takes what comes, and knows that nothing more will come when all agree that
everything has arrived (Hoefler, Siebert, Lumsdaine 2010, "Scalable communication protocols for dynamic sparse
data exchange", algorithm NBX).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mpi import message_size as messages

if TYPE_CHECKING:
    from petacomm.mpi.communicator import MpiCommunicator

# Two in turn: a rank may begin the next exchange while others look whether this one has ended.
_TAGS = (12, 13)


def exchange_by_consensus(
    comm: MpiCommunicator, send: AnyArray, counts: Int64Array, turn: int
) -> tuple[AnyArray, Int64Array]:
    """Send `counts[r]` bytes to each rank r; return what came, in rank order, and how much. Collective.

    Parameters
    ----------
    comm : MpiCommunicator
    send : uint8 (sum of counts,)
    counts : int64 (size,)
    turn : int
        How many such exchanges this communicator has made before.
    """
    tag = _TAGS[turn % 2]
    ends = np.cumsum(counts)
    parts = {int(to): send[ends[to] - counts[to] : ends[to]] for to in np.flatnonzero(counts)}
    arrived = {comm.rank: [parts.pop(comm.rank)]} if comm.rank in parts else {}
    requests = [
        comm.mpi_comm.Issend(part[begin : begin + messages.MESSAGE_BYTES], to, tag)
        for to, part in parts.items()
        for begin in range(0, len(part), messages.MESSAGE_BYTES)
    ]
    _take_all(comm, requests, tag, arrived)
    received_counts = np.zeros_like(counts)
    for rank, pieces in arrived.items():
        received_counts[rank] = sum(map(len, pieces))
    in_order = [piece for rank in sorted(arrived) for piece in arrived[rank]]
    return np.concatenate([np.empty(0, np.uint8), *in_order]), received_counts


def _take_all(
    comm: MpiCommunicator, requests: list[Any], tag: int, arrived: dict[int, list[AnyArray]]
) -> None:
    """Receive until the messages of all ranks have arrived."""
    status = comm.mpi.Status()
    all_arrived = None
    while True:
        message = comm.mpi_comm.Improbe(comm.mpi.ANY_SOURCE, tag, status)
        if message is not None:
            piece = np.empty(status.Get_count(comm.mpi.BYTE), np.uint8)
            message.Recv(piece)
            arrived.setdefault(status.Get_source(), []).append(piece)
        elif all_arrived is None:
            # A synchronous send ends when the other side has begun to receive.
            if comm.mpi.Request.Testall(requests):
                all_arrived = comm.mpi_comm.Ibarrier()
        elif all_arrived.Test():
            return
