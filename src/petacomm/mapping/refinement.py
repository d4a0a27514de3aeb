"""Refinement of placements by threshold accepting, to reduce the largest link load."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import FloatArray
from petacomm.mapping import _mapping
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.metrics import default_capacities, require_capacities
from petacomm.mapping.placement import Placement
from petacomm.mapping.strategies import Resources
from petacomm.network.routes import kernel_routes

# Stages (s, fraction, threshold): the cost is the sum of link loads to the power 2^s (1: hop-bytes; 8: nearly
# the largest load), in the last one hop-bytes, with no link busier than the busiest of the best so far; the
# fraction of all moves; the initial threshold, in units of a typical change of the cost.
_STAGES = ((0, 0.1, 0.02), (1, 0.2, 0.02), (2, 0.3, 0.01), (3, 0.4, 0.005), (-1, 0.4, 0.02))
# The default number of moves keeps the number of visited edges constant, within limits. A move visits those
# of two ranks.
_EDGE_VISITS = 20_000_000
_MOVE_LIMITS = 20_000, 400_000
_MAX_MOVES_PER_RANK = 1000


def refine_placement(
    graph: CommunicationGraph,
    placement: Placement,
    resources: Resources,
    *,
    capacity: FloatArray | None = None,
    n_moves: int | None = None,
    seed: int = 0,
) -> Placement:
    """Return a placement with no larger maximum link load, by swapping ranks or moving them to free slots.

    Threshold accepting (Dueck and Scheuer 1990): a move is accepted if it increases the cost by at most a
    threshold, which decreases to zero. The cost is the sum of link loads divided by bandwidths to the powers
    1, 2, 4 and 8, in one stage each; at last hop-bytes, with no link busier than the busiest is by then. The
    result is the same for the same seed, on any machine.

    Parameters
    ----------
    graph : CommunicationGraph
    placement : Placement
    resources : Site
    capacity : float64 (n_links,) or (n_links + 2 n_nodes,), optional
        Bandwidth of each link, as in `job_capacities`; by default all are equal.
    n_moves : int, optional
        Number of moves that are tried, and two fifths more at last; the default takes about a second for a
        thousand ranks.
    seed : int
    """
    routes = kernel_routes(resources.network)
    network = resources.network
    checked = default_capacities(network) if capacity is None else require_capacities(capacity, network)
    total = _default_moves(graph) if n_moves is None else n_moves
    stages = [(squarings, int(share * total), threshold) for squarings, share, threshold in _STAGES]
    nodes = placement.nodes.astype(np.int32)
    checked = np.ascontiguousarray(checked)
    _mapping.refine(routes, *graph.partner_lists, checked, resources.ranks_per_node, stages, seed, nodes)
    if np.array_equal(nodes, placement.nodes):
        return placement
    return Placement.from_nodes(nodes, resources.network, resources.ranks_per_node)


def _default_moves(graph: CommunicationGraph) -> int:
    edges_per_move = max(1.0, 4 * len(graph.partner_lists.partners) / graph.n_ranks)
    return int(
        np.clip(min(_EDGE_VISITS / edges_per_move, _MAX_MOVES_PER_RANK * graph.n_ranks), *_MOVE_LIMITS)
    )
