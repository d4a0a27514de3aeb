"""Refinement by threshold accepting: towards a smaller largest load of the links."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mapping import _mapping
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.placement import Placement
from petacomm.mapping.strategies import Site
from petacomm.network.routes import ways_of

# Stages: the cost is a sum of powers 2^s of link loads (1: hop-bytes; 8: nearly the largest alone); a part of
# the moves; the threshold at the begin, in typical changes of the cost by a move.
_STAGES = ((0, 0.1, 0.02), (1, 0.2, 0.02), (2, 0.3, 0.01), (3, 0.4, 0.005))
# A move follows the edges of two ranks; so many are followed, whatever the graph, within bounds of moves.
_EDGES = 20_000_000
_MOVES = 20_000, 400_000
_MOVES_A_RANK = 1000


def refine(
    graph: CommunicationGraph,
    placement: Placement,
    site: Site,
    *,
    capacity: FloatArray | None = None,
    n_moves: int | None = None,
    seed: int = 0,
) -> Placement:
    """Return a placement whose largest link load is no larger: ranks swap places, or move to free ones.

    Threshold accepting (Dueck and Scheuer 1990): a move is made if it costs no more than a threshold, which
    falls to zero. The cost is the sum of link loads over capacities to powers 1, 2, 4 and 8, one stage each.
    The same for the same seed, on any machine.

    Parameters
    ----------
    graph : CommunicationGraph
    placement : Placement
    site : Site
    capacity : float64 (n_links,), optional
        Bytes a second of each link; by default all are alike.
    n_moves : int, optional
        Moves that are tried; by default as many as take about a second for a thousand ranks.
    seed : int
    """
    ways = ways_of(site.network)
    if capacity is None:
        capacity = np.ones(site.network.n_links)
    if len(capacity) != site.network.n_links or not np.all(capacity > 0):
        raise ConfigError("capacities do not fit the links", mend="give one above 0 for each")
    total = _default_moves(graph) if n_moves is None else n_moves
    stages = [(squarings, int(share * total), threshold) for squarings, share, threshold in _STAGES]
    nodes = placement.nodes.astype(np.int32)
    capacity = np.ascontiguousarray(capacity, np.float64)
    _mapping.refine(ways, *graph.exchange, capacity, site.ranks_per_node, stages, seed, nodes)
    return _settled(nodes.astype(np.int64), placement, site)


def _default_moves(graph: CommunicationGraph) -> int:
    edges_a_move = max(1.0, 4 * len(graph.exchange.partners) / graph.n_ranks)
    return int(np.clip(min(_EDGES / edges_a_move, _MOVES_A_RANK * graph.n_ranks), *_MOVES))


def _settled(nodes: Int64Array, before: Placement, site: Site) -> Placement:
    """Return the placement as it was where no rank moved, so that slots do not change without need."""
    if np.array_equal(nodes, before.nodes):
        return before
    return Placement.from_nodes(nodes, site.network, site.ranks_per_node)
