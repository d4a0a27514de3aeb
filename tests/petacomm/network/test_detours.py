"""Expected loads of detours, beside sums over all of them, the packets that take them, and the best split."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.network import PacketMessages, SwitchHardware, SwitchSimulator, Traffic, routed_link_loads
from petacomm.topology import (
    Allocation,
    CliqueHierarchy,
    CliqueLevel,
    DragonflyPlus,
    FatTree,
    HyperX,
    SlimFly,
    Torus,
    dragonfly,
    percs,
)

NETWORKS = [
    dragonfly(4, 3, 2),
    dragonfly(5, 2, 1, cables=3),
    dragonfly(4, 4, 1, cables=2, arrangement="consecutive"),
    CliqueHierarchy([CliqueLevel(3, True), CliqueLevel(2, True)], 2),
    percs(3),
    HyperX((2, 3), 2, (1, 2)),
    SlimFly(3, 1),
    DragonflyPlus(4, 2, 3, 1, cables=2),
]


def random_traffic(network, seed, n=40):
    rng = np.random.default_rng(seed)
    source, destination = rng.integers(network.n_nodes, size=(2, n))
    return Traffic(source, destination, rng.integers(1, 1000, n).astype(float))


def routes(network, at, end):
    """Yield the links of the route between two routers, of which the first need not have nodes."""
    if isinstance(network, CliqueHierarchy):
        yield from network.route(at * network.nodes_per_vertex, end * network.nodes_per_vertex)
        return
    while at != end:
        link = network.next_links[at, end]
        yield link
        at = network.link_ends()[1][link]


def summed_detours(network, traffic):
    """Return the loads of all detours, one after the other."""
    loads, groups = np.zeros(network.n_links), network.router_groups()
    head = network.link_ends()[1]
    node = {int(router): node for node, router in enumerate(network.router_of(np.arange(network.n_nodes)))}
    for a, b, n_bytes in zip(traffic.source, traffic.destination, traffic.n_bytes, strict=True):
        start, end = network.router_of([a, b])
        middles = [one for one in node if groups[one] not in (groups[start], groups[end])]
        if groups[start] == groups[end]:
            loads[network.route(a, b)] += n_bytes
            continue
        for middle in middles:
            at = start
            for link in network.route(a, node[middle]):
                if groups[at] != groups[middle]:
                    loads[link] += n_bytes / len(middles)
                    at = head[link]
            for link in routes(network, int(at), int(end)):
                loads[link] += n_bytes / len(middles)
    return loads


@pytest.mark.parametrize("network", NETWORKS)
def test_loads_of_detours_are_the_sum_over_all_middles(network):
    traffic = random_traffic(network, 3, 12)
    loads = routed_link_loads(network, traffic, "valiant")
    np.testing.assert_allclose(loads, summed_detours(network, traffic), rtol=1e-12, atol=1e-9)


def test_packets_load_links_as_expected():
    network = dragonfly(9, 4, 2, arrangement="consecutive")
    source, destination = np.divmod(np.arange(72 * 72), 72)
    kept = source != destination
    source, destination = source[kept], destination[kept]
    n_bytes = np.full(len(source), 240 * 20)
    hardware = SwitchHardware(256, 240, 32, (1e10,), 1e10, 1e-7, 8192)
    run = SwitchSimulator(network, hardware, "valiant").simulate(PacketMessages(source, destination, n_bytes))
    expected = routed_link_loads(network, Traffic(source, destination, n_bytes / 240), "valiant")
    # each packet draws its middle: the packets of a link are a sum of independent ones, at most its mean's
    # variance; six deviations of the 288 links leave one false alarm in a million
    assert np.all(np.abs(run.link_packets - expected) < 6 * np.sqrt(expected))
    assert run.link_packets.sum() == pytest.approx(expected.sum(), rel=0.01)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(NETWORKS), st.integers(0, 999), st.booleans())
def test_ugal_levels_the_busiest_link_as_well_as_any_split(network, seed, weighted):
    traffic = random_traffic(network, seed)
    capacity = np.random.default_rng(seed).uniform(1, 3, network.n_links) if weighted else None
    minimal, valiant, ugal = (
        routed_link_loads(network, traffic, way, capacity) for way in ("minimal", "valiant", "ugal")
    )
    weight = 1.0 if capacity is None else capacity
    parts = np.linspace(0, 1, 101)[:, None]
    best = ((1 - parts) * minimal / weight + parts * valiant / weight).max(1).min()
    assert (ugal / weight).max() <= best * (1 + 1e-9)
    between = (ugal - minimal) * (valiant - ugal)
    assert np.all(between >= -1e-6)  # a mixture of both


def test_traffic_to_the_next_group_is_spread_and_uniform_traffic_is_not():
    network = dragonfly(33, 8, 4, arrangement="consecutive")  # of Kim et al. 2008
    nodes = np.repeat(np.arange(1056), 32)
    there = (nodes // 32 + 1) % 33 * 32 + np.tile(np.arange(32), 1056)
    adversarial = Traffic(nodes, there, 1 / 32)  # one byte from each node
    loads = {
        way: routed_link_loads(network, adversarial, way).max() for way in ("minimal", "valiant", "ugal")
    }
    assert loads["minimal"] == 32.0  # 1 / (a h)
    assert loads["valiant"] == pytest.approx(2.0, rel=0.04)  # half of the bandwidth
    assert loads["ugal"] <= loads["valiant"]
    source, destination = np.divmod(np.arange(1056**2), 1056)
    uniform = Traffic(source, destination, 1 / 1056)
    assert routed_link_loads(network, uniform).max() == pytest.approx(1.0, rel=0.04)
    assert routed_link_loads(network, uniform, "ugal").max() <= routed_link_loads(network, uniform).max()


def test_nodes_of_an_allocation_make_detours_through_the_whole_network():
    network = dragonfly(5, 3, 2)
    part = Allocation(network, [20, 3])
    loads = routed_link_loads(part, Traffic([0], [1], 8.0), "valiant")
    np.testing.assert_allclose(loads, routed_link_loads(network, Traffic([20], [3], 8.0), "valiant"))
    assert loads[network.link_levels() == 1].sum() == pytest.approx(16)


def test_no_detours_without_a_third_group():
    for network in (Torus((4, 4)), FatTree((2, 2), (1, 2)), dragonfly(2, 3, 1)):
        with pytest.raises(ConfigError, match="without a third group"):
            routed_link_loads(network, Traffic([0], [1], 1.0), "valiant")
    with pytest.raises(ConfigError, match=r"unknown routing 'valient'.*did you mean 'valiant'"):
        routed_link_loads(dragonfly(3, 2, 1), Traffic([0], [1], 1.0), "valient")
