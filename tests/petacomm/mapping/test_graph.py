"""Communication graphs: edges, groups, and their sources."""

from itertools import product

import numpy as np
import pytest
from graphs import as_dict
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks
from scipy.sparse import block_array, coo_array, csr_array, eye_array, random_array

from petacomm.base.errors import ConfigError, ResourceError
from petacomm.costs.occupancy import Occupancy
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.graph_sources import (
    add_graphs,
    grid_graph,
    matvec_graph,
    mpi_neighbours_graph,
    occupancy_graph,
    reduction_plan_graph,
    schedule_graph,
    subgrid_alltoall_graph,
)
from petacomm.mapping.nlpkkt import nlpkkt_graph, nlpkkt_size
from petacomm.reduction import ReductionPlan
from petacomm.schedule import CollectiveCall, make_schedule
from petacomm.sharing import IndexMap

EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9)), max_size=40)


@settings(deadline=None)
@given(EDGES)
def test_messages_between_the_same_ranks_add_up(edges: list[tuple[int, int, int]]) -> None:
    graph = CommunicationGraph.from_edges(7, *np.array(edges, np.int64).reshape(-1, 3).T)
    expected: dict[tuple[int, int], float] = {}
    for source, target, size in edges:
        if source != target and size:
            expected[source, target] = expected.get((source, target), 0.0) + size
    assert as_dict(graph) == expected
    assert graph.n_ranks == 7 and graph.n_edges == len(expected)
    assert as_dict(graph.reversed()) == {(b, a): size for (a, b), size in expected.items()}


