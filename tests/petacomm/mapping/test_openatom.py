"""OpenAtom's maps: Algorithm 7.1, prisms, and the tables of the source."""

from dataclasses import fields, replace

import numpy as np
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from petacomm.base.errors import ConfigError, DataError
from petacomm.mapping.openatom import (
    GST_BIG,
    PHASES,
    WATER_32,
    WATER_256,
    MolecularSystem,
    ObjectMaps,
    cut_prisms,
    default_maps,
    map_pair_calculators,
    map_real_particle,
    map_real_space,
    step_hop_bytes,
    step_operations,
    step_phases,
    step_traffic,
    topology_maps,
)
from petacomm.mapping.openatom.exchanges import plane_trees, reduction_tree
from petacomm.mapping.openatom.hops import HopTable
from petacomm.mapping.openatom.maps import long_axis, map_g_space
from petacomm.mapping.openatom.phases import ITERATIONS
from petacomm.network import Traffic, link_loads
from petacomm.papers.bhatele2010.runs import published_runs
from petacomm.topology import TopologyManager, Torus

SMALL = MolecularSystem("small", n_states=24, n_g=8, n_r=10, radius=3.0, block=6)


def literally(manager, system, g_space):
    """Algorithm 7.1 line by line; the limit is the smallest that leaves room for the state."""
    held = [0] * manager.n_ranks
    rsmap = np.empty((system.n_states, system.n_r), int)
    for state in range(system.n_states):
        plist = list(dict.fromkeys(g_space[state].tolist()))
        per_pe = 1
        while sum(max(0, per_pe - held[pe]) for pe in plist) < system.n_r:
            per_pe += 1
        for plane in range(system.n_r):
            plist = [pe for pe in plist if held[pe] < per_pe]
            first = plist[0]
            plist.sort(key=lambda pe: int(manager.hops_between_ranks(first, pe)))
            rsmap[state, plane] = plist[0]
            held[plist[0]] += 1
    return rsmap


@settings(deadline=None, max_examples=15)
@given(
    st.sampled_from([(4, 4, 2), (2, 4, 4), (4, 2, 3), (8, 2, 2)]), st.booleans(), st.integers(1, 2),
    st.integers(3, 12), st.integers(0, 99),
)  # fmt: skip
def test_real_space_is_mapped_by_the_algorithm(shape, wrap, cores, n_r, seed):
    manager = TopologyManager.from_network(Torus(shape, wrap), cores)
    system = replace(SMALL, n_r=n_r)
    # Any map of GSpace, also shared by states: its lists have repeated processors, full processors and ties.
    g_space = np.random.default_rng(seed).integers(manager.n_ranks, size=(6, system.n_g)).repeat(4, axis=0)
    assert np.array_equal(map_real_space(manager, system, g_space), literally(manager, system, g_space))


@pytest.mark.parametrize("shape", [(8, 4, 4), (4, 4, 4), (4, 8, 2)])
@pytest.mark.parametrize("cores", [1, 4])
def test_prisms_partition_the_torus_evenly_and_span_a_dimension(shape, cores):
    manager = TopologyManager.from_network(Torus(shape), cores)
    for axis in range(3):
        prisms = cut_prisms(manager, 8, axis)
        assert len(prisms.ranks) == 8 and prisms.prism_of_plane.tolist() == list(range(8))
        assert sorted(np.concatenate(prisms.ranks)) == list(range(manager.n_ranks))
        for ranks in prisms.ranks:
            places = manager.rank_to_coordinates(ranks)
            extents = np.ptp(places, axis=0) + 1
            assert np.prod(extents) == len(ranks) == manager.n_ranks // 8
            assert extents[axis] == shape[axis] and (np.diff(places[:, axis]) >= 0).all()


def test_where_planes_are_more_than_columns_some_share_a_prism():
    manager = TopologyManager.from_network(Torus((4, 2, 2)), 1)
    prisms = cut_prisms(manager, 8, 0)
    assert len(prisms.ranks) == 4 and prisms.prism_of_plane.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.fixture(scope="module")
