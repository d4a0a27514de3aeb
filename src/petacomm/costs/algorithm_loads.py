"""Communication loads of the reduction algorithms, computed from counts of keys.

The same formulas serve plans, the tuner that chooses before a plan is built, and the planner, which has no
ranks: counts are numbers of one rank, or arrays (size,) of all ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import add
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petacomm.costs.run_counts import graph_runs
from petacomm.mpi.communicator import Communicator
from petacomm.network.communication_load import Count, RankLoad
from petacomm.sharing.sharing_graph import SharingGraph
from petacomm.topology import local_ranks


class SendVolume(NamedTuple):
    """Volume that a rank sends in one exchange.

    Attributes
    ----------
    messages, rows, off_node_rows : float or array (size,)
        Number of messages, of rows in them, and of rows to other nodes.
    runs : float or array (size,)
        Number of runs of consecutive rows, if lists of rows define what is sent.
    """

    messages: Count
    rows: Count
    off_node_rows: Count
    runs: Count = 0.0

    @staticmethod
    def from_counts(counts: Int64Array, rank: int, node_of: Int32Array, runs: float = 0.0) -> SendVolume:
        """Return the volume that `rank` sends if `counts[r]` rows go to each rank r."""
        off_node = counts[node_of != node_of[rank]]
        return SendVolume(float(np.count_nonzero(counts)), float(counts.sum()), float(off_node.sum()), runs)

    def phase_load(self, moved: Count, barriers: Count = 0.0, runs: Count = 0.0) -> RankLoad:
        """Return the load of a phase that sends this volume and moves rows in runs in memory."""
        return RankLoad(self.messages, self.rows, self.off_node_rows, moved, barriers, runs)


class SharingCounts(NamedTuple):
    """Counts that determine the loads of most algorithms before these are built.

    Attributes
    ----------
    n_keys, n_shared, n_owned_shared : float or array (size,)
        Keys of a rank; those that others hold, too; shared keys that it owns.
    n_runs : float or array (size,)
        Runs of shared keys, as defined by `SharingGraph.n_runs`.
    pairs, to_owners, to_ghosts : SendVolume
        Volumes to all other holders, to the owners of ghosts, and from the owner to all ghosts.
    """

    n_keys: Count
    n_shared: Count
    n_owned_shared: Count
    n_runs: Count
    pairs: SendVolume
    to_owners: SendVolume
    to_ghosts: SendVolume

    @staticmethod
    def from_graph(comm: Communicator, keys: Int64Array, graph: SharingGraph) -> SharingCounts:
        """Return the counts of this rank; one small all-to-all exchanges numbers of ghosts. Collective.

        The rows of `pairs` are exact. Its partners are unknown if the graph has no overlaps: they are then
        taken to be all ranks, or as many as there are rows, distributed over nodes as all ranks are.
        """
        rank, node_of = comm.rank, comm.node_of
        to_owner_counts = np.bincount(graph.owner[graph.owner != rank], minlength=comm.size)
        to_ghost_counts, _ = comm.alltoallv(to_owner_counts, np.ones(comm.size, np.int64))
        pair_runs, to_owner_runs, to_ghost_runs = graph_runs(graph, keys, rank)
        if graph.overlaps is not None:
            pairs = SendVolume.from_counts(graph.overlaps, rank, node_of, pair_runs)
        else:
            rows = float(graph.multiplicity.sum(dtype=np.int64) - len(keys))
            off_node = np.count_nonzero(node_of != node_of[rank]) / max(1, comm.size - 1)
            pairs = SendVolume(float(min(comm.size - 1, rows)), rows, rows * off_node, pair_runs)
        return SharingCounts(
            n_keys=float(len(keys)),
            n_shared=graph.n_shared,
            n_owned_shared=graph.n_owned_shared(rank),
            n_runs=graph.n_runs(keys),
            pairs=pairs,
            to_owners=SendVolume.from_counts(to_owner_counts, rank, node_of, to_owner_runs),
            to_ghosts=SendVolume.from_counts(to_ghost_counts, rank, node_of, to_ghost_runs),
        )


def loads_from_counts(
    sharing: SharingCounts, n_global: int, buffer_keys: int, node_of: Int32Array, rank: int | None = None
) -> dict[str, tuple[RankLoad, ...]]:
    """Return the loads, phase by phase, of the algorithms for which `SharingCounts` suffice, by name.

    "hierarchical" is among them on one node only; between nodes it depends on which ranks hold a key.

    Parameters
    ----------
    sharing : SharingCounts
    n_global, buffer_keys : int
        Number of all keys, and of keys of a buffer of "dense".
    node_of : int32 (size,)
        Node of each rank.
    rank : int, optional
        Rank whose loads are returned; by default those of all ranks.
    """
    loads = {
        "dense": dense_loads(sharing.n_keys, n_global, buffer_keys, node_of, rank),
        "pairwise": pairwise_loads(sharing.pairs, sharing.n_shared),
        "owner": owner_loads(sharing.to_owners, sharing.to_ghosts, sharing.n_owned_shared),
    }
    if not node_of.any():
        # Each rank reduces an equal part of the shared rows of the node.
        tables = sharing.n_shared, 0.0, 0.0
        nothing = SendVolume(0.0, 0.0, 0.0)
        loads["hierarchical"] = hierarchical_loads(
            sharing.n_shared, sharing.n_runs, tables, nothing, nothing, True
        )
    return loads


def pairwise_loads(pairs: SendVolume, n_shared: Count) -> tuple[RankLoad, ...]:
    """Return the loads of an all-reduce by "pairwise".

    Parameters
    ----------
    pairs : SendVolume
        Volume of the keys shared with each other rank.
    n_shared : float or array (size,)
        Keys of this rank that others hold, too.
    """
    return (pairs.phase_load(moved=2 * pairs.rows + n_shared, runs=2 * pairs.runs),)


def owner_loads(to_owners: SendVolume, to_ghosts: SendVolume, n_owned_shared: Count) -> tuple[RankLoad, ...]:
    """Return the loads of an all-reduce by "owner".

    Parameters
    ----------
    to_owners, to_ghosts : SendVolume
        Volumes of the reduction onto owners, and of the broadcast to ghosts.
    n_owned_shared : float or array (size,)
        Keys of this rank that others hold as ghosts.
    """
    rows, runs = to_owners.rows + to_ghosts.rows, to_owners.runs + to_ghosts.runs
    return to_owners.phase_load(rows + n_owned_shared, runs=runs), to_ghosts.phase_load(rows, runs=runs)


def hierarchical_loads(
    n_shared: Count,
    n_runs: Count,
    tables: tuple[Count, Count, Count],
    to_owner_nodes: SendVolume,
    from_owner_nodes: SendVolume,
    single_node: bool,
) -> tuple[RankLoad, ...]:
    """Return the loads of an all-reduce by "hierarchical".

    They include copies of values into shared memory and back.

    Parameters
    ----------
    n_shared, n_runs : float or array (size,)
        Keys of this rank that others hold, too, and their runs, which for all ranks of a node are about as
        many as those of its tables.
    tables : three of float or array (size,)
        Rows in the tables of this rank: of keys on its node only; of keys that its node owns and other nodes
        hold, with a slot for each message; of keys that other nodes own, with a slot for each.
    to_owner_nodes, from_owner_nodes : SendVolume
        Volumes that this rank sends for its node, to the nodes of owners and back from them.
    single_node : bool
        Whether there is one node.
    """
    local, owned, sent = tables
    if single_node:
        return (
            RankLoad(moved=n_shared, barriers=1),
            RankLoad(moved=2 * local + n_shared, barriers=1, runs=n_runs),
        )
    return (
        to_owner_nodes.phase_load(n_shared + sent, barriers=2),
        from_owner_nodes.phase_load(2 * local + 2 * owned, barriers=2, runs=n_runs),
        RankLoad(moved=sent + n_shared, barriers=2),
    )


# Phase of the dense all-reduce of a hybrid reduction on several nodes.
HYBRID_DENSE_PHASE = 1


class LayerVolume(NamedTuple):
    """Volumes and counts of one layer of nested groups.

    Attributes
    ----------
    out, back : SendVolume
        Volumes sent to other parts of the group in the reduction, and in the broadcast back.
    kept, summed : float or array (size,)
        Keys that stay on the rank and are moved in memory, and distinct keys received.
    kept_runs : float or array (size,)
        Runs of the keys that stay.
    """

    out: SendVolume
    back: SendVolume
    kept: Count
    summed: Count
    kept_runs: Count


def butterfly_loads(layers: Sequence[LayerVolume]) -> tuple[RankLoad, ...]:
    """Return the loads of an all-reduce by "butterfly"."""
    reduction, broadcast = [], []
    for out, back, kept, summed, kept_runs in layers:
        rows, runs = out.rows + back.rows + kept, out.runs + back.runs + kept_runs
        reduction.append(out.phase_load(rows + summed, runs=runs))
        broadcast.append(back.phase_load(rows, runs=runs))
    return (*reduction, *reversed(broadcast))


class HybridTables(NamedTuple):
    """Rows and slots in the tables of a rank of a hybrid reduction: float or array (size,) each.

    Attributes
    ----------
    local : float or array
        Keys on its node only.
    dense, pairs : float or array
        Keys reduced between nodes by "dense", and by pairs of nodes.
    owned, sent : float or array
        Keys reduced by the nodes of owners: owned by its node, and by others.
    """

    local: Count
    dense: Count
    pairs: Count
    owned: Count
    sent: Count


def hybrid_loads(
    n_shared: Count,
    n_runs: Count,
    tables: HybridTables,
    volumes: tuple[SendVolume, SendVolume, SendVolume],
    n_dense: float,
    node_of: Int32Array,
    rank: int | None = None,
) -> tuple[RankLoad, ...]:
    """Return the loads of an all-reduce by "hybrid".

    Parameters
    ----------
    n_shared, n_runs : float or array (size,)
        Keys of this rank that others hold, too, and their runs.
    tables : HybridTables
    volumes : three of SendVolume
        Volumes that this rank sends for its node: to the nodes of owners, back from them, and to the other
        nodes of pairs.
    n_dense : float
        Number of dense keys on all nodes.
    node_of : int32 (size,)
        Node of each rank.
    rank : int, optional
        Rank whose loads are returned; by default those of all ranks.
    """
    to_owner_nodes, from_owner_nodes, pairs = volumes
    if not node_of.any():
        nothing = SendVolume(0.0, 0.0, 0.0)
        return hierarchical_loads(n_shared, n_runs, (tables.local, 0.0, 0.0), nothing, nothing, True)
    filled = tables.dense + tables.pairs + tables.sent
    sent = SendVolume(*map(add, to_owner_nodes, pairs))
    return (
        sent.phase_load(n_shared + filled, barriers=2),
        _striped_load(n_dense, node_of, rank),
        from_owner_nodes.phase_load(2 * tables.local + 2 * tables.owned, barriers=2, runs=n_runs),
        RankLoad(moved=filled + n_shared, barriers=2),
    )


def _striped_load(n_dense: float, node_of: Int32Array, rank: int | None) -> RankLoad:
    """Return the load of the striped all-reduce, in which ranks with peers on all nodes have equal parts."""
    sizes = np.bincount(node_of)
    n_nodes, n_stripes = len(sizes), int(sizes.min())
    rows = np.where(local_ranks(node_of) < n_stripes, n_dense / n_stripes * (n_nodes - 1) / n_nodes, 0.0)
    messages = np.where(rows > 0, 2.0 * math.ceil(math.log2(n_nodes)), 0.0)
    waits = np.maximum(messages - 1, 0)
    counts = messages, 2 * rows, 2 * rows, rows, waits
    return RankLoad(*(counts if rank is None else (float(count[rank]) for count in counts)))


def dense_loads(
    n_keys: Count, n_global: int, buffer_keys: int, node_of: Int32Array, rank: int | None = None
) -> tuple[RankLoad, ...]:
    """Return the loads of an all-reduce by "dense", if MPI uses Rabenseifner's algorithm.

    Each buffer is filled, halved log2(p) times and doubled as often: 2 log2(p) messages with 2 n (p - 1) / p
    rows, of which half goes to the next rank, a quarter to the next but one, and so on.

    Parameters
    ----------
    n_keys : float or array (size,)
        Keys of this rank.
    n_global, buffer_keys : int
        Number of all keys, and of keys of a buffer.
    node_of : int32 (size,)
        Node of each rank.
    rank : int, optional
        Rank whose loads are returned; by default those of all ranks.
    """
    size = len(node_of)
    if size == 1:
        return (RankLoad(),)
    n_buffers = -(-n_global // buffer_keys)
    messages = 2.0 * math.ceil(math.log2(size)) * n_buffers
    rows = 2.0 * n_global * (size - 1) / size
    off_node = rows * _off_node_fraction(node_of)
    sums = n_global * (size - 1) / size
    moved = n_global + 4 * n_keys + sums  # filling, packing and unpacking on both sides, summing
    barriers = max(0.0, messages - 1)  # a wait for each step but the last
    sent = off_node if rank is None else float(off_node[rank])
    return (RankLoad(messages, rows, sent, moved, barriers),)


def _off_node_fraction(node_of: Int32Array) -> FloatArray:
    """Return the fraction of the rows of recursive halving that each rank sends to other nodes."""
    size = len(node_of)
    steps = math.ceil(math.log2(size))
    ranks = np.arange(size)
    fraction, total = np.zeros(size), 0.0
    for step in range(steps):
        partner = np.minimum(ranks ^ (1 << step), size - 1)
        fraction += (node_of[partner] != node_of) / 2.0 ** (step + 1)
        total += 1 / 2.0 ** (step + 1)
    return fraction / total
