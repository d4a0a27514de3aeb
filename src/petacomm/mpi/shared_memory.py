"""Nodes, whose ranks share memory, and windows of such memory."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from petacomm.base.communication_clock import communicates
from petacomm.base.errors import ConfigError, ResourceError
from petacomm.base.threads import allowed_processors
from petacomm.base.typing import Int32Array, Int64Array, UInt8Array
from petacomm.mpi._mpi import barrier_arrive, barrier_wait

if TYPE_CHECKING:
    from petacomm.mpi.communicator import MpiCommunicator

# The barrier's counters precede the first rank's part; each part begins on a cache line.
_HEADER_BYTES = 128
_ALIGNMENT = 64
_PREFIX = "petamap-"
# Seconds after which a file that nobody locks is no file that is just about to be locked.
_ABANDONED_S = 60
# Seconds after which a waiting rank lets MPI make progress and Python handle signals.
_POLL_S = 0.01
# Polls of the barrier before a rank sleeps; none where there are more ranks than cores.
_SPINS = 2000


def ranks_per_node(environ: Mapping[str, str] = os.environ) -> int | None:
    """Return ``PETAMAP_RANKS_PER_NODE``, the ranks of each emulated node; None if it is not set.

    Raises
    ------
    ConfigError
        If it is not a positive integer.
    """
    text = environ.get("PETAMAP_RANKS_PER_NODE", "")
    if not text:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"PETAMAP_RANKS_PER_NODE is '{text}'", mend="give the number of ranks of a node")
    return int(text)


@dataclass
class Node:
    """Ranks that share memory with this one.

    Attributes
    ----------
    comm : MpiCommunicator
        Communicator of these ranks.
    node_of : int32 (size of the parent,)
        Node of each rank of the parent communicator, numbered in the order of their lowest ranks.
    token : str
        Name that no other node or run has.
    n_windows : int
        Windows made on the node so far.
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
    emulated = ranks_per_node()
    split = comm.mpi_comm.Split_type(comm.mpi.COMM_TYPE_SHARED)
    if emulated is not None:
        machine, split = split, split.Split(split.Get_rank() // emulated)
        machine.Free()
    node = type(comm)(split)
    split.Free()
    lowest, token = node.bcast((comm.rank, secrets.token_hex(8)))
    lowest_of = np.zeros(comm.size, np.int64)
    lowest_of[comm.rank] = lowest
    _, node_of = np.unique(comm.allreduce(lowest_of), return_inverse=True)
    return Node(node, node_of.astype(np.int32), token)


class _SharedFile:
    """File in memory that the ranks of a node map, and unlink once all have done so.

    The memory is freed when the last array in it has been dropped on all ranks. No rank waits for that, which
    MPI's own shared windows, freed collectively, would require. A job that is killed before leaves its file
    behind, empty: the rank that makes a file holds a lock on it, and removes old ones that nobody locks.
    """

    def __init__(self, token: str) -> None:
        shared = Path("/dev/shm")
        self.path = (shared if shared.is_dir() else Path(tempfile.gettempdir())) / f"{_PREFIX}{token}"
        self._descriptor: int | None = None

    def create(self) -> None:
        """Create the empty file and lock it, on one rank of the node."""
        _remove_abandoned(self.path.parent)
        self._descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def map(self, n_bytes: int) -> UInt8Array:
        """Map `n_bytes` of zeros; each page is placed near the rank that first writes to it."""
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
        """Unlink the file; the memory stays while it is mapped."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        if self._descriptor is not None:
            os.close(self._descriptor)


def _remove_abandoned(folder: Path) -> None:
    """Remove this user's files of shared memory of jobs that were killed: old ones that no process locks."""
    for path in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), path.open("r+b") as file:
            found = os.fstat(file.fileno())
            old = found.st_mtime < time.time() - _ABANDONED_S
            if old and stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid():
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


class SharedWindow:
    """Memory that the ranks of a node share, and a barrier between them.

    Made by `Communicator.shared_window`. What a rank writes is visible to the others after `barrier`.

    Attributes
    ----------
    rank, size : int
        Number of this rank in its node, and of all ranks of the node.
    bytes : uint8 (sum of n_bytes,)
        Parts of all ranks of the node, in rank order, each at a multiple of 64.
    offsets : int64 (size + 1,)
        Begin of the part of each rank in `bytes`, and the end of the last part.
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
        self._spins = _SPINS if self.size <= len(allowed_processors()) else 0

    @property
    def local(self) -> UInt8Array:
        """Part of `bytes` that this rank contributed."""
        return self.bytes[self.offsets[self.rank] : self.offsets[self.rank + 1]]

    def barrier(self) -> None:
        """Wait until all ranks of the node have called this. Collective on the node."""
        self.wait(self.arrive())

    def arrive(self) -> int:
        """Enter the barrier without waiting, and return the ticket for `wait`. Collective on the node."""
        return barrier_arrive(self._words, self.size)

    @communicates
    def wait(self, ticket: int) -> None:
        """Wait until all ranks of the node have entered the barrier of this ticket."""
        while not barrier_wait(self._words, ticket, self._spins, _POLL_S):
            self._progress()


def private_window(n_bytes: int) -> SharedWindow:
    """Return the window of a rank that shares memory with no other."""
    offsets = _aligned_offsets(np.array([n_bytes], np.int64))
    return SharedWindow(np.zeros(_HEADER_BYTES + int(offsets[-1]), np.uint8), offsets, 0, lambda: None)


def shared_window(comm: MpiCommunicator, node: Node, n_bytes: int) -> SharedWindow:
    """Return a window to which this rank contributes `n_bytes`. Collective on `comm`.

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
    # A rank that waits for others of its node must let its pending MPI messages progress: hence Iprobe.
    return SharedWindow(memory, offsets, node.comm.rank, comm.mpi_comm.Iprobe)


def _aligned_offsets(sizes: Int64Array) -> Int64Array:
    """Return the aligned begins of parts of these sizes, and the end of the last part."""
    padded = -(-sizes // _ALIGNMENT) * _ALIGNMENT
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(padded)])
