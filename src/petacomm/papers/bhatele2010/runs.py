"""Published runs of Tables 7.2 to 7.4 of Bhatele 2010, read from ``published.toml``, and their partitions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from petacomm.base.toml import parse_toml
from petacomm.mapping.openatom.system import GST_BIG, WATER_32, WATER_256, MolecularSystem
from petacomm.topology import TopologyManager, load_machine, machine_torus

PUBLISHED_FILE = Path(__file__).with_name("published.toml")


@dataclass(frozen=True)
class PublishedRun:
    """A run of OpenAtom with both kinds of maps.

    Attributes
    ----------
    machine : str
        Name of the machine and its mode.
    system : MolecularSystem
    n_cores : int
    default, topology : float
        Published seconds per step with the default maps and with the topology-aware maps.
    """

    machine: str
    system: MolecularSystem
    n_cores: int
    default: float
    topology: float

    @property
    def machine_file(self) -> str:
        """Name of the machine's file."""
        return _FILES[self.machine.split(",")[0]]

    def allocation(self) -> TopologyManager:
        """Return the ranks on a partition of this size.

        On Blue Gene all nodes have a rank before one has two, IBM's default (XYZT); on the XT3 each node is
        filled before the next.

        Only one shape is published, 8x8x4 nodes of the XT3; the others are assumed. Blue Gene's partitions
        are tori from 512 nodes up. On the XT3, of 11x12x16 nodes, only a dimension of all 16 nodes is a ring.
        """
        cores, shapes = _PARTITIONS[self.machine]
        torus = machine_torus(load_machine(self.machine_file), shapes[self.n_cores // cores])
        if shapes is _BLUE_GENE:
            return TopologyManager(torus, np.arange(self.n_cores) % torus.n_nodes)
        return TopologyManager.from_network(torus, cores)


_BLUE_GENE = {
    64: (4, 4, 4), 128: (4, 4, 8), 256: (4, 8, 8), 512: (8, 8, 8), 1024: (8, 8, 16), 2048: (8, 16, 16),
    4096: (16, 16, 16), 8192: (16, 16, 32), 16384: (16, 32, 32),
}  # fmt: skip
_XT3 = {128: (8, 4, 4), 256: (8, 8, 4), 512: (8, 8, 8), 1024: (8, 8, 16)}
_PARTITIONS = {
    "Blue Gene/L, CO": (1, _BLUE_GENE),
    "Blue Gene/P, VN": (4, _BLUE_GENE),
    "XT3, SN": (1, _XT3),
    "XT3, VN": (2, _XT3),
}
_FILES = {"Blue Gene/L": "bluegene-l", "Blue Gene/P": "bluegene-p", "XT3": "xt3"}
# Minimum number of nodes of a prism: small partitions have fewer planes of GSpace.
_MIN_PRISM = 8


def published_runs() -> Iterator[PublishedRun]:
    """Iterate over all published runs, table by table."""
    tree, _ = parse_toml(PUBLISHED_FILE.read_text(encoding="utf-8"), str(PUBLISHED_FILE))
    systems = {system.name: system for system in (WATER_32, WATER_256, GST_BIG)}
    for machine, tables in tree["runs"].items():
        for name, cells in tables.items():
            for cores, (default, topology) in cells.items():
                yield PublishedRun(
                    machine, _divided(systems[name], machine, int(cores)), int(cores), default, topology
                )


def _divided(system: MolecularSystem, machine: str, n_cores: int) -> MolecularSystem:
    """Return a system with planes for prisms of `_MIN_PRISM` nodes, and a PairCalculator a core or more.

    OpenAtom's documentation wants one a core, or slightly fewer; blocks are a power of two here.
    """
    planes = min(system.n_g, n_cores // _PARTITIONS[machine][0] // _MIN_PRISM)
    n_blocks = 1 << math.ceil(math.log2(n_cores / planes) / 2)
    block = system.n_states // n_blocks
    return replace(system, n_g=planes, block=block, tile=min(block, system.tile))
