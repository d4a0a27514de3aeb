"""Renumbering of the ranks of a running program by the bytes that they send each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import real_array, require_instance, whole_array
from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mapping.comparison import AUTO, MappingTask, map_ranks
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.launchers.split import new_ranks, reorder_communicator
from petacomm.mapping.metrics import mapping_metrics, require_capacities
from petacomm.mapping.node_counts import with_node_counts
from petacomm.mapping.placement import Placement
from petacomm.mapping.strategies import Resources
from petacomm.mpi import Communicator, MpiCommunicator, agree_on_errors
from petacomm.mpi.agreement import require_communicator
from petacomm.topology import FatTree, TopologyManager, local_ranks
from petacomm.topology.allocation import Allocation
from petacomm.topology.detect import gather_allocation

_MOST_WEIGHT = 2**31 - 1  # MPI's weights are int
_NO_LINK = 1e30  # bytes per second


def gather_graph(comm: Communicator, targets: npt.ArrayLike, n_bytes: npt.ArrayLike) -> CommunicationGraph:
    """Return the communication graph of which each rank knows what it sends. Collective on comm.

    Parameters
    ----------
    comm : Communicator
    targets : int (n,)
        Ranks that this rank sends to.
    n_bytes : (n,) or number
        Bytes to each.

    Returns
    -------
    CommunicationGraph
        The same on all ranks.

    Raises
    ------
    ConfigError
        On all ranks, if a rank of them is out of range, or bytes are negative or not finite.

    Examples
    --------
    >>> import petacomm
    >>> comm = petacomm.world()
    >>> petacomm.gather_graph(comm, [(comm.rank + 1) % comm.size], 800).n_ranks == comm.size
    True
    """
    with agree_on_errors(comm):
        to = whole_array(targets, "targets")
        own = CommunicationGraph.from_edges(
            comm.size, np.full(to.shape, comm.rank), to, real_array(n_bytes, "n_bytes")
        )
    sent = comm.allgather((own.targets, own.n_bytes))
    offsets = np.concatenate([[0], np.cumsum([len(one) for one, _ in sent])]).astype(np.int64)
    targets, n_bytes = (np.concatenate(part) for part in zip(*sent, strict=True))
    return CommunicationGraph(offsets, targets, n_bytes)


def reorder(
    comm: Communicator,
    graph: CommunicationGraph,
    *,
    allocation: TopologyManager | None = None,
    strategy: str = AUTO,
    capacity: FloatArray | None = None,
    seed: int = 0,
) -> Communicator:
    """Return a communicator of the same processes, ranked so that the busiest link carries less. Collective.

    Rank r of the graph is rank r of the communicator that is returned: what it sends decides which process it
    is. Where no order is better than that of `comm`, it is kept.

    Parameters
    ----------
    comm : Communicator
    graph : CommunicationGraph
        Bytes between ranks, the same on all ranks: from `gather_graph`, a file or a recording.
    allocation : TopologyManager, optional
        Where the processes of `comm` run; by default as they detect it (Slurm's switches, a Cray's cabinets,
        or names of hosts under one switch).
    strategy : str
        Of `map_ranks`.
    capacity : float64 (n_links,), optional
        Bandwidth of each link of the network, in bytes per second.
    seed : int

    Returns
    -------
    Communicator

    Raises
    ------
    ConfigError
        On all ranks, if graph or allocation are of another number of ranks, or the strategy cannot be used.

    Examples
    --------
    >>> import petacomm
    >>> comm = petacomm.world()
    >>> graph = petacomm.gather_graph(comm, [(comm.rank + 1) % comm.size], 800)
    >>> mine = petacomm.reorder(comm, graph)
    >>> mine.size == comm.size
    True
    """
    require_communicator(comm)
    where = gather_allocation(comm) if allocation is None else allocation
    ranks = np.arange(comm.size)
    with agree_on_errors(comm):
        require_instance(graph, "graph", CommunicationGraph, "make one by gather_graph")
        require_instance(where, "allocation", TopologyManager)
        for name, n in (("graph", graph.n_ranks), ("allocation", where.n_ranks)):
            if n != comm.size:
                raise ConfigError(
                    f"the {name} has {n} ranks, the communicator {comm.size}", mend="give one of as many"
                )
        if comm.rank == 0:
            ranks = placed_ranks(graph, where, strategy=strategy, capacity=capacity, seed=seed)
    return reorder_communicator(comm, comm.bcast(ranks))


def placed_ranks(
    graph: CommunicationGraph,
    allocation: TopologyManager,
    *,
    strategy: str = AUTO,
    capacity: FloatArray | None = None,
    seed: int = 0,
) -> Int64Array:
    """Return the new rank of each process of a job, for `reorder_communicator`.

    Parameters
    ----------
    graph : CommunicationGraph
    allocation : TopologyManager
        Where the processes run, by their current rank.
    strategy, capacity, seed
        As for `reorder`.

    Returns
    -------
    int64 (n_ranks,)
        The current ranks where no placement has a smaller largest load.
    """
    resources, capacity, node_of = _processes(allocation, capacity)
    task = MappingTask(graph, resources, capacity, seed)
    current = Placement.from_nodes(node_of, resources.network, resources.ranks_per_node)
    chosen = map_ranks(task, strategy).chosen.placement
    nodes = with_node_counts(chosen.nodes, np.bincount(node_of), graph, resources.network)
    fitted = Placement.from_nodes(nodes, resources.network, resources.ranks_per_node)
    before, after = (
        mapping_metrics(graph, one, resources.network, task.capacity).objective for one in (current, fitted)
    )
    return new_ranks(fitted, current) if after < before else np.arange(graph.n_ranks)


def _processes(
    allocation: TopologyManager, capacity: FloatArray | None
) -> tuple[Resources, FloatArray | None, Int64Array]:
    """Return the nodes that have processes, bandwidths of the links, and the node of each process."""
    nodes, node_of, n_processes = np.unique(allocation.nodes, return_inverse=True, return_counts=True)
    network, width = allocation.network, int(n_processes.max())
    alike = bool(np.all(n_processes == width))
    if alike or not isinstance(network, FatTree) or set(network.parents) != {1}:
        return Resources(Allocation(network, nodes), width), capacity, node_of
    # Each process is a node of its own, below what was one, by a link that counts for nothing.
    leaves = allocation.nodes * width + local_ranks(allocation.nodes)
    tree = FatTree([width, *network.children], [1, *network.parents])
    return Resources(Allocation(tree, leaves)), _with_leaves(capacity, network, width), np.arange(len(leaves))


def _with_leaves(capacity: FloatArray | None, tree: FatTree, width: int) -> FloatArray:
    """Return bandwidths of links of a tree that has `width` leaves below each of its own."""
    given = np.ones(tree.n_links) if capacity is None else require_capacities(capacity, tree)
    leaves = np.full(tree.n_nodes * width, _NO_LINK)
    up, down = np.split(given, 2)
    return np.concatenate([leaves, up, leaves, down])


def neighbour_communicator(comm: Communicator, graph: CommunicationGraph) -> Any:
    """Return MPI's communicator with the neighbours of a graph, for neighbourhood collectives. Collective.

    It is made by ``MPI_Dist_graph_create_adjacent`` with ranks as they are, bytes being the weights.

    Parameters
    ----------
    comm : Communicator
        Of ranks that MPI knows, such as one from `reorder`.
    graph : CommunicationGraph
        The same on all ranks.

    Returns
    -------
    mpi4py.MPI.Distgraphcomm
        Neighbours in the order of ranks. To be freed.

    Raises
    ------
    ConfigError
        If there is no MPI, or the graph has another number of ranks.

    Examples
    --------
    >>> import petacomm
    >>> comm = petacomm.world()
    >>> graph = petacomm.gather_graph(comm, [(comm.rank + 1) % comm.size], 800)
    >>> if comm.size > 1:
    ...     ring = petacomm.neighbour_communicator(petacomm.reorder(comm, graph), graph)
    ...     ring.Free()
    """
    if not isinstance(comm, MpiCommunicator):
        raise ConfigError("neighbours of a process without MPI", mend="start it by mpiexec")
    require_instance(graph, "graph", CommunicationGraph, "make one by gather_graph")
    if graph.n_ranks != comm.size:
        raise ConfigError(
            f"the graph has {graph.n_ranks} ranks, the communicator {comm.size}", mend="give one of as many"
        )
    sends = slice(*graph.offsets[comm.rank : comm.rank + 2])
    receives = np.flatnonzero(graph.targets == comm.rank)
    return comm.mpi_comm.Create_dist_graph_adjacent(
        graph.sources[receives].tolist(),
        graph.targets[sends].tolist(),
        _weights(graph.n_bytes[receives]),
        _weights(graph.n_bytes[sends]),
        reorder=False,
    )


def _weights(n_bytes: FloatArray) -> list[int]:
    return [int(one) for one in np.clip(n_bytes, 1, _MOST_WEIGHT)]
