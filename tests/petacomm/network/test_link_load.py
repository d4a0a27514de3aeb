"""Link loads against routes followed one by one, published peaks, and invariants of any traffic."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.network.closed_forms import alltoall_peak_bandwidth
from petacomm.network.link_load import ROUTINGS, TIES, Traffic, link_loads
from petacomm.network.routes import routed_link_loads
from petacomm.topology import Torus, bluegene_partition, load_machine, parse_shape

LINK = 154.0  # MB/s
# "Aggr. peak" of Table 2; that of 8x16x16 is printed as 15769: a digit is missing.
TABLE_2 = {
    "4x4x2": 4928,
    "8x4x2": 4928,
    "8x4x4": 9856,
    "8x8x4": 19712,
    "8x8x8": 78848,
    "8x16x8": 78848,
    "8x16x16": 157696,
    "8x32x16": 157696,
}


def walked(grid, traffic, routing):
    """Return the loads with ties "plus", computed link by link along all routes."""
    loads = np.zeros(grid.n_links)
    for source, destination, n_bytes in zip(
        traffic.source, traffic.destination, traffic.n_bytes, strict=True
    ):
        steps = grid.displacement(source, destination)
        dimensions = [d for d in range(grid.n_dimensions) for _ in range(abs(steps[d]))]
        orders = list(permutations(range(grid.n_dimensions)))
        if routing == "adaptive":
            ways = list(set(permutations(dimensions)))
        else:
            orders = orders[:1] if routing == "dimension-ordered" else orders
            ways = [sorted(dimensions, key=order.index) for order in orders]
        for way in ways:
            node = source
            for d in way:
                direction = 1 if steps[d] > 0 else -1
                loads[grid.link(node, d, direction)] += n_bytes / len(ways)
                node = grid.neighbor(node, d, direction)
    return loads


@st.composite
def cases(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    grid = Torus(shape, draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape))))
    nodes = st.integers(0, grid.n_nodes - 1)
    pairs = draw(st.lists(st.tuples(nodes, nodes, st.integers(0, 9)), min_size=1, max_size=6))
    return grid, Traffic(*(np.array(column) for column in zip(*pairs, strict=True)))


@settings(deadline=None, max_examples=40)
@given(cases(), st.sampled_from(ROUTINGS))
def test_loads_equal_those_of_all_routes_followed(case, routing):
    grid, traffic = case
    assert link_loads(grid, traffic, routing, "plus") == pytest.approx(
        walked(grid, traffic, routing), abs=1e-9
    )


def test_rounding_leaves_no_negative_loads():
    grid = Torus((3, 3, 1, 1), (False, True, False, False))
    loads = link_loads(grid, Traffic(np.array([1, 8]), np.array([2, 0]), np.array([3, 1])), "all-orders")
    assert loads.min() == 0


@settings(deadline=None, max_examples=60)
@given(cases(), st.sampled_from(ROUTINGS), st.sampled_from(TIES))
def test_bytes_times_hops_are_conserved_and_no_load_is_negative(case, routing, tie):
    grid, traffic = case
    loads = link_loads(grid, traffic, routing, tie)
    hops = grid.hops(traffic.source, traffic.destination)
    assert loads.sum() == pytest.approx((hops * traffic.n_bytes).sum(), abs=1e-9)
    assert loads.min(initial=0) >= 0


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize(
    "grid",
    [
        Torus((4, 3, 2)),
        Torus((4, 4), (True, False)),
        Torus((4, 3, 3), False),
        Torus((3, 5)),
        Torus((3, 2, 3, 2), False),
    ],
    ids=str,
)
def test_an_all_to_all_by_symmetry_is_that_of_its_matrix(grid, tie, routing):
    every = Traffic(*np.divmod(np.arange(grid.n_nodes**2), grid.n_nodes), 3.0)
    assert link_loads(grid, 3.0, routing, tie) == pytest.approx(
        link_loads(grid, every, routing, tie), rel=1e-9
    )


@pytest.mark.parametrize("shape", TABLE_2)
@pytest.mark.parametrize("routing", ["dimension-ordered", "all-orders"])
def test_peaks_of_the_formula_and_of_exact_loads_are_those_of_table_2(shape, routing):
    grid = bluegene_partition(load_machine("bluegene-l"), parse_shape(shape)).grid
    n = grid.n_nodes
    assert n * alltoall_peak_bandwidth(grid, LINK) == TABLE_2[shape]
    # Nodes send nothing to themselves over links: 1/n less than in the formula.
    sent = n * (n - 1) / link_loads(grid, 1.0, routing).max() * LINK
    assert sent == pytest.approx(TABLE_2[shape] * (n - 1) / n, rel=1e-12)


def test_the_tie_rule_decides_who_carries_half_a_ring():
    ring = Torus((8,))
    opposite = Traffic(np.arange(8), (np.arange(8) + 4) % 8, 1.0)
    plus, minus = slice(0, 8), slice(8, 16)
    assert (link_loads(ring, opposite, tie="plus")[plus] == 4).all()
    assert (link_loads(ring, opposite, tie="plus")[minus] == 0).all()
    assert (link_loads(ring, opposite, tie="split") == 2).all()
    assert (link_loads(ring, opposite, tie="parity") == 2).all()
    one = Traffic([1], [5], 1.0)
    assert link_loads(ring, one, tie="parity")[minus].sum() == 4  # odd coordinates go down
    assert link_loads(ring, one, tie="split")[plus].sum() == 2


def test_mpich2_pairwise_exchange_of_512_nodes_equals_ties_plus():
    # Steps that wait for each other; each takes its busiest link. 58.3 MB/s was measured (Table 3).
    grid = Torus((8, 8, 8))
    nodes = np.arange(512)
    busiest = [
        link_loads(grid, Traffic(nodes, nodes ^ step, 1.0), tie="plus").max() for step in range(1, 512)
    ]
    assert 512 / sum(busiest) * LINK == pytest.approx(58.3, rel=0.01)


def test_sixteen_thousand_nodes():
    assert link_loads(Torus((32, 32, 16)), 1.0, "adaptive").max() == pytest.approx(16384 * 32 / 8)
    mesh = Torus((32, 32, 16), False)
    assert link_loads(mesh, 1.0, "all-orders").max() == 16384 * 32 / 4
    crossed = sum(16384**2 * (n * n - 1) / (3 * n) for n in mesh.shape)  # links between all pairs of nodes
    assert link_loads(mesh, 1.0, "adaptive").sum() == pytest.approx(crossed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, "adaptiv"), "unknown routing 'adaptiv' .*'adaptive'"),
        ((1.0, "adaptive", "splt"), "unknown tie 'splt' .*'split'"),
        ((-1.0,), "an all-to-all of -1.0 bytes"),
        ((Traffic([0], [64], 1.0),), "not among the 64"),
        ((Traffic([0, 1], [1], 1.0),), "2 sources and 1 destinations"),
        ((Traffic([0], [1], float("nan")),), "negative or not finite"),
    ],
)
def test_inputs_that_do_not_fit_are_errors(arguments, message):
    with pytest.raises(ConfigError, match=message):
        link_loads(Torus((4, 4, 4)), *arguments)


@pytest.mark.parametrize(
    ("traffic", "says"),
    [
        (Traffic([0], [1], -1.0), "negative or not finite"),
        (Traffic([0], [1], float("nan")), "negative or not finite"),
        (Traffic([0], [1], [1.0, 2.0]), "2 sizes for 1 pairs of nodes"),
        (Traffic([0.5], [1], 1.0), "must be whole numbers"),
    ],
)
def test_traffic_is_checked_alike_on_all_networks(traffic, says):
    for loads in (link_loads, routed_link_loads):
        with pytest.raises(ConfigError, match=says):
            loads(Torus((4,)), traffic)
