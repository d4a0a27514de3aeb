"""Partitions of BlueGene/L: their torus or mesh, special networks, and processor modes."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from petacomm.base.errors import ConfigError
from petacomm.topology.machine import Machine
from petacomm.topology.networks import machine_torus
from petacomm.topology.torus import Torus

# Global interrupts are available to partitions of 32, 128, 512 nodes and multiples of 512 (section 4).
_SMALL_INTERRUPT_SIZES = (32, 128, 512)


class NodeMode(enum.Enum):
    """Use of the second processor of a node (Almasi et al. 2005, section 2.1)."""

    HEATER = "heater"  # idle
    COPROCESSOR = "coprocessor"  # may help with communication
    VIRTUAL_NODE = "virtual-node"  # a second MPI rank


@dataclass(frozen=True)
class BlueGenePartition:
    """A booted part of the machine, always rectangular.

    Attributes
    ----------
    grid : Torus
        The nodes: a torus where the partition consists of complete torus units of the machine, else a mesh.
    mode : NodeMode
    """

    grid: Torus
    mode: NodeMode = NodeMode.COPROCESSOR

    @property
    def ranks_per_node(self) -> int:
        """Number of MPI ranks on a node."""
        return 2 if self.mode is NodeMode.VIRTUAL_NODE else 1

    @property
    def n_ranks(self) -> int:
        """Number of MPI ranks of the partition."""
        return self.grid.n_nodes * self.ranks_per_node

    @property
    def rank_grid(self) -> Torus:
        """Grid of the ranks; in virtual node mode the nodes' with a last dimension of two (section 3.2)."""
        if self.ranks_per_node == 1:
            return self.grid
        return Torus((*self.grid.shape, 2), (*self.grid.wrap, False))

    @property
    def has_interrupts(self) -> bool:
        """Whether the partition has global interrupts: 32, 128, 512 nodes and multiples of 512."""
        return self.grid.n_nodes in _SMALL_INTERRUPT_SIZES or self.grid.n_nodes % 512 == 0

    def has_tree(self, n_ranks: int) -> bool:
        """Return whether `n_ranks` are all ranks, as the collective tree requires (section 4)."""
        return n_ranks == self.n_ranks


def bluegene_partition(
    machine: Machine, shape: Sequence[int], mode: NodeMode = NodeMode.COPROCESSOR
) -> BlueGenePartition:
    """Return the partition of a machine of a given shape.

    Raises
    ------
    ConfigError
        If the machine has no torus unit, or the shape does not fit its dimensions and size.
    """
    if not isinstance(machine.network.get("torus_unit"), list):
        raise ConfigError(
            f"machine '{machine.name}' has no partitions: its file says no 'network.torus_unit'",
            mend="write torus_unit = [8, 8, 8], or make a Torus",
        )
    grid = machine_torus(machine, shape)
    if grid.n_nodes > machine.nodes:
        raise ConfigError(f"a partition of {grid.n_nodes} nodes", mend=f"{machine.name} has {machine.nodes}")
    return BlueGenePartition(grid, mode)
