"""Where ranks go: placements of ranks on the nodes of a network, how they are made and what they cost."""

# Imported so that their strategies are registered.
from petacomm.mapping import grouping, scotch
from petacomm.mapping import torus_folding as folding
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.graph_files import read_graph
from petacomm.mapping.metrics import Concurrency, Metrics, concurrency, measure
from petacomm.mapping.nlpkkt import nlpkkt_graph
from petacomm.mapping.placement import Placement
from petacomm.mapping.refinement import refine
from petacomm.mapping.strategies import STRATEGIES, Site, place

__all__ = [
    "STRATEGIES",
    "CommunicationGraph",
    "Concurrency",
    "Metrics",
    "Placement",
    "Site",
    "concurrency",
    "folding",
    "grouping",
    "measure",
    "nlpkkt_graph",
    "place",
    "read_graph",
    "refine",
    "scotch",
]
