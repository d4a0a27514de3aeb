"""Loads of algorithms that counts alone do not tell, before any is built: from a sample of the keys."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import butterfly_shares
from petacomm.costs.forecast import Imbalance, level, shares_between_nodes
from petacomm.costs.nested_group_counts import count_some_hops
from petacomm.costs.node_counts import Nodes
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import Options
from petacomm.costs.rank_counts import Counts, Messages, count
from petacomm.mpi.communicator import Communicator
from petacomm.network import Load, Share
from petacomm.sharing.sharing_graph import RUN_BITS, SharingGraph

# Pairs of a key and its holder that rank 0 looks at.
_MOST_PAIRS = 1 << 16
# Of so many pairs a rank, the busiest rank shows itself.
_MANY = 1000
# Neighbouring keys are drawn together, which tells how long runs are: by the product of their number with
# this, modulo 2^64, for the golden section spreads them.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def sketch(comm: Communicator, keys: Int64Array, graph: SharingGraph, options: Options) -> dict[str, Load]:
    """Return about what these algorithms would ask of the busiest rank and node. Collective; on rank 0 alone.

    "butterfly", and where there are several nodes, "hierarchical" and "hybrid"; that only if it would be
    anything else. Exact but for how a node's ranks share its work, where there are few keys.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_keys,)
    graph : SharingGraph
    options : Options
    """
    told = _told(comm, keys, graph)
    total = comm.sum(graph.n_shared)
    sample = comm.gather_rows(_drawn(comm.rank, keys, graph, total))
    if sample is None or not len(sample):
        return {}
    weight, node_of = total / len(sample), comm.node_of
    shown = len(sample) == total or len(sample) >= _MANY * comm.size
    uneven = None if shown else _imbalance(told, node_of)
    every = _occupancy(sample[:, 0], sample[:, 1], sample[:, 2], comm.size)
    n = len(every.keys)
    hops = count_some_hops(every, node_of, options.radix, np.zeros(n, np.int64), np.full(n, weight))
    loads = {"butterfly": level("butterfly", butterfly_shares([hop.hop() for hop in hops]), uneven, node_of)}
    if node_of.any():
        for name, phases in _between_nodes(sample, weight, told, node_of, options).items():
            loads[name] = level(name, phases, uneven, np.sort(node_of))
    return loads


def _drawn(rank: int, keys: Int64Array, graph: SharingGraph, total: int) -> Int64Array:
    """Return a sample of the shared keys, the same on all ranks: (n, 3) of key, rank and owner."""
    chosen = graph.multiplicity > 1
    if total > _MOST_PAIRS:
        chosen &= (keys >> RUN_BITS).astype(np.uint64) * _GOLDEN < np.uint64(2**64 * (_MOST_PAIRS / total))
    which = np.flatnonzero(chosen)
    return np.stack([keys[which], np.full(len(which), rank), graph.owner[which].astype(np.int64)], axis=1)


def _told(comm: Communicator, keys: Int64Array, graph: SharingGraph) -> FloatArray:
    """Return what is known of each rank, (size, 6): keys shared, rows through owners, runs, and for its node
    the messages to nodes of owners, back from there, and to both. Collective.
    """
    ghosts = np.bincount(graph.owner[graph.owner != comm.rank], minlength=comm.size)
    asked, _ = comm.alltoallv(ghosts, np.ones(comm.size, np.int64))
    nodes = Nodes(np.sort(comm.node_of))
    there, home = (np.bincount(comm.node_of, rows, nodes.n) > 0 for rows in (ghosts, asked))
    crossed = comm.node().allreduce(np.stack([there, home]).astype(np.uint8), "or") > 0
    here, number = int(comm.node_of[comm.rank]), comm.node().rank
    crossed[:, here] = False
    messages = []
    for sends in (crossed[0], crossed[1], crossed.any(axis=0)):
        others = np.flatnonzero(sends)
        carriers = nodes.carriers(np.full(len(others), here), others) - nodes.first(here)
        messages.append(np.count_nonzero(carriers == number))
    rows = ghosts.sum() + asked.sum()
    mine = np.array([[graph.n_shared, rows, graph.n_runs(keys), *messages]], np.float64)
    return comm.allgather_rows(mine)[0]


def _imbalance(told: FloatArray, node_of: Int32Array) -> Imbalance:
    """Return how much more than the mean the busiest rank and node have."""

    def ratios(rows: FloatArray) -> tuple[float, float]:
        of_nodes = np.bincount(node_of, rows)
        return float(rows.max() / max(rows.mean(), 1.0)), float(of_nodes.max() / max(of_nodes.mean(), 1.0))

    keys, owners = ratios(told[:, 0]), ratios(told[:, 1])
    return Imbalance(keys, owners, owners)


def _between_nodes(
    sample: Int64Array, weight: float, told: FloatArray, node_of: Int32Array, options: Options
) -> dict[str, tuple[Share, ...]]:
    """Return what is asked of ranks, in the order of their nodes."""
    # Nodes of consecutive ranks are what can be counted.
    order = np.argsort(node_of, kind="stable")
    turn = np.empty_like(order)
    turn[order] = np.arange(len(order))
    some = _occupancy(sample[:, 0], turn[sample[:, 1]], turn[sample[:, 2]], len(order))
    counts = count(some, node_of[order], weights=np.full(len(some.keys), weight), options=options)
    counts = Counts(*(sums.sum(axis=0) for sums in counts))
    n_runs, there, home, both = told[order, 2:].T
    counts = counts._replace(n_runs=n_runs)  # what is drawn lies in none
    nothing = np.zeros(len(order))
    # One of the nodes of a pair owns what both hold.
    ways = (counts.hybrid_there, there), (counts.hybrid_home, home), (counts.hybrid_pairs, both)
    hybrid = [messages if rows.any() else nothing for rows, messages in ways]
    messages = Messages(nothing, nothing, nothing, there, home, *hybrid)
    found = shares_between_nodes(counts, messages, node_of[order])
    if not (counts.hybrid_dense.any() or counts.hybrid_pairs.any()):
        del found["hybrid"]
    return found


def _occupancy(keys: Int64Array, ranks: Int64Array, owners: Int64Array, size: int) -> Occupancy:
    order = np.lexsort([ranks, keys])
    keys, holders = keys[order], ranks[order].astype(np.int32)
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    found = Occupancy(keys[starts], np.append(starts, len(keys)), holders, size)
    found.__dict__["owner"] = owners[order][starts].astype(np.int32)
    return found
