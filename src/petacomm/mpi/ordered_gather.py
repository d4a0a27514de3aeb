"""Items that several ranks make and one takes in their order, while the others make the next ones."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from petacomm.base.communication_clock import communicates
from petacomm.base.typing import UInt8Array
from petacomm.mpi.agreement import agree, error_of
from petacomm.mpi.communicator import Communicator, MpiCommunicator

_ITEM, _END, _STOP = 14, 15, 16  # tags: an item, the last message of a rank, and that of rank 0
_AHEAD = 8  # items of a rank that rank 0 has not taken yet


def gather_in_order(
    comm: Communicator,
    makers: Sequence[int],
    made: Iterator[UInt8Array],
    take: Callable[[int, UInt8Array], None],
) -> None:
    """Have rank 0 take items in their order as the ranks make them. Collective.

    A rank is no more than a few items ahead of rank 0, which holds one item at a time of those of others.

    Parameters
    ----------
    comm : Communicator
    makers : sequence of int
        Rank that makes each item, the same on all ranks.
    made : iterator of uint8 arrays, each (n,)
        The items of this rank in their order, made as they are asked for; of less than 2 GB each.
    take : callable
        Function of the number of an item and the item. Called on rank 0.

    Raises
    ------
    UserError, RankError
        On all ranks, the error of the lowest rank on which `made` or `take` fails; others end what they make.
    """
    if comm.rank == 0:
        error = _take_all(comm, makers, made, take)
    else:
        error = _send_all(cast(MpiCommunicator, comm), made)
    agree(comm, error)


def _take_all(
    comm: Communicator,
    makers: Sequence[int],
    made: Iterator[UInt8Array],
    take: Callable[[int, UInt8Array], None],
) -> Exception | None:
    """Take the items, and return the error of this rank."""
    sending = set(range(1, comm.size))

    def take_items() -> None:
        for number, rank in enumerate(makers):
            item = _receive(cast(MpiCommunicator, comm), rank) if rank else next(made)
            if item is None:  # that rank has failed
                sending.discard(rank)
                return
            take(number, item)

    error = error_of(take_items)
    if comm.size > 1:
        _end_all(cast(MpiCommunicator, comm), sending)
    return error


def _end_all(comm: MpiCommunicator, sending: set[int]) -> None:
    """Tell all ranks to end, and receive what they still send."""
    told = [comm.mpi_comm.isend(None, rank, _STOP) for rank in range(1, comm.size)]
    for rank in sending:
        while _receive(comm, rank) is not None:
            pass
    comm.mpi.Request.waitall(told)


@communicates
def _receive(comm: MpiCommunicator, rank: int) -> UInt8Array | None:
    """Return the next item of a rank; None if it makes no more."""
    status = comm.mpi.Status()
    # MPI's own wait for a message (Mprobe) spins and keeps the processor from the rank that makes it.
    while (message := comm.mpi_comm.Improbe(rank, comm.mpi.ANY_TAG, status)) is None:
        os.sched_yield()
    item = np.empty(status.Get_count(comm.mpi.BYTE), np.uint8)
    message.Recv(item)
    return item if status.Get_tag() == _ITEM else None


def _send_all(comm: MpiCommunicator, made: Iterator[UInt8Array]) -> Exception | None:
    """Send the items of this rank, and return its error."""
    # Synchronous sends: those that rank 0 has not asked for yet take no memory of its own.
    under_way: deque[Any] = deque()

    def send_items() -> None:
        for item in made:
            under_way.append(comm.mpi_comm.Issend(item, 0, _ITEM))
            _wait(under_way, _AHEAD)
            if comm.mpi_comm.Iprobe(0, _STOP):
                return

    error = error_of(send_items)
    under_way.append(comm.mpi_comm.Issend(np.empty(0, np.uint8), 0, _END))
    _wait(under_way, 0)
    comm.mpi_comm.recv(None, 0, _STOP)
    return error


@communicates
def _wait(under_way: deque[Any], most: int) -> None:
    while len(under_way) > most:
        under_way.popleft().Wait()
