"""Published runs of Tables 7.2 to 7.4 of Bhatele 2010: machines, partitions, and seconds per step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from petacomm.mapping.openatom.system import GST_BIG, WATER_32, WATER_256, MolecularSystem
from petacomm.topology import TopologyManager, Torus


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
# Seconds per step, default and topology-aware, by number of cores.
_PUBLISHED: dict[str, dict[MolecularSystem, dict[int, tuple[float, float]]]] = {
    "Blue Gene/L, CO": {
        WATER_32: {512: (0.274, 0.259), 1024: (0.189, 0.150), 2048: (0.219, 0.112), 4096: (0.167, 0.082),
                   8192: (0.129, 0.063)},
        WATER_256: {1024: (19.10, 16.40), 2048: (13.88, 8.14), 4096: (9.13, 4.83), 8192: (4.83, 2.75),
                    16384: (3.40, 1.71)},
        GST_BIG: {1024: (10.12, 8.83), 2048: (7.14, 6.18), 4096: (5.38, 3.35), 8192: (3.13, 1.89),
                  16384: (1.82, 1.20)},
    },
    "Blue Gene/P, VN": {
        WATER_32: {256: (0.395, 0.324), 512: (0.248, 0.205), 1024: (0.188, 0.127), 2048: (0.129, 0.095),
                   4096: (0.114, 0.067)},
        WATER_256: {1024: (10.78, 6.70), 2048: (6.85, 3.77), 4096: (4.21, 2.17), 8192: (3.52, 1.77)},
        GST_BIG: {1024: (6.24, 5.16), 2048: (3.29, 2.64), 4096: (3.63, 2.53)},
    },
    "XT3, SN": {
        WATER_32: {512: (0.124, 0.123), 1024: (0.095, 0.078)},
        WATER_256: {512: (5.90, 5.37), 1024: (4.08, 3.24)},
        GST_BIG: {512: (4.82, 3.86), 1024: (2.49, 2.02)},
    },
    "XT3, VN": {
        WATER_32: {256: (0.226, 0.196), 512: (0.179, 0.161), 1024: (0.144, 0.114), 2048: (0.135, 0.095)},
        WATER_256: {512: (7.50, 6.58), 1024: (5.70, 4.14), 2048: (3.94, 2.43)},
        GST_BIG: {512: (6.28, 5.06), 1024: (3.51, 2.76), 2048: (2.90, 2.31)},
    },
}  # fmt: skip


def published_runs() -> Iterator[PublishedRun]:
    """Iterate over all published runs, table by table."""
    for machine, systems in _PUBLISHED.items():
        for system, cells in systems.items():
            for n_cores, (default, topology) in cells.items():
                nodes = n_cores // _PARTITIONS[machine][0]
                planes = min(system.n_g, nodes // _MIN_PRISM)
                yield PublishedRun(machine, replace(system, n_g=planes), n_cores, default, topology)
