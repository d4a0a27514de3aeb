"""Arguments of another kind than functions take: errors name the argument, what it is, and the mend."""

import numpy as np
import pytest

import petacomm
from petacomm.base.errors import ConfigError, UserError
from petacomm.mapping.graph_sources import grid_graph

TORUS = petacomm.Torus((4, 2))
GRAPH = grid_graph([4, 2])
COMM = petacomm.world()
CALLS = {
    "call: must be of class CollectiveCall, not NoneType (make one": lambda: petacomm.make_schedule(None),
    "schedule: must be of class Schedule, not str": lambda: petacomm.check_schedule("ring"),
    "call: must be of class CollectiveCall, not int": lambda: petacomm.predict_algorithms(3, None),
    "index_map: must be of class IndexMap, not NoneType (give": lambda: petacomm.ReductionPlan(None),
    "plan: must be of class ReductionPlan": lambda: petacomm.OwnedRows(petacomm.IndexMap(COMM, np.arange(3))),
    "comm: must be a Communicator of petacomm, not int (give petacomm.world()": lambda: petacomm.barrier(1),
    "comm: must be a Communicator": lambda: petacomm.IndexMap(np.arange(3), COMM),
    "shape: must be text, not tuple (write it like": lambda: query(shape=(4, 4, 4)),
    "nodes: must be text, not list": lambda: query(shape="4x4x4", nodes=[0, 1]),
    "n_bytes: must be a whole number": lambda: query(shape="4x4x4", n_bytes="8"),
    "seed: -1 is not between 0": lambda: petacomm.Placement.random(TORUS, seed=-1),
    "network: must be a network, not tuple (give a Torus": lambda: petacomm.Placement.identity((4, 2)),
    "network: must be a network, not list": lambda: petacomm.Resources([4, 2]),
    "network: must be a network, not CommunicationGraph": lambda: petacomm.TopologyManager(GRAPH, [0]),
    "machine: must be of class Machine, not str (give one of load_machine)": lambda: petacomm.make_network(
        "fugaku"
    ),
    "graph: must be of class CommunicationGraph": lambda: petacomm.MappingTask(
        None, petacomm.Resources(TORUS)
    ),
    "resources: must be of class Resources, not Torus": lambda: petacomm.MappingTask(GRAPH, TORUS),
    "task: must be of class MappingTask": lambda: petacomm.map_ranks(GRAPH),
    "before: must be of class ArrayLayout, not tuple": lambda: petacomm.Redistribution(COMM, (4, 4), (4, 4)),
    "lattice: must be of class Lattice, not tuple": lambda: petacomm.LatticeField(COMM, (4, 4)),
    "grid: must be of class Torus": lambda: petacomm.link_loads((4, 2), 8.0),
    "ranks: one is not among the 8": lambda: GRAPH.subgraph([8]),
    "nodes: has the shape (3,), and the graph 8 ranks": lambda: GRAPH.traffic([0, 1, 2], 8),
    "axis: 2 is none of the 2 dimensions of a box of 4x2 (give 0 to 1)": lambda: box().tilt(2, 0),
    "direction: -3 is none": lambda: box().shear(0, -3),
    "slope: must be a whole number, not 0.5": lambda: box().tilt(0, 1, 0.5),
    "axis: must be a whole number, not 'x'": lambda: box().zigzag("x", 0),
    "a stride of 0": lambda: box().zigzag(0, 1, stride=0),
    "other: must be of class Partition, not list": lambda: box().map([1]),
    "dimension: 2 is not between 0 and 1": lambda: TORUS.neighbor(0, 2, 1),
    "direction: 0 is no direction (give 1 or -1)": lambda: TORUS.link(0, 1, 0),
    "radix: must be a whole number": lambda: plan(radix="2"),
    "no reduction '3'": lambda: plan(algorithm=3),
}


LAYOUT = petacomm.ArrayLayout((4, 4), (1, 1))
TASK = petacomm.MappingTask(GRAPH, petacomm.Resources(TORUS))
KEYS = np.array([1, 5, 7])
ODD = [object(), np.array([1.5, np.nan]), np.array(["a"]), [1, "a"], {"a": 1}, b"q", float("nan")]
# A word of the error, and a call with an argument of whatever kind.
ODD_CALLS = [
    ("collective", lambda odd: petacomm.CollectiveCall(odd, 4, 8)),
    ("name", lambda odd: petacomm.make_schedule(petacomm.CollectiveCall("allreduce", 4, 8), odd)),
    ("root", lambda odd: petacomm.broadcast(COMM, np.arange(4.0), odd)),
    ("traffic", lambda odd: petacomm.link_loads(TORUS, odd)),
    ("wrap", lambda odd: petacomm.Torus((2, 2, 2), odd)),
    ("b: ", lambda odd: TORUS.route(0, odd)),
    ("host", lambda odd: petacomm.TopologyManager(TORUS, [0, 1], hosts=odd)),
    ("coordinates", lambda odd: petacomm.TopologyManager(TORUS, [0, 1]).coordinates_to_rank(odd)),
    ("name", lambda odd: petacomm.map_ranks(TASK, odd)),
    ("refined", lambda odd: petacomm.map_ranks(TASK, refined=odd)),
    ("placement", lambda odd: TASK.measure("a", odd, 0.0)),
    ("measured", TASK.refine),
    ("measured", TASK.with_filled_nodes),
    ("path", petacomm.read_graph),
    ("n_ranks", lambda odd: petacomm.read_graph("none.csv", odd)),
    ("path", lambda odd: petacomm.write_graph(GRAPH, odd)),
    ("keys", lambda odd: petacomm.IndexMap(COMM, KEYS).global_to_local(odd)),
    ("n_total", lambda odd: petacomm.IndexMap(COMM, KEYS, odd)),
    ("reduction", lambda odd: plan(algorithm=odd)),
    ("transport", lambda odd: petacomm.Halo(COMM, KEYS, KEYS[:0], transport=odd)),
    ("method", lambda odd: petacomm.Redistribution(COMM, LAYOUT, LAYOUT, method=odd)),
    ("checks", lambda odd: petacomm.ParallelFFT(COMM, (4, 4), checks=odd)),
    ("method", lambda odd: petacomm.ParallelFFT(COMM, (4, 4), method=odd)),
    ("array", LAYOUT.in_memory_order),
    ("box", lambda odd: list(LAYOUT.overlaps(odd))),
]


def query(**options):
    given = {"n_bytes": 8} | options
    return petacomm.CollectiveQuery("broadcast", "bluegene-l", **given).resolve()


def plan(**options):
    return petacomm.ReductionPlan(petacomm.IndexMap(COMM, np.arange(3)), **options)


def box():
    return petacomm.box([4, 2])


@pytest.mark.parametrize("says", CALLS)
def test_the_error_names_the_argument_and_the_mend(says):
    with pytest.raises(ConfigError) as caught:
        CALLS[says]()
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(("word", "call"), ODD_CALLS)
def test_whatever_kind_is_given_the_error_names_the_argument(word, call):
    for odd in ODD:
        with pytest.raises(UserError, match=word):
            call(odd)


def test_communicators_of_mpi4py_are_told_apart():
    class Intracomm:
        rank, size = 0, 1

    with pytest.raises(ConfigError, match=r"not Intracomm \(give .* or petacomm.mpi.MpiCommunicator\(comm\)"):
        petacomm.allreduce(Intracomm(), np.zeros(3))
