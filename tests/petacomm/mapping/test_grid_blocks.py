"""Grids told by who sends to whom, blocks of them on nodes, and what maps of recorded halos win."""

import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.mapping import CommunicationGraph, Resources, place_ranks
from petacomm.mapping.comparison import IDENTITY, MappingTask, map_ranks
from petacomm.mapping.graph_sources import add_graphs, grid_graph, subgrid_alltoall_graph
from petacomm.mapping.grid_blocks import smallest_block
from petacomm.mapping.job import load_mapping_job
from petacomm.network.routing import attaches_nodes, job_capacities
from petacomm.recording import Recording
from petacomm.recording.recording import CALLS, COLLECTIVES, MESSAGES, RankGroup
from petacomm.topology import Allocation, FatTree, Torus, dragonfly, load_machine


def untold(graph):
    """Return a graph without its grid, as recordings have it."""
    return dataclasses.replace(graph, grid=None)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(2, 6), min_size=2, max_size=4), st.booleans())
def test_the_grid_of_halos_is_found(shape, periodic):
    graph = untold(add_graphs([grid_graph(shape, periodic, 100.0), grid_graph(shape, periodic, 0.5, True)]))
    found = graph.likely_grid
    assert found is not None and math.prod(found) == graph.n_ranks
    # A dimension of two or three is a ring whatever the strides, so that another grid may do as well.
    if min(shape) > 3:
        assert found == tuple(shape)
    shares = [
        graph.n_bytes[one.hops(graph.sources, graph.targets) == 1].sum() for one in map(Torus, (shape, found))
    ]
    assert shares[1] >= shares[0] * (1 - 1e-9)


def test_other_messages_and_shuffled_ranks_have_no_grid():
    rng = np.random.default_rng(1)
    grid, shuffle = grid_graph((8, 8, 16)), rng.permutation(1024)
    shuffled = CommunicationGraph.from_edges(1024, shuffle[grid.sources], shuffle[grid.targets])
    drawn = CommunicationGraph.from_edges(64, *rng.integers(64, size=(2, 400)))
    silent = CommunicationGraph.from_edges(8, [], [])
    for graph in (shuffled, drawn, silent, subgrid_alltoall_graph((4, 4), [0])):
        assert graph.likely_grid is None


def test_a_few_other_messages_do_not_hide_a_grid_and_many_do():
    grid = grid_graph((8, 16), True, 100.0)
    for share, found in ((0.05, (8, 16)), (0.3, None)):
        n_bytes = grid.total_bytes * share / (1 - share) / 127
        root = np.zeros(127, int), np.arange(1, 128)
        ends = (np.concatenate([a, b]) for a, b in zip((grid.sources, grid.targets), root, strict=True))
        sizes = np.concatenate([grid.n_bytes, np.full(127, n_bytes)])
        assert CommunicationGraph.from_edges(128, *ends, sizes).likely_grid == found


@pytest.mark.parametrize(
    ("grid", "size"), [((8, 8, 16), 16), ((32, 32), 16), ((6, 10), 15), ((4, 9), 6), ((2, 2, 8), 8)]
)
def test_the_block_of_smallest_surface_is_that_of_all_that_fit(grid, size):
    def sent(block):
        return sum(2 * size / b for b, whole in zip(block, grid, strict=True) if b < whole)

    sides = [range(1, whole + 1) for whole in grid]
    fits = [
        block
        for block in itertools.product(*sides)
        if math.prod(block) == size and all(w % b == 0 for b, w in zip(block, grid, strict=True))
    ]
    assert sent(smallest_block(grid, size)) == min(map(sent, fits))
    assert smallest_block((4, 6), 7) is None


@pytest.mark.parametrize("network", [Torus((4, 4, 4)), FatTree((8, 8), (1, 4)), dragonfly(8, 4, 2)])
def test_each_node_has_a_block(network):
    graph = untold(grid_graph((8, 8, 16)))
    placed = place_ranks("blocks", graph, Resources(network, 16))
    places = Torus((8, 8, 16)).coordinates(np.arange(1024))
    for node in range(64):
        assert sorted(np.ptp(places[placed.nodes == node], axis=0) + 1) == [2, 2, 4]


def test_blocks_are_unfit_where_there_are_none():
    network = Torus((4, 4))
    for graph, width, says in (
        (grid_graph((4, 4)), 1, "no blocks"),
        (grid_graph((4, 6)), 7, "no block of 7 ranks divides"),
        (subgrid_alltoall_graph((4, 4), [0]), 2, "no Cartesian grid"),
    ):
        with pytest.raises(ConfigError, match=says):
            place_ranks("blocks", graph, Resources(network, width))


def test_cyclic_deals_ranks_to_nodes_in_turn():
    placed = place_ranks("cyclic", grid_graph((10,)), Resources(Torus((4,)), 3))
    assert placed.nodes.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


HALVES = np.sort(np.random.default_rng(1).permutation(64)[:32])


@pytest.mark.parametrize("nodes", [None, HALVES], ids=["all", "drawn"])
@pytest.mark.parametrize("shape", [(32, 32), (8, 8, 16)])
@pytest.mark.parametrize("full", [Torus((4, 4, 4)), FatTree((8, 8), (1, 4)), dragonfly(8, 4, 2)])
def test_halos_lose_three_tenths_of_busiest_link_and_hop_bytes_of_both_launcher_defaults(full, shape, nodes):
    network = full if nodes is None else Allocation(full, nodes)
    width = 1024 // network.n_nodes
    capacity = job_capacities(load_machine("frontier"), network)  # None on a torus: all links are alike
    routing = "ugal" if attaches_nodes(network) else "minimal"
    graph, resources = untold(grid_graph(shape, True, 1e5)), Resources(network, width)
    task = MappingTask(graph, resources, capacity, routing=routing)
    chosen = map_ranks(task).chosen
    for default in (IDENTITY, "cyclic"):
        before = task.place(default)
        assert chosen.load <= 0.7 * before.load
        assert chosen.metrics.hop_bytes <= 0.7 * before.metrics.hop_bytes


def test_a_recorded_halo_is_mapped_in_blocks(tmp_path: Path):
    grid = grid_graph((16, 16), True, 1000.0)
    rows = np.zeros(grid.n_edges, MESSAGES)
    rows["source"], rows["target"], rows["bytes"] = grid.sources, grid.targets, 1000
    rows["call"], rows["messages"], rows["size_class"] = CALLS.index("send"), 1, 10
    group = RankGroup("", np.arange(256, dtype=np.int32))
    Recording(256, "Some MPI", [group], rows, np.zeros(0, COLLECTIVES)).save(tmp_path / "job.npz")
    job = tmp_path / "job.toml"
    job.write_text(
        'ranks = 256\nranks_per_node = 4\n[graph]\nrecording = "job.npz"\n'
        '[machine]\nname = "frontier"\ngroups = 4\nrouters = 4\nnodes_per_router = 4\n'
    )
    made = load_mapping_job(job)
    assert made.graph.grid is None and made.graph.likely_grid == (16, 16)
    chosen = map_ranks(made.task, "blocks", refined=False).chosen
    # Blocks of 2 x 2: each rank has two of its four neighbours on its node.
    assert chosen.metrics.internal_edges == 2 * 256
