"""Placement of the ranks of a job on the nodes of a network: communication graphs, strategies and metrics.

Must not import: `petacomm.papers` and the rooms above it.
"""

# These modules register their strategies on import.
from petacomm.mapping import grid_blocks, grouping, scotch, torus_folding
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.metrics import concurrent_loads, mapping_metrics
from petacomm.mapping.nlpkkt import nlpkkt_graph
from petacomm.mapping.placement import Placement
from petacomm.mapping.refinement import refine_placement
from petacomm.mapping.strategies import STRATEGIES, Resources, place_ranks

__all__ = [
    "STRATEGIES",
    "CommunicationGraph",
    "Placement",
    "Resources",
    "concurrent_loads",
    "grid_blocks",
    "grouping",
    "mapping_metrics",
    "nlpkkt_graph",
    "place_ranks",
    "refine_placement",
    "scotch",
    "torus_folding",
]
