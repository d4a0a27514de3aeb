"""Links between nodes and switches that networks do not number: loads, times, refinement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.mapping import CommunicationGraph, Placement, Resources, mapping_metrics, place_ranks
from petacomm.mapping.comparison import MappingTask, map_ranks
from petacomm.mapping.graph_sources import grid_graph
from petacomm.mapping.metrics import concurrent_loads
from petacomm.mapping.refinement import refine_placement
from petacomm.network.routing import attaches_nodes, job_capacities, link_capacities
from petacomm.topology import (
    Allocation,
    DragonflyPlus,
    FatTree,
    HyperX,
    SlimFly,
    Torus,
    dragonfly,
    load_machine,
    percs,
)

ATTACHED = [dragonfly(3, 2, 2), HyperX((3, 2), 2), SlimFly(3, 2), DragonflyPlus(3, 2, 2, 2)]


def node_times(graph, placement, bandwidth):
    """Return the seconds in which each node sends and receives, summed edge by edge."""
    seconds = np.zeros((placement.n_nodes, 2))
    for source, target, n_bytes in zip(graph.sources, graph.targets, graph.n_bytes, strict=True):
        a, b = placement.nodes[source], placement.nodes[target]
        if a != b:
            seconds[a, 0] += n_bytes / bandwidth
            seconds[b, 1] += n_bytes / bandwidth
    return seconds


@pytest.mark.parametrize("network", ATTACHED)
def test_what_a_node_sends_or_receives_is_a_load(network):
    # Nodes 1 and 2 send to node 0, whose link to its switch alone has the sum.
    graph = CommunicationGraph.from_edges(3, [1, 2], [0, 0], [300.0, 500.0])
    placed = Placement.from_nodes([0, 2, 4], network)
    assert mapping_metrics(graph, placed, network).largest_load >= 800
    assert concurrent_loads([graph], placed, network).worst >= 800
    fast = np.full(network.n_links, 1e9)
    slow = np.concatenate([fast, np.full(2 * network.n_nodes, 10.0)])
    assert mapping_metrics(graph, placed, network, slow).largest_time == 80.0
    assert mapping_metrics(graph, placed, network, slow).largest_load == 800.0
    assert mapping_metrics(graph, placed, network, fast).largest_time < 1e-6


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(ATTACHED), st.integers(0, 99), st.sampled_from([0.1, 1.0, 10.0]))
def test_refinement_never_makes_the_busiest_link_busier_those_of_nodes_included(network, seed, bandwidth):
    rng = np.random.default_rng(seed)
    ends = rng.integers(16, size=(2, 40))
    graph = CommunicationGraph.from_edges(16, *ends, rng.integers(1, 100, 40).astype(float))
    resources = Resources(network, 3)
    capacity = np.concatenate([np.ones(network.n_links), np.full(2 * network.n_nodes, bandwidth)])
    before = place_ranks("random", graph, resources, seed)
    after = refine_placement(graph, before, resources, capacity=capacity, n_moves=2000, seed=seed)
    times = [mapping_metrics(graph, one, network, capacity).largest_time for one in (before, after)]
    assert times[1] <= times[0] * (1 + 1e-9)
    # The metrics have each node's own bytes, and refinement has seen the same.
    assert times[1] >= node_times(graph, after, bandwidth).max() * (1 - 1e-9)


def test_edges_stay_inside_nodes_where_the_links_of_nodes_are_the_slower_ones():
    network, graph = dragonfly(4, 4, 4, cables=4), grid_graph((16, 16), True, 1e6)
    resources = Resources(network, 4)
    links = np.full(network.n_links, 25e9)
    inside = {}
    for bandwidth in (1e12, 5e9):
        capacity = np.concatenate([links, np.full(2 * network.n_nodes, bandwidth)])
        chosen = map_ranks(MappingTask(graph, resources, capacity)).chosen
        inside[bandwidth] = chosen.metrics.internal_edges
        assert chosen.load >= node_times(graph, chosen.placement, bandwidth).max() * (1 - 1e-9)
    # Blocks of 2 x 2 ranks have 8 edges inside each of 64 nodes: the most there can be.
    # The launcher's order, rows of 4, has 384.
    assert inside[1e12] < 384 < inside[5e9] <= 512


def test_of_placements_that_nodes_make_equally_busy_the_links_decide():
    # A rank a node: what nodes send is the same for all placements, and more than any link has.
    network, graph = dragonfly(4, 4, 4), grid_graph((8, 8), True, 1e6)
    capacity = np.concatenate([np.full(network.n_links, 25e9), np.full(2 * network.n_nodes, 1e9)])
    resources = Resources(network)
    before = place_ranks("random", graph, resources, 1)
    after = refine_placement(graph, before, resources, capacity=capacity)
    worst, best = (
        mapping_metrics(graph, one, network, capacity[: network.n_links]) for one in (before, after)
    )
    assert best.largest_time < 0.6 * worst.largest_time


def test_networks_that_number_the_links_of_nodes_or_have_none_count_no_others():
    for network in (FatTree((4, 4), (1, 2)), Torus((4, 4)), percs(2)):
        assert not attaches_nodes(network)
        with pytest.raises(ConfigError, match=f"for each of {network.n_links}"):
            MappingTask(
                CommunicationGraph.from_edges(2, [0], [1], [1.0]),
                Resources(network),
                np.ones(network.n_links + 2 * network.n_nodes),
            )


def test_jobs_have_the_bandwidth_of_nodes_from_the_machine_file():
    machine, network = load_machine("frontier"), Allocation(dragonfly(4, 4, 4), [1, 2, 40])
    assert attaches_nodes(network)
    capacity = job_capacities(machine, network)
    assert capacity[: network.n_links].tolist() == link_capacities(machine, network).tolist()
    assert capacity[network.n_links :].tolist() == [100e9] * 6
