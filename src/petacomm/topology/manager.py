"""Topology manager: coordinates of ranks and hops between them, on all kinds of networks.

The interface of Charm++'s TopoManager (Bhatele 2010, chapter 6), for any number of dimensions and for
switched networks too. The names correspond as follows: ``rankToCoordinates`` is
`TopologyManager.rank_to_coordinates`, ``coordinatesToRank`` is `coordinates_to_rank`, ``getHopsBetweenRanks``
is `hops_between_ranks`, ``sortRanksByHops`` is `sort_ranks_by_hops`, ``pickClosestRank`` is
`pick_closest_rank`, ``areNeighbors`` is `are_neighbors`, ``printAllocation`` is `print_allocation`;
``getDimNX``, ... are `shape`, ``getDimNT`` and ``getProcsPerNode`` `ranks_per_node`, ``isTorus`` `wrap`,
``hasMultipleProcsPerNode`` `ranks_per_node` > 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_instance, require_integer, require_text, whole_array
from petacomm.base.display import Displayed
from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array
from petacomm.topology.networks import Network, network_shape, require_network
from petacomm.topology.rectangle import bounding_box
from petacomm.topology.torus import Torus


class TopologyManager(Displayed):
    """Coordinates of the ranks of a job in the machine's network.

    The dimensions are the extents of the allocation, counted from its lowest corner: the shortest interval in
    each dimension, or arc of a ring, that contains all its nodes. A dimension is a ring only where that of
    the machine is one and the allocation fills it, else a mesh: messages are assumed to stay within the
    allocation.

    Parameters
    ----------
    network : Network
        Network of the machine.
    nodes : int (n_ranks,)
        Node of each rank, in the network's numbering.
    slots : int (n_ranks,), optional
        Core of each rank on its node, or its local rank; by default the local rank, in order of the ranks.
    hosts : sequence of str, optional
        Host name of each rank's node.
    source : str
        Where the placement is known from.

    Attributes
    ----------
    network : Network
    nodes, slots : int64 (n_ranks,)
    hosts : tuple of str or None
    shape : tuple of int
        Nodes in each dimension; of switched networks, the members of each level, from the top.
    wrap : tuple of bool
        Which dimensions are rings.
    ranks_per_node : int
        One more than the largest slot: the last dimension of coordinates.
    source : str

    Raises
    ------
    ConfigError
        If there are no ranks, a node is not in the network, or two ranks have the same node and slot.

    Examples
    --------
    >>> import petacomm
    >>> manager = petacomm.TopologyManager.from_network(petacomm.Torus((4, 4)), ranks_per_node=2)
    >>> manager.n_ranks, manager.shape
    (32, (4, 4))
    >>> manager.rank_to_coordinates(5).tolist()
    [0, 2, 1]
    >>> int(manager.hops_between_ranks(0, 21))
    4
    """

    def _facts(self) -> dict[str, object]:
        return {
            "ranks": len(self.nodes),
            "nodes": len(np.unique(self.nodes)),
            "shape": "x".join(map(str, self.shape)),
            "ranks_per_node": self.ranks_per_node,
            "source": self.source,
        }

    def __init__(
        self,
        network: Network,
        nodes: npt.ArrayLike,
        slots: npt.ArrayLike | None = None,
        *,
        hosts: Sequence[str] | None = None,
        source: str = "declared",
    ) -> None:
        self.network = network
        require_network(network)
        self.nodes = whole_array(nodes, "nodes").ravel().copy()
        self.slots = local_ranks(self.nodes) if slots is None else whole_array(slots, "slots").ravel().copy()
        if hosts is not None:
            require_instance(hosts, "hosts", Iterable, "give the name of each node's host")
        self.hosts = None if hosts is None else tuple(require_text(host, "hosts") for host in hosts)
        self.source = source
        self._check()
        full_shape = network_shape(network)
        positions = np.stack(np.unravel_index(self.nodes, full_shape), -1)
        rings = network.wrap if isinstance(network, Torus) else (False,) * len(full_shape)
        origin, self.shape, self.wrap = bounding_box(positions, full_shape, rings)
        self.ranks_per_node = int(self.slots.max()) + 1
        relative = (positions - origin) % full_shape
        self._coordinates = np.column_stack([relative, self.slots]).astype(np.int64)
        # Messages stay within the allocation: a dimension that it does not fill is a mesh.
        self._grid = Torus(self.shape, self.wrap) if isinstance(network, Torus) else None
        indices = self._flat_index(self._coordinates)
        self._order = np.argsort(indices, kind="stable")
        self._sorted_indices = indices[self._order]
        self._check_distinct()

    @classmethod
    def from_network(
        cls, network: Network, ranks_per_node: int = 1, n_ranks: int | None = None
    ) -> TopologyManager:
        """Return a job on the first nodes of a network, each node filled before the next.

        Parameters
        ----------
        network : Network
            E.g. ``network_of(load_machine("fugaku"))``, or ``Torus((8, 8, 8))``.
        ranks_per_node : int
        n_ranks : int, optional
            By default as many as the network has room for.

        Returns
        -------
        TopologyManager

        Raises
        ------
        ConfigError
            If there are more ranks than room for them.
        """
        require_network(network)
        require_integer(ranks_per_node, "ranks_per_node", 1)
        room = network.n_nodes * ranks_per_node
        count = room if n_ranks is None else require_integer(n_ranks, "n_ranks", 1, room)
        nodes, slots = np.divmod(np.arange(count), ranks_per_node)
        return cls(network, nodes, slots)

    @property
    def n_ranks(self) -> int:
        """Number of ranks of the job."""
        return len(self.nodes)

    def rank_to_coordinates(self, rank: npt.ArrayLike) -> Int64Array:
        """Return the coordinates of ranks in the allocation, the core last: int64 (..., len(shape) + 1).

        Parameters
        ----------
        rank : int (...)

        Returns
        -------
        int64 (..., len(shape) + 1)
        """
        return self._coordinates[self._checked(rank)]

    def coordinates_to_rank(self, coordinates: npt.ArrayLike) -> Int64Array:
        """Return the ranks at coordinates (..., len(shape) + 1), the core last; -1 where there is none.

        Coordinates along rings are taken modulo their size.

        Parameters
        ----------
        coordinates : int (..., len(shape) + 1)

        Returns
        -------
        int64 (...)
        """
        position = whole_array(coordinates, "coordinates")
        sizes = np.array([*self.shape, self.ranks_per_node])
        if position.shape[-1:] != sizes.shape:
            raise ConfigError(
                f"coordinates of shape {position.shape}",
                mend=f"give {len(sizes)} of each rank: {sizes.tolist()}",
            )
        position = np.where([*self.wrap, False], position % sizes, position)
        exists = np.all((position >= 0) & (position < sizes), axis=-1)
        flat = self._flat_index(np.where(exists[..., None], position, 0))
        index = np.minimum(np.searchsorted(self._sorted_indices, flat), self.n_ranks - 1)
        return np.where(exists & (self._sorted_indices[index] == flat), self._order[index], -1)

    def hops_between_ranks(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the number of links between the nodes of ranks: int64, 0 on the same node.

        Parameters
        ----------
        a, b : int (...)
            Ranks.

        Returns
        -------
        int64 (...)
        """
        first, second = self._checked(a), self._checked(b)
        if self._grid is None:
            return self.network.hops(self.nodes[first], self.nodes[second])
        sizes = np.array(self.shape)
        apart = np.abs(self._coordinates[first, :-1] - self._coordinates[second, :-1])
        return np.asarray(np.where(self.wrap, np.minimum(apart, sizes - apart), apart).sum(-1), np.int64)

    def sort_ranks_by_hops(self, rank: int, ranks: npt.ArrayLike) -> Int64Array:
        """Return `ranks` (n,) sorted by their hops from `rank`, the nearest first; the sort is stable.

        Parameters
        ----------
        rank : int
        ranks : int (n,)

        Returns
        -------
        int64 (n,)
        """
        given = whole_array(ranks, "ranks").ravel()
        return given[np.argsort(self.hops_between_ranks(rank, given), kind="stable")]

    def pick_closest_rank(self, rank: int, ranks: npt.ArrayLike) -> int:
        """Return the first of `ranks` with the fewest hops from `rank`; Charm++ returns its index.

        Parameters
        ----------
        rank : int
        ranks : int (n,)

        Returns
        -------
        int

        Raises
        ------
        ConfigError
            If there are no ranks to pick from.
        """
        given = whole_array(ranks, "ranks").ravel()
        if not len(given):
            raise ConfigError("the closest of no ranks", mend="give at least one")
        return int(given[np.argmin(self.hops_between_ranks(rank, given))])

    def are_neighbors(
        self, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike | None = None, distance: int = 1
    ) -> npt.NDArray[np.bool_]:
        """Return whether ranks `a` are at most `distance` hops from ranks `b`.

        With `c`, as in Charm++: of the node halfway from `b` to `c`, on tori and meshes only.

        Parameters
        ----------
        a, b, c : int (...)
            Ranks.
        distance : int
            Largest number of hops.

        Returns
        -------
        bool (...)

        Raises
        ------
        ConfigError
            If `c` is given and the network is switched.
        """
        if c is None:
            return np.asarray(self.hops_between_ranks(a, b) <= distance)
        if self._grid is None:
            raise ConfigError("there is no node halfway in a switched network", mend="ask for two ranks")
        grid = self._grid
        node, start, end = (grid.node_at(self._coordinates[self._checked(rank), :-1]) for rank in (a, b, c))
        halfway = grid.node_at(grid.coordinates(start) + grid.displacement(start, end) // 2)
        return np.asarray(grid.hops(node, halfway) <= distance)

    def node_of(self, rank: npt.ArrayLike) -> Int64Array:
        """Return the nodes of ranks, in the network's numbering.

        Parameters
        ----------
        rank : int (...)

        Returns
        -------
        int64 (...)
        """
        return self.nodes[self._checked(rank)]

    def core_of(self, rank: npt.ArrayLike) -> Int64Array:
        """Return the cores of ranks within their nodes.

        Parameters
        ----------
        rank : int (...)

        Returns
        -------
        int64 (...)
        """
        return self.slots[self._checked(rank)]

    def print_allocation(self, file: TextIO | None = None) -> None:
        """Print a summary of the allocation, then one line per rank with its coordinates, core and host.

        Parameters
        ----------
        file : text file, optional
            By default standard output.
        """
        out = sys.stdout if file is None else file
        n_nodes = len(np.unique(self.nodes))
        kinds = " x ".join(
            f"{size}{' ring' if ring else ''}" for size, ring in zip(self.shape, self.wrap, strict=True)
        )
        print(f"{self.n_ranks} ranks on {n_nodes} nodes of {kinds} ({self.source})", file=out)
        for rank, row in enumerate(self._coordinates.tolist()):
            host = f" on {self.hosts[rank]}" if self.hosts else ""
            print(f"rank {rank}: ({', '.join(map(str, row[:-1]))}) core {row[-1]}{host}", file=out)

    def _flat_index(self, coordinates: Int64Array) -> Int64Array:
        sizes = (*self.shape, self.ranks_per_node)
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(coordinates, -1, 0)), sizes), np.int64)

    def _checked(self, rank: npt.ArrayLike) -> Int64Array:
        ranks = whole_array(rank, "rank")
        if ranks.size and (ranks.min() < 0 or ranks.max() >= self.n_ranks):
            raise ConfigError(f"a rank is not among the {self.n_ranks} of the job", mend="count from 0")
        return ranks

    def _check(self) -> None:
        n = len(self.nodes)
        if not n:
            raise ConfigError("an allocation without ranks", mend="give the node of each rank")
        if len(self.slots) != n or (self.hosts is not None and len(self.hosts) != n):
            raise ConfigError(
                f"{n} ranks have a node, others a slot or a host", mend="give them of each rank"
            )
        if self.nodes.min() < 0 or self.nodes.max() >= self.network.n_nodes:
            raise ConfigError(
                f"a node is not among the {self.network.n_nodes} of the network", mend="count from 0"
            )
        if self.slots.min() < 0:
            raise ConfigError("a slot below 0", mend="count from 0")

    def _check_distinct(self) -> None:
        duplicates = np.flatnonzero(self._sorted_indices[1:] == self._sorted_indices[:-1])
        if len(duplicates):
            first, second = self._order[duplicates[0] : duplicates[0] + 2].tolist()
            raise ConfigError(
                f"ranks {first} and {second} have one place", mend="give each a core of its own"
            )


def local_ranks(nodes: npt.NDArray[np.integer]) -> Int64Array:
    """Return the local rank of each rank: its position among the ranks on its node, in order of rank.

    Parameters
    ----------
    nodes : int (n_ranks,)
        Node of each rank.

    Returns
    -------
    int64 (n_ranks,)
    """
    order = np.argsort(nodes, kind="stable")
    grouped = nodes[order]
    begins = np.append(True, grouped[1:] != grouped[:-1])[: len(grouped)]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(grouped)), 0))
    slots = np.empty(len(grouped), np.int64)
    slots[order] = np.arange(len(grouped)) - first
    return slots
