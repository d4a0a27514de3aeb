"""Estimates of loads of algorithms from a sample of the keys, before a plan is built."""

from __future__ import annotations

import numpy as np

from petacomm.base.distinct import first_of_equal
from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import butterfly_loads
from petacomm.costs.forecast import Imbalance, load_with_imbalance, node_algorithm_loads
from petacomm.costs.nested_group_counts import count_sampled_layers
from petacomm.costs.node_counts import ConsecutiveNodes
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import ReductionOptions
from petacomm.costs.rank_counts import PartnerCounts, RankCounts, count_ranks
from petacomm.mpi.communicator import Communicator
from petacomm.network import Load, RankLoad
from petacomm.sharing.sharing_graph import RUN_BITS, SharingGraph

# Most pairs of a key and a holder in the sample.
_MOST_PAIRS = 1 << 16
# Pairs of a rank from which the sample determines the imbalance of ranks.
_BALANCED_SAMPLE = 1000
# Blocks of consecutive keys are sampled, to determine lengths of runs: those whose number times this, modulo
# 2^64, is small. The golden section distributes them evenly.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def estimate_loads(
    comm: Communicator, keys: Int64Array, graph: SharingGraph, options: ReductionOptions
) -> dict[str, Load]:
    """Return estimated loads of algorithms, on rank 0; empty elsewhere. Collective.

    The algorithms are "butterfly" and, on several nodes, "hierarchical" and "hybrid"; the latter only if it
    differs from "hierarchical". For few keys the loads are exact, except for how the ranks of a node share
    its work.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_keys,)
    graph : SharingGraph
    options : ReductionOptions
    """
    known = _known_counts(comm, keys, graph)
    total = comm.sum(graph.n_shared)
    sample = comm.gather_rows(_sample(comm.rank, keys, graph, total))
    if sample is None or not len(sample):
        return {}
    weight, node_of = total / len(sample), comm.node_of
    is_balanced = len(sample) == total or len(sample) >= _BALANCED_SAMPLE * comm.size
    imbalance = None if is_balanced else _imbalance(known, node_of)
    occupancy = _occupancy(sample[:, 0], sample[:, 1], sample[:, 2], comm.size)
    n = len(occupancy.keys)
    layers = count_sampled_layers(
        occupancy, node_of, options.radix, np.zeros(n, np.int64), np.full(n, weight)
    )
    loads = {
        "butterfly": load_with_imbalance(
            "butterfly", butterfly_loads([layer.volume() for layer in layers]), imbalance, node_of
        )
    }
    if node_of.any():
        for name, phases in _between_nodes(sample, weight, known, node_of, options).items():
            loads[name] = load_with_imbalance(name, phases, imbalance, np.sort(node_of))
    return loads


def _sample(rank: int, keys: Int64Array, graph: SharingGraph, total: int) -> Int64Array:
    """Return the sampled shared keys of this rank, int64 (n, 3): key, rank and owner."""
    selected = graph.multiplicity > 1
    if total > _MOST_PAIRS:
        selected &= (keys >> RUN_BITS).astype(np.uint64) * _GOLDEN < np.uint64(2**64 * (_MOST_PAIRS / total))
    positions = np.flatnonzero(selected)
    return np.stack(
        [keys[positions], np.full(len(positions), rank), graph.owner[positions].astype(np.int64)], axis=1
    )


def _known_counts(comm: Communicator, keys: Int64Array, graph: SharingGraph) -> FloatArray:
    """Return exact counts of each rank, float64 (size, 6). Collective.

    They are shared keys, rows to and from owners, runs, and the messages that it sends for its node: to the
    nodes of owners, back from them, and to both.
    """
    to_owners = np.bincount(graph.owner[graph.owner != comm.rank], minlength=comm.size)
    to_ghosts, _ = comm.alltoallv(to_owners, np.ones(comm.size, np.int64))
    nodes = ConsecutiveNodes(np.sort(comm.node_of))
    sends = np.stack([np.bincount(comm.node_of, rows, nodes.n) > 0 for rows in (to_owners, to_ghosts)])
    has_message = comm.node().allreduce(sends.astype(np.uint8), "or") > 0
    node, node_rank = int(comm.node_of[comm.rank]), comm.node().rank
    has_message[:, node] = False
    messages = []
    for to_nodes in (has_message[0], has_message[1], has_message.any(axis=0)):
        others = np.flatnonzero(to_nodes)
        senders = nodes.senders(np.full(len(others), node), others) - nodes.first(node)
        messages.append(np.count_nonzero(senders == node_rank))
    rows = to_owners.sum() + to_ghosts.sum()
    counts = np.array([[graph.n_shared, rows, graph.n_runs(keys), *messages]], np.float64)
    return comm.allgather_rows(counts)[0]


def _imbalance(known: FloatArray, node_of: Int32Array) -> Imbalance:
    """Return the imbalance of ranks and nodes."""

    def ratios(rows: FloatArray) -> tuple[float, float]:
        of_nodes = np.bincount(node_of, rows)
        return float(rows.max() / max(rows.mean(), 1.0)), float(of_nodes.max() / max(of_nodes.mean(), 1.0))

    keys, owners = ratios(known[:, 0]), ratios(known[:, 1])
    return Imbalance(keys, owners, owners)


def _between_nodes(
    sample: Int64Array, weight: float, known: FloatArray, node_of: Int32Array, options: ReductionOptions
) -> dict[str, tuple[RankLoad, ...]]:
    """Return the loads of all ranks, in the order of (node, rank), in algorithms that sum on nodes first."""
    # Ranks are renumbered, since counts need nodes of consecutive ranks.
    order = np.argsort(node_of, kind="stable")
    new_rank = np.empty_like(order)
    new_rank[order] = np.arange(len(order))
    occupancy = _occupancy(sample[:, 0], new_rank[sample[:, 1]], new_rank[sample[:, 2]], len(order))
    counts = count_ranks(
        occupancy, node_of[order], weights=np.full(len(occupancy.keys), weight), options=options
    )
    counts = RankCounts(*(sums.sum(axis=0) for sums in counts))
    n_runs, to_owner_nodes, from_owner_nodes, both = known[order, 2:].T
    counts = counts._replace(n_runs=n_runs)  # the sample has other runs
    nothing = np.zeros(len(order))
    # One node of a pair owns the keys that both hold, so pairs have messages to or from nodes of owners.
    sent = (
        (counts.hybrid_to_owner_nodes, to_owner_nodes),
        (counts.hybrid_from_owner_nodes, from_owner_nodes),
        (counts.hybrid_pairs, both),
    )
    hybrid = [messages if rows.any() else nothing for rows, messages in sent]
    messages = PartnerCounts(nothing, nothing, nothing, to_owner_nodes, from_owner_nodes, *hybrid)
    loads = node_algorithm_loads(counts, messages, node_of[order])
    if not (counts.hybrid_dense.any() or counts.hybrid_pairs.any()):
        del loads["hybrid"]
    return loads


def _occupancy(keys: Int64Array, ranks: Int64Array, owners: Int64Array, size: int) -> Occupancy:
    order = np.lexsort([ranks, keys])
    keys, holders = keys[order], ranks[order].astype(np.int32)
    starts = np.flatnonzero(first_of_equal(keys))
    occupancy = Occupancy(keys[starts], np.append(starts, len(keys)), holders, size)
    occupancy.__dict__["owner"] = owners[order][starts].astype(np.int32)
    return occupancy