def mapped():
    run = next(run for run in published_runs() if run.system.name == WATER_256.name and run.n_cores == 2048)
    manager = run.allocation()
    return manager, run.system, topology_maps(manager, run.system)


def test_states_of_a_plane_lie_in_increasing_order_along_its_prism(mapped):
    manager, system, maps = mapped
    axis = long_axis(manager, system)
    prisms = cut_prisms(manager, system.n_g, axis)
    for plane in range(system.n_g):
        ranks = maps.g_space[:, plane]
        assert np.isin(ranks, prisms.ranks[prisms.prism_of_plane[plane]]).all()
        assert (np.diff(manager.rank_to_coordinates(ranks)[:, axis]) >= 0).all()
    assert len(np.unique(maps.g_space)) == manager.n_ranks


def test_prisms_confine_planes_and_slabs_across_them_confine_states(mapped):
    manager, system, maps = mapped
    axis = long_axis(manager, system)
    grid = manager.network
    prisms = cut_prisms(manager, system.n_g, axis)
    start, end = grid.link_ends()
    for plane in (0, 7, system.n_g - 1):
        inside = np.isin(np.arange(grid.n_nodes), manager.nodes[prisms.ranks[prisms.prism_of_plane[plane]]])
        g, pairs = (manager.nodes[part[:, plane]] for part in (maps.g_space, maps.pair_calculators))
        both = np.repeat(g, len(pairs)), np.tile(pairs, len(g))
        used = link_loads(grid, Traffic(*both, 1.0)) > 0
        # All links that any plane-wise message takes stay in the prism of the plane.
        assert used.any() and inside[start[used]].all() and inside[end[used]].all()
    places = manager.rank_to_coordinates(np.arange(manager.n_ranks))[:, axis]
    for array in (maps.real_space, maps.real_particle):
        assert np.array_equal(places[array], np.broadcast_to(places[maps.g_space[:, :1]], array.shape))


def test_objects_are_distributed_evenly(mapped):
    manager, system, maps = mapped
    for array in (maps.g_space, maps.real_space, maps.real_particle, maps.pair_calculators, maps.ortho):
        counts = np.bincount(array.ravel(), minlength=manager.n_ranks)
        assert counts.max() <= array.size / manager.n_ranks * 1.3 + 1
    rho = np.concatenate([maps.rho_r.ravel(), maps.rho_g, maps.rho_g_hart.ravel()])
    assert len(np.unique(rho)) == len(rho), "no processor has two objects of densities where there are enough"
    # Around the centroid: no free processor is nearer to a plane of RealSpace than the first one of RhoR.
    sums = HopTable(manager).group_sums(np.arange(manager.n_ranks), maps.real_space.T)
    assert sums[0, maps.rho_r[0]].tolist() == np.sort(sums[0])[: system.n_rho].tolist()


def test_maps_are_saved_and_loaded(tmp_path):
    manager = TopologyManager.from_network(Torus((4, 4, 4)))
    maps = topology_maps(manager, SMALL)
    path = tmp_path / "maps.npz"
    maps.save(path)
    again = ObjectMaps.load(path, manager.n_ranks)
    for item in fields(ObjectMaps):
        assert np.array_equal(getattr(again, item.name), getattr(maps, item.name))
    with pytest.raises(ConfigError, match="other than 32 ranks"):
        ObjectMaps.load(path, 32)
    with pytest.raises(ConfigError, match="cannot be read"):
        ObjectMaps.load(tmp_path / "none.npz", 64)
    for content in (b"", b"PK\x03\x04 broken", path.read_bytes()[:3000]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"maps\.npz: no maps: .* \(write it with ObjectMaps\.save"):
            ObjectMaps.load(path, 64)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: replace(SMALL, block=5), "blocks of 5 states do not divide 24"),
        (lambda: replace(SMALL, tile=4), "tiles of 4 states do not divide 6"),
        (
            lambda: cut_prisms(TopologyManager.from_network(Torus((4, 4, 4))), 7, 0),
            "7 planes cannot have prisms",
        ),
        (
            lambda: cut_prisms(TopologyManager(Torus((4, 4)), [0, 5]), 2, 0),
            "2 ranks do not fill a box of 2x2x1",
        ),
    ],
)
def test_systems_that_cannot_be_cut_are_errors(action, message):
    with pytest.raises(ConfigError, match=message):
        action()


