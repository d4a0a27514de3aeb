"""Objects that show themselves, in a line and as a table."""

import numpy as np

from petacomm import (
    CollectiveCall,
    CommunicationGraph,
    IndexMap,
    Placement,
    ReductionPlan,
    TopologyManager,
    Torus,
    load_machine,
    make_schedule,
    world,
)
from petacomm.base.display import Displayed, html_table, some_names
from petacomm.schedule.schedule import Round


class Thing(Displayed):
    def _facts(self):
        return {"name": "<a & b>", "count": 3, "missing": None, "empty": ""}


def test_lines_and_tables_say_what_there_is():
    assert repr(Thing()) == "Thing(name=<a & b>, count=3)"
    html = Thing()._repr_html_()
    assert "&lt;a &amp; b&gt;" in html and html.count("<tr>") == 2 and "missing" not in html
    assert '<td style="text-align:right">3</td>' in html


def test_tables_have_heads():
    html = html_table("maps", [("I", 1.5)], ("column", "rms"))
    assert html.index("<thead>") < html.index("column") < html.index("1.5")


def test_many_names_are_counted():
    assert some_names([]) == ""
    assert some_names(list("abcd")) == "a, b, c, d"
    assert some_names([f"d{i}" for i in range(100)]) == "100: d0, d1, ... d99"


def test_objects_of_petacomm_are_lines():
    graph = CommunicationGraph.from_edges(4, np.array([0, 1]), np.array([1, 2]), np.array([8.0, 16.0]))
    assert repr(graph) == "CommunicationGraph(n_ranks=4, n_edges=2, bytes=24)"
    placed = Placement(np.array([0, 0, 5, 5]), np.array([0, 1, 0, 1]), 2, 8)
    assert repr(placed) == "Placement(ranks=4, nodes=2 of 8, ranks_per_node=2)"
    keys = IndexMap(world(), np.arange(5))
    assert repr(keys) == "IndexMap(rank=0, n_ranks=1, n_keys=5)"
    plan = ReductionPlan(keys, algorithm="owner")
    assert repr(plan) == "ReductionPlan(rank=0, n_ranks=1, n_keys=5, n_global=5, algorithm=owner)"
    assert "algorithm=auto" in repr(ReductionPlan(keys))
    machine = load_machine("perlmutter")
    assert repr(machine).startswith("Machine(name=perlmutter, ") and len(repr(machine)) < 200
    one = Round.from_columns([0, 1, 2], [1, 0, 2], 0, [5, 3, 4], reduce=[True, False, False])
    assert repr(one) == "Round(messages=2, elements=8, reducing=1, copies_in_memory=1)"
    schedule = make_schedule(CollectiveCall("allreduce", 4, 100), "ring")
    assert repr(schedule).startswith("Schedule(collective=allreduce, algorithm=ring, n_ranks=4, ")
    assert "array" not in repr(schedule)


def test_topologies_are_lines():
    manager = TopologyManager(Torus((4, 2)), [0, 0, 3, 3])
    assert repr(manager) == (
        "TopologyManager(ranks=4, nodes=2, shape=2x2, ranks_per_node=2, source=declared)"
    )
