"""OpenAtom on a torus: arrays of objects in prisms, as Bhatele 2010 maps them."""

from petacomm.mapping.openatom.maps import (
    Maps,
    default_maps,
    map_pair_calculators,
    map_real_particle,
    map_real_space,
    topology_maps,
)
from petacomm.mapping.openatom.prisms import Prisms, cut_prisms
from petacomm.mapping.openatom.system import GST_BIG, WATER_32, WATER_256, System
from petacomm.mapping.openatom.traffic import hop_bytes, traffic

__all__ = [
    "GST_BIG",
    "WATER_32",
    "WATER_256",
    "Maps",
    "Prisms",
    "System",
    "cut_prisms",
    "default_maps",
    "hop_bytes",
    "map_pair_calculators",
    "map_real_particle",
    "map_real_space",
    "topology_maps",
    "traffic",
]
