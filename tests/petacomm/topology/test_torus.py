"""Tori and meshes: numbers of nodes and links, hops against a search, rectangles against their definition."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from petacomm.base.errors import ConfigError
from petacomm.topology import (
    Torus,
    bluegene_partition,
    find_rectangle,
    load_machine,
    parse_shape,
)
from petacomm.topology.bluegene import NodeMode


@st.composite
def tori(draw, largest=6):
    shape = draw(st.lists(st.integers(1, largest), min_size=1, max_size=4))
    return Torus(shape, draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape))))


@settings(deadline=None)
@given(tori())
def test_links_are_numbered_without_gaps_and_join_neighbours(torus):
    start, end = torus.link_ends()
    assert len(start) == torus.n_links
    seen = 0
    for d, step in product(range(torus.n_dimensions), (1, -1)):
        nodes = np.arange(torus.n_nodes)
        links, there = torus.link(nodes, d, step), torus.neighbor(nodes, d, step)
        # A dimension of one node has no links, even if it wraps.
        here = links >= 0
        assert np.array_equal(here, (there >= 0) & (torus.shape[d] > 1))
        assert np.array_equal(links[here], seen + np.arange(here.sum()))
        seen += here.sum()
        assert (start[links[here]] == nodes[here]).all() and (end[links[here]] == there[here]).all()
        assert (torus.neighbor(there[here], d, -step) == nodes[here]).all()
    assert seen == torus.n_links


@settings(deadline=None)
@given(tori(4))
def test_hops_and_routes_are_shortest(torus):
    start, end = torus.link_ends()
    n = torus.n_nodes
    graph = coo_array((np.ones(len(start)), (start, end)), shape=(n, n))
    a, b = np.divmod(np.arange(n * n), n)
    path_lengths = shortest_path(graph.tocsr(), unweighted=True)
    assert np.array_equal(torus.hops(a, b).reshape(n, n), path_lengths)
    for u, v in ((0, n - 1), (n - 1, n // 2)):
        for order in (None, range(torus.n_dimensions)[::-1]):
            links = torus.route(u, v, order)
            path = [u, *end[links]]
            assert len(links) == path_lengths[u, v] and path[-1] == v
            assert np.array_equal(start[links], path[:-1])


@settings(deadline=None)
@given(tori(), st.data())
def test_coordinates_are_invertible(torus, data):
    rank = data.draw(st.integers(0, torus.n_nodes - 1))
    place = torus.coordinates(rank)
    assert torus.node_at(place) == rank
    turns = np.where(torus.wrap, np.array(torus.shape) * 3, 0)
    assert torus.node_at(place - turns) == rank
    assert rank == np.ravel_multi_index(tuple(place), torus.shape)


@settings(deadline=None)
@given(tori(), st.data())
def test_only_rectangles_are_found_in_any_order_and_wrapped_around(torus, data):
    extent = [data.draw(st.integers(1, size)) for size in torus.shape]
    origin = [
        data.draw(st.integers(0, size - 1 if ring else size - length))
        for size, ring, length in zip(torus.shape, torus.wrap, extent, strict=True)
    ]
    box = Torus(extent, False)
    nodes = torus.node_at(box.coordinates(np.arange(box.n_nodes)) + origin)
    rectangle = find_rectangle(torus, np.random.default_rng(1).permutation(nodes))
    assert rectangle is not None and rectangle.grid.shape == tuple(extent)
    assert set(rectangle.nodes) == set(nodes)
    full = [w and e == s for w, e, s in zip(torus.wrap, extent, torus.shape, strict=True)]
    assert rectangle.grid.wrap == tuple(full)
    # Straight lines of the box are straight lines of the machine.
    start, end = rectangle.grid.link_ends()
    assert (torus.hops(rectangle.nodes[start], rectangle.nodes[end]) == 1).all()
    if sum(size > 1 for size in extent) > 1 and math.prod(extent) > 4:
        assert find_rectangle(torus, nodes[1:]) is None


def test_two_nodes_in_a_ring_of_two_are_a_rectangle_and_two_corners_are_not():
    assert find_rectangle(Torus((2, 4)), [0, 4]).grid == Torus((2, 1), (True, False))
    assert find_rectangle(Torus((4, 4)), [0, 5]) is None
    assert find_rectangle(Torus((8,)), [7, 0, 6]).origin == (6,)


def test_a_ring_of_two_has_two_pairs_of_links_and_a_mesh_one():
    assert Torus((2,)).n_links == 4 and Torus((2,), False).n_links == 2
    assert Torus((8, 8, 8)).n_links == 6 * 512
    assert Torus((4, 4, 2), False).n_links == 2 * (3 * 8 + 3 * 8 + 16)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: Torus(()), "a shape of 0 dimensions"),
        (lambda: Torus((2,) * 7), "a shape of 7 dimensions .*give 1 to 6"),
        (lambda: Torus((4, 0)), "4x0 has a dimension without nodes"),
        (lambda: Torus((2**16, 2**15)), r"more than 2\^31 - 1 nodes"),
        (lambda: Torus((4, 4), (True,)), "1 of 2 dimensions say whether they wrap"),
        (lambda: Torus((4,), False).node_at([4]), "outside dimension 0"),
        (lambda: parse_shape("8x8x"), "'8x8x' is not a shape .*8x8x8"),
        (lambda: parse_shape("8x-8"), "is not a shape"),
        (lambda: find_rectangle(Torus((4,)), []), "a set of no nodes"),
        (lambda: find_rectangle(Torus((4,)), [0, 0]), "named twice"),
        (lambda: find_rectangle(Torus((4,)), [4]), "not among the 4"),
        (lambda: bluegene_partition(load_machine("hopper"), (4, 4, 4)), "no partitions: .*torus_unit"),
        (lambda: bluegene_partition(load_machine("bluegene-l"), (4, 4)), "2 dimensions .*has 3"),
        (lambda: bluegene_partition(load_machine("bluegene-l"), (128, 32, 32)), "131072 nodes .*65536"),
    ],
)
def test_wrong_shapes_and_sets_are_errors(action, message):
    with pytest.raises(ConfigError, match=message):
        action()


def test_shapes_are_read():
    assert parse_shape("8X16x4") == (8, 16, 4)


@pytest.mark.parametrize(
    ("shape", "ring", "interrupts"),
    [("4x4x2", False, True), ("8x4x2", False, False), ("8x8x4", False, False), ("8x8x8", True, True),
     ("8x16x8", True, True), ("8x8x12", False, False), ("8x32x16", True, True)],
)  # fmt: skip
def test_partitions_of_8x8x8_and_larger_are_tori(shape, ring, interrupts):
    made = bluegene_partition(load_machine("bluegene-l"), parse_shape(shape))
    assert made.grid.wrap == (ring,) * 3 and made.has_interrupts == interrupts
    assert made.has_tree(made.n_ranks) and not made.has_tree(made.n_ranks - 1)


def test_in_virtual_node_mode_the_two_ranks_of_a_node_are_a_fourth_dimension():
    made = bluegene_partition(load_machine("bluegene-l"), (8, 8, 8), NodeMode.VIRTUAL_NODE)
    assert made.n_ranks == 1024 and made.rank_grid == Torus((8, 8, 8, 2), (True, True, True, False))
    assert bluegene_partition(load_machine("bluegene-l"), (8, 8, 8), NodeMode.HEATER).rank_grid == made.grid


@pytest.mark.parametrize("node", [4, -1, [0, 9], 0.5, "a"])
def test_nodes_that_are_not_in_the_grid_are_named(node):
    torus = Torus((2, 2))
    for call in (
        torus.coordinates,
        lambda wrong: torus.hops(0, wrong),
        lambda wrong: torus.neighbor(wrong, 0, 1),
    ):
        with pytest.raises(ConfigError, match="not among the 4 nodes of Torus"):
            call(node)
    with pytest.raises(ConfigError, match="give 2 of each node"):
        torus.node_at([1])
