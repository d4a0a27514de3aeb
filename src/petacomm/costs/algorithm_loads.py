"""What each way to reduce asks of a rank, from counts alone.

The same formulas serve a plan that stands, the tuner that chooses before one is built, and the planner, which
has no ranks: counts may be numbers, or arrays with one of them a rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petacomm.costs.run_counts import graph_runs
from petacomm.mpi.communicator import Communicator
from petacomm.network.communication_load import Count, Share
from petacomm.sharing.sharing_graph import SharingGraph


class Volume(NamedTuple):
    """What a rank sends in one exchange.

    Attributes
    ----------
    messages, rows, off_node_rows : float or array (size,)
        Ranks it sends to, rows for all of them, and those that go to other nodes.
    runs : float or array (size,)
        Runs of neighbouring rows in which these lie, where lists of rows say what is sent.
    """

    messages: Count
    rows: Count
    off_node_rows: Count
    runs: Count = 0.0

    @staticmethod
    def of(counts: Int64Array, rank: int, node_of: Int32Array, runs: float = 0.0) -> Volume:
        """Count what `rank` sends, where `counts[r]` rows go to each rank r."""
        off_node = counts[node_of != node_of[rank]]
        return Volume(float(np.count_nonzero(counts)), float(counts.sum()), float(off_node.sum()), runs)

    def share(self, moved: Count, barriers: Count = 0.0, runs: Count = 0.0) -> Share:
        """Return what a phase asks of the rank in which it sends this, and moves rows that lie in runs."""
        return Share(self.messages, self.rows, self.off_node_rows, moved, barriers, runs)


class Sharing(NamedTuple):
    """The counts that tell what most ways to reduce would ask of a rank, before any is built.

    Attributes
    ----------
    n_keys, n_shared, n_lent : float or array (size,)
        Keys of a rank; those that others hold as well; those of them that it owns.
    n_runs : float or array (size,)
        Runs in which the shared ones lie, as `SharingGraph.n_runs` has them.
    pairs, ghosts, asked : Volume
        What it would send by pairs; what goes to owners; what it sends back as an owner.
    """

    n_keys: Count
    n_shared: Count
    n_lent: Count
    n_runs: Count
    pairs: Volume
    ghosts: Volume
    asked: Volume

    @staticmethod
    def of(comm: Communicator, keys: Int64Array, graph: SharingGraph) -> Sharing:
        """Return the counts of this rank; one small all-to-all tells what it is asked for. Collective.

        By pairs, rows are exact. Who shares keys is not known where the graph has no overlaps: partners are
        then all ranks, if there are keys for all, and they are as often on other nodes as ranks are.
        """
        rank, node_of = comm.rank, comm.node_of
        ghost_counts = np.bincount(graph.owner[graph.owner != rank], minlength=comm.size)
        asked_counts, _ = comm.alltoallv(ghost_counts, np.ones(comm.size, np.int64))
        pair_runs, ghost_runs, asked_runs = graph_runs(graph, keys, rank)
        ghosts = Volume.of(ghost_counts, rank, node_of, ghost_runs)
        asked = Volume.of(asked_counts, rank, node_of, asked_runs)
        if graph.overlaps is not None:
            pairs = Volume.of(graph.overlaps, rank, node_of, pair_runs)
        else:
            rows = float(graph.multiplicity.sum(dtype=np.int64) - len(keys))
            off_node = np.count_nonzero(node_of != node_of[rank]) / max(1, comm.size - 1)
            pairs = Volume(float(min(comm.size - 1, rows)), rows, rows * off_node, pair_runs)
        n_lent, n_runs = graph.n_lent(rank), graph.n_runs(keys)
        return Sharing(float(len(keys)), graph.n_shared, n_lent, n_runs, pairs, ghosts, asked)


def shares_by_counts(
    sharing: Sharing, n_global: int, buffer_keys: int, node_of: Int32Array, rank: int | None = None
) -> dict[str, tuple[Share, ...]]:
    """Return what each algorithm that `Sharing` tells asks of a rank, or of all, by its name.

    "hierarchical" is among them on one node; between nodes it depends on who holds a key with whom.

    Parameters
    ----------
    sharing : Sharing
    n_global, buffer_keys : int
        Keys that exist, and keys of a buffer of "dense".
    node_of : int32 (size,)
    rank : int, optional
        Without it, for all ranks.
    """
    found = {
        "dense": dense_shares(sharing.n_keys, n_global, buffer_keys, node_of, rank),
        "pairwise": pairwise_shares(sharing.pairs, sharing.n_shared),
        "owner": owner_shares(sharing.ghosts, sharing.asked, sharing.n_lent),
    }
    if not node_of.any():
        # Each rank reduces an equal part of the node's rows: all together those that they share.
        tables = sharing.n_shared, 0.0, 0.0
        nothing = Volume(0.0, 0.0, 0.0)
        found["hierarchical"] = hierarchical_shares(
            sharing.n_shared, sharing.n_runs, tables, nothing, nothing, True
        )
    return found


def pairwise_shares(pairs: Volume, n_shared: Count) -> tuple[Share, ...]:
    """Return what an all-reduce by pairs asks of a rank.

    Parameters
    ----------
    pairs : Volume
        The keys shared with each other rank.
    n_shared : float or array (size,)
        Keys of this rank that any other holds.
    """
    return (pairs.share(moved=2 * pairs.rows + n_shared, runs=2 * pairs.runs),)


def owner_shares(ghosts: Volume, asked: Volume, n_lent: Count) -> tuple[Share, ...]:
    """Return what a reduction onto owners and the broadcast back ask of a rank.

    Parameters
    ----------
    ghosts, asked : Volume
        What goes to the owners, and what owners send back.
    n_lent : float or array (size,)
        Keys of this rank that others hold as ghosts.
    """
    rows, runs = ghosts.rows + asked.rows, ghosts.runs + asked.runs
    return ghosts.share(rows + n_lent, runs=runs), asked.share(rows, runs=runs)


def hierarchical_shares(
    n_shared: Count,
    n_runs: Count,
    tables: tuple[Count, Count, Count],
    there: Volume,
    home: Volume,
    alone: bool,
) -> tuple[Share, ...]:
    """Return what sums on each node, and then between nodes, ask of a rank.

    Values of plain vectors are copied into the node's memory and out of it.

    Parameters
    ----------
    n_shared, n_runs : float or array (size,)
        Keys of this rank that any other holds, and the runs in which they lie: those of all ranks of a node
        are about those of its tables.
    tables : three of float or array (size,)
        Rows in the tables of what the rank reduces: of keys on its node alone, of those that its node owns
        and others hold, slots of what these send included, and of those that go away, with their slots.
    there, home : Volume
        What the rank carries to the nodes of owners, and what it carries back.
    alone : bool
        Whether there is one node.
    """
    local, met, sent = tables
    if alone:
        return (Share(moved=n_shared, barriers=1), Share(moved=2 * local + n_shared, barriers=1, runs=n_runs))
    return (
        there.share(n_shared + sent, barriers=2),
        home.share(2 * local + 2 * met, barriers=2, runs=n_runs),
        Share(moved=sent + n_shared, barriers=2),
    )


# The phase of a hybrid's dense all-reduce, where there are several nodes.
HYBRID_LANES = 1


class Hop(NamedTuple):
    """What one layer of nested groups asks of a rank.

    Attributes
    ----------
    out, back : Volume
        What goes to other parts of its group, and what goes back there.
    kept, summed : float or array (size,)
        Keys that it keeps and moves, and those that come from others, each once.
    kept_runs : float or array (size,)
        Runs of those kept.
    """

    out: Volume
    back: Volume
    kept: Count
    summed: Count
    kept_runs: Count


def butterfly_shares(hops: Sequence[Hop]) -> tuple[Share, ...]:
    """Return what sums on the way through nested groups, and the way back, ask of a rank."""
    there, home = [], []
    for out, back, kept, summed, kept_runs in hops:
        rows, runs = out.rows + back.rows + kept, out.runs + back.runs + kept_runs
        there.append(out.share(rows + summed, runs=runs))
        home.append(back.share(rows, runs=runs))
    return (*there, *reversed(home))


class HybridTables(NamedTuple):
    """Rows and slots in the tables of a hybrid's rank: float or array (size,) each.

    Attributes
    ----------
    local : float or array
        Of keys on its node alone.
    dense, pairs : float or array
        Of those that cross densely, and by pairs of nodes.
    met, sent : float or array
        Of those that cross through owners: owned by its node, and by others.
    """

    local: Count
    dense: Count
    pairs: Count
    met: Count
    sent: Count


def hybrid_shares(
    n_shared: Count,
    n_runs: Count,
    tables: HybridTables,
    volumes: tuple[Volume, Volume, Volume],
    n_dense: float,
    node_of: Int32Array,
    rank: int | None = None,
) -> tuple[Share, ...]:
    """Return what sums on each node, and then between nodes in three ways at once, ask of a rank.

    Parameters
    ----------
    n_shared, n_runs : float or array (size,)
        Keys of this rank that any other holds, and the runs in which they lie.
    tables : HybridTables
    volumes : three of Volume
        What the rank carries to the nodes of owners, back from there, and to the other nodes of pairs.
    n_dense : float
        Keys that cross densely, on all nodes.
    node_of : int32 (size,)
    rank : int, optional
        Without it, for all ranks.
    """
    there, home, pairs = volumes
    local, dense, by_pairs, met, sent = tables
    if not node_of.any():
        nothing = Volume(0.0, 0.0, 0.0)
        return hierarchical_shares(n_shared, n_runs, (local, 0.0, 0.0), nothing, nothing, True)
    filled = dense + by_pairs + sent
    return (
        Share(
            there.messages + pairs.messages,
            there.rows + pairs.rows,
            there.off_node_rows + pairs.off_node_rows,
            moved=n_shared + filled,
            barriers=2,
        ),
        _lane_share(n_dense, node_of, rank),
        home.share(2 * local + 2 * met, barriers=2, runs=n_runs),
        Share(moved=filled + n_shared, barriers=2),
    )


def _lane_share(n_dense: float, node_of: Int32Array, rank: int | None) -> Share:
    """Return what the all-reduce of equal parts asks of each rank that has a peer on every node."""
    sizes = np.bincount(node_of)
    n_nodes, n_lanes = len(sizes), int(sizes.min())
    order = np.argsort(node_of, kind="stable")
    number = np.empty(len(node_of), np.int64)
    number[order] = np.arange(len(node_of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = np.where(number < n_lanes, n_dense / n_lanes * (n_nodes - 1) / n_nodes, 0.0)
    messages = np.where(rows > 0, 2.0 * math.ceil(math.log2(n_nodes)), 0.0)
    waits = np.maximum(messages - 1, 0)
    every = messages, 2 * rows, 2 * rows, rows, waits
    return Share(*(every if rank is None else (float(counts[rank]) for counts in every)))


def dense_shares(
    n_keys: Count, n_global: int, buffer_keys: int, node_of: Int32Array, rank: int | None = None
) -> tuple[Share, ...]:
    """Return what an all-reduce over every key asks of a rank, if MPI does it in Rabenseifner's way.

    Each of the buffers is filled, halved log2(p) times and doubled as often: 2 log2(p) messages that hold
    2 n (p - 1) / p rows, of which half goes to the next rank, a quarter to the next but one, and so on.

    Parameters
    ----------
    n_keys : float or array (size,)
        Keys of this rank.
    n_global, buffer_keys : int
        Keys that exist, and keys of a buffer.
    node_of : int32 (size,)
    rank : int, optional
        Without it, for all ranks.
    """
    size = len(node_of)
    if size == 1:
        return (Share(),)
    n_buffers = -(-n_global // buffer_keys)
    messages = 2.0 * math.ceil(math.log2(size)) * n_buffers
    rows = 2.0 * n_global * (size - 1) / size
    off_node = rows * _off_node_part(node_of)
    sums = n_global * (size - 1) / size
    moved = n_global + 4 * n_keys + sums  # filled, packed and unpacked on either side, summed
    steps_before_last = max(0.0, messages - 1)  # each is waited for
    sent = off_node if rank is None else float(off_node[rank])
    return (Share(messages, rows, sent, moved, steps_before_last),)


def _off_node_part(node_of: Int32Array) -> FloatArray:
    """Return which part of the rows of recursive halving each rank sends to other nodes."""
    size = len(node_of)
    steps = math.ceil(math.log2(size))
    ranks = np.arange(size)
    part, total = np.zeros(size), 0.0
    for step in range(steps):
        partner = np.minimum(ranks ^ (1 << step), size - 1)
        part += (node_of[partner] != node_of) / 2.0 ** (step + 1)
        total += 1 / 2.0 ** (step + 1)
    return part / total
