"""Renumbering of the ranks of a running program: ``Comm.Split(key=new_rank)``."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.base.typing import Int64Array
from petacomm.mapping.launchers.target import LauncherFile, LaunchTarget, content_lines
from petacomm.mapping.placement import Placement
from petacomm.mpi import Communicator, MpiCommunicator


def new_ranks(placement: Placement, current: Placement) -> Int64Array:
    """Return the new rank of each running process that realizes a placement.

    Parameters
    ----------
    placement : Placement
        Desired placement.
    current : Placement
        Placement of the running processes, by their current rank; that of the launcher's default is
        ``Placement.identity``.

    Returns
    -------
    int64 (n_ranks,)
        Keys for ``comm.Split(0, key=new_ranks[comm.rank])``.

    Raises
    ------
    ConfigError
        If the placements do not use the same slots.
    """
    if current.n_ranks != placement.n_ranks:
        raise ConfigError(f"{placement.n_ranks} ranks for {current.n_ranks} processes", mend="take as many")
    per_node = max(placement.ranks_per_node, current.ranks_per_node)
    wanted = placement.nodes * per_node + placement.slots
    used = current.nodes * per_node + current.slots
    order = np.argsort(wanted)
    index = np.minimum(np.searchsorted(wanted[order], used), len(wanted) - 1)
    free = np.flatnonzero(wanted[order][index] != used)
    if len(free):
        node, slot = divmod(int(used[free[0]]), per_node)
        raise ConfigError(
            f"a process runs on slot {slot} of node {node}, where the placement wants none",
            mend="place ranks where processes run",
        )
    return order[index]


def reorder_communicator(comm: Communicator, ranks: Int64Array) -> Communicator:
    """Return a communicator of the same processes with new ranks. Collective on comm.

    Parameters
    ----------
    comm : Communicator
    ranks : int64 (comm.size,)
        New rank of each process, from `new_ranks`; equal on all ranks.

    Raises
    ------
    ConfigError
        If it is not a permutation of the ranks.
    """
    if not np.array_equal(np.sort(ranks), np.arange(comm.size)):
        raise ConfigError("new ranks are not all ranks once", mend="take them from new_ranks")
    if not isinstance(comm, MpiCommunicator):
        return comm
    split = comm.mpi_comm.Split(0, int(ranks[comm.rank]))
    reordered = MpiCommunicator(split)
    split.Free()
    return reordered


class SplitKeys(LauncherFile):
    """Keys for ``MPI_Comm_split``: the new rank of each process, one per line, for the default placement."""

    title = "a running program, any MPI"
    usage = "MPI_Comm_split(MPI_COMM_WORLD, 0, line of this rank in {file}, &comm)"
    fills_nodes = True

    def format(self, placement: Placement, target: LaunchTarget) -> str:
        """Return the text of the file, one new rank per line."""
        default = Placement.identity(target.network, placement.ranks_per_node, placement.n_ranks)
        return "".join(f"{rank}\n" for rank in new_ranks(placement, default).tolist())

    def parse(self, text: str, target: LaunchTarget, file: str) -> Placement:
        """Return the placement of a file's text."""
        keys = []
        for line, where in content_lines(text, file):
            if not (line.isdecimal() and len(line) < 11):
                raise ConfigError(f"'{printable(line)}' is no rank", where=where, mend="write a rank a line")
            keys.append(int(line))
        if not keys or sorted(keys) != list(range(len(keys))):
            raise ConfigError("new ranks are not all ranks once", where=file, mend="write each once, from 0")
        return Placement.from_slot_numbers(np.argsort(keys), target.network, target.ranks_per_node)