def test_the_systems_have_the_states_and_planes_of_their_molecules():
    assert (WATER_32.n_states, WATER_32.n_r) == (128, 100) and (WATER_256.n_states, WATER_256.n_r) == (
        1024,
        200,
    )


@pytest.mark.parametrize("wrap", [True, False])
def test_hop_bytes_are_those_of_the_traffic(wrap):
    manager = TopologyManager.from_network(Torus((4, 2, 4), wrap), 2)
    for maps in (default_maps(manager, SMALL), topology_maps(manager, SMALL)):
        by_phase = step_hop_bytes(manager, maps, SMALL)
        sent = step_traffic(manager, maps, SMALL)
        for phase, graph in sent.items():
            hops = manager.hops_between_ranks(graph.source, graph.destination)
            assert np.isclose(np.dot(hops, graph.n_bytes), by_phase[phase], rtol=1e-12)
        # All ordered pairs of objects that communicate, one by one.
        state_bytes = sum(
            SMALL.n_lines / SMALL.n_g * 16 * int(manager.hops_between_ranks(g, r))
            for g_row, r_row in zip(maps.g_space, maps.real_space, strict=True)
            for g in g_row
            for r in r_row
        )
        assert np.isclose(state_bytes, by_phase["I"]) and np.isclose(state_bytes, by_phase["VI"])


def test_sums_of_densities_go_along_trees():
    manager = TopologyManager.from_network(Torus((4, 4, 4)))
    maps = topology_maps(manager, SMALL)
    edges = 0
    for plane in range(SMALL.n_r):
        ranks = np.unique(np.append(maps.real_space[:, plane], maps.rho_r[plane]))
        root = maps.rho_r[plane, 0]
        source, target = reduction_tree(HopTable(manager), ranks, root)
        assert sorted([*source, root]) == sorted(ranks), "each but the root sends once"
        graph = coo_array((np.ones(len(source)), (source, target)), shape=(64, 64))
        assert connected_components(graph, directed=False)[0] == 64 - len(ranks) + 1
        least = minimum_spanning_tree(HopTable(manager).between(ranks, ranks)).sum()
        assert least <= manager.hops_between_ranks(source, target).sum() <= 2 * least
        edges += len(source)
    up, down = plane_trees(HopTable(manager), maps.real_space, maps.rho_r)
    assert len(up) == len(down) == edges


def test_a_step_has_ten_phases_whose_operations_no_map_changes():
    manager = TopologyManager.from_network(Torus((4, 4, 4)), 1)
    made = [make(manager, SMALL) for make in (default_maps, topology_maps)]
    work = [step_operations(maps, SMALL, manager.n_ranks) for maps in made]
    assert list(work[0]) == list(PHASES) == list(step_traffic(manager, made[0], SMALL)) and len(PHASES) == 10
    for phase in PHASES:
        assert np.isclose(work[0][phase].sum(), work[1][phase].sum(), rtol=1e-12) and work[0][phase].sum() > 0
    # Real products of states: two of all pairs in VII, the half with its diagonal in VIII, one in IX.
    products = 4 * SMALL.n_waves * SMALL.n_states**2
    multiply = ITERATIONS * 3 * 2 * SMALL.n_states**3
    shares = [2 * products, products * 10 / 16 + multiply, products]
    assert np.allclose([work[0][phase].sum() for phase in ("VII", "VIII", "IX")], shares, rtol=1e-12)


