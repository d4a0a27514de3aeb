"""Nodes: the ranks that share memory, and memory that they share."""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from petacomm.base.errors import ConfigError, ResourceError
from petacomm.base.typing import Int32Array, Int64Array, UInt8Array
from petacomm.mpi._mpi import barrier_arrive, barrier_wait

if TYPE_CHECKING:
    from petacomm.mpi.communicator import MpiCommunicator

# The barrier's words stand before the first rank's part; parts begin on cache lines of their own.
_HEADER_BYTES = 128
_ALIGNMENT = 64
# A waiting rank lets MPI make progress and Python see signals this often.
_PATIENCE_S = 0.01
# Looks at the barrier before a rank sleeps: none where ranks take turns on the cores.
_LOOKS = 2000


def ranks_per_node(environ: Mapping[str, str] = os.environ) -> int | None:
    """Return how many consecutive ranks ``PETAMAP_RANKS_PER_NODE`` makes a node, None where it is not set.

    Raises
    ------
    ConfigError
        If it is not a positive integer.
    """
    wish = environ.get("PETAMAP_RANKS_PER_NODE", "")
    if not wish:
        return None
    if not wish.isdigit() or int(wish) == 0:
        raise ConfigError(f"PETAMAP_RANKS_PER_NODE is '{wish}'", mend="give the number of ranks of a node")
    return int(wish)


@dataclass
class Node:
    """The ranks that share memory with this one.

    Attributes
    ----------
    comm : MpiCommunicator
        These ranks.
    node_of : int32 (size of the parent,)
        The node of each rank of the parent communicator; nodes are numbered by their lowest ranks.
    token : str
        A name that no other node or run has.
    n_windows : int
        Windows that the node has made.
    """

    comm: MpiCommunicator
    node_of: Int32Array
    token: str
    n_windows: int = 0


def find_node(comm: MpiCommunicator) -> Node:
    """Return the node of this rank. Collective.

    Raises
    ------
    ConfigError
        If ``PETAMAP_RANKS_PER_NODE`` is not a positive integer.
    """
    pretended = ranks_per_node()
    split = comm.mpi_comm.Split_type(comm.mpi.COMM_TYPE_SHARED)
    if pretended is not None:
        machine, split = split, split.Split(split.Get_rank() // pretended)
        machine.Free()
    node = type(comm)(split)
    split.Free()
    lowest, token = node.bcast((comm.rank, secrets.token_hex(8)))
    lowest_of = np.zeros(comm.size, np.int64)
    lowest_of[comm.rank] = lowest
    _, node_of = np.unique(comm.allreduce(lowest_of), return_inverse=True)
    return Node(node, node_of.astype(np.int32), token)


class _SharedFile:
    """A file in memory that the ranks of a node map, without a name once all have done so.

    Memory goes back when the last array on it has gone on every rank, at whatever times: nothing that
    ends here waits for another rank. So MPI's own shared windows, freed by all ranks together, do not fit.
    """

    def __init__(self, token: str) -> None:
        shared = Path("/dev/shm")
        self.path = (shared if shared.is_dir() else Path(tempfile.gettempdir())) / f"petamap-{token}"

    def create(self) -> None:
        """Make the file, empty; one rank of the node does."""
        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    def map(self, n_bytes: int) -> UInt8Array:
        """Map `n_bytes`, zero at first, placed in memory near the rank that first writes to them."""
        room = os.statvfs(self.path.parent)
        if n_bytes > room.f_bavail * room.f_frsize:
            raise ResourceError(
                f"{self.path.parent} has no room for {n_bytes / 1e6:.0f} MB that the ranks of a node share",
                mend="make it larger, use more nodes, or the reduction 'owner'",
            )
        with self.path.open("r+b") as file:
            os.ftruncate(file.fileno(), n_bytes)
            return np.frombuffer(mmap.mmap(file.fileno(), n_bytes), np.uint8)

    def unlink(self) -> None:
        """Take the name away; the memory stays while it is mapped."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


class SharedWindow:
    """Memory that the ranks of a node share, and a barrier between them.

    Made by `Communicator.shared`. A rank sees what another one wrote after both have met at `barrier`.

    Attributes
    ----------
    rank, size : int
        This rank's number in its node, and how many ranks the node has.
    bytes : uint8 (sum of n_bytes,)
        The parts of all ranks of the node, one after the other, each at a multiple of 64.
    offsets : int64 (size + 1,)
        Where the part of each rank begins in `bytes`, and the end of the last one.
    """

    def __init__(
        self, memory: UInt8Array, offsets: Int64Array, rank: int, progress: Callable[[], object]
    ) -> None:
        self.rank = rank
        self.size = len(offsets) - 1
        self.offsets = offsets
        self.bytes = memory[_HEADER_BYTES:]
        self._words = memory[:8].view(np.int32)
        self._progress = progress
        self._looks = _LOOKS if self.size <= len(os.sched_getaffinity(0)) else 0

    @property
    def mine(self) -> UInt8Array:
        """This rank's part of `bytes`."""
        return self.bytes[self.offsets[self.rank] : self.offsets[self.rank + 1]]

    def barrier(self) -> None:
        """Wait until all ranks of the node are here. Collective on the node."""
        self.wait(self.arrive())

    def arrive(self) -> int:
        """Say that this rank is here, and return the ticket to `wait` with. Collective on the node."""
        ticket: int = barrier_arrive(self._words, self.size)
        return ticket

    def wait(self, ticket: int) -> None:
        """Wait until all ranks of the node have arrived with this ticket."""
        while not barrier_wait(self._words, ticket, self._looks, _PATIENCE_S):
            self._progress()


def own_window(n_bytes: int) -> SharedWindow:
    """Return the window of a rank that is a node by itself."""
    offsets = _aligned_offsets(np.array([n_bytes], np.int64))
    return SharedWindow(np.zeros(_HEADER_BYTES + int(offsets[-1]), np.uint8), offsets, 0, lambda: None)


def shared_window(comm: MpiCommunicator, node: Node, n_bytes: int) -> SharedWindow:
    """Return a window to which this rank adds `n_bytes`. Collective on `comm`.

    Raises
    ------
    ResourceError
        On all ranks, if any node has no room for it.
    """
    from petacomm.mpi.agreement import agree

    file = _SharedFile(f"{node.token}-{node.n_windows}")
    node.n_windows += 1
    memory, error = np.empty(0, np.uint8), None
    first = node.comm.rank == 0
    try:
        if first:
            file.create()
    except OSError as failure:
        error = ResourceError(f"cannot make memory to share: {failure}")
    sizes = np.zeros(node.comm.size, np.int64)
    sizes[node.comm.rank] = n_bytes
    offsets = _aligned_offsets(node.comm.allreduce(sizes))
    try:
        memory = file.map(_HEADER_BYTES + int(offsets[-1]))
    except (OSError, ResourceError) as failure:
        error = error or ResourceError(f"cannot map memory to share: {failure}")
    try:
        agree(comm, error)
    finally:
        if first:
            file.unlink()
    # A rank that waits for others of its node must not hold up messages that it has handed to MPI.
    return SharedWindow(memory, offsets, node.comm.rank, comm.mpi_comm.Iprobe)


def _aligned_offsets(sizes: Int64Array) -> Int64Array:
    """Return where parts of these sizes begin, aligned, and the end of the last one."""
    padded = -(-sizes // _ALIGNMENT) * _ALIGNMENT
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(padded)])
