"""HyperX, Slim Fly and Dragonfly+: published sizes, routes that are shortest, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from petacomm.base.errors import ConfigError
from petacomm.topology import DragonflyPlus, HyperX, Machine, SlimFly, make_network, network_shape
from petacomm.topology.finite_field import FiniteField

few = st.integers(1, 4)


def distances(network):
    """Return the links of a shortest path between routers, by another library."""
    source, target = network.link_ends()
    graph = csr_array((np.ones(network.n_links), (source, target)), shape=(network.n_vertices,) * 2)
    return shortest_path(graph, unweighted=True)


def assert_routes_are_shortest(network):
    """Hold that routes connect, that they are as long as `hops`, and that no path is shorter."""
    nodes = np.arange(network.n_nodes)
    routers, (source, target) = network.router_of(nodes), network.link_ends()
    assert len(source) == network.n_links == len(network.link_levels())
    hops = network.hops(nodes[:, None], nodes)
    assert np.array_equal(hops, distances(network)[np.ix_(routers, routers)])
    rng = np.random.default_rng(1)
    for a, b in rng.integers(network.n_nodes, size=(40, 2)):
        route = network.route(a, b)
        assert len(route) == hops[a, b]
        assert source[route].tolist() == [routers[a], *target[route][:-1]][: len(route)]
        assert len(route) == 0 or target[route][-1] == routers[b]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(few, few), min_size=1, max_size=3), st.integers(1, 2))
def test_routes_of_a_hyperx_are_shortest(dimensions, nodes_per_router):
    routers, cables = zip(*dimensions, strict=True)
    network = HyperX(routers, nodes_per_router, cables)
    assert network.n_links == network.n_vertices * sum((n - 1) * c for n, c in dimensions)
    assert network.n_nodes == network.n_vertices * nodes_per_router == np.prod(network_shape(network))
    assert_routes_are_shortest(network)


@pytest.mark.parametrize("q", [3, 4, 5, 7, 8, 9, 11, 13, 16, 17])
def test_a_slim_fly_has_the_published_degree_and_diameter_two(q):
    network = SlimFly(q, 1)
    degree = (3 * q - (-1 if q % 4 == 3 else q % 4)) // 2
    assert network.n_vertices == 2 * q * q and set(np.bincount(network.link_ends()[0])) == {degree}
    assert distances(network).max() == 2
    assert_routes_are_shortest(network)


def test_the_slim_fly_of_50_routers_is_the_hoffman_singleton_graph():
    # 50 routers of 7 links, the most that diameter 2 allows: 1 + 7 + 7 x 6
    network = SlimFly(5)
    assert (network.n_vertices, network.n_links, network.nodes_per_router) == (50, 350, 4)
    assert SlimFly(19).n_nodes == 722 * 15  # 10,830 nodes, as in the paper's example


def test_routes_of_a_slim_fly_spread_over_common_neighbours():
    network = SlimFly(9, 1)
    loads = np.zeros(network.n_links)
    for a in range(162):
        for b in range(162):
            np.add.at(loads, network.route(a, b), 1)
    assert loads.min() > 0 and loads.max() < 3 * loads.mean()


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 5), few, few, st.integers(1, 2), few)
def test_routes_of_a_dragonfly_plus_go_up_over_and_down(groups, leaves, spines, nodes, cables):
    network = DragonflyPlus(groups, leaves, spines, nodes, cables)
    assert network.n_links == groups * (2 * leaves * spines + (groups - 1) * cables)
    assert_routes_are_shortest(network)
    levels, size = network.link_levels(), leaves * nodes
    for a in range(0, network.n_nodes, 3):
        for b in range(0, network.n_nodes, 2):
            crossed = levels[network.route(a, b)].tolist()
            assert crossed in ([[], [0, 0]] if a // size == b // size else [[0, 1, 0]])


def test_pairs_of_groups_of_a_dragonfly_plus_share_all_their_cables():
    network = DragonflyPlus(3, 4, 2, 1, cables=2)
    used = {int(network.route(a, b)[1]) for a in range(4) for b in range(4, 8)}
    assert len(used) == 2


@pytest.mark.parametrize("q", [2, 3, 4, 5, 8, 9, 16, 25, 27, 49])
def test_fields_have_the_laws_of_fields(q):
    field, elements = FiniteField(q), np.arange(q)
    a, b, c = np.random.default_rng(1).integers(q, size=(3, 1000))
    assert np.array_equal(
        field.multiply(a, field.add(b, c)), field.add(field.multiply(a, b), field.multiply(a, c))
    )
    assert np.array_equal(field.multiply(field.multiply(a, b), c), field.multiply(a, field.multiply(b, c)))
    assert np.array_equal(field.add(field.subtract(a, b), b), a)
    assert sorted(field.powers) == list(range(1, q))
    assert np.array_equal(field.multiply(elements, np.ones(q, int)), elements)


def machine_with(**network):
    numbers = {"nodes": 1, "sockets_per_node": 1, "cores_per_socket": 1}
    return Machine("m", "M", latency=1.0, bandwidth=1.0, memory_bandwidth=1.0, network=network, **numbers)


def test_networks_are_made_from_machine_files():
    assert make_network(machine_with(kind="hyperx", routers=[3, 4], nodes_per_router=2)).n_nodes == 24
    assert make_network(
        machine_with(kind="hyperx", routers=[3, 4], nodes_per_router=2, cables=[1, 2])
    ).n_links == 12 * (2 + 3 * 2)
    assert make_network(machine_with(kind="slim fly", q=5)).n_nodes == 200
    assert make_network(machine_with(kind="slim fly", q=5, nodes_per_router=2)).n_nodes == 100
    plus = {"kind": "dragonfly+", "groups": 3, "leaves": 4, "spines": 2, "nodes_per_router": 5}
    assert make_network(machine_with(**plus)).n_nodes == 60
    assert network_shape(make_network(machine_with(**plus, cables=2))) == (3, 4, 5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SlimFly(6), "q = 6"),
        (lambda: SlimFly(15), "q = 15 is no prime power"),
        (lambda: SlimFly(2), "q"),
        (lambda: SlimFly(1009), "up to 256"),
        (lambda: SlimFly(5, 0), "nodes_per_router"),
        (lambda: HyperX((), 1), "a HyperX"),
        (lambda: HyperX((3, 0), 1), "a HyperX"),
        (lambda: HyperX((3, 3), 1, (1, 2, 3)), "each dimension"),
        (lambda: DragonflyPlus(3, 0, 2, 1), "leaves"),
        (lambda: HyperX((100, 100), 1).route(0, 9), "10,000 routers"),
        (lambda: make_network(machine_with(kind="slim fly")), r"'network.q' of machine 'm' is missing"),
        (lambda: make_network(machine_with(kind="hyperx", routers=3, nodes_per_router=1)), "whole numbers"),
        (lambda: make_network(machine_with(kind="dragonfly+", groups=3)), "'network.leaves' of machine"),
    ],
)
def test_networks_that_there_are_not_are_errors(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
