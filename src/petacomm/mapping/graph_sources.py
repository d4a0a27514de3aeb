"""Communication graphs of what petamap knows: grids, matrices, schedules, reductions, MPI communicators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray
from petacomm.costs.occupancy import Occupancy
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.nlpkkt import row_bounds
from petacomm.reduction import ReductionPlan
from petacomm.schedule import Schedule
from petacomm.topology import Torus


def grid_graph(
    shape: Sequence[int],
    wrap: bool | Sequence[bool] = True,
    n_bytes: float | Sequence[float] = 1.0,
    corners: bool = False,
) -> CommunicationGraph:
    """Return the halo exchange of a Cartesian grid of ranks, the last dimension running fastest.

    Parameters
    ----------
    shape : sequence of int
    wrap : bool or sequence of bool
        Which dimensions are closed.
    n_bytes : float or sequence of float
        To a neighbour; of each dimension, or of all.
    corners : bool
        Whether neighbours across edges and corners exchange too, as many bytes as along the first of their
        dimensions; else only those along one dimension.
    """
    grid = Torus(shape, wrap)
    sizes = np.broadcast_to(np.asarray(n_bytes, np.float64), (grid.n_dimensions,))
    ranks = np.arange(grid.n_nodes)
    places = grid.coordinates(ranks)
    source, target, weights = [], [], []
    for step in product((-1, 0, 1), repeat=grid.n_dimensions):
        along = np.flatnonzero(step)
        if not len(along) or (len(along) > 1 and not corners):
            continue
        there = places + np.array(step)
        inside = np.all(((there >= 0) & (there < np.array(grid.shape))) | np.array(grid.wrap), axis=1)
        source.append(ranks[inside])
        target.append(grid.rank_of(there[inside]))
        weights.append(np.full(int(inside.sum()), sizes[along[0]]))
    ends = np.concatenate(source), np.concatenate(target)
    graph = CommunicationGraph.from_edges(grid.n_nodes, *ends, np.concatenate(weights))
    return replace(graph, grid=grid.shape)


def line_graph(shape: Sequence[int], dimensions: Sequence[int], n_bytes: float = 1.0) -> CommunicationGraph:
    """Return all-to-alls of the sub-communicators of a grid of ranks: e.g. of the lines or planes of an FFT.

    Parameters
    ----------
    shape : sequence of int
    dimensions : sequence of int
        Those in which the ranks of one sub-communicator differ.
    n_bytes : float
        From each of its ranks to each other one.
    """
    ranks = np.arange(math.prod(shape)).reshape(tuple(shape))
    last = range(len(shape) - len(dimensions), len(shape))
    members = np.moveaxis(ranks, list(dimensions), list(last))
    size = math.prod(shape[d] for d in dimensions)
    members = members.reshape(-1, size)
    source, target = np.repeat(members, size, axis=1), np.tile(members, size)
    return CommunicationGraph.from_edges(ranks.size, source, target, n_bytes)


def matrix_graph(matrix: Any, n_ranks: int, value_bytes: float = 8.0) -> CommunicationGraph:
    """Return what ranks send each other in a product of a square matrix and a vector.

    Rows and elements are dealt in equal runs; a rank gets each value that its rows need and it has not, once.

    Parameters
    ----------
    matrix : scipy.sparse matrix or array (n, n)
    n_ranks : int
    value_bytes : float
    """
    from scipy.sparse import coo_array

    whole = coo_array(matrix)
    n_rows, n_columns = whole.shape
    if n_rows != n_columns or not 1 <= n_ranks <= n_rows:
        raise ConfigError(
            f"a matrix of {n_rows} rows and {n_columns} columns on {n_ranks} ranks",
            mend="give a square one, and at most as many ranks as rows",
        )
    bounds = row_bounds(n_rows, n_ranks)
    rank = np.searchsorted(bounds, whole.row, "right") - 1
    needed = np.unique(rank * n_columns + whole.col.astype(np.int64))
    rank, column = np.divmod(needed, n_columns)
    owner = np.searchsorted(bounds, column, "right") - 1
    return CommunicationGraph.from_edges(n_ranks, owner, rank, value_bytes)


def weights_graph(matrix: Any) -> CommunicationGraph:
    """Return the graph of a matrix whose value in row i and column j is the bytes from rank i to rank j."""
    from scipy.sparse import coo_array

    whole = coo_array(matrix)
    if whole.shape[0] != whole.shape[1]:
        raise ConfigError(f"{whole.shape[0]} rows and {whole.shape[1]} columns", mend="both are ranks")
    return CommunicationGraph.from_edges(whole.shape[0], whole.row, whole.col, whole.data)


def schedule_graph(schedule: Schedule, itemsize: int) -> CommunicationGraph:
    """Return what ranks send each other in all rounds of a schedule, elements of `itemsize` bytes."""
    sums: list[CommunicationGraph] = []
    for part in schedule.rounds():
        moves = part.take(part.moves)
        ends = moves.source, moves.destination
        sums.append(CommunicationGraph.from_edges(schedule.n_ranks, *ends, itemsize * moves.length))
        if len(sums) == 64:
            sums = [added(sums)]
    return added(sums) if sums else CommunicationGraph.from_edges(schedule.n_ranks, [], [])


def added(graphs: Sequence[CommunicationGraph]) -> CommunicationGraph:
    """Return one graph of all that several of the same ranks send.

    Raises
    ------
    ConfigError
        If they have not as many ranks.
    """
    sizes = {graph.n_ranks for graph in graphs}
    if len(sizes) != 1:
        raise ConfigError(f"graphs of {sorted(sizes)} ranks", mend="all must have the same ranks")
    columns = [
        np.concatenate([getattr(graph, name) for graph in graphs])
        for name in ("sources", "targets", "n_bytes")
    ]
    return CommunicationGraph.from_edges(sizes.pop(), *columns)


def plan_graph(plan: ReductionPlan, k: int = 1, itemsize: int = 8) -> CommunicationGraph:
    """Return what ranks send each other in an all-reduce of k values a key. Collective.

    Counts are those of the plan: of "pairwise" each pair's shared keys, both ways; of the others what goes to
    owners and comes back, for that is the sharing that they carry, however they bundle it.
    """
    comm, graph = plan.comm, plan.graph
    by_pairs = plan.chosen == "pairwise" and graph.overlaps is not None
    counts = graph.overlaps if by_pairs else np.bincount(graph.owner, minlength=comm.size)
    assert counts is not None
    others = np.flatnonzero(counts * (np.arange(comm.size) != comm.rank))
    found = _of_rows(comm.allgather((others, counts[others] * float(k * itemsize))))
    return found if by_pairs else added([found, found.reversed()])


def occupancy_graph(
    occupancy: Occupancy, weights: FloatArray | float = 1.0, k: int = 1, itemsize: int = 8
) -> CommunicationGraph:
    """Return what ranks would send to owners of keys and get back, in an all-reduce of k values a key.

    Parameters
    ----------
    occupancy : Occupancy
        All keys, or a sample of them.
    weights : float64 (n_keys,) or number
        How many keys each stands for.
    k, itemsize : int
    """
    owner = occupancy.owner[occupancy.key_of].astype(np.int64)
    holder = occupancy.holders.astype(np.int64)
    size = occupancy.size
    each = np.broadcast_to(np.asarray(weights, np.float64), (len(occupancy.keys),))[occupancy.key_of]
    ends = np.append(holder, owner), np.append(owner, holder)
    return CommunicationGraph.from_edges(size, *ends, np.tile(each * (k * itemsize), 2))


def neighbours_graph(mpi_comm: Any) -> CommunicationGraph:
    """Return the graph of an MPI communicator made by `Create_dist_graph` or its adjacent twin. Collective.

    Weights are taken as bytes; without weights each message counts 1.

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
    return _of_rows(mpi_comm.allgather((list(targets), n_bytes)))


def _of_rows(rows: list[Any]) -> CommunicationGraph:
    """Return the graph of what each rank says that it sends: targets and bytes."""
    source = np.repeat(np.arange(len(rows)), [len(targets) for targets, _ in rows])
    target = np.concatenate([np.asarray(targets, np.int64) for targets, _ in rows])
    n_bytes = np.concatenate([np.asarray(sizes, np.float64) for _, sizes in rows])
    return CommunicationGraph.from_edges(len(rows), source, target, n_bytes)
