"""Machines, their networks, and where the ranks of a job run on them.

Machine descriptions read from TOML files; tori, meshes, fat trees and clique hierarchies with numbered nodes
and links; the allocation of a job, detected from the running system.

Must not import: `petacomm.schedule` and the rooms above it.
"""

from petacomm.topology.allocation import Allocation, full_network
from petacomm.topology.bluegene import BlueGenePartition, NodeMode, bluegene_partition
from petacomm.topology.machine import Machine, load_machine, machine_names
from petacomm.topology.manager import TopologyManager, local_ranks
from petacomm.topology.networks import Network, make_network, network_shape
from petacomm.topology.rectangle import find_rectangle
from petacomm.topology.switched import CliqueHierarchy, CliqueLevel, FatTree, dragonfly, percs
from petacomm.topology.torus import Torus, parse_shape

__all__ = [
    "Allocation",
    "BlueGenePartition",
    "CliqueHierarchy",
    "CliqueLevel",
    "FatTree",
    "Machine",
    "Network",
    "NodeMode",
    "TopologyManager",
    "Torus",
    "bluegene_partition",
    "dragonfly",
    "find_rectangle",
    "full_network",
    "load_machine",
    "local_ranks",
    "machine_names",
    "make_network",
    "network_shape",
    "parse_shape",
    "percs",
]
