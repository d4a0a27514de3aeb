"""Mapping of OpenAtom's arrays of objects onto a torus (Bhatele 2010, section 7.1)."""

from petacomm.mapping.openatom.maps import (
    ObjectMaps,
    default_maps,
    map_ortho,
    map_pair_calculators,
    map_real_particle,
    map_real_space,
    topology_maps,
)
from petacomm.mapping.openatom.phases import (
    PHASES,
    step_hop_bytes,
    step_operations,
    step_phases,
    step_traffic,
)
from petacomm.mapping.openatom.prisms import cut_prisms
from petacomm.mapping.openatom.system import GST_BIG, WATER_32, WATER_256, MolecularSystem

__all__ = [
    "GST_BIG",
    "PHASES",
    "WATER_32",
    "WATER_256",
    "MolecularSystem",
    "ObjectMaps",
    "cut_prisms",
    "default_maps",
    "map_ortho",
    "map_pair_calculators",
    "map_real_particle",
    "map_real_space",
    "step_hop_bytes",
    "step_operations",
    "step_phases",
    "step_traffic",
    "topology_maps",
]