def test_pairs_get_and_return_what_their_products_need():
    # All ranks have one object at most, so that nothing stays within a rank.
    manager = TopologyManager.from_network(Torus((8, 8, 8)), 1)
    system = MolecularSystem("tiny", n_states=6, n_g=4, n_r=5, radius=2.0, block=3, n_rho=1, tile=1)
    maps = default_maps(manager, system)
    apart = {item.name: np.arange(getattr(maps, item.name).size).reshape(getattr(maps, item.name).shape)
             for item in fields(ObjectMaps)}  # fmt: skip
    begin = np.cumsum([0, *(array.size for array in apart.values())])
    apart = {name: array + at for (name, array), at in zip(apart.items(), begin, strict=False)}
    sent = {phase: traffic.n_bytes.sum() for phase, traffic in
            step_traffic(manager, ObjectMaps(**apart), system).items()}  # fmt: skip
    state = system.n_waves * 16
    overlaps = system.n_states**2 * 8 * system.n_g
    # Two blocks: states to both of a row, forces to both of a column and back; overlaps to Ortho and back.
    assert np.isclose(sent["VII"], 6 * state * (2 + 2 + 2) + 2 * overlaps, rtol=1e-12)
    half = 3 * state * 1 + 6 * state * 2 + overlaps * 3 / 4
    multiply = 3 * ITERATIONS * system.n_states**2 * 8 * 2 * (system.n_tiles - 1)
    assert np.isclose(sent["VIII"], half + multiply, rtol=1e-12)
    assert np.isclose(sent["IX"], overlaps + 6 * state * 2, rtol=1e-12)
    # A transform moves the points of the density once: one in III, eight in IV, besides those of RhoRHart.
    points = system.n_r**3 * 8
    assert np.isclose(sent["III"], points, rtol=1e-12)
    hart = system.n_types * (2 * system.n_hart**3 * 8 + 2 * 8 * state)
    assert np.isclose(sent["IV"], 8 * points + hart, rtol=1e-12)


def test_phases_of_a_step_are_those_of_a_job():
    manager = TopologyManager.from_network(Torus((4, 4, 2)), 2)
    maps = topology_maps(manager, SMALL)
    traffic = step_traffic(manager, maps, SMALL)
    operations = step_operations(maps, SMALL, manager.n_ranks)
    for phase in step_phases(manager, maps, SMALL, 2e9):
        assert np.isclose(phase.graph.total_bytes, traffic[phase.name].n_bytes.sum(), rtol=1e-12)
        assert np.allclose(phase.work, operations[phase.name] / 2e9, rtol=1e-12)
        sent = phase.sent_messages()
        assert (sent >= np.diff(phase.graph.offsets)).all(), "a message for each edge at least"


RUNS = [run for run in published_runs() if (run.n_cores, run.system.name) != (16384, GST_BIG.name)]


@pytest.mark.parametrize(
    "run",
    cases(*(run for run in RUNS if run.n_cores <= 1024), long=(run for run in RUNS if run.n_cores > 1024)),
    ids=lambda run: f"{run.machine}-{run.system.name}-{run.n_cores}",
)
def test_hop_bytes_are_30_percent_below_the_default_maps(run):
    # Of 32 blocks of states; with fewer, what the pairs send counts for less.
    manager, system = run.allocation(), replace(run.system, block=run.system.n_states // 32, tile=0)
    before = sum(step_hop_bytes(manager, default_maps(manager, system), system).values())
    after = sum(step_hop_bytes(manager, topology_maps(manager, system), system).values())
    assert after <= 0.7 * before


@pytest.mark.parametrize("n_cores", [8192, 16384])
def test_objects_of_large_runs_are_distributed_evenly(n_cores):
    run = next(r for r in published_runs() if (r.system.name, r.n_cores) == (WATER_256.name, n_cores))
    manager, system = run.allocation(), run.system
    prisms = cut_prisms(manager, system.n_g, long_axis(manager, system))
    g_space = map_g_space(prisms, system)
    real_space = map_real_space(manager, system, g_space)
    pairs = map_pair_calculators(manager, system, prisms, g_space)
    for array in (g_space, real_space, map_real_particle(manager, system, g_space, real_space), pairs):
        counts = np.bincount(array.ravel(), minlength=manager.n_ranks)
        assert len(counts) == manager.n_ranks and counts.max() <= array.size / manager.n_ranks * 1.3 + 1
