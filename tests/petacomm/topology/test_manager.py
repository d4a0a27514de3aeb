"""TopologyManager: coordinates, hops and neighbours of ranks on all kinds of networks."""

import io
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.topology import FatTree, TopologyManager, Torus, dragonfly, load_machine, make_network


@st.composite
def allocations(draw):
    """Return a strategy of ranks on some nodes of a torus or mesh, in any order."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    grid = Torus(shape, draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape))))
    per_node = draw(st.integers(1, 3))
    n = draw(st.integers(1, grid.n_nodes * per_node))
    places = np.random.default_rng(draw(st.integers(0, 99))).permutation(grid.n_nodes * per_node)[:n]
    return grid, TopologyManager(grid, places // per_node, places % per_node)


@settings(deadline=None)
@given(allocations())
def test_coordinates_are_in_the_extents_and_invertible(made):
    _, manager = made
    ranks = np.arange(manager.n_ranks)
    places = manager.rank_to_coordinates(ranks)
    assert (places >= 0).all() and (places < [*manager.shape, manager.ranks_per_node]).all()
    assert np.array_equal(manager.coordinates_to_rank(places), ranks)
    # Distances wrap around in the rings and in no other dimension.
    turned = places + np.append(np.where(manager.wrap, manager.shape, 0), 0)
    assert np.array_equal(manager.coordinates_to_rank(turned), ranks)
    # The extents are tight, and a dimension is a ring only if the allocation fills it.
    for column, size in zip(places[:, :-1].T, manager.shape, strict=True):
        assert column.min() == 0 and column.max() == size - 1


@settings(deadline=None)
@given(allocations())
def test_hops_are_those_of_a_grid_of_the_extents(made):
    grid, manager = made
    ranks = np.arange(manager.n_ranks)
    a, b = (rows.ravel() for rows in np.meshgrid(ranks, ranks))
    hops = manager.hops_between_ranks(a, b)
    places = manager.rank_to_coordinates(ranks)[:, :-1]
    expected = np.zeros(len(a), int)
    for d, (size, ring) in enumerate(zip(manager.shape, manager.wrap, strict=True)):
        apart = abs(places[a, d] - places[b, d])
        expected += np.minimum(apart, size - apart) if ring else apart
    assert np.array_equal(hops, expected)
    # Leaving the allocation is never longer; filling the machine is the same.
    machine = grid.hops(manager.nodes[a], manager.nodes[b])
    assert (machine <= hops).all()
    if manager.shape == grid.shape:
        assert np.array_equal(machine, hops)


@settings(deadline=None)
@given(allocations(), st.data())
def test_ranks_are_sorted_stably_by_hops(made, data):
    _, manager = made
    ranks = np.array(data.draw(st.permutations(range(manager.n_ranks))))
    start = data.draw(st.integers(0, manager.n_ranks - 1))
    ordered = manager.sort_ranks_by_hops(start, ranks)
    hops = manager.hops_between_ranks(start, ordered)
    assert sorted(ordered) == sorted(ranks) and (np.diff(hops) >= 0).all()
    given_place = np.argsort(ranks)
    for first, second in pairwise(ordered):
        if manager.hops_between_ranks(start, first) == manager.hops_between_ranks(start, second):
            assert given_place[first] < given_place[second]
    assert manager.pick_closest_rank(start, ranks) == ordered[0]


def test_a_dimension_is_a_ring_only_where_the_allocation_fills_one():
    # 8x8x4 nodes of a Cray of 11x12x16 (Bhatele 2010, figure 6.1) are a mesh.
    machine = Torus((11, 12, 16))
    box = np.add(np.indices((8, 8, 4)).reshape(3, -1).T, [2, 0, 0])
    manager = TopologyManager(machine, machine.node_at(box))
    assert manager.shape == (8, 8, 4) and manager.wrap == (False,) * 3
    # The allocation wraps around in the first dimension and fills the last.
    box = np.add(np.indices((4, 1, 16)).reshape(3, -1).T, [9, 3, 0])
    manager = TopologyManager(machine, machine.node_at(box))
    assert manager.shape == (4, 1, 16) and manager.wrap == (False, False, True)
    assert manager.rank_to_coordinates(16).tolist() == [1, 0, 0, 0]
    assert manager.hops_between_ranks(0, 15) == 1 and manager.hops_between_ranks(0, 48) == 3


def test_neighbours_are_one_hop_apart_or_at_a_distance_from_a_third_node():
    manager = TopologyManager.from_network(Torus((8, 8)), ranks_per_node=2)
    assert manager.are_neighbors(0, [1, 2, 14, 18, 34]).tolist() == [True, True, True, False, False]
    halfway = manager.coordinates_to_rank([3, 2, 0])
    a, b = manager.coordinates_to_rank([[1, 2, 0], [5, 2, 1]])
    assert manager.are_neighbors(halfway, a, b, distance=0)
    assert not manager.are_neighbors(halfway, a, a, distance=1)
    # Routes wrap around where that is shorter.
    a, b = manager.coordinates_to_rank([[7, 0, 0], [1, 0, 0]])
    assert manager.are_neighbors(manager.coordinates_to_rank([0, 0, 1]), a, b, distance=0)


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (FatTree([4, 3], [1, 2]), (3, 4)),
        (dragonfly(3, 4, 2), (3, 4, 2)),
        (make_network(load_machine("fugaku")), (24, 23, 24, 2, 3, 2)),
    ],
)
def test_switched_networks_and_declared_machines_have_coordinates_too(network, shape):
    manager = TopologyManager.from_network(network, 2, n_ranks=min(network.n_nodes * 2, 2000))
    ranks = np.arange(0, manager.n_ranks, 7)
    places = manager.rank_to_coordinates(ranks)
    assert np.array_equal(manager.coordinates_to_rank(places), ranks)
    assert manager.core_of(3) == 1 and manager.node_of(3) == 1
    if manager.n_ranks == network.n_nodes * 2:
        assert manager.shape == shape
        assert np.array_equal(manager.hops_between_ranks(0, ranks), network.hops(0, ranks // 2))


def test_the_allocation_is_printed():
    manager = TopologyManager(Torus((4, 2)), [0, 1, 0], hosts=["a", "b", "a"], source="a test")
    out = io.StringIO()
    manager.print_allocation(out)
    assert out.getvalue() == (
        "3 ranks on 2 nodes of 1 x 2 ring (a test)\n"
        "rank 0: (0, 0) core 0 on a\nrank 1: (0, 1) core 0 on b\nrank 2: (0, 0) core 1 on a\n"
    )


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: TopologyManager(Torus((4,)), []), "without ranks"),
        (lambda: TopologyManager(Torus((4,)), [4]), "not among the 4"),
        (lambda: TopologyManager(Torus((4,)), [1], [-1]), "slot below 0"),
        (lambda: TopologyManager(Torus((4,)), [1, 2], [0]), "2 ranks have a node"),
        (lambda: TopologyManager(Torus((4,)), [1, 0, 1], [0, 0, 0]), "ranks 0 and 2 have one place"),
        (lambda: TopologyManager.from_network(Torus((4,))).hops_between_ranks(0, 4), "not among the 4"),
        (lambda: TopologyManager.from_network(Torus((4,))).pick_closest_rank(0, []), "no ranks"),
        (lambda: TopologyManager.from_network(dragonfly(3, 4, 2)).are_neighbors(0, 1, 2), "halfway"),
    ],
)  # fmt: skip
def test_wrong_allocations_and_ranks_are_errors(action, message):
    with pytest.raises(ConfigError, match=message):
        action()
