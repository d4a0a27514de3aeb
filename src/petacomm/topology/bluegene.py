"""Partitions of BlueGene/L: which are tori, what else they have, how their processors are used."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from petacomm.base.errors import ConfigError
from petacomm.topology.machine import Machine
from petacomm.topology.torus import Torus

# Partitions whose interrupt wires can be set up: 32, 128, 512 nodes and multiples of 512 (section 4).
_SMALL_INTERRUPTS = (32, 128, 512)


class Mode(enum.Enum):
    """What the second processor of a node does (Almasi et al. 2005, section 2.1)."""

    HEATER = "heater"  # it idles
    COPROCESSOR = "coprocessor"  # it may help with communication
    VIRTUAL_NODE = "virtual-node"  # it is an MPI rank of its own


@dataclass(frozen=True)
class Partition:
    """A booted part of the machine, always rectangular.

    Attributes
    ----------
    grid : Torus
        Its nodes: a torus where it fills whole blocks of the machine's torus unit, else a mesh.
    mode : Mode
    """

    grid: Torus
    mode: Mode = Mode.COPROCESSOR

    @property
    def ranks_per_node(self) -> int:
        """MPI ranks on a node."""
        return 2 if self.mode is Mode.VIRTUAL_NODE else 1

    @property
    def n_ranks(self) -> int:
        """MPI ranks of the partition."""
        return self.grid.n_nodes * self.ranks_per_node

    @property
    def rank_grid(self) -> Torus:
        """The ranks as a grid: in virtual node mode with a last dimension of two (section 3.2)."""
        if self.ranks_per_node == 1:
            return self.grid
        return Torus((*self.grid.shape, 2), (*self.grid.wrap, False))

    @property
    def has_interrupts(self) -> bool:
        """Whether the global interrupt wires can serve it: 32, 128, 512 nodes and multiples of 512."""
        return self.grid.n_nodes in _SMALL_INTERRUPTS or self.grid.n_nodes % 512 == 0

    def has_tree(self, n_ranks: int) -> bool:
        """Whether the collective tree serves a communicator of `n_ranks`: all ranks or none (section 4)."""
        return n_ranks == self.n_ranks


def partition(machine: Machine, shape: Sequence[int], mode: Mode = Mode.COPROCESSOR) -> Partition:
    """Return the partition of a machine of a given shape.

    Raises
    ------
    ConfigError
        If the machine has no torus unit, or the shape is not one of its dimensions and size.
    """
    unit = machine.network.get("torus_unit")
    if not isinstance(unit, list):
        raise ConfigError(
            f"machine '{machine.name}' has no partitions: its file says no 'network.torus_unit'",
            mend="write torus_unit = [8, 8, 8], or make a Torus",
        )
    grid = Torus(shape, wrap=False)
    if grid.n_dimensions != len(unit):
        raise ConfigError(
            f"a partition of {grid.n_dimensions} dimensions", mend=f"{machine.name} has {len(unit)}"
        )
    if grid.n_nodes > machine.nodes:
        raise ConfigError(f"a partition of {grid.n_nodes} nodes", mend=f"{machine.name} has {machine.nodes}")
    rings = all(size % block == 0 for size, block in zip(grid.shape, unit, strict=True))
    return Partition(Torus(shape, rings), mode)
