"""Fat trees and cliques: numbers of links of the papers; routes are connected and shortest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.topology import (
    CliqueHierarchy,
    CliqueLevel,
    FatTree,
    Machine,
    Torus,
    dragonfly,
    load_machine,
    make_network,
    percs,
)

small = st.integers(1, 4)


def assert_connected(route, ends, start, end):
    """Hold that the links of a route lead from one vertex to another, each from the end of the one before."""
    source, target = ends
    vertices = [start, *target[route].tolist()]
    assert source[route].tolist() == vertices[:-1] and vertices[-1] == end


def test_percs_has_7_ll_24_lr_and_one_d_link_per_pair_of_supernodes():
    machine = percs(5)
    per_level = np.bincount(machine.link_levels())
    hubs = 8 * 4 * 5
    assert machine.n_nodes == hubs
    assert per_level.tolist() == [7 * hubs, 24 * hubs, 5 * 4]
    assert machine.hops(0, 7) == machine.hops(0, 31) == 1
    assert machine.hops(0, np.arange(32, hubs)).max() == 3  # to the hub with the cable, over, and on


def test_a_dragonfly_goes_local_global_local():
    machine = dragonfly(9, 4, 2)
    a, b = np.divmod(np.arange(72 * 72), 72)
    assert machine.n_links == 36 * 3 + 9 * 8
    assert set(machine.hops(a, b)) == {0, 1, 2, 3}
    assert machine.hops(0, 1) == 0  # nodes of one router


def test_groups_of_a_dragonfly_share_their_traffic_among_their_cables():
    one, four = dragonfly(3, 8, 1), dragonfly(3, 8, 1, cables=4)
    assert four.n_links - one.n_links == 3 * 2 * 3  # three more each way for each pair of groups
    loads = np.zeros(four.n_links, int)
    for a in range(8):
        for b in range(8, 16):
            np.add.at(loads, four.route(a, b), 1)
    between = loads[four.link_levels() == 1]
    assert sorted(between)[-5:] == [0, 16, 16, 16, 16]
    # ends of cables are dealt to the routers in turn, so that none has more than one more than others
    starts = [four.route(a, b)[0] for a in range(8) for b in range(8, 24) if four.hops(a, b) == 1]
    assert len(set(starts)) == len(starts)


def test_consecutive_cables_lead_to_the_routers_one_after_the_other():
    network = dragonfly(9, 4, 1, arrangement="consecutive")  # each router of group 0 has cables to two groups
    source, target = network.link_ends()
    first = [source[(target // 4 == group) & (source // 4 == 0)].tolist() for group in range(1, 9)]
    assert first == [[0], [0], [1], [1], [2], [2], [3], [3]]
    with pytest.raises(ConfigError, match=r"unknown arrangement 'absolute'"):
        dragonfly(9, 4, 1, arrangement="absolute")


def test_cables_are_one_or_more():
    with pytest.raises(ConfigError, match=r"with \[1, 0\] cables"):
        dragonfly(3, 2, 1, cables=0)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.booleans(),
            st.integers(1, 4),
            st.sampled_from(["round-robin", "consecutive"]),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 2),
)
def test_routes_between_cliques_are_as_long_as_the_hops_and_use_links_that_exist(levels, nodes_per_vertex):
    machine = CliqueHierarchy([CliqueLevel(*level) for level in levels], nodes_per_vertex)
    n, vertices = machine.n_nodes, machine.link_ends()
    assert len(vertices[0]) == len(machine.link_levels()) == machine.n_links
    ends = {}
    for a in range(0, n, nodes_per_vertex):
        for b in range(0, n, nodes_per_vertex):
            route = machine.route(a, b)
            assert len(route) == machine.hops(a, b) and (a == b or len(route))
            assert_connected(route, vertices, *machine.router_of([a, b]))
            assert len(set(route)) == len(route) and all(0 <= link < machine.n_links for link in route)
            assert machine.hops(a, b) == machine.hops(b, a)
            if len(route) == 1:
                # A link joins one pair of routers.
                assert ends.setdefault(route[0], (a, b)) == (a, b)
    if all(fully_linked or cables == 1 for _, fully_linked, cables, _ in levels[1:]):
        assert len(ends) == machine.n_links


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), small), min_size=1, max_size=3))
def test_fat_trees_go_up_to_a_common_switch_and_down(levels):
    tree = FatTree(*zip(*levels, strict=True))
    starts = {}
    used = set()
    ends, levels = tree.link_ends(), tree.link_levels()
    assert len(ends[0]) == tree.n_links and len(set(zip(*map(tuple, ends), strict=True))) == tree.n_links
    assert max(ends[1]) == tree.n_vertices - 1
    for a in range(tree.n_nodes):
        for b in range(tree.n_nodes):
            route = tree.route(a, b).tolist()
            assert len(route) == tree.hops(a, b) and len(set(route)) == len(route)
            assert_connected(route, ends, a, b)
            half = len(route) // 2
            assert levels[route].tolist() == [*range(half), *range(half - 1, -1, -1)]
            assert all(link < tree.n_links // 2 for link in route[:half])
            assert all(tree.n_links // 2 <= link < tree.n_links for link in route[half:])
            used.update(route)
            if route:
                assert starts.setdefault(route[0], a) == a and starts.setdefault(-1 - route[-1], b) == b
    assert all(link < tree.n_links for link in used)


def test_a_full_bisection_tree_spreads_shifts_over_all_its_up_links():
    tree = FatTree((4, 4), (1, 4))
    loads = np.zeros(tree.n_links, int)
    for a in range(16):
        np.add.at(loads, tree.route(a, (a + 4) % 16), 1)
    assert tree.n_links == 2 * (16 + 16) and loads.max() == 1


def machine_with(**network):
    numbers = {"nodes": 1, "sockets_per_node": 1, "cores_per_socket": 1}
    return Machine("m", "M", latency=1.0, bandwidth=1.0, memory_bandwidth=1.0, network=network, **numbers)


def test_networks_are_made_from_machine_files():
    assert make_network(load_machine("bluegene-l")) == Torus((64, 32, 32))
    assert make_network(load_machine("franklin"), shape=(4, 4)) == Torus((4, 4))
    assert make_network(machine_with(kind="mesh", shape=[2, 2])) == Torus((2, 2), False)
    assert make_network(machine_with(kind="fat tree", children=[2, 2], parents=[1, 2])).n_nodes == 4
    assert make_network(machine_with(kind="percs", supernodes=2)).n_nodes == 64
    assert make_network(machine_with(kind="cliques", sizes=[8, 4])).n_links == 32 * 31
    slingshot = {"kind": "dragonfly", "groups": 3, "routers": 2, "nodes_per_router": 2}
    assert make_network(machine_with(**slingshot)).n_nodes == 12
    assert make_network(machine_with(**slingshot, cables=4)).n_links == 3 * 2 + 3 * 2 * 4


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"kind": "tors"}, "kind 'tors'.*did you mean 'torus'"),
        ({"kind": "hypercube"}, "kind 'hypercube'.*choose a machine with one: torus, mesh, fat tree"),
        ({"kind": "torus"}, r"'network.shape' of machine 'm' is missing .*shape = \[8, 8, 8\]"),
        ({"kind": "torus", "shape": 8}, "must be whole numbers"),
        ({"kind": "percs", "supernodes": 0}, "must be whole numbers, 1 or more"),
        ({"kind": "fat tree", "children": [2], "parents": [1, 1]}, "one number, 1 or more, of both"),
    ],
)
def test_a_network_that_cannot_be_made_names_what_is_missing(network, message):
    with pytest.raises(ConfigError, match=message):
        make_network(machine_with(**network))


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (
            "frontier",
            {"shape": [2, 2, 1]},
            "'shape' says nothing of the dragonfly of machine 'frontier' .*groups",
        ),
        ("frontier", {"groups": 2, "q": 3}, "'q' says nothing of the dragonfly"),
        ("fugaku", {"shape": [2, 2, 1], "groups": 2}, "'groups' says nothing of the torus .*shape, wrap"),
        ("marenostrum5", {"cables": 2}, "'cables' says nothing of the fat tree"),
    ],
)
def test_numbers_of_other_networks_are_refused(name, given, message):
    with pytest.raises(ConfigError, match=message):
        make_network(load_machine(name), **given)


def test_a_number_of_the_network_has_a_value_and_a_source(tmp_path):
    from machine_files import write_machine

    path = tmp_path / "m.toml"
    path.write_text(
        write_machine(machine_with(kind="torus")) + 'hop = { value = "1 ns", source = "sheet" }\n'
    )
    machine = load_machine(str(path))
    assert machine.network["hop"] == "1 ns" and machine.network_sources == {"hop": "sheet"}
    path.write_text(path.read_text().replace("value", "valu").replace("{ valu = 1", "{ value = 1"))
    with pytest.raises(ConfigError, match=r"must have a value and a source"):
        load_machine(str(path))
