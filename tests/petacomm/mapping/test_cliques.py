"""Grids on cliques: the counts of the slides, blocks that keep most edges, FFTs whose rows fit on nodes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.mapping.cliques import best_block, count_node_edges, pencil_decompositions, place_blocks
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.metrics import mapping_metrics
from petacomm.mapping.placement import Placement
from petacomm.topology import Torus, percs

# Four rows of six processes, periodic, four a node; numbers of the slides (Hoefler, chapter 3).
GRID = Torus((4, 6))


def test_the_counts_of_the_two_dimensional_example():
    internal, remote = count_node_edges(GRID, Placement.identity(Torus((6,)), 4))
    # Nodes 0, 2, 3, 5 are within a row; 1 and 4 continue in the next row and lose two edges.
    assert internal.tolist() == [6, 4, 6, 6, 4, 6] and remote.tolist() == [10, 12, 10, 10, 12, 10]
    assert best_block(GRID, 4) == (2, 2)
    blocks = place_blocks(GRID, [4])
    internal, remote = count_node_edges(GRID, blocks)
    assert internal.tolist() == [8] * 6 and remote.tolist() == [8] * 6
    # Ranks of the first node, as on the slide.
    assert np.flatnonzero(blocks.nodes == 0).tolist() == [0, 1, 6, 7]


def test_the_counts_of_the_four_dimensional_example():
    grid = Torus((2, 2, 4, 32))
    internal, remote = count_node_edges(grid, Placement.identity(Torus((grid.n_nodes // 16,)), 16))
    assert set(internal) == {30} and set(remote) == {98}
    # Where the line closes to a ring, two edges more stay: L = 16.
    grid = Torus((4, 4, 4, 16))
    internal, remote = count_node_edges(grid, Placement.identity(Torus((grid.n_nodes // 16,)), 16))
    assert set(internal) == {32} and set(remote) == {96}
    assert best_block(grid, 16) == (2, 2, 2, 2)
    internal, remote = count_node_edges(grid, place_blocks(grid, [16]))
    assert set(internal) == {64} and set(remote) == {64}


@st.composite
def grids(draw):
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3))
    return Torus(shape, draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape))))


@settings(deadline=None, max_examples=60)
@given(grids(), st.sampled_from([1, 2, 3, 4, 6, 8]))
def test_the_best_block_is_the_best_of_all(grid, size):
    shapes = [
        block
        for block in product(*([b for b in range(1, n + 1) if n % b == 0] for n in grid.shape))
        if np.prod(block) == size
    ]
    if not shapes:
        with pytest.raises(ConfigError, match=f"no block of {size}"):
            best_block(grid, size)
        return
    kept = [count_node_edges(grid, place_blocks(grid, [size], [shape]))[0].sum() for shape in shapes]
    chosen = count_node_edges(grid, place_blocks(grid, [size]))[0].sum()
    assert chosen == max(kept)


@settings(deadline=None, max_examples=30)
@given(grids(), st.sampled_from([1, 2, 4]))
def test_edges_are_those_of_the_graph(grid, size):
    if not any(grid.shape[d] % size == 0 for d in range(grid.n_dimensions)):
        return
    placement = place_blocks(grid, [size])
    internal, remote = count_node_edges(grid, placement)
    graph = CommunicationGraph.from_edges(grid.n_nodes, *grid.link_ends())
    metrics = mapping_metrics(graph, placement, Torus((placement.n_nodes,)))
    # The graph counts the two edges of a ring of two once.
    assert internal.sum() == metrics.internal_bytes and remote.sum() == metrics.remote_bytes


def test_blocks_of_blocks_lie_on_drawers_and_supernodes():
    grid = Torus((16, 16, 16))
    network = percs(16)
    placement = place_blocks(grid, [8, 8, 4])
    assert placement.ranks_per_node == 8 and placement.n_nodes == network.n_nodes == 512
    places = grid.coordinates(np.arange(grid.n_nodes))
    for size, shape in ((1, (2, 2, 2)), (8, (4, 4, 4)), (32, None)):
        extents = [
            np.ptp(places[placement.nodes // size == group], axis=0) + 1 for group in range(512 // size)
        ]
        volume = 8 * size
        assert all(np.prod(extent) == volume for extent in extents)
        assert shape is None or all(tuple(extent) == shape for extent in extents)
    linear = Placement.identity(network, 8)
    graph = CommunicationGraph.from_edges(grid.n_nodes, *grid.link_ends())
    assert (
        mapping_metrics(graph, placement, network).largest_load
        < mapping_metrics(graph, linear, network).largest_load
    )


def test_rows_of_an_fft_that_fit_on_nodes_cost_nothing():
    ways = pencil_decompositions(256, 8, (256, 256, 256))
    best, worst = ways[0], ways[-1]
    # A communicator of 8 on each node: the other one alone sends, all but 1/32 of it.
    assert best.block in ((8, 1), (1, 8)) and best.remote == 1 - 8 / 256
    square = [way for way in ways if way.rows == way.columns == 16]
    assert min(way.remote for way in square) == 2 - 8 / 16 - 1 / 16 > best.remote
    for way in (best, square[0], worst):
        assert np.isclose(way.remote, remote_share(way, 256)), "as counted message by message"


def remote_share(way, n_ranks):
    left = 0
    for r, s in product(range(n_ranks), repeat=2):
        apart = way.placement.nodes[r] != way.placement.nodes[s]
        left += apart * (r // way.columns == s // way.columns) / way.columns
        left += apart * (r % way.columns == s % way.columns) / way.rows
    return left / n_ranks


def test_no_rank_of_an_fft_is_left_without_points():
    assert all(way.rows <= 4 and way.columns <= 8 for way in pencil_decompositions(16, 4, (4, 8, 64)))
    with pytest.raises(ConfigError, match="64 ranks cannot share pencils of 4x8x64"):
        pencil_decompositions(64, 4, (4, 8, 64))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: best_block(GRID, 5), "no block of 5 processes divides a grid of 4x6"),
        (lambda: place_blocks(GRID, [4], [(4, 2)]), "a block of 4x2 is not 4 of a grid of 4x6"),
        (lambda: place_blocks(GRID, [4], []), "0 blocks for 1 sizes"),
        (
            lambda: count_node_edges(GRID, Placement.identity(GRID, 1, 8)),
            "8 ranks are placed of a grid of 24",
        ),
        (lambda: pencil_decompositions(10, 4, (8, 8, 8)), "10 ranks do not fill nodes of 4"),
    ],
)
def test_sizes_that_do_not_fit_are_errors(action, message):
    with pytest.raises(ConfigError, match=message):
        action()
