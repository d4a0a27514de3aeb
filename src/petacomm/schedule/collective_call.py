"""A call of a collective, as the algorithms and their selection see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import numeric_array, require_integer, require_text, whole_array
from petacomm.base.text import shape_text
from petacomm.schedule.schedule import AlltoallBlocks, Collective, ScheduleError, check_n_ranks
from petacomm.topology import BlueGenePartition, Torus, find_rectangle

_ALLTOALL_PARTS = (
    3  # of the work space of an all-to-all, blocks of all ranks each: sent, received and scratch
)


@dataclass(frozen=True)
class CollectiveCall:
    """One call of a collective, with arguments that are equal on all ranks.

    Parameters
    ----------
    collective : str
    n_ranks : int
    n_elements : int
        Elements of the vector; in an all-to-all, from each rank to each.
    itemsize : int
        Bytes of an element.
    integer : bool
        Whether elements are integers.
    root : int
    grid : Torus, optional
        Torus or mesh, or rectangle of one, that the ranks fill.
    ranks : int64 (n_ranks,), optional
        Rank at each node of the grid. By default the node's number.
    counts : int64 (n_ranks, n_ranks), optional
        Elements from rank (row) to rank (column), in an all-to-all in which they differ.
    has_tree, has_interrupts : bool
        Whether the ranks have a tree network and interrupt wires: on BlueGene/L, all ranks of a partition.

    Raises
    ------
    ScheduleError
        If the arguments are inconsistent.

    Examples
    --------
    >>> import petacomm
    >>> petacomm.CollectiveCall("alltoall", 8, 100).n_ranks
    8
    """

    collective: Collective
    n_ranks: int
    n_elements: int = 0
    itemsize: int = 8
    integer: bool = False
    root: int = 0
    grid: Torus | None = None
    ranks: npt.NDArray[np.int64] | None = None
    counts: npt.NDArray[np.int64] | None = None
    has_tree: bool = False
    has_interrupts: bool = False

    def __post_init__(self) -> None:
        require_text(self.collective, "collective")
        for name in ("n_ranks", "n_elements", "itemsize", "root"):
            require_integer(getattr(self, name), name, -(2**63))
        check_n_ranks(self.n_ranks)
        if self.grid is not None and not isinstance(self.grid, Torus):
            raise ScheduleError(f"{self.grid!r:.60} is no grid", mend="give a petacomm.Torus")
        if self.grid is not None and self.grid.n_nodes != self.n_ranks:
            raise ScheduleError(
                f"a grid of {shape_text(self.grid.shape)} has {self.grid.n_nodes} nodes, and there are "
                f"{self.n_ranks} ranks",
                mend="give a shape whose product is the number of ranks",
            )
        if self.ranks is not None:
            object.__setattr__(self, "ranks", whole_array(self.ranks, "ranks"))
        if self.ranks is not None and not np.array_equal(
            np.sort(self.ranks, axis=None), np.arange(self.n_ranks)
        ):
            raise ScheduleError(
                f"the ranks at the nodes of the grid are not each of 0 to {self.n_ranks - 1} once",
                mend="take them from `communicator_grid`",
            )
        if self.itemsize < 1 or self.n_elements < 0:
            raise ScheduleError(f"{self.n_elements} elements of {self.itemsize} bytes", mend="count from 1")
        parts = _ALLTOALL_PARTS if self.collective == "alltoall" else 1
        if self.n_elements * self.itemsize * self.n_ranks * parts >= 2**63:
            raise ScheduleError(
                f"{self.n_elements * self.itemsize:.3g} bytes for {self.n_ranks:,} ranks: "
                "numbers of 64 bits do not count all",
                mend="give fewer bytes",
            )
        if not 0 <= self.root < self.n_ranks:
            raise ScheduleError(
                f"there is no rank {self.root} among {self.n_ranks}", mend="the root is one of the ranks"
            )
        if self.counts is not None:
            object.__setattr__(self, "counts", numeric_array(self.counts, "counts"))
        if self.counts is not None and (self.counts.shape != (self.n_ranks,) * 2 or np.any(self.counts < 0)):
            raise ScheduleError(
                "counts of an all-to-all do not fit",
                mend=f"give {self.n_ranks} x {self.n_ranks} of 0 or more",
            )

    @property
    def n_bytes(self) -> int:
        """Bytes of the vector; in an all-to-all, the mean over all pairs of ranks."""
        if self.counts is not None:
            return int(self.counts.sum()) * self.itemsize // self.n_ranks**2
        return self.n_elements * self.itemsize

    @property
    def blocks(self) -> AlltoallBlocks:
        """Blocks of an all-to-all."""
        return AlltoallBlocks(self.n_ranks, self.n_elements, self.counts)

    @property
    def required_grid(self) -> Torus:
        """The grid of a call that is known to have one."""
        assert self.grid is not None
        return self.grid

    @property
    def root_node(self) -> int:
        """Node of the grid at which the root is."""
        return self.root if self.ranks is None else int(np.flatnonzero(self.ranks == self.root)[0])


def partition_call(
    partition: BlueGenePartition, collective: Collective, n_elements: int = 0, **given: Any
) -> CollectiveCall:
    """Return a call of all ranks of a partition of BlueGene/L, with the partition's special networks.

    Parameters
    ----------
    partition : BlueGenePartition
    collective : str
    n_elements : int
    **given
        `itemsize`, `integer`, `root` and `counts` of `CollectiveCall`.
    """
    return CollectiveCall(
        collective,
        partition.n_ranks,
        n_elements,
        grid=partition.rank_grid,
        has_tree=partition.has_tree(partition.n_ranks),
        has_interrupts=partition.has_interrupts,
        **given,
    )


def communicator_grid(machine: Torus, nodes: npt.ArrayLike) -> tuple[Torus, npt.NDArray[np.int64] | None]:
    """Return the grid of a sub-communicator, and the rank at each of its nodes: None if rank r is at node r.

    Parameters
    ----------
    machine : Torus
    nodes : int (n_ranks,)
        Node of the machine of each rank, in the order of the ranks.

    Raises
    ------
    ScheduleError
        If the nodes do not fill a rectangle.
    """
    node_of_rank = np.asarray(nodes, np.int64)
    rectangle = find_rectangle(machine, node_of_rank)
    if rectangle is None:
        raise ScheduleError(
            f"{len(node_of_rank)} nodes do not fill a rectangle of {machine}",
            mend="choose an algorithm without a grid, or other nodes",
        )
    order = np.argsort(node_of_rank)
    ranks = order[np.searchsorted(node_of_rank[order], rectangle.nodes)]
    return rectangle.grid, None if np.array_equal(ranks, np.arange(len(ranks))) else ranks
