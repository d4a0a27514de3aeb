"""Where ranks go: placements of ranks on the nodes of a network, how they are made and what they cost."""

# Imported so that their strategies are registered.
from petamap.comm.mapping import folding, grouping, scotch
from petamap.comm.mapping.graph import CommunicationGraph
from petamap.comm.mapping.graph_files import read_graph
from petamap.comm.mapping.metrics import Concurrency, Metrics, concurrency, measure
from petamap.comm.mapping.nlpkkt import nlpkkt_graph
from petamap.comm.mapping.placement import Placement
from petamap.comm.mapping.refining import refine
from petamap.comm.mapping.strategies import STRATEGIES, Site, place

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
