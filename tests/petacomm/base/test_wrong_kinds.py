"""Arguments of another kind than public functions take are errors that name them, not tracebacks."""

import numpy as np
import pytest

import petacomm
from petacomm.base.errors import UserError

ODD = [object(), np.array([1.5, np.nan]), np.array(["a"]), [1, "a"], {"a": 1}, b"q", float("nan")]
CALL = petacomm.CollectiveCall("allreduce", 4, 8)
GRAPH = petacomm.CommunicationGraph.from_edges(4, [0, 1], [1, 0], [8.0, 8.0])
NETWORK = petacomm.make_network(petacomm.load_machine("fugaku"), shape=[2, 2, 1])
TASK = petacomm.MappingTask(GRAPH, petacomm.Resources(NETWORK))
LAYOUT = petacomm.ArrayLayout((4, 4), (1, 1))
WORLD = petacomm.world()
KEYS = np.array([1, 5, 7])
# By a name: a call of which one argument is of another kind.
CALLS = {
    "collective": lambda odd: petacomm.CollectiveCall(odd, 4, 8),
    "schedule": lambda odd: petacomm.make_schedule(CALL, odd),
    "root": lambda odd: petacomm.broadcast(WORLD, np.arange(4.0), odd),
    "traffic": lambda odd: petacomm.link_loads(petacomm.Torus((2, 2)), odd),
    "wrap": lambda odd: petacomm.Torus((2, 2, 2), odd),
    "route": lambda odd: petacomm.Torus((2, 2)).route(0, odd),
    "hosts": lambda odd: petacomm.TopologyManager(NETWORK, [0, 1], hosts=odd),
    "coordinates": lambda odd: petacomm.TopologyManager(NETWORK, [0, 1]).coordinates_to_rank(odd),
    "strategy": lambda odd: petacomm.map_ranks(TASK, odd),
    "refined": lambda odd: petacomm.map_ranks(TASK, refined=odd),
    "placement": lambda odd: TASK.measure("a", odd, 0.0),
    "measured": TASK.refine,
    "nodes filled": TASK.with_filled_nodes,
    "graph's path": petacomm.read_graph,
    "graph's ranks": lambda odd: petacomm.read_graph("none.csv", odd),
    "path written": lambda odd: petacomm.write_graph(GRAPH, odd),
    "keys": lambda odd: petacomm.IndexMap(WORLD, KEYS).global_to_local(odd),
    "number of keys": lambda odd: petacomm.IndexMap(WORLD, KEYS, odd),
    "algorithm": lambda odd: petacomm.ReductionPlan(petacomm.IndexMap(WORLD, KEYS), algorithm=odd),
    "transport": lambda odd: petacomm.Halo(WORLD, KEYS, KEYS[:0], transport=odd),
    "method": lambda odd: petacomm.Redistribution(WORLD, LAYOUT, LAYOUT, method=odd),
    "checks": lambda odd: petacomm.ParallelFFT(WORLD, (4, 4), checks=odd),
    "method of a transform": lambda odd: petacomm.ParallelFFT(WORLD, (4, 4), method=odd),
    "order of memory": LAYOUT.in_memory_order,
    "box": lambda odd: list(LAYOUT.overlaps(odd)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_another_kind_is_an_error_that_says_so(call):
    for odd in ODD:
        with pytest.raises(UserError):
            call(odd)
