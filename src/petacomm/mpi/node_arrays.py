"""Arrays and objects that the ranks of a node make and have once, in memory that they share."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from petacomm.base.errors import ResourceError
from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petacomm.mpi.agreement import agree_on_errors
from petacomm.mpi.communicator import Communicator

_ALIGNMENT = 64  # bytes, of arrays

T = TypeVar("T")


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


def fill_on_nodes(
    comm: Communicator, shape: tuple[int, ...], dtype: DTypeLike, fill: Callable[[AnyArray], None]
) -> AnyArray:
    """Return an array of which each rank of a node writes a part, and all must then only read. Collective.

    Where memory to share has no room for it, each rank has a copy.

    Parameters
    ----------
    comm : Communicator
    shape : tuple of int
    dtype : dtype
        Of 8 bytes.
    fill : callable
        Writes this rank's part to the array that it is given. May be collective on the ranks of the node.
    """
    node, n_bytes = comm.node(), 8 * int(np.prod(shape))
    try:
        window = comm.shared_window(n_bytes if node.rank == 0 else 0)
    except ResourceError:
        own = np.zeros(shape, dtype)
        fill(own)
        # bits of parts: nobody adds anything but zeros
        return np.asarray(node.allreduce(own.view(np.int64)).view(dtype))
    shared = window.bytes[:n_bytes].view(dtype).reshape(shape)
    fill(shared)
    window.barrier()
    return np.asarray(shared)


def collect_on_nodes(comm: Communicator, n: int, keys: Int64Array, values: FloatArray) -> FloatArray:
    """Return the values of n keys, each of the rank that has it, once on each node. Collective.

    All must then only read them. Keys that no rank has are zero. The ranks of a node divide all keys among
    each other, and get those of other nodes there: none has more than its part, however many ranks there are.

    Parameters
    ----------
    comm : Communicator
    n : int
    keys : int64 (n_own,)
        From 0 to n - 1, each on one rank alone.
    values : float64 (n_own,)
    """
    node, peers = comm.node(), comm.peers()
    n_parts = -int(comm.max(-float(node.size)))  # of the node with fewest ranks: each node has these peers
    part = keys * n_parts // n
    order = np.argsort(part, kind="stable")
    rows = np.stack([keys[order], values[order].view(np.int64)], axis=1)
    rows, _ = node.alltoallv(rows, np.bincount(part, minlength=node.size))
    rows, _ = peers.allgather_rows(rows)

    def fill(out: AnyArray) -> None:
        out[rows[:, 0]] = rows[:, 1].view(np.float64)

    return fill_on_nodes(comm, (n,), np.float64, fill)


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


def exchange_on_nodes(comm: Communicator, made: Mapping[int, Any], wanted: Sequence[int]) -> dict[int, Any]:
    """Return objects that ranks of this node have made, whose arrays these then have once. Collective.

    Parameters
    ----------
    comm : Communicator
    made : mapping of int to object
        Objects that can be pickled, by number; each is made by one rank of the node.
    wanted : sequence of int
        Numbers of those that this rank wants.

    Returns
    -------
    dict of int to object
        Their arrays must only be read.

    Raises
    ------
    ResourceError
        On all ranks, if any node has no room for the arrays.
    """
    if comm.size == 1:
        return {number: made[number] for number in wanted if number in made}
    buffers: list[pickle.PickleBuffer] = []
    pickled = {}
    for number, one in made.items():
        first = len(buffers)
        content = pickle.dumps(one, protocol=5, buffer_callback=buffers.append)
        pickled[number] = content, first, len(buffers)
    parts = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
    ends = np.cumsum([0, *(-(-len(part) // _ALIGNMENT) * _ALIGNMENT for part in parts)])
    window = comm.shared_window(int(ends[-1]))
    places = [(int(end), len(part)) for end, part in zip(ends, parts, strict=False)]
    for part, (begin, length) in zip(parts, places, strict=True):
        window.local[begin : begin + length] = part
    tables = comm.node().allgather((int(window.offsets[window.rank]), pickled, places))
    found = {}
    for offset, contents, lengths in tables:
        for number in contents.keys() & set(wanted):
            content, first, last = contents[number]
            views = [window.bytes[offset + b :][:n].data.toreadonly() for b, n in lengths[first:last]]
            found[number] = pickle.loads(content, buffers=views)
    window.barrier()
    return found


def make_on_nodes(comm: Communicator, makers: Sequence[Callable[[], T]]) -> list[T]:
    """Return what functions return, each of which one rank of each node calls. Collective.

    The ranks of a node divide the functions among them in their order, and have the arrays of the results
    once. Where memory to share has no room for these, each rank has a copy.

    Parameters
    ----------
    comm : Communicator
    makers : sequence of callable
        Return objects that can be pickled, whose arrays all must only read. They do not communicate; as many
        on all ranks.

    Raises
    ------
    UserError, RankError
        On all ranks, the error of the first function that fails.
    """
    node = comm.node()
    first, last = (len(makers) * rank // node.size for rank in (node.rank, node.rank + 1))
    made: dict[int, T] = {}
    with agree_on_errors(comm):
        made.update((number, makers[number]()) for number in range(first, last))
    if comm.max(float(node.size)) == 1:
        return list(made.values())
    wanted = range(len(makers))
    try:
        found = exchange_on_nodes(comm, made, wanted)
    except ResourceError:
        found = {number: one for part in node.allgather(made) for number, one in part.items()}
    return [found[number] for number in wanted]