@settings(deadline=None)
@given(EDGES, st.permutations(range(7)))
def test_grouping_and_choosing_ranks(edges: list[tuple[int, int, int]], order: list[int]) -> None:
    columns = np.array(edges, np.int64).reshape(-1, 3).T
    graph = CommunicationGraph.from_edges(7, *columns)
    grouped, some = as_dict(graph.grouped(np.array(order) // 2, 4)), as_dict(graph.subgraph(order[:4]))
    groups: dict[tuple[int, int], float] = {}
    for (a, b), size in as_dict(graph).items():
        ends = order[a] // 2, order[b] // 2
        if ends[0] != ends[1]:
            groups[ends] = groups.get(ends, 0.0) + size
    assert grouped == groups
    assert {(order[a], order[b]): size for (a, b), size in some.items()} == {
        ends: size for ends, size in as_dict(graph).items() if set(ends) <= set(order[:4])
    }


@settings(deadline=None)
@given(EDGES)
def test_partner_lists_have_both_directions(edges: list[tuple[int, int, int]]) -> None:
    graph = CommunicationGraph.from_edges(7, *np.array(edges, np.int64).reshape(-1, 3).T)
    offsets, partners, to, back = graph.partner_lists
    forth = as_dict(graph)
    rank = np.repeat(np.arange(7), np.diff(offsets))
    pairs = list(zip(rank.tolist(), partners.tolist(), strict=True))
    assert set(pairs) == set(forth) | {(b, a) for a, b in forth}
    assert to.tolist() == [forth.get(pair, 0.0) for pair in pairs]
    assert back.tolist() == [forth.get((b, a), 0.0) for a, b in pairs]


@pytest.mark.parametrize(
    ("edges", "says"),
    [
        (([0, 1], [1, 7], 1), "message 1 of the graph: there is no rank 7"),
        (([0, -1], [1, 2], 1), "message 1 of the graph: there is no rank -1"),
        (([0], [1], -3.0), "-3.0 bytes"),
        (([0], [1], np.nan), "nan bytes"),
        (([0], [1, 2], 1), "1 sources and 2 targets"),
        (([0.5], [1], 1), "not whole numbers"),
        (([0], [1], [1, 2]), "2 sizes for 1 messages"),
    ],
)
def test_malformed_edges_are_named(edges: tuple, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        CommunicationGraph.from_edges(7, *edges)


def test_a_grid_exchanges_halos() -> None:
    # The slide's 4 x 6 ranks: every rank has four neighbours.
    graph = grid_graph((4, 6), True, 8.0)
    assert np.diff(graph.offsets).tolist() == [4] * 24
    assert grid_graph((4, 6), False).n_edges == 2 * (3 * 6 + 4 * 5)
    assert np.diff(grid_graph((4, 5, 6), True, corners=True).offsets).tolist() == [26] * 120
    # Rings of two are the same neighbour twice.
    assert as_dict(grid_graph((2, 1), True, [3.0, 5.0])) == {(0, 1): 6.0, (1, 0): 6.0}


def test_lines_are_all_to_alls_of_sub_communicators() -> None:
    graph = subgrid_alltoall_graph((2, 3, 4), [1], 5.0)
    for (a, b), size in as_dict(graph).items():
        places = np.unravel_index([a, b], (2, 3, 4))
        assert [column[0] == column[1] for column in places] == [True, False, True] and size == 5.0
    assert graph.n_edges == 24 * 2
    assert subgrid_alltoall_graph((2, 3, 4), [0, 2]).n_edges == 24 * 7


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 7, 20])
def test_a_matrix_sends_each_value_once(n_ranks: int) -> None:
    matrix = random_array((20, 20), density=0.2, rng=np.random.default_rng(3))
    bounds = np.arange(n_ranks + 1) * 20 // n_ranks
    owner = np.repeat(np.arange(n_ranks), np.diff(bounds))
    needs = {(owner[i], j) for i, j in zip(*matrix.nonzero(), strict=True)}
    expected: dict[tuple[int, int], float] = {}
    for rank, column in needs:
        if owner[column] != rank:
            expected[owner[column], rank] = expected.get((owner[column], rank), 0.0) + 8.0
    assert as_dict(matvec_graph(matrix, n_ranks)) == expected


def nlpkkt_matrix(n_grid: int) -> csr_array:
    """Return the pattern of a matrix of the class, with all values 1, point by point."""
    points = [
        point
        for point in product(range(n_grid + 2), repeat=3)
        if sum(x in (0, n_grid + 1) for x in point) < 2  # no edges and corners
    ]
    number = {point: i for i, point in enumerate(points)}
    inside = [point for point in points if all(1 <= x <= n_grid for x in point)]
    entries = [
        (row, number[neighbour])
        for row, point in enumerate(inside)
        for neighbour in product(*((x - 1, x, x + 1) for x in point))
        if neighbour in number
    ]
    part = coo_array((np.ones(len(entries)), np.transpose(entries)), shape=(len(inside), len(points)))
    return block_array([[eye_array(len(points)), part.T], [part, None]], format="csr")


@pytest.mark.parametrize("n_grid", [2, 3, 5])
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5, 16, 40])
def test_nlpkkt_by_lines_is_that_of_the_matrix(n_grid: int, n_ranks: int) -> None:
    by_lines, whole = nlpkkt_graph(n_grid, n_ranks), matvec_graph(nlpkkt_matrix(n_grid), n_ranks)
    assert as_dict(by_lines) == as_dict(whole)


@pytest.mark.parametrize("n_grid", [2, 3, 6])
def test_the_matrix_has_the_size_of_its_formula(n_grid: int) -> None:
    matrix = nlpkkt_matrix(n_grid)
    assert (matrix.shape[0], matrix.nnz) == nlpkkt_size(n_grid)
    assert abs(matrix - matrix.T).nnz == 0


def test_what_the_memory_does_not_hold_is_refused_before_any_work(monkeypatch) -> None:
    with pytest.raises(ResourceError, match=r"10,000,400,004 lines of nlpkkt100000 take 12 TB .*fewer"):
        nlpkkt_graph(100_000, 8)
    with pytest.raises(ResourceError, match="1,125,899,906,842,624 messages of all-to-alls take 54"):
        subgrid_alltoall_graph((1 << 25,), [0])
    monkeypatch.setattr("petacomm.base.host.memory_bounds", lambda: {"a limit": 30_000, "another": 1 << 40})
    assert nlpkkt_graph(2, 2).n_ranks == 2
    with pytest.raises(ResourceError, match="beyond a limit of 30 kB"):
        nlpkkt_graph(4, 2)


