"""The catalogue: preconditions of algorithms, and the choice of one."""

from itertools import product

import numpy as np
import pytest

from petacomm.base.errors import ConfigError
from petacomm.schedule import (
    ALGORITHMS,
    CollectiveCall,
    ScheduleError,
    check_schedule,
    communicator_grid,
    list_algorithms,
    make_schedule,
    partition_call,
    published_algorithm,
)
from petacomm.topology import BlueGenePartition, NodeMode, Torus

WAYS = list(
    product(
        ("broadcast", "reduce", "allreduce", "alltoall", "barrier"),
        (0, 1, 100, 1000, 100_000),
        (True, False),
        (None, Torus((3, 4))),
        (True, False),
        (True, False),
    )
)


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "allreduce", "alltoall", "barrier"])
def test_the_chosen_algorithm_can_always_be_used(collective):
    for kind, n_elements, integer, grid, tree, interrupts in WAYS:
        if kind == collective and not (collective == "alltoall" and n_elements > 1000):
            call = CollectiveCall(
                collective, 12, n_elements, 8, integer, 3, grid, has_tree=tree, has_interrupts=interrupts
            )
            assert not ALGORITHMS[collective, published_algorithm(call)].unmet_preconditions(call)
            check_schedule(make_schedule(call))


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "allreduce", "alltoall", "barrier"])
def test_some_algorithms_have_no_precondition(collective):
    counts = np.arange(49).reshape(7, 7) if collective == "alltoall" else None
    name = published_algorithm(CollectiveCall(collective, 7, 10, counts=counts))
    assert name in {of.name for of in list_algorithms(collective) if not of.requires}


LACKS = [
    ("broadcast", "streams", {}, "ranks fill a rectangle"),
    ("broadcast", "tree", {}, "the tree network serves these ranks"),
    ("broadcast", "scatter-doubling", {}, "the number of ranks is a power of two"),
    ("reduce", "streams", {}, "ranks fill a rectangle"),
    ("reduce", "hamiltonian", {}, "ranks fill a rectangle"),
    ("allreduce", "streams", {}, "ranks fill a rectangle"),
    ("allreduce", "hamiltonian", {}, "ranks fill a rectangle"),
    ("allreduce", "cycle", {}, "ranks fill a rectangle"),
    ("allreduce", "cycle", {"grid": Torus((12,), False)}, "the grid has a Hamiltonian cycle"),
    ("allreduce", "lines", {}, "ranks fill a rectangle"),
    ("allreduce", "lines", {"grid": Torus((3, 4)), "n_elements": 10**6}, "at most 8 KB"),
    ("allreduce", "tree", {"has_tree": True}, "elements are integers"),
    ("alltoall", "bruck", {"counts": np.ones((12, 12), np.int64)}, "all blocks have one length"),
    ("barrier", "lines", {}, "ranks fill a rectangle"),
    ("barrier", "tree", {}, "the tree network serves these ranks"),
    ("barrier", "interrupt", {}, "interrupt wires serve these ranks"),
]


@pytest.mark.parametrize(("collective", "name", "given", "lacking"), LACKS)
def test_unmet_preconditions_are_named(collective, name, given, lacking):
    with pytest.raises(ScheduleError, match=f"'{name}' cannot be used: it needs that .*{lacking}"):
        make_schedule(CollectiveCall(collective, 12, **({"n_elements": 100} | given)), name)


def test_every_precondition_is_tested():
    needing = {(of.collective, of.name, needed.text) for of in ALGORITHMS.values() for needed in of.requires}
    tested = {
        (collective, name, text)
        for collective, name, text in needing
        if any((collective, name) == lack[:2] and lack[3] in text for lack in LACKS)
    }
    # The missing tree is reported first, so integers are tested with a tree.
    assert needing - tested == {("allreduce", "tree", "the tree network serves these ranks")}


