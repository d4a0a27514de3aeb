"""Arrays that the ranks of a node have once, in memory that they share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from petacomm.base.errors import ResourceError
from petacomm.base.typing import AnyArray
from petacomm.mpi.agreement import agree_on_errors
from petacomm.mpi.communicator import Communicator


def share_on_nodes(comm: Communicator, make: Callable[[], AnyArray]) -> AnyArray:
    """Return the array that the first rank of each node makes, and all must only read. Collective.

    Where memory to share has no room for it, each rank has a copy.

    Parameters
    ----------
    comm : Communicator
    make : callable
        Called on the first rank of each node. Errors are raised on all ranks.
    """
    node, made = comm.node(), np.empty(0)
    with agree_on_errors(comm):
        if node.rank == 0:
            made = np.ascontiguousarray(make())
    shape, dtype = node.bcast((made.shape, made.dtype.str))
    if node.rank:
        made = np.empty((0, *shape[1:]), dtype)
    if comm.max(float(node.size)) == 1:
        return made
    try:
        window = comm.shared_window(made.nbytes)
    except ResourceError:
        return np.asarray(node.allgather_rows(made)[0])
    shared = window.bytes[: np.dtype(dtype).itemsize * int(np.prod(shape))].view(dtype).reshape(shape)
    if node.rank == 0:
        shared[...] = made
    window.barrier()
    return np.asarray(shared)


def spread_on_nodes(comm: Communicator, values: AnyArray | None) -> AnyArray:
    """Return an array that rank 0 has, once on each node, as `share_on_nodes` does. Collective.

    Parameters
    ----------
    comm : Communicator
    values : array of at least one dimension, or None
        On rank 0; None on the others.
    """
    shape, dtype = comm.bcast(None if values is None else (values.shape, values.dtype.str))
    own = np.empty((0, *shape[1:]), dtype) if values is None else values
    peers = comm.peers()
    return share_on_nodes(comm, lambda: peers.allgather_rows(own)[0] if peers.size > 1 else own)