def test_nlpkkt240_has_its_published_size() -> None:
    assert nlpkkt_size(240) == (27_993_600, 760_648_352)
    graph = nlpkkt_graph(240, 1024)
    assert graph.n_ranks == 1024 and np.diff(graph.offsets).min() > 0


def test_a_schedule_is_added_up() -> None:
    call = CollectiveCall("alltoall", 6, 3, itemsize=8)
    graph = schedule_graph(make_schedule(call, "pairwise"), 8)
    assert as_dict(graph) == {(a, b): 24.0 for a in range(6) for b in range(6) if a != b}
    tree = schedule_graph(make_schedule(CollectiveCall("broadcast", 5, 10), "binomial"), 8)
    assert tree.n_edges == 4 and set(tree.n_bytes) == {80.0}


def test_graphs_of_other_ranks_do_not_add() -> None:
    with pytest.raises(ConfigError, match=r"graphs of \[4, 6\] ranks"):
        add_graphs([grid_graph((4,)), grid_graph((6,))])


def keys_of(rank: int, size: int) -> np.ndarray:
    rng = np.random.default_rng(17 + rank)
    return np.unique(rng.integers(0, 30 * size, 40 * size))


def plan_graphs(comm):
    keys = [keys_of(rank, comm.size) for rank in range(comm.size)]
    sets = [set(part.tolist()) for part in keys]
    pairs = {
        (a, b): 16.0 * len(sets[a] & sets[b])
        for a in range(comm.size)
        for b in range(comm.size)
        if a != b and sets[a] & sets[b]
    }
    plan = ReductionPlan(IndexMap(comm, keys[comm.rank]), algorithm="pairwise")
    assert as_dict(reduction_plan_graph(plan, k=2)) == pairs
    # With the owner algorithm it equals the graph computed from the occupancy of the same keys.
    plan = ReductionPlan(IndexMap(comm, keys[comm.rank]), algorithm="owner")
    assert as_dict(reduction_plan_graph(plan, k=2)) == as_dict(
        occupancy_graph(Occupancy.from_rank_keys(keys), k=2)
    )


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_the_graph_of_a_reduction_plan(n_ranks: int) -> None:
    run_ranks(plan_graphs, n_ranks)


def mpi_graphs(comm):
    from mpi4py import MPI

    rank, size = comm.rank, comm.size
    ring = MPI.COMM_WORLD.Create_dist_graph_adjacent(
        [(rank - 1) % size], [(rank + 1) % size], sourceweights=[64], destweights=[64]
    )
    expected = {(r, (r + 1) % size): 64.0 for r in range(size) if size > 1}
    assert as_dict(mpi_neighbours_graph(ring)) == expected
    plain = MPI.COMM_WORLD.Create_dist_graph_adjacent([(rank - 1) % size], [(rank + 1) % size])
    assert as_dict(mpi_neighbours_graph(plain)) == dict.fromkeys(expected, 1.0)


@pytest.mark.parametrize("n_ranks", [1, 2, 5])
def test_an_mpi_graph_communicator_is_read(n_ranks: int) -> None:
    run_ranks(mpi_graphs, n_ranks)


def test_a_communicator_without_a_graph_is_refused() -> None:
    with pytest.raises(ConfigError, match="no graph"):
        mpi_neighbours_graph(object())


def test_bytes_beyond_all_sums_are_refused():
    with pytest.raises(ConfigError, match=r"message 1 of the graph: 1e\+19 bytes \(give 0 to 1e\+18\)"):
        CommunicationGraph.from_edges(3, [0, 1], [1, 2], [1, 1e19])
