"""Mapping of OpenAtom's arrays of objects onto a torus (Bhatele 2010, section 7.1)."""

from petacomm.mapping.openatom.maps import (
    ObjectMaps,
    default_maps,
    map_pair_calculators,
    map_real_particle,
    map_real_space,
    topology_maps,
)
from petacomm.mapping.openatom.prisms import cut_prisms
from petacomm.mapping.openatom.system import GST_BIG, WATER_32, WATER_256, MolecularSystem
from petacomm.mapping.openatom.traffic import step_hop_bytes, step_traffic

__all__ = [
    "GST_BIG",
    "WATER_32",
    "WATER_256",
    "MolecularSystem",
    "ObjectMaps",
    "cut_prisms",
    "default_maps",
    "map_pair_calculators",
    "map_real_particle",
    "map_real_space",
    "step_hop_bytes",
    "step_traffic",
    "topology_maps",
]
