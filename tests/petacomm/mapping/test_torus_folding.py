"""Grids folded onto tori: one block per node, and links that carry no more than the faces of blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.mapping import STRATEGIES, Placement, Resources, mapping_metrics, place_ranks
from petacomm.mapping.comparison import MappingTask, compare_strategies, map_ranks
from petacomm.mapping.graph_sources import grid_graph, subgrid_alltoall_graph
from petacomm.mapping.torus_folding import fold_grid, possible_foldings
from petacomm.topology import Torus


def test_a_grid_of_cubes_loads_each_link_with_one_face():
    torus, graph = Torus((8, 8, 8)), grid_graph((16, 16, 16))
    metrics = mapping_metrics(graph, place_ranks("folded", graph, Resources(torus, 8)), torus)
    assert metrics.largest_load == metrics.mean_load == 4  # faces of 2 x 2
    assert metrics.longest == 1


def test_dimensions_may_change_places_and_stay_on_a_node():
    torus, graph = Torus((4, 8)), grid_graph((8, 3, 4), n_bytes=[1, 10, 1])
    metrics = mapping_metrics(graph, place_ranks("folded", graph, Resources(torus, 3)), torus)
    assert metrics.largest_load == 3 and metrics.longest == 1


def test_a_long_dimension_is_folded_to_and_fro():
    torus, graph = Torus((4, 6)), grid_graph((48,))
    metrics = mapping_metrics(graph, place_ranks("folded", graph, Resources(torus, 2)), torus)
    assert metrics.longest == 1 and metrics.largest_load == 1


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.data(),
)
def test_every_fold_fills_every_node_with_a_block(torus_shape, factors, data):
    sizes = list(factors)
    for size in torus_shape:
        sizes[data.draw(st.integers(0, len(factors) - 1))] *= size
    torus, grid = Torus(torus_shape), Torus(sizes)
    per_node = grid.n_nodes // torus.n_nodes
    ways = list(possible_foldings(grid.shape, torus.shape))
    assert ways
    for along in ways:
        nodes = fold_grid(grid, torus, along)
        assert Placement.from_nodes(nodes, torus, per_node).n_ranks == grid.n_nodes
        places = grid.coordinates(np.arange(grid.n_nodes))
        for node in range(torus.n_nodes):
            extent = np.ptp(places[nodes == node], axis=0) + 1
            assert np.prod(extent) == per_node
        # Neighbours in the grid are on one node or on adjacent nodes, except those of a periodic boundary.
        for dimension in range(grid.n_dimensions):
            there = places.copy()
            there[:, dimension] += 1
            inside = there[:, dimension] < grid.shape[dimension]
            after = nodes[grid.node_at(there[inside])]
            assert np.all(torus.hops(nodes[inside], after) <= 1)


def test_folded_is_unfit_for_some_grids_and_auto_skips_it():
    torus = Torus((4, 4))
    cases = [
        (grid_graph((5, 3)), Resources(torus), "a grid of 5x3 does not fold onto 4x4"),
        (subgrid_alltoall_graph((4, 4), [0]), Resources(torus), "no Cartesian grid"),
    ]
    for graph, resources, reason in cases:
        with pytest.raises(ConfigError, match=reason):
            place_ranks("folded", graph, resources)
        assert (
            reason in compare_strategies(MappingTask(graph, resources), ["identity", "folded"])[1]["folded"]
        )
        assert map_ranks(MappingTask(graph, resources), refined=False).chosen.name in STRATEGIES


def test_auto_takes_the_fold_of_a_grid():
    graph = grid_graph((8, 8, 8))
    mapping = map_ranks(MappingTask(graph, Resources(Torus((4, 4, 4)), 8)))
    assert mapping.chosen.name == "folded" and mapping.chosen.metrics.largest_load == 4
