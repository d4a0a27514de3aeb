"""Machines: what their nodes and networks can do, from files; networks whose nodes and links have numbers."""

from petamap.comm.topology.allocation import Allocation
from petamap.comm.topology.bluegene import Mode, Partition, partition
from petamap.comm.topology.machine import Machine, load_machine, machines
from petamap.comm.topology.manager import TopologyManager, in_turn
from petamap.comm.topology.networks import Network, network_of
from petamap.comm.topology.rectangle import Rectangle, find_rectangle, whole
from petamap.comm.topology.switched import CliqueHierarchy, FatTree, Level, dragonfly, percs
from petamap.comm.topology.torus import Torus, parse_shape

__all__ = [
    "Allocation",
    "CliqueHierarchy",
    "FatTree",
    "Level",
    "Machine",
    "Mode",
    "Network",
    "Partition",
    "Rectangle",
    "TopologyManager",
    "Torus",
    "dragonfly",
    "find_rectangle",
    "in_turn",
    "load_machine",
    "machines",
    "network_of",
    "parse_shape",
    "partition",
    "percs",
    "whole",
]
