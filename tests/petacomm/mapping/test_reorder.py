"""Ranks of running programs, placed by what they send."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks
from open_mpi_hosts import run_on_hosts

import petacomm
from petacomm.base.errors import ConfigError
from petacomm.mapping.graph_sources import grid_graph
from petacomm.mapping.reorder import placed_ranks
from petacomm.mpi import agree
from petacomm.network.routes import routed_link_loads
from petacomm.topology import FatTree, TopologyManager, Torus
from petacomm.topology.detect import gather_allocation

NETWORKS = [Torus((3, 2, 2)), Torus((5,), wrap=(False,)), FatTree([3, 4], [1, 1]), FatTree([6], [1])]


def ring(n, size=800.0):
    ranks = np.arange(n)
    return petacomm.CommunicationGraph.from_edges(n, ranks, (ranks + 1) % n, size)


def busiest(graph, network, nodes):
    """Return the bytes on the busiest link, of ranks on nodes."""
    return float(routed_link_loads(network, graph.traffic(nodes, network.n_nodes)).max(initial=0.0))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(NETWORKS), st.integers(0, 2**31), st.data())
def test_each_process_has_a_rank_and_no_link_more_load(network, seed, data):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, network.n_nodes)  # also nodes without processes, and with fewer than others
    counts[rng.integers(network.n_nodes)] += 1
    nodes = rng.permutation(np.repeat(np.arange(network.n_nodes), counts))
    n = len(nodes)
    source, target = rng.integers(n, size=(2, 3 * n))
    graph = petacomm.CommunicationGraph.from_edges(n, source, target, rng.integers(0, 1000, 3 * n))
    strategy = data.draw(st.sampled_from(["auto", "greedy", "recursive"]))
    ranks = placed_ranks(graph, TopologyManager(network, nodes), strategy=strategy)
    assert sorted(ranks) == list(range(n))
    renumbered = np.empty(n, np.int64)
    renumbered[ranks] = nodes
    before, after = busiest(graph, network, nodes), busiest(graph, network, renumbered)
    assert after < before or (after == before and np.array_equal(ranks, np.arange(n)))


def test_a_ring_dealt_to_nodes_in_turn():
    network = FatTree([4], [1])
    nodes = np.tile(np.arange(4), 4)
    ranks = placed_ranks(ring(16), TopologyManager(network, nodes))
    renumbered = np.empty(16, np.int64)
    renumbered[ranks] = nodes
    assert busiest(ring(16), network, nodes) == 4 * 800
    assert busiest(ring(16), network, renumbered) == 800


@pytest.mark.parametrize(
    ("network", "nodes"),
    [
        (FatTree([3], [1]), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]),
        (FatTree([2, 2], [1, 1]), [0, 1, 2, 3, 0, 1, 0, 0]),  # as Slurm dealt eight tasks
        (FatTree([2, 2], [1, 1]), [0, 2, 1, 3, 0, 3, 0]),
    ],
)
def test_nodes_with_fewer_processes(network, nodes):
    n, nodes = len(nodes), np.array(nodes)
    ranks = placed_ranks(ring(n), TopologyManager(network, nodes))
    renumbered = np.empty(n, np.int64)
    renumbered[ranks] = nodes
    assert busiest(ring(n), network, renumbered) == 800 < busiest(ring(n), network, nodes)
    bandwidths = np.full(network.n_links, 2e9)
    ranks = placed_ranks(ring(n), TopologyManager(network, nodes), capacity=bandwidths)
    renumbered[ranks] = nodes
    assert busiest(ring(n), network, renumbered) == 800


def test_a_torus_with_a_node_that_has_fewer():
    nodes = np.array([0, 1, 2, 3, 0, 1, 2])
    ranks = placed_ranks(ring(7), TopologyManager(Torus((4,)), nodes))
    renumbered = np.empty(7, np.int64)
    renumbered[ranks] = nodes
    assert busiest(ring(7), Torus((4,)), renumbered) <= busiest(ring(7), Torus((4,)), nodes)


def test_an_order_that_is_best_is_kept():
    network = Torus((4, 4))
    ranks = placed_ranks(grid_graph([4, 4]), TopologyManager.from_network(network))
    np.testing.assert_array_equal(ranks, np.arange(16))


def test_a_process_alone():
    comm = petacomm.world()
    assert petacomm.reorder(comm, petacomm.gather_graph(comm, [], [])) is comm
    with pytest.raises(ConfigError, match="start it by mpiexec"):
        petacomm.neighbour_communicator(comm, petacomm.gather_graph(comm, [], []))


def neighbours_of_a_ring(comm):
    graph = petacomm.gather_graph(comm, [(comm.rank + 1) % comm.size], 800)
    np.testing.assert_array_equal(graph.targets, ring(comm.size).targets)
    n_nodes = (comm.size + 1) // 2
    where = TopologyManager(FatTree([max(n_nodes, 2)], [1]), np.arange(comm.size) % n_nodes)
    mine = petacomm.reorder(comm, graph, allocation=where)
    processes = np.array(mine.allgather(comm.rank))
    assert sorted(processes) == list(range(comm.size))
    assert busiest(graph, where.network, where.nodes[processes]) <= busiest(graph, where.network, where.nodes)
    if comm.size > 1:
        neighbours = petacomm.neighbour_communicator(mine, graph)
        assert neighbours.neighbor_allgather(mine.rank) == [(mine.rank - 1) % comm.size]
        sources, targets, _ = neighbours.Get_dist_neighbors()[:3]
        assert (sources, targets) == ([(mine.rank - 1) % comm.size], [(mine.rank + 1) % comm.size])
        neighbours.Free()


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_neighbours_of_ranks_with_a_new_order(n_ranks):
    run_ranks(neighbours_of_a_ring, n_ranks)


def places_that_ranks_detect(comm):
    graph = petacomm.gather_graph(comm, [(comm.rank + 1) % comm.size], 1.0)
    # ranks dealt to hosts in turn, as by --map-by node
    os.environ["SLURMD_NODENAME"] = f"node{comm.rank % 2}"
    mine = petacomm.reorder(comm, graph)
    nodes = gather_allocation(mine).nodes
    assert np.count_nonzero(nodes != np.roll(nodes, 1)) == 2


def test_places_that_ranks_detect():
    run_ranks(places_that_ranks_detect, 5)


_RING = """
import socket
import petacomm
comm = petacomm.world()
mine = petacomm.reorder(comm, petacomm.gather_graph(comm, [(comm.rank + 1) % comm.size], 800))
hosts = mine.allgather(socket.gethostname())
if mine.rank == 0:
    print(*hosts)
