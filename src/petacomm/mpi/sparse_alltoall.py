"""Sparse all-to-all by non-blocking consensus, for ranks most of which exchange nothing.

An ordinary all-to-all first exchanges counts between all pairs of ranks. Here a rank sends its messages
synchronously and receives any that arrive; once its own have been received it enters a non-blocking barrier,
whose end means that all messages have arrived (Hoefler, Siebert, Lumsdaine 2010, "Scalable communication
protocols for dynamic sparse data exchange", algorithm NBX).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mpi import message_size as messages

if TYPE_CHECKING:
    from petacomm.mpi.communicator import MpiCommunicator

# Alternating tags: a rank may begin the next exchange while others still test whether this one has ended.
_TAGS = (12, 13)


def exchange_by_consensus(
    comm: MpiCommunicator, send: AnyArray, counts: Int64Array, turn: int
) -> tuple[AnyArray, Int64Array]:
    """Send `counts[r]` bytes to each rank r; return the bytes received, in rank order. Collective.

    Parameters
    ----------
    comm : MpiCommunicator
    send : uint8 (sum of counts,)
    counts : int64 (size,)
    turn : int
        Number of such exchanges that this communicator has made before.

    Returns
    -------
    received : uint8 (sum of received counts,)
    received_counts : int64 (size,)
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
    _receive_all(comm, requests, tag, arrived)
    received_counts = np.zeros_like(counts)
    for rank, pieces in arrived.items():
        received_counts[rank] = sum(map(len, pieces))
    in_order = [piece for rank in sorted(arrived) for piece in arrived[rank]]
    return np.concatenate([np.empty(0, np.uint8), *in_order]), received_counts


def _receive_all(
    comm: MpiCommunicator, requests: list[Any], tag: int, arrived: dict[int, list[AnyArray]]
) -> None:
    """Receive messages until those of all ranks have arrived."""
    status = comm.mpi.Status()
    all_arrived = None
    while True:
        message = comm.mpi_comm.Improbe(comm.mpi.ANY_SOURCE, tag, status)
        if message is not None:
            piece = np.empty(status.Get_count(comm.mpi.BYTE), np.uint8)
            message.Recv(piece)
            arrived.setdefault(status.Get_source(), []).append(piece)
        elif all_arrived is None and comm.mpi.Request.Testall(requests):
            # A synchronous send completes when its receive has started.
            all_arrived = comm.mpi_comm.Ibarrier()
        elif all_arrived is not None and all_arrived.Test():
            return
        else:
            os.sched_yield()  # to a rank of this processor that has still to send