def test_the_choice_follows_size_and_wires():
    grid = Torus((8, 8, 8))
    of = {"n_ranks": 512, "grid": grid}
    assert published_algorithm(CollectiveCall("broadcast", n_elements=100, **of)) == "binomial"
    assert published_algorithm(CollectiveCall("broadcast", n_elements=256, **of)) == "streams"
    assert published_algorithm(CollectiveCall("broadcast", n_elements=256, has_tree=True, **of)) == "tree"
    assert published_algorithm(CollectiveCall("broadcast", 512, n_elements=10**5)) == "scatter-allgather"
    assert published_algorithm(CollectiveCall("broadcast", 512, n_elements=10**4)) == "scatter-doubling"
    assert published_algorithm(CollectiveCall("broadcast", 511, n_elements=10**4)) == "scatter-allgather"
    assert published_algorithm(CollectiveCall("allreduce", n_elements=2, **of)) == "lines"
    assert published_algorithm(CollectiveCall("allreduce", n_elements=10**5, **of)) == "hamiltonian"
    assert (
        published_algorithm(CollectiveCall("allreduce", n_elements=10**5, integer=True, has_tree=True, **of))
        == "tree"
    )
    assert published_algorithm(CollectiveCall("alltoall", n_elements=1, **of)) == "random-order"
    assert [published_algorithm(CollectiveCall("alltoall", 512, n)) for n in (32, 33, 4096, 4097)] == [
        "bruck", "all-post", "all-post", "pairwise",
    ]  # fmt: skip
    assert published_algorithm(CollectiveCall("barrier", has_interrupts=True, **of)) == "interrupt"
    assert published_algorithm(CollectiveCall("barrier", **of)) == "lines"


def test_sub_communicators_are_found_on_the_machine():
    machine = Torus((4, 4, 4))
    nodes = machine.node_at([[x, y, 3] for y in (1, 2) for x in (3, 0)])  # wrapped around, in another order
    grid, ranks = communicator_grid(machine, nodes)
    assert grid.shape == (2, 2, 1) and ranks.tolist() == [0, 2, 1, 3]
    call = CollectiveCall("broadcast", 4, 1000, root=2, grid=grid, ranks=ranks)
    schedule = make_schedule(call, "streams")
    assert schedule.root == 2
    check_schedule(schedule)
    assert communicator_grid(machine, np.arange(16))[1] is None
    with pytest.raises(ScheduleError, match="5 nodes do not fill a rectangle"):
        communicator_grid(machine, [0, 1, 2, 3, 5])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_ranks": 12, "grid": Torus((4, 4, 2))}, "a grid of 4x4x2 has 32 nodes, and there are 12 ranks"),
        ({"n_ranks": 2**31}, "cannot have 2147483648 ranks"),
        ({"n_ranks": 4, "ranks": np.array([0, 1, 1, 2])}, "not each of 0 to 3 once"),
        ({"n_ranks": 4, "root": 4}, "no rank 4 among 4"),
        ({"n_ranks": 4, "itemsize": 0}, "elements of 0 bytes"),
        ({"n_ranks": 4, "n_elements": -1}, "-1 elements"),
        ({"n_ranks": 4, "counts": np.ones((3, 4), np.int64)}, "counts of an all-to-all do not fit"),
    ],
)
def test_invalid_calls_are_errors(given, message):
    with pytest.raises(ScheduleError, match=message):
        CollectiveCall("alltoall", **given)


def test_errors_of_unknown_names_suggest_the_nearest():
    with pytest.raises(ScheduleError, match=r"no broadcast 'stream' \(did you mean 'streams'"):
        make_schedule(CollectiveCall("broadcast", 4, 4), "stream")


def test_partition_calls_have_the_wires_of_the_partition():
    call = partition_call(BlueGenePartition(Torus((8, 8, 8))), "barrier")
    assert published_algorithm(call) == "interrupt"
    assert (
        published_algorithm(partition_call(BlueGenePartition(Torus((8, 4, 2), False)), "barrier")) == "tree"
    )  # 64 nodes: no interrupts
    both = partition_call(
        BlueGenePartition(Torus((4, 4, 2), False), NodeMode.VIRTUAL_NODE), "allreduce", 2, itemsize=4
    )
    assert both.n_ranks == 64 and both.required_grid.shape == (4, 4, 2, 2)
    assert published_algorithm(both) == "lines"
    check_schedule(make_schedule(both))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"grid": (2, 2)}, "is no grid .give a petacomm.Torus"),
        ({"grid": Torus((2, 2)), "ranks": "0123"}, "ranks: must be whole numbers"),
        ({"grid": Torus((2, 2)), "ranks": [[0, 1], [2, 2]]}, "not each of 0 to 3 once"),
    ],
)
def test_what_is_no_grid_and_no_order_of_ranks_is_refused(given, says):
    with pytest.raises(ConfigError, match=says):
        CollectiveCall("allreduce", 4, 8, **given)
