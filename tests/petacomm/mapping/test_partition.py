"""Rubik's boxes: the script of the poster, partitions, permutations, shapes of communicators."""

import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.mapping.communicator_shapes import alltoall_links_per_node
from petacomm.mapping.launchers import LaunchTarget, read_launcher_file
from petacomm.mapping.partition import Partition, autobox, box, div, mod
from petacomm.mapping.placement import Placement
from petacomm.topology import TopologyManager, Torus, dragonfly

POSTER = """
from petacomm.mapping.partition import *

pf3d = box([16, 8, 16])
pf3d.tile([1, 8, 16])

torus = box([8, 8, 32])
torus.tile([8, 8, 2])
torus.map(pf3d)

torus.tilt(2, 0, 1)
torus.tilt(2, 1, 1)
"""


def poster():
    names = {}
    exec(POSTER, names)
    return names["torus"]


def test_the_posters_script_runs_and_equals_the_closed_form_for_all_ranks(tmp_path):
    torus = poster()
    r = np.arange(2048)
    x, y, z = r // 128, r // 16 % 8, r % 16
    expected = np.stack([y, z // 2, (2 * x + z % 2 + y + z // 2) % 32], -1)
    assert np.array_equal(torus.coordinates(), expected)
    assert len(list(torus.leaves())) == 16 and {leaf.shape for leaf in torus.leaves()} == {(8, 8, 2)}
    path = tmp_path / "map"
    torus.write_map_file(path)
    assert path.read_text().splitlines()[17] == " ".join(map(str, expected[17]))
    stream = io.StringIO()
    torus.write_map_file(stream)
    assert stream.getvalue() == path.read_text()
    # On 512 nodes of four cores each, neighbours along the last dimension share a node.
    placement = torus.placement(Torus((8, 8, 8)))
    assert placement.ranks_per_node == 4
    assert np.array_equal(placement.nodes, Torus((8, 8, 8)).node_at(expected // [1, 1, 4]))
    assert np.array_equal(placement.slots, expected[:, 2] % 4)
    # The file that Rubik writes is that of Blue Gene without the core.
    with_core = tmp_path / "with-core"
    with_core.write_text("".join(f"{line} 0\n" for line in path.read_text().splitlines()))
    grid = Torus((8, 8, 32))
    assert (
        read_launcher_file("bluegene", with_core, LaunchTarget(grid))
        == torus.placement(grid)
        == torus.placement()
    )


@st.composite
def boxes(draw, least=1):
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=least, max_size=4))
    made = box(shape)
    # Moves permute the contents, whatever they are.
    made.tasks[...] = (
        np.random.default_rng(draw(st.integers(0, 9))).permutation(made.tasks.ravel()).reshape(shape)
    )
    return made


def divisors(draw, shape):
    return [draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0])) for size in shape]


def cut_at_random(part, draw, levels):
    if levels:
        ways = [draw(st.sampled_from([div, mod])) for _ in part.shape]
        part.cut(divisors(draw, part.shape), ways)
        for child in part:
            cut_at_random(child, draw, draw(st.integers(0, levels - 1)))


@settings(deadline=None, max_examples=60)
@given(boxes(), st.data())
def test_leaves_of_any_nesting_partition_the_box_and_are_views_of_it(made, data):
    cut_at_random(made, data.draw, 2)
    leaves = list(made.leaves())
    assert sorted(np.concatenate([leaf.tasks.ravel() for leaf in leaves])) == list(range(made.size))
    assert made.depth() == 1 + max((child.depth() for child in made), default=0) <= 3
    for leaf in leaves:
        assert np.shares_memory(leaf.tasks, made.tasks) and leaf.root is made
        leaf.tasks += made.size
    assert (made.tasks >= made.size).all()


