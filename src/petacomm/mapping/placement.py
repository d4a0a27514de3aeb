"""Placements: the node of each rank of a job, and its slot on the node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_integer, whole_array
from petacomm.base.display import Displayed
from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array
from petacomm.topology import Network, local_ranks
from petacomm.topology.networks import require_network


@dataclass(frozen=True, eq=False, repr=False)
class Placement(Displayed):
    """Assignment of ranks to nodes and slots of nodes, at most one rank per slot.

    Parameters
    ----------
    nodes : int64 (n_ranks,)
        Node of each rank, in the numbering of a network of `petacomm.topology`.
    slots : int64 (n_ranks,)
        Slot of each rank on its node, 0 to `ranks_per_node` - 1.
    ranks_per_node : int
        Number of slots of a node. Slots may be empty.
    n_nodes : int
        Number of nodes of the network.

    Raises
    ------
    ConfigError
        If a node or a slot is out of range, or two ranks have the same slot; the error names the rank.

    Examples
    --------
    >>> import petacomm
    >>> torus = petacomm.Torus((4, 2))
    >>> placement = petacomm.Placement.identity(torus, ranks_per_node=2)
    >>> placement.nodes.tolist()[:5]
    [0, 0, 1, 1, 2]
    """

    nodes: Int64Array
    slots: Int64Array
    ranks_per_node: int
    n_nodes: int

    def _facts(self) -> dict[str, object]:
        return {
            "ranks": len(self.nodes),
            "nodes": f"{len(np.unique(self.nodes))} of {self.n_nodes}",
            "ranks_per_node": self.ranks_per_node,
        }

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
        require_integer(self.ranks_per_node, "ranks_per_node", 1)
        require_integer(self.n_nodes, "n_nodes", 0)
        _check_range(self.nodes, self.n_nodes, "node", f"nodes are 0 to {self.n_nodes - 1}")
        _check_range(self.slots, self.ranks_per_node, "slot", f"slots are 0 to {self.ranks_per_node - 1}")
        _check_distinct(self)

    @classmethod
    def identity(cls, network: Network, ranks_per_node: int = 1, n_ranks: int | None = None) -> Placement:
        """Return the default placement of launchers: nodes in their order, each filled before the next.

        Parameters
        ----------
        network : Network
        ranks_per_node : int
        n_ranks : int, optional
            By default as many as there are slots.

        Returns
        -------
        Placement

        Raises
        ------
        ConfigError
            If there are more ranks than slots.
        """
        count = _checked_count(network, ranks_per_node, n_ranks)
        return cls.from_slot_numbers(np.arange(count), network, ranks_per_node)

    @classmethod
    def random(
        cls, network: Network, ranks_per_node: int = 1, n_ranks: int | None = None, *, seed: int = 0
    ) -> Placement:
        """Return a random placement on the slots of all nodes, reproducible by its seed.

        Parameters
        ----------
        network : Network
        ranks_per_node : int
        n_ranks : int, optional
            By default as many as there are slots.
        seed : int
            0 or more.

        Returns
        -------
        Placement

        Raises
        ------
        ConfigError
            If there are more ranks than slots, or the seed is below 0.
        """
        count = _checked_count(network, ranks_per_node, n_ranks)
        require_integer(seed, "seed", 0, 2**128 - 1)
        n_slots = network.n_nodes * ranks_per_node
        slot_numbers = np.random.Generator(np.random.Philox(seed)).permutation(n_slots)[:count]
        return cls.from_slot_numbers(slot_numbers, network, ranks_per_node)

    @classmethod
    def from_nodes(cls, nodes: npt.ArrayLike, network: Network, ranks_per_node: int = 1) -> Placement:
        """Return the placement on given nodes (n_ranks,); the ranks of a node take its slots in order.

        Parameters
        ----------
        nodes : int (n_ranks,)
        network : Network
        ranks_per_node : int

        Returns
        -------
        Placement

        Raises
        ------
        ConfigError
            If a node has more ranks than slots, or is not in the network.
        """
        require_network(network)
        chosen = whole_array(nodes, "nodes")
        return cls(chosen, local_ranks(chosen), ranks_per_node, network.n_nodes)

    @classmethod
    def from_slot_numbers(
        cls, slot_numbers: npt.ArrayLike, network: Network, ranks_per_node: int = 1
    ) -> Placement:
        """Return the placement with given slot numbers (n_ranks,), node * ranks_per_node + slot.

        Parameters
        ----------
        slot_numbers : int (n_ranks,)
        network : Network
        ranks_per_node : int

        Returns
        -------
        Placement
        """
        require_network(network)
        require_integer(ranks_per_node, "ranks_per_node", 1)
        numbers = whole_array(slot_numbers, "slot_numbers")
        check_capacity(len(numbers), network, ranks_per_node)
        return cls(numbers // ranks_per_node, numbers % ranks_per_node, ranks_per_node, network.n_nodes)

    @property
    def n_ranks(self) -> int:
        """Number of ranks of the job."""
        return len(self.nodes)

    @property
    def slot_numbers(self) -> Int64Array:
        """Slot number of each rank, node * ranks_per_node + slot: int64 (n_ranks,)."""
        return self.nodes * self.ranks_per_node + self.slots

    @property
    def ranks_by_slot(self) -> Int64Array:
        """The ranks in the order of their slot numbers: int64 (n_ranks,)."""
        return np.argsort(self.slot_numbers)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Placement)
            and (self.ranks_per_node, self.n_nodes) == (other.ranks_per_node, other.n_nodes)
            and np.array_equal(self.slot_numbers, other.slot_numbers)
        )

    def __hash__(self) -> int:
        return hash((self.slot_numbers.tobytes(), self.ranks_per_node, self.n_nodes))


def _checked_count(network: Network, ranks_per_node: int, n_ranks: int | None) -> int:
    """Return the number of ranks, by default one a slot, after checking that they are none too many."""
    require_network(network)
    require_integer(ranks_per_node, "ranks_per_node", 1)
    count = network.n_nodes * ranks_per_node if n_ranks is None else require_integer(n_ranks, "n_ranks", 0)
    check_capacity(count, network, ranks_per_node)
    return count


def check_capacity(n_ranks: int, network: Network, ranks_per_node: int) -> None:
    """Raise a ConfigError if there are more ranks than slots."""
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
    numbers = placement.slot_numbers
    order = np.argsort(numbers, kind="stable")
    duplicates = np.flatnonzero(numbers[order[1:]] == numbers[order[:-1]])
    if len(duplicates):
        first, second = sorted(order[duplicates[0] : duplicates[0] + 2].tolist())
        raise ConfigError(
            f"node {placement.nodes[second]} slot {placement.slots[second]} already has rank {first}",
            where=f"rank {second}",
            mend="give each rank a place of its own",
        )
