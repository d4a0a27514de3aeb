"""Communication graphs of Cartesian grids, matrices, schedules, reductions and MPI communicators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.host import require_memory
from petacomm.base.typing import FloatArray
from petacomm.costs.occupancy import Occupancy
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.nlpkkt import row_bounds
from petacomm.reduction import ReductionPlan
from petacomm.schedule import Schedule
from petacomm.topology import Torus

_MESSAGE_BYTES = 48  # of memory for each message of all-to-alls, as measured


def grid_graph(
    shape: Sequence[int],
    wrap: bool | Sequence[bool] = True,
    n_bytes: float | Sequence[float] = 1.0,
    corners: bool = False,
) -> CommunicationGraph:
    """Return the graph of the halo exchange of a Cartesian grid of ranks, the last dimension running fastest.

    Parameters
    ----------
    shape : sequence of int
    wrap : bool or sequence of bool
        Which dimensions are periodic.
    n_bytes : float or sequence of float
        Bytes to a neighbour, for each dimension or for all.
    corners : bool
        Whether neighbours across edges and corners exchange too, as many bytes as along the first of their
        dimensions; else only neighbours along one dimension.
    """
    grid = Torus(shape, wrap)
    sizes = np.broadcast_to(np.asarray(n_bytes, np.float64), (grid.n_dimensions,))
    ranks = np.arange(grid.n_nodes)
    coordinates = grid.coordinates(ranks)
    source, target, weights = [], [], []
    for step in product((-1, 0, 1), repeat=grid.n_dimensions):
        along = np.flatnonzero(step)
        if not len(along) or (len(along) > 1 and not corners):
            continue
        shifted = coordinates + np.array(step)
        inside = np.all(((shifted >= 0) & (shifted < np.array(grid.shape))) | np.array(grid.wrap), axis=1)
        source.append(ranks[inside])
        target.append(grid.node_at(shifted[inside]))
        weights.append(np.full(int(inside.sum()), sizes[along[0]]))
    ends = np.concatenate(source), np.concatenate(target)
    graph = CommunicationGraph.from_edges(grid.n_nodes, *ends, np.concatenate(weights))
    return replace(graph, grid=grid.shape)


def subgrid_alltoall_graph(
    shape: Sequence[int], dimensions: Sequence[int], n_bytes: float = 1.0
) -> CommunicationGraph:
    """Return the graph of all-to-alls in sub-grids of a grid of ranks, e.g. the lines or planes of an FFT.

    Parameters
    ----------
    shape : sequence of int
    dimensions : sequence of int
        Dimensions of the sub-grids: those in which the ranks of one sub-communicator differ.
    n_bytes : float
        Bytes from each rank to each other rank of its sub-communicator.

    Raises
    ------
    ResourceError
        If there is no memory for the messages, about 50 bytes each.
    """
    n_messages = math.prod(shape) * math.prod(shape[d] for d in dimensions)
    mend = "give smaller sub-grids"
    require_memory(_MESSAGE_BYTES * n_messages, f"{n_messages:,} messages of all-to-alls", mend)
    ranks = np.arange(math.prod(shape)).reshape(tuple(shape))
    last = range(len(shape) - len(dimensions), len(shape))
    members = np.moveaxis(ranks, list(dimensions), list(last))
    size = math.prod(shape[d] for d in dimensions)
    members = members.reshape(-1, size)
    source, target = np.repeat(members, size, axis=1), np.tile(members, size)
    return CommunicationGraph.from_edges(ranks.size, source, target, n_bytes)


def matvec_graph(matrix: Any, n_ranks: int, value_bytes: float = 8.0) -> CommunicationGraph:
    """Return the graph of the communication of a product of a square matrix and a vector.

    Rows and elements are distributed in equal contiguous blocks; a rank receives each value that its rows
    need and that it does not own once.

    Parameters
    ----------
    matrix : scipy.sparse matrix or array (n, n)
    n_ranks : int
    value_bytes : float
        Bytes of an element of the vector.
    """
    from scipy.sparse import coo_array

    entries = coo_array(matrix)
    n_rows, n_columns = entries.shape
    if n_rows != n_columns or not 1 <= n_ranks <= n_rows:
        raise ConfigError(
            f"a matrix of {n_rows} rows and {n_columns} columns on {n_ranks} ranks",
            mend="give a square one, and at most as many ranks as rows",
        )
    bounds = row_bounds(n_rows, n_ranks)
    rank = np.searchsorted(bounds, entries.row, "right") - 1
    needed = np.unique(rank * n_columns + entries.col.astype(np.int64))
    rank, column = np.divmod(needed, n_columns)
    owner = np.searchsorted(bounds, column, "right") - 1
    return CommunicationGraph.from_edges(n_ranks, owner, rank, value_bytes)


def schedule_graph(schedule: Schedule, itemsize: int) -> CommunicationGraph:
    """Return the graph of all messages of a schedule, with elements of `itemsize` bytes."""
    sums: list[CommunicationGraph] = []
    for part in schedule.rounds():
        messages = part.take(part.is_message)
        ends = messages.source, messages.destination
        sums.append(CommunicationGraph.from_edges(schedule.n_ranks, *ends, itemsize * messages.length))
        if len(sums) == 64:
            sums = [add_graphs(sums)]
    return add_graphs(sums) if sums else CommunicationGraph.from_edges(schedule.n_ranks, [], [])


def add_graphs(graphs: Sequence[CommunicationGraph]) -> CommunicationGraph:
    """Return the sum of several graphs of the same ranks.

    Raises
    ------
    ConfigError
        If they have different numbers of ranks.
    """
    sizes = {graph.n_ranks for graph in graphs}
    if len(sizes) != 1:
        raise ConfigError(f"graphs of {sorted(sizes)} ranks", mend="all must have the same ranks")
    columns = [
        np.concatenate([getattr(graph, name) for graph in graphs])
        for name in ("sources", "targets", "n_bytes")
    ]
    return CommunicationGraph.from_edges(sizes.pop(), *columns)


def reduction_plan_graph(plan: ReductionPlan, k: int = 1, itemsize: int = 8) -> CommunicationGraph:
    """Return the graph of an all-reduce of k values per key by a plan. Collective on plan.comm.

    For "pairwise" it has the keys shared by each pair of ranks, in both directions; for the other algorithms
    the keys sent to their owners and back, irrespective of how the algorithm combines messages.
    """
    comm, graph = plan.comm, plan.graph
    by_pairs = plan.chosen == "pairwise" and graph.overlaps is not None
    counts = graph.overlaps if by_pairs else np.bincount(graph.owner, minlength=comm.size)
    assert counts is not None
    others = np.flatnonzero(counts * (np.arange(comm.size) != comm.rank))
    sent = _from_rank_lists(comm.allgather((others, counts[others] * float(k * itemsize))))
    return sent if by_pairs else add_graphs([sent, sent.reversed()])


def occupancy_graph(
    occupancy: Occupancy, weights: FloatArray | float = 1.0, k: int = 1, itemsize: int = 8
) -> CommunicationGraph:
    """Return the graph of an all-reduce of k values per key, between the holders of keys and their owners.

    Parameters
    ----------
    occupancy : Occupancy
        All keys, or a sample of them.
    weights : float64 (n_keys,) or number
        Number of keys that each represents.
    k, itemsize : int
        Values per key, and bytes of a value.
    """
    owner = occupancy.owner[occupancy.key_of].astype(np.int64)
    holder = occupancy.holders.astype(np.int64)
    size = occupancy.size
    each = np.broadcast_to(np.asarray(weights, np.float64), (len(occupancy.keys),))[occupancy.key_of]
    ends = np.append(holder, owner), np.append(owner, holder)
    return CommunicationGraph.from_edges(size, *ends, np.tile(each * (k * itemsize), 2))


def mpi_neighbours_graph(mpi_comm: Any) -> CommunicationGraph:
    """Return the graph of an MPI distributed-graph communicator. Collective on mpi_comm.

    The weights of its edges are taken as bytes; without weights each edge has 1 byte.

    Parameters
    ----------
    mpi_comm : mpi4py.MPI.Distgraphcomm

    Raises
    ------
    ConfigError
        If the communicator has no graph.
    """
    if not hasattr(mpi_comm, "Get_dist_neighbors"):
        raise ConfigError("the communicator has no graph", mend="give one of Create_dist_graph")
    _, targets, weights = mpi_comm.Get_dist_neighbors()
    n_bytes = [1] * len(targets) if weights is None else list(weights[1])
    return _from_rank_lists(mpi_comm.allgather((list(targets), n_bytes)))


def _from_rank_lists(rows: list[Any]) -> CommunicationGraph:
    """Return the graph of the targets and bytes of each rank."""
    source = np.repeat(np.arange(len(rows)), [len(targets) for targets, _ in rows])
    target = np.concatenate([np.asarray(targets, np.int64) for targets, _ in rows])
    n_bytes = np.concatenate([np.asarray(sizes, np.float64) for _, sizes in rows])
    return CommunicationGraph.from_edges(len(rows), source, target, n_bytes)
