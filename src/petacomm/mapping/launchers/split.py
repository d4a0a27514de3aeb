"""New ranks for a program that runs already: ``Comm.Split(key=new_rank)``."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.base.typing import Int64Array
from petacomm.mapping.launchers.target import Target, lines_of
from petacomm.mapping.placement import Placement
from petacomm.mpi import Communicator, MpiCommunicator


def new_ranks(placement: Placement, current: Placement) -> Int64Array:
    """Return the rank that each running process must take to be where a placement wants it.

    Parameters
    ----------
    placement : Placement
        The place of each rank as it should be.
    current : Placement
        The place of each process now, by its rank now. What the launcher does unasked is
        ``Placement.identity``.

    Returns
    -------
    int64 (n_ranks,)
        For ``comm.Split(0, key=new_ranks[comm.rank])``.

    Raises
    ------
    ConfigError
        If a rank should be where no process runs.
    """
    if current.n_ranks != placement.n_ranks:
        raise ConfigError(f"{placement.n_ranks} ranks for {current.n_ranks} processes", mend="take as many")
    per_node = max(placement.ranks_per_node, current.ranks_per_node)
    wanted = placement.nodes * per_node + placement.slots
    taken = current.nodes * per_node + current.slots
    order = np.argsort(wanted)
    index = np.minimum(np.searchsorted(wanted[order], taken), len(wanted) - 1)
    free = np.flatnonzero(wanted[order][index] != taken)
    if len(free):
        node, slot = divmod(int(taken[free[0]]), per_node)
        raise ConfigError(
            f"a process runs on slot {slot} of node {node}, where the placement wants none",
            mend="place ranks where processes run",
        )
    return order[index]


def reordered(comm: Communicator, ranks: Int64Array) -> Communicator:
    """Return a communicator of the same processes with new ranks. Collective.

    Parameters
    ----------
    comm : Communicator
    ranks : int64 (comm.size,)
        The new rank of each, as `new_ranks` gives them; equal on all.

    Raises
    ------
    ConfigError
        If they are not all ranks once.
    """
    if not np.array_equal(np.sort(ranks), np.arange(comm.size)):
        raise ConfigError("new ranks are not all ranks once", mend="take them from new_ranks")
    if not isinstance(comm, MpiCommunicator):
        return comm
    split = comm.mpi_comm.Split(0, int(ranks[comm.rank]))
    made = MpiCommunicator(split)
    split.Free()
    return made


class SplitKeys:
    """A line for each process of a launcher that fills nodes in their order: its new rank."""

    title = "a running program, any MPI"
    usage = "MPI_Comm_split(MPI_COMM_WORLD, 0, line of this rank in {file}, &comm)"

    def text(self, placement: Placement, target: Target) -> str:
        """Return a new rank a line."""
        usual = Placement.identity(target.network, placement.ranks_per_node, placement.n_ranks)
        return "".join(f"{rank}\n" for rank in new_ranks(placement, usual).tolist())

    def parse(self, text: str, target: Target, file: str) -> Placement:
        """Read the new ranks."""
        keys = []
        for line, where in lines_of(text, file):
            if not (line.isdecimal() and len(line) < 11):
                raise ConfigError(f"'{printable(line)}' is no rank", where=where, mend="write a rank a line")
            keys.append(int(line))
        if not keys or sorted(keys) != list(range(len(keys))):
            raise ConfigError("new ranks are not all ranks once", where=file, mend="write each once, from 0")
        return Placement.from_places(np.argsort(keys), target.network, target.ranks_per_node)

    def warnings(self, text: str) -> list[str]:
        """Nothing is known to go wrong."""
        return []
