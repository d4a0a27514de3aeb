"""The kernels follow the routes of the networks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.network import Traffic, hops_between, link_loads, routed_link_loads
from petacomm.topology import (
    Allocation,
    CliqueHierarchy,
    CliqueLevel,
    DragonflyPlus,
    FatTree,
    HyperX,
    Network,
    SlimFly,
    Torus,
    dragonfly,
    percs,
)

SWITCHED: list[Network] = [
    percs(3),
    dragonfly(5, 3, 2),
    dragonfly(4, 6, 2, cables=4),
    dragonfly(3, 2, 1, cables=5),
    dragonfly(9, 4, 2, arrangement="consecutive"),
    CliqueHierarchy(
        [CliqueLevel(3, True), CliqueLevel(2, True), CliqueLevel(4, False), CliqueLevel(3, False)]
    ),
    FatTree([4, 3, 2], [1, 2, 3]),
    HyperX((3, 2, 2), 2, (1, 3, 2)),
    SlimFly(4, 2),
    DragonflyPlus(4, 2, 3, 2, cables=2),
]


def _pairs(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.divmod(np.arange(n_nodes**2), n_nodes)
    return a, b


@pytest.mark.parametrize(
    "network", [*SWITCHED, Torus((3, 5)), Torus((3, 4), (False, False)), Torus((2, 3, 1))]
)
def test_hops_are_those_of_the_network(network: Network) -> None:
    a, b = _pairs(network.n_nodes)
    np.testing.assert_array_equal(hops_between(network, a, b), network.hops(a, b))


@pytest.mark.parametrize("network", [*SWITCHED, Torus((3, 5)), Torus((3, 4, 2), False)])
def test_loads_are_those_of_the_routes(network: Network) -> None:
    a, b = _pairs(network.n_nodes)
    n_bytes = np.random.default_rng(1).integers(1, 1000, len(a))
    expected = np.zeros(network.n_links)
    for source, destination, size in zip(a, b, n_bytes, strict=True):
        expected[network.route(int(source), int(destination))] += size
    np.testing.assert_array_equal(routed_link_loads(network, Traffic(a, b, n_bytes)), expected)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_loads_on_tori_split_half_rings(dimensions: list[tuple[int, bool]], seed: int) -> None:
    grid = Torus([size for size, _ in dimensions], [wrap for _, wrap in dimensions])
    rng = np.random.default_rng(seed)
    source, destination = rng.integers(0, grid.n_nodes, (2, 50))
    traffic = Traffic(source, destination, rng.integers(0, 64, 50))
    np.testing.assert_allclose(routed_link_loads(grid, traffic), link_loads(grid, traffic), rtol=0, atol=1e-9)


def test_an_allocation_uses_the_links_of_its_network() -> None:
    grid = Torus((4, 4))
    job = Allocation(grid, [5, 2, 15])
    traffic = Traffic([0, 1], [2, 0], [8, 16])
    np.testing.assert_array_equal(
        routed_link_loads(job, traffic), link_loads(grid, Traffic([5, 2], [15, 5], [8, 16]))
    )
    assert job.hops(0, 2) == grid.hops(5, 15)
    assert job.route(1, 2).tolist() == grid.route(2, 15).tolist()
    assert hops_between(Allocation(job, [2, 0]), [0], [1]).tolist() == [grid.hops(15, 5)]


@pytest.mark.parametrize(
    ("nodes", "says"), [([], "without nodes"), ([1, 16], "no node 16"), ([3, 2, 3], "node 3 is named twice")]
)
def test_a_wrong_allocation_is_an_error(nodes: list[int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Allocation(Torus((4, 4)), nodes)


def test_traffic_must_fit() -> None:
    with pytest.raises(ConfigError, match="not among the 4"):
        routed_link_loads(Torus((4,)), Traffic([0], [4], 1))
    with pytest.raises(ConfigError, match="2 sources and 1 destinations"):
        routed_link_loads(Torus((4,)), Traffic([0, 1], [2], 1))


def test_a_network_with_too_many_links_is_refused() -> None:
    with pytest.raises(ConfigError, match="a network of 400,000,000 links"):
        routed_link_loads(Torus((10_000, 10_000)), Traffic([0], [1], 1))


def test_an_unknown_kind_of_network_is_an_error() -> None:
    class Star:
        n_nodes = n_links = 3

    with pytest.raises(ConfigError, match="no map of the links of a Star"):
        routed_link_loads(Star(), Traffic([0], [1], 1))  # type: ignore[arg-type]