"""


def test_hosts_that_open_mpi_deals_ranks_to_in_turn(tmp_path):
    said = run_on_hosts(_RING, ["alpha", "beta", "gamma"], 2, tmp_path, ["--map-by", "node"])
    hosts = np.array(said.split())
    assert len(hosts) == 6 and np.count_nonzero(hosts != np.roll(hosts, 1)) == 3


def wrong_arguments(comm):
    for call, what in [
        (lambda: petacomm.reorder(comm, ring(4)), "the graph has 4 ranks, the communicator 3"),
        (
            lambda: petacomm.reorder(comm, ring(3), allocation=TopologyManager(Torus((2,)), [0, 1])),
            "the allocation has 2 ranks",
        ),
        (lambda: petacomm.reorder(comm, ring(3), strategy="best"), "unknown strategy"),
        (lambda: petacomm.gather_graph(comm, [3 * (comm.rank == 1)], 1), "there is no rank 3"),
        (lambda: petacomm.gather_graph(comm, [0], -1.0 if comm.rank == 2 else 1.0), "-1.0 bytes"),
        (lambda: petacomm.neighbour_communicator(comm, ring(4)), "the graph has 4 ranks"),
    ]:
        error = None
        try:
            call()
        except ConfigError as caught:
            error = caught
        wrong = error is None or what not in str(error)
        agree(comm, AssertionError(f"{what}: {error}") if wrong else None)


def test_wrong_arguments_are_told_on_all_ranks():
    run_ranks(wrong_arguments, 3)
