"""Where each rank of a job runs: its node, and its place on this node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array
from petacomm.topology import Network, in_turn


@dataclass(frozen=True, eq=False)
class Placement:
    """The node of each rank and its place there: every rank somewhere, no place twice.

    Parameters
    ----------
    nodes : int64 (n_ranks,)
        The node of each rank, in the numbers of a network of `comm.topology`.
    slots : int64 (n_ranks,)
        Its place on the node, 0 to `ranks_per_node` - 1.
    ranks_per_node : int
        Places of a node. Places may stay empty.
    n_nodes : int
        Nodes of the network.

    Raises
    ------
    ConfigError
        If a rank is on no node or no place of a node, or two ranks are on one place: it names the rank.
    """

    nodes: Int64Array
    slots: Int64Array
    ranks_per_node: int
    n_nodes: int

    def __post_init__(self) -> None:
        for name in ("nodes", "slots"):
            values = np.array(getattr(self, name))
            if values.ndim != 1 or (values.dtype.kind not in "iu" and len(values)):
                raise ConfigError(f"the {name} of a placement are not whole numbers, one a rank", mend=None)
            values = values.astype(np.int64)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        if len(self.nodes) != len(self.slots):
            raise ConfigError(
                f"{len(self.nodes)} ranks have a node and {len(self.slots)} a slot", mend="give both of each"
            )
        if self.ranks_per_node < 1:
            raise ConfigError(f"{self.ranks_per_node} ranks a node", mend="give 1 or more")
        _check_range(self.nodes, self.n_nodes, "node", f"nodes are 0 to {self.n_nodes - 1}")
        _check_range(self.slots, self.ranks_per_node, "slot", f"slots are 0 to {self.ranks_per_node - 1}")
        _check_distinct(self)

    @classmethod
    def identity(cls, network: Network, ranks_per_node: int = 1, n_ranks: int | None = None) -> Placement:
        """Return what a launcher does unasked: nodes in their order, each filled before the next.

        Parameters
        ----------
        network : Network
        ranks_per_node : int
        n_ranks : int, optional
            By default as many as there are places.
        """
        n_places = network.n_nodes * ranks_per_node
        count = n_places if n_ranks is None else n_ranks
        return cls.from_places(np.arange(count), network, ranks_per_node)

    @classmethod
    def random(
        cls, network: Network, ranks_per_node: int = 1, n_ranks: int | None = None, *, seed: int = 0
    ) -> Placement:
        """Return ranks on places drawn at random among all of the network, the same ones for a seed.

        Parameters
        ----------
        network : Network
        ranks_per_node : int
        n_ranks : int, optional
            By default as many as there are places.
        seed : int
        """
        n_places = network.n_nodes * ranks_per_node
        count = n_places if n_ranks is None else n_ranks
        _check_room(count, network, ranks_per_node)
        places = np.random.Generator(np.random.Philox(seed)).permutation(n_places)[:count]
        return cls.from_places(places, network, ranks_per_node)

    @classmethod
    def from_nodes(cls, nodes: npt.ArrayLike, network: Network, ranks_per_node: int = 1) -> Placement:
        """Return the placement on given nodes (n_ranks,); ranks of a node take its slots in their order.

        Raises
        ------
        ConfigError
            If a node has more ranks than slots, or is not one of the network.
        """
        chosen = np.asarray(nodes, np.int64)
        return cls(chosen, in_turn(chosen), ranks_per_node, network.n_nodes)

    @classmethod
    def from_places(cls, places: npt.ArrayLike, network: Network, ranks_per_node: int = 1) -> Placement:
        """Return the placement on given `places` (n_ranks,), node by node: node * ranks_per_node + slot."""
        numbers = np.asarray(places, np.int64)
        _check_room(len(numbers), network, ranks_per_node)
        return cls(numbers // ranks_per_node, numbers % ranks_per_node, ranks_per_node, network.n_nodes)

    @property
    def n_ranks(self) -> int:
        """Ranks of the job."""
        return len(self.nodes)

    @property
    def places(self) -> Int64Array:
        """The number of each rank's place, places counted node by node: int64 (n_ranks,)."""
        return self.nodes * self.ranks_per_node + self.slots

    @property
    def order(self) -> Int64Array:
        """The ranks in the order of their places: int64 (n_ranks,)."""
        return np.argsort(self.places)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Placement)
            and (self.ranks_per_node, self.n_nodes) == (other.ranks_per_node, other.n_nodes)
            and np.array_equal(self.places, other.places)
        )

    def __hash__(self) -> int:
        return hash((self.places.tobytes(), self.ranks_per_node, self.n_nodes))


def _check_room(n_ranks: int, network: Network, ranks_per_node: int) -> None:
    if n_ranks > network.n_nodes * ranks_per_node:
        raise ConfigError(
            f"{n_ranks} ranks do not fit on {network.n_nodes} nodes with {ranks_per_node} ranks a node",
            mend="take more nodes, or more ranks a node",
        )


def _check_range(values: Int64Array, end: int, name: str, mend: str) -> None:
    outside = np.flatnonzero((values < 0) | (values >= end))
    if len(outside):
        rank = int(outside[0])
        raise ConfigError(f"there is no {name} {values[rank]}", where=f"rank {rank}", mend=mend)


def _check_distinct(placement: Placement) -> None:
    places = placement.places
    order = np.argsort(places, kind="stable")
    again = np.flatnonzero(places[order[1:]] == places[order[:-1]])
    if len(again):
        first, second = sorted(order[again[0] : again[0] + 2].tolist())
        raise ConfigError(
            f"node {placement.nodes[second]} slot {placement.slots[second]} already has rank {first}",
            where=f"rank {second}",
            mend="give each rank a place of its own",
        )
