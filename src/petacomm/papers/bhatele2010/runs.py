"""Published runs of Tables 7.2 to 7.4 of Bhatele 2010, read from ``published.toml``, and their partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from petacomm.base.toml import parse_toml
from petacomm.mapping.openatom.system import GST_BIG, WATER_32, WATER_256, MolecularSystem
from petacomm.topology import TopologyManager, Torus

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

    def allocation(self) -> TopologyManager:
        """Return the ranks on a partition of this size, each node filled before the next.

        Only one shape is published, 8x8x4 nodes of the XT3; the others are assumed. Blue Gene's partitions
        are tori from 512 nodes up. On the XT3, of 11x12x16 nodes, only a dimension of all 16 nodes is a ring.
        """
        cores, shapes = _PARTITIONS[self.machine]
        shape = shapes[self.n_cores // cores]
        rings = [False, False, shape[2] == 16]
        if shapes is _BLUE_GENE:
            rings = [self.n_cores // cores >= 512] * 3
        return TopologyManager.from_network(Torus(shape, rings), cores)


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
# Minimum number of nodes of a prism: small partitions have fewer planes of GSpace.
_MIN_PRISM = 8


def published_runs() -> Iterator[PublishedRun]:
    """Iterate over all published runs, table by table."""
    tree, _ = parse_toml(PUBLISHED_FILE.read_text(encoding="utf-8"), str(PUBLISHED_FILE))
    systems = {system.name: system for system in (WATER_32, WATER_256, GST_BIG)}
    for machine, tables in tree["runs"].items():
        for name, cells in tables.items():
            for cores, (default, topology) in cells.items():
                n_cores, system = int(cores), systems[name]
                planes = min(system.n_g, n_cores // _PARTITIONS[machine][0] // _MIN_PRISM)
                yield PublishedRun(machine, replace(system, n_g=planes), n_cores, default, topology)
