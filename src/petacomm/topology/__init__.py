"""Machines: what their nodes and networks can do, from files; networks whose nodes and links have numbers."""

from petacomm.topology.allocation import Allocation
from petacomm.topology.bluegene import Mode, Partition, partition
from petacomm.topology.machine import Machine, load_machine, machines
from petacomm.topology.manager import TopologyManager, in_turn
from petacomm.topology.networks import Network, network_of
from petacomm.topology.rectangle import Rectangle, find_rectangle, whole
from petacomm.topology.switched import CliqueHierarchy, FatTree, Level, dragonfly, percs
from petacomm.topology.torus import Torus, parse_shape

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