@settings(deadline=None)
@given(boxes(), st.data())
def test_cuts_are_their_definitions(made, data):
    counts = divisors(data.draw, made.shape)
    made.div(counts)
    chunks = np.array(made.shape) // counts
    for place in np.ndindex(made.shape):
        child = made.children[tuple(np.array(place) // chunks)]
        assert child.tasks[tuple(np.array(place) % chunks)] == made.tasks[place]
    tiles = [[child.tasks.tolist() for child in made]]
    made.tile(chunks.tolist())
    assert [child.tasks.tolist() for child in made] == tiles[0]
    made.mod(counts)
    for place in np.ndindex(made.shape):
        child = made.children[tuple(np.array(place) % counts)]
        assert child.tasks[tuple(np.array(place) // counts)] == made.tasks[place]


@settings(deadline=None)
@given(boxes(least=2), st.data())
def test_moves_are_their_definitions_and_have_inverses(made, data):
    before = made.tasks.copy()
    axis, direction = data.draw(st.permutations(range(made.ndim)))[:2]
    slope = data.draw(st.integers(-5, 5))
    made.tilt(axis, direction, slope)
    for place in np.ndindex(made.shape):
        to = list(place)
        to[axis] = (to[axis] + place[direction] * slope) % made.shape[axis]
        assert made.tasks[tuple(to)] == before[place]
    made.shear(direction, axis, -slope)
    assert np.array_equal(made.tasks, before)
    stride = data.draw(st.integers(1, 3))
    depth = stride * data.draw(st.integers(-2, 2))
    made.zigzag(axis, direction, depth, stride)
    made.zigzag(axis, direction, -depth, stride)
    assert np.array_equal(made.tasks, before)
    axes = data.draw(st.permutations(range(made.ndim)))
    made.transpose(axes)
    assert np.array_equal(made.tasks.ravel(), before.transpose(axes).ravel())


@settings(deadline=None)
@given(boxes(least=2), st.data())
def test_all_moves_permute(made, data):
    axis, direction = data.draw(st.permutations(range(made.ndim)))[:2]
    made.zigzag(axis, direction, data.draw(st.integers(-4, 4)), data.draw(st.integers(1, 4)))
    made.zorder()
    made.transpose(data.draw(st.permutations(range(made.ndim))))
    assert sorted(made.tasks.ravel()) == list(range(made.size))
    places = made.coordinates()
    assert np.array_equal(made.tasks[tuple(places.T)], np.arange(made.size))


def test_zigzag_goes_to_its_depth_and_back():
    made = box([8, 4])
    made.zigzag(1, 0, depth=2, stride=4)
    shifts = [np.flatnonzero(row % 4 == 0)[0] for row in made.tasks]
    assert shifts == [0, 1, 1, 2, 2, 2, 1, 1]


def test_the_z_curve_visits_squares_before_it_leaves_them():
    made = box([4, 4])
    made.zorder()
    assert made.tasks.tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]


def test_groups_of_planes_are_mapped_onto_cubes():
    app, network = box([9, 24]), box([6, 6, 6])
    app.tile([9, 3])
    network.tile([3, 3, 3])
    network.map(app)
    for group, leaf in zip(app.leaves(), network.leaves(), strict=True):
        assert np.array_equal(group.tasks.ravel(), leaf.tasks.ravel())
    assert sorted(network.tasks.ravel()) == list(range(216))


def test_the_box_of_an_allocation_knows_its_nodes():
    machine = Torus((6, 6, 6))
    nodes = machine.node_at(np.add(np.indices((2, 3, 1)).reshape(3, -1).T, [5, 1, 4]))
    manager = TopologyManager(machine, np.repeat(nodes, 2))
    made = autobox(manager=manager)
    assert made.shape == (2, 3, 1, 2)
    made.tilt(3, 0, 1)
    placement = made.placement()
    assert np.array_equal(np.unique(placement.nodes), np.sort(nodes)) and placement.ranks_per_node == 2
    # Task 6 is first at (1, 0, 0), which wraps around, and was moved to the second core.
    assert placement.nodes[6] == machine.node_at([0, 1, 4]) and placement.slots[6] == 1
    assert autobox(1, 6, manager).placement() == Placement(nodes, np.zeros(6, int), 1, 216)
    assert autobox().size >= 1
    with pytest.raises(ConfigError, match="4 nodes do not fill a box of 2x3x1"):
        autobox(manager=TopologyManager(machine, nodes[[0, 1, 2, 5]]))
    with pytest.raises(ConfigError, match="holds 12 tasks, not 10"):
        autobox(num_tasks=10, manager=manager)


def _mapped(divide_by):
    network, app = box([4, 4]), box([16])
    app.div([divide_by])
    network.div([2, 2])
    network.map(app)


def _half():
    network = box([4, 4])
    network.div([2, 1])
    network.children[1, 0].map(box([8]))
    return network.coordinates()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: box([]), r"a box of \[\]"),
        (lambda: box([4, 0]), "give whole numbers"),
        (lambda: box([4, 2.5]), "give whole numbers"),
        (lambda: box([4, 6]).tile([3, 2]), "a tile of 3x2 does not divide a box of 4x6"),
        (lambda: box([4, 6]).div([2, 4]), "a cut of 2x4 does not divide"),
        (lambda: box([4, 6]).mod([2]), "a cut of 1 dimensions in a box of 4x6"),
        (lambda: box([4, 6]).cut([2, 2], [div]), "1 ways to cut 2 dimensions"),
        (lambda: box([4, 6]).tilt(1, 1), "cannot move along dimension 1"),
        (lambda: box([4, 6]).zigzag(1, 0, 1, 0), "a stride of 0"),
        (lambda: box([4, 6]).transpose([0, 0]), "are not the 2 axes"),
        (lambda: _mapped(2), "2 groups are mapped onto 4"),
        (lambda: _half(), "task 0 is at two places of the box"),
        (lambda: box([4, 4]).placement(Torus((3, 4))), "4x4 does not lie on nodes of 3x4"),
        (lambda: box([4]).placement(Torus((2, 2))), "4 does not lie on nodes of 2x2"),
        (lambda: box([4]).placement(dragonfly(2, 2, 1)), "on a torus or a mesh"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_errors(action, message):
    with pytest.raises(ConfigError, match=message):
        action()


def test_a_box_is_not_mapped_onto_a_part_of_itself_nor_onto_groups_of_other_sizes():
    torus = box([4, 4])
    torus.div([2, 1])
    for other in (torus, torus.children[1, 0]):
        with pytest.raises(ConfigError, match="mapped onto itself"):
            torus.map(other)
    app = box([16])
    app.children = np.array([Partition(app.tasks[:4], app), Partition(app.tasks[4:], app)], object)
    with pytest.raises(ConfigError, match="group 0 of 4 tasks is mapped onto 8 places"):
        torus.map(app)


# In links per node; for one communicator on 8x8x8, integers if the load is spread evenly over routes.
_I = np.arange(8)
_XY = np.indices((8, 8)).reshape(2, -1)
SHAPES = {
    "line": (np.stack([_I, 0 * _I, 0 * _I], -1), 7 / 8, 7 / 8),
    "line tilted once": (np.stack([_I, 0 * _I, _I], -1), 2.0, 4.0),
    "diagonal": (np.stack([_I, _I, _I], -1), 2.0, 6.0),
    "cube": (np.indices((2, 2, 2)).reshape(3, -1).T, 7 / 4, 7 / 4),
    "plane": (np.stack([*_XY, 0 * _XY[0]], -1), 63 / 64, 63 / 64),
    "plane tilted twice": (np.stack([*_XY, sum(_XY)], -1), 2.25, 5.25),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_communicators_have_exact_bounds(name):
    places, ordered, all_orders = SHAPES[name]
    grid = Torus((8, 8, 8))
    nodes = grid.node_at(places)
    assert math.isclose(alltoall_links_per_node(grid, [nodes]), ordered, rel_tol=1e-12)
    assert math.isclose(alltoall_links_per_node(grid, [nodes], "all-orders"), all_orders, rel_tol=1e-12)


def test_tilts_help_one_communicator_and_not_all_at_once():
    grid = Torus((8, 8, 8))
    flat, tilted = box([8, 8, 8]), box([8, 8, 8])
    flat.div([1, 1, 8])
    planes = [plane.tasks.ravel() for plane in flat]
    tilted.tilt(2, 0, 1)
    tilted.tilt(2, 1, 1)
    nodes = [[made.placement().nodes[plane] for plane in planes] for made in (flat, tilted)]
    for routing in ("dimension-ordered", "all-orders"):
        one = [alltoall_links_per_node(grid, of[:1], routing) for of in nodes]
        together = [alltoall_links_per_node(grid, of, routing) for of in nodes]
        assert one[1] > 2 * one[0] and together[1] <= together[0]


@pytest.mark.parametrize("groups", [[], [[0]], [[0, 1], [2, 3, 4]]])
def test_communicators_of_other_sizes_are_refused(groups):
    with pytest.raises(ConfigError, match="communicators of"):
        alltoall_links_per_node(Torus((8,)), groups)
