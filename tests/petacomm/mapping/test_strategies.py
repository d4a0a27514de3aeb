"""Strategies: each rank has a slot, and communicating ranks are placed close to each other."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.mapping import (
    STRATEGIES,
    Placement,
    Resources,
    mapping_metrics,
    nlpkkt_graph,
    place_ranks,
    refine_placement,
)
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.graph_sources import grid_graph, subgrid_alltoall_graph
from petacomm.mapping.grouping import fit_capacity
from petacomm.mapping.metrics import concurrent_loads, placement_link_loads
from petacomm.mapping.node_orders import bisect_network, line_order
from petacomm.mapping.refinement import _STAGES
from petacomm.network import link_loads
from petacomm.topology import Allocation, CliqueHierarchy, FatTree, Network, Torus, dragonfly, percs

NETWORKS: list[Network] = [
    Torus((4, 3, 2)),
    Torus((5, 7), False),
    percs(2),
    dragonfly(4, 3, 2),
    FatTree([4, 3], [1, 2]),
    Allocation(Torus((4, 4, 4)), np.random.default_rng(5).permutation(64)[:23]),
]

# Strategies for any graph on any network; the others have separate tests.
ANY = [name for name in STRATEGIES if name not in ("folded", "blocks")]


def usable(name: str) -> None:
    if STRATEGIES[name].missing():
        pytest.skip(STRATEGIES[name].missing())


def some_graph(n_ranks: int, seed: int, degree: int = 3) -> CommunicationGraph:
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n_ranks, (2, degree * n_ranks))
    return CommunicationGraph.from_edges(n_ranks, *ends, rng.integers(1, 100, degree * n_ranks))


def test_scotch_gives_the_same_every_time() -> None:
    """One call in some sixty differed on busy cores when the library chose its number of threads."""
    usable("scotch")
    network = next(network for network in NETWORKS if isinstance(network, CliqueHierarchy))
    graph = some_graph(network.n_nodes * 3, seed=1)
    done = threading.Event()

    def keep_a_core_busy() -> None:
        while not done.is_set():
            np.sort(np.random.default_rng(1).random(1 << 20))

    others = [threading.Thread(target=keep_a_core_busy) for _ in range(3)]
    for other in others:
        other.start()
    try:
        placed = [place_ranks("scotch", graph, Resources(network, 3), seed=3) for _ in range(300)]
    finally:
        done.set()
    assert all(other == placed[0] for other in placed)


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: type(network).__name__)
@pytest.mark.parametrize(("width", "spare"), [(1, 0), (3, 0), (2, 5)])
def test_every_rank_has_a_place(name: str, network: Network, width: int, spare: int) -> None:
    usable(name)
    resources = Resources(network, width)
    graph = some_graph(network.n_nodes * width - spare, seed=1)
    placed = place_ranks(name, graph, resources, seed=3)  # a slot used twice, or none, would be an error
    assert placed.n_ranks == graph.n_ranks
    assert placed == place_ranks(name, graph, resources, seed=3)


@pytest.mark.parametrize("name", ANY)
def test_silent_and_single_ranks_are_placed(name: str) -> None:
    usable(name)
    silent = CommunicationGraph.from_edges(6, [], [])
    assert place_ranks(name, silent, Resources(Torus((2, 3)))).n_ranks == 6
    assert place_ranks(
        name, CommunicationGraph.from_edges(1, [], []), Resources(Torus((1,)))
    ).nodes.tolist() == [0]


@pytest.mark.parametrize("name", ["greedy", "recursive", "hierarchical", "scotch"])
@pytest.mark.parametrize(("network", "shape"), [(Torus((8, 8)), (8, 8)), (Torus((4, 4, 8)), (4, 4, 8))])
def test_shuffled_grids_are_recovered_on_a_torus(name: str, network: Torus, shape: tuple[int, ...]) -> None:
    usable(name)
    shuffle = np.random.default_rng(2).permutation(network.n_nodes)
    grid = grid_graph(shape)
    graph = CommunicationGraph.from_edges(grid.n_ranks, shuffle[grid.sources], shuffle[grid.targets])
    random = min(
        mapping_metrics(graph, place_ranks("random", graph, Resources(network), s), network).dilation
        for s in range(10)
    )
    metrics = mapping_metrics(graph, place_ranks(name, graph, Resources(network)), network)
    assert 1.0 <= metrics.dilation < 0.7 * random


def test_cuthill_mckee_undoes_a_shuffled_line() -> None:
    shuffle = np.random.default_rng(2).permutation(24)
    line = grid_graph((24,), False)
    graph = CommunicationGraph.from_edges(24, shuffle[line.sources], shuffle[line.targets])
    assert (
        mapping_metrics(
            graph, place_ranks("rcm", graph, Resources(Torus((4, 6), False))), Torus((4, 6), False)
        ).dilation
        == 1.0
    )


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: type(network).__name__)
def test_halves_are_cut_down_to_nodes(network: Network) -> None:
    order, cuts = bisect_network(network)
    assert sorted(order.tolist()) == list(range(network.n_nodes))
    parts = {(0, network.n_nodes)}
    for low, middle, high, left, right in cuts.T.tolist():
        parts.remove((low, high))  # each part after the one that it comes from, and once
        assert low < middle < high
        assert left in order[low:middle] and right in order[middle:high]
        parts |= {(low, middle), (middle, high)}
    assert all(high - low == 1 for low, high in parts)
    assert sorted(line_order(network).tolist()) == list(range(network.n_nodes))


def greedy_twin(graph: CommunicationGraph, resources: Resources) -> list[int]:
    """Return the result of the kernel, computed as documented."""
    network, n = resources.network, graph.n_ranks
    both = np.zeros((n, n))
    both[graph.sources, graph.targets] = graph.n_bytes
    both += both.T
    hops = network.hops(*np.indices((network.n_nodes, network.n_nodes)))
    order, room = bisect_network(network).order, np.full(network.n_nodes, resources.ranks_per_node)
    nodes = np.full(n, -1)
    for _ in range(n):
        open_ranks = np.flatnonzero(nodes < 0)
        tied = both[open_ranks][:, nodes >= 0].sum(axis=1)
        key = tied if tied.any() else both[open_ranks].sum(axis=1)
        rank = open_ranks[np.argmax(key)]
        cost = both[rank, nodes >= 0] @ hops[nodes[nodes >= 0]]
        free = order[room[order] > 0]
        nodes[rank] = free[np.argmin(cost[free])]
        room[nodes[rank]] -= 1
    return nodes.tolist()


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: type(network).__name__)
@pytest.mark.parametrize("width", [1, 2])
def test_greedy_equals_its_definition(network: Network, width: int) -> None:
    graph = some_graph(network.n_nodes * width - 1, seed=7)
    assert place_ranks("greedy", graph, Resources(network, width)).nodes.tolist() == greedy_twin(
        graph, Resources(network, width)
    )


def test_halves_of_percs_are_drawers_and_supernodes() -> None:
    cuts = bisect_network(percs(4)).cuts
    assert cuts[:3, 0].tolist() == [0, 64, 128]
    small = {(low, high) for low, _, high in cuts[:3].T.tolist() if high - low == 8}
    assert small == {(8 * d, 8 * d + 8) for d in range(16)}


def test_the_line_through_a_grid_has_steps_of_one() -> None:
    for grid in (Torus((3, 4, 5), False), Torus((2, 2, 3))):
        line = line_order(grid)
        assert (grid.hops(line[:-1], line[1:]) == 1).all()


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(range(len(NETWORKS))), st.integers(1, 3), st.integers(0, 99), st.integers(0, 3))
def test_refinement_never_makes_the_largest_load_larger(
    which: int, width: int, seed: int, spare: int
) -> None:
    network = NETWORKS[which]
    resources = Resources(network, width)
    graph = some_graph(network.n_nodes * width - spare, seed)
    before = place_ranks("random", graph, resources, seed)
    after = refine_placement(graph, before, resources, n_moves=4000, seed=seed)
    assert after.n_ranks == graph.n_ranks
    worst = [mapping_metrics(graph, placed, network).largest_load for placed in (before, after)]
    assert worst[1] <= worst[0] * (1 + 1e-9)
    assert after == refine_placement(graph, before, resources, n_moves=4000, seed=seed)


@pytest.mark.parametrize("network", [dragonfly(8, 4, 2), Torus((4, 4, 4))])
def test_at_last_refinement_lowers_hop_bytes_with_no_link_busier(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, resources = grid_graph((32, 32)), Resources(network, 16)
    capacity = np.ones(network.n_links)
    start = place_ranks("recursive", graph, resources)
    full = refine_placement(graph, start, resources, capacity=capacity)
    monkeypatch.setattr("petacomm.mapping.refinement._STAGES", _STAGES[:-1])
    before = refine_placement(graph, start, resources, capacity=capacity)
    first, last = (mapping_metrics(graph, one, network, capacity) for one in (before, full))
    assert last.largest_time <= first.largest_time * (1 + 1e-9)
    assert last.hop_bytes < 0.98 * first.hop_bytes


def test_refinement_finds_a_ring_on_a_ring() -> None:
    graph = grid_graph((8,), True, 10.0)
    resources = Resources(Torus((8,)))
    refined = refine_placement(graph, place_ranks("random", graph, resources, 4), resources, n_moves=40_000)
    assert mapping_metrics(graph, refined, resources.network).largest_load == 10.0


def test_refinement_avoids_slow_links() -> None:
    # Two pairs on a line of four nodes with one slow link in the middle.
    line = Torus((4,), False)
    capacity = np.ones(line.n_links)
    capacity[line.link(1, 0, 1)] = capacity[line.link(2, 0, -1)] = 0.01
    graph = CommunicationGraph.from_edges(4, [0, 2], [1, 3], [5.0, 5.0])
    start = Placement.from_nodes([0, 2, 1, 3], line)
    refined = refine_placement(graph, start, Resources(line), capacity=capacity, n_moves=5000)
    assert mapping_metrics(graph, refined, line, capacity).largest_time == 5.0
    with pytest.raises(ConfigError, match="capacities do not fit"):
        refine_placement(graph, start, Resources(line), capacity=capacity[:-1])


def test_nlpkkt_is_mapped_a_third_below_random() -> None:
    network = Torus((4, 4, 4))
    graph = nlpkkt_graph(40, 64)
    random = min(
        mapping_metrics(graph, place_ranks("random", graph, Resources(network), s), network).largest_load
        for s in range(10)
    )
    for name in ("greedy", "recursive"):
        refined = refine_placement(graph, place_ranks(name, graph, Resources(network)), Resources(network))
        assert mapping_metrics(graph, refined, network).largest_load < 0.65 * random


def test_crowded_nodes_send_ranks_to_near_free_ones() -> None:
    graph = CommunicationGraph.from_edges(6, [0, 1, 2], [1, 2, 0], 9.0)
    nodes = fit_capacity(graph, Resources(Torus((4,), False), 3), np.array([0, 0, 0, 0, 3, 3]))
    assert nodes.tolist() == [0, 0, 0, 1, 3, 3]  # rank 3 is tied to none of its node


@pytest.mark.parametrize(
    ("name", "says"), [("greddy", "unknown strategy 'greddy' .did you mean 'greedy'"), ("rcm", "do not fit")]
)
def test_graphs_that_cannot_be_placed_are_errors(name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        place_ranks(name, some_graph(7, 1), Resources(Torus((2, 3))))


def test_metrics_are_those_of_the_definition() -> None:
    grid = Torus((3, 4))
    graph = some_graph(24, 9)
    placed = place_ranks("random", graph, Resources(grid, 2), 1)
    metrics = mapping_metrics(graph, placed, grid, np.full(grid.n_links, 2.0))
    hops = grid.hops(placed.nodes[graph.sources], placed.nodes[graph.targets])
    by_link = link_loads(grid, graph.traffic(placed.nodes, 12))
    assert metrics.hop_bytes == pytest.approx(float((hops * graph.n_bytes).sum()))
    assert metrics.hop_bytes == pytest.approx(by_link.sum())
    assert metrics.dilation == pytest.approx(metrics.hop_bytes / graph.total_bytes)
    assert metrics.longest == hops.max()
    assert metrics.largest_load == pytest.approx(by_link.max())
    assert metrics.largest_time == pytest.approx(by_link.max() / 2)
    assert metrics.mean_load == pytest.approx(by_link.mean())
    assert (metrics.internal_edges, metrics.remote_edges) == ((hops == 0).sum(), (hops > 0).sum())
    assert metrics.internal_bytes == pytest.approx(graph.n_bytes[hops == 0].sum())


def test_the_slide_counts_edges_on_nodes() -> None:
    # Hoefler's 4 x 6 periodic grid, four ranks per node.
    graph = grid_graph((4, 6))
    linear = mapping_metrics(graph, Placement.identity(Torus((6,)), 4), Torus((6,)))
    blocks = np.add.outer(3 * (np.arange(4) // 2), np.arange(6) // 2).ravel()
    blocked = mapping_metrics(graph, Placement.from_nodes(blocks, Torus((6,)), 4), Torus((6,)))
    assert (blocked.internal_edges, blocked.remote_edges) == (6 * 8, 6 * 8)
    assert linear.internal_edges + linear.remote_edges == 96 and linear.internal_edges < 6 * 8


def test_concurrent_loads_of_several_graphs() -> None:
    grid = Torus((4, 4))
    rows = subgrid_alltoall_graph((4, 4), [1], 8.0)
    lines = [rows.restricted_to(range(4 * r, 4 * r + 4)) for r in range(4)]
    placed = Placement.identity(grid)
    loads = concurrent_loads(lines, placed, grid)
    assert loads.worst == loads.combined == placement_link_loads(rows, placed, grid).max()
    assert loads.total == 4 * loads.worst
    # Two communications that share links: combined, the loads add up.
    again = concurrent_loads([lines[0], lines[0]], placed, grid)
    assert (again.worst, again.combined, again.total) == (loads.worst, 2 * loads.worst, 2 * loads.worst)
