"""Schedules as GOAL: written and read back, run as LogGOPSim would, and wrong files."""

import numpy as np
import pytest
from schedules import pair_schedules

from petacomm.base.errors import ConfigError
from petacomm.mapping.graph_files import read_graph
from petacomm.mapping.graph_sources import schedule_graph
from petacomm.schedule import ScheduleError, flat_messages
from petacomm.schedule.algorithms.combining_tree import tree_allreduce
from petacomm.schedule.algorithms.ring import ring_allreduce
from petacomm.schedule.goal import goal_text, parse_goal, read_goal, write_goal
from petacomm.topology import Torus


@pytest.mark.parametrize("shape", [(2,), (5,), (4, 2), (3, 3)])
def test_messages_and_dependencies_are_read_back(shape, tmp_path):
    schedules = list(pair_schedules(Torus(shape), root=1))
    assert len(schedules) > 5
    for schedule in schedules:
        flat = flat_messages(schedule, 8)
        path = write_goal(schedule, 8, tmp_path / "a.goal", ns_per_byte=0.5)
        found = read_goal(path)
        order = np.argsort(flat.source, kind="stable")  # the file goes from rank to rank
        number = np.argsort(order)
        assert found.n_ranks == schedule.n_ranks
        for name in ("source", "destination", "bytes"):
            np.testing.assert_array_equal(getattr(found, name), getattr(flat, name)[order])
        for i, after in zip(order.tolist(), found.after, strict=True):
            expected = flat.after[flat.after_first[i] : flat.after_first[i + 1]]
            assert set(after) == set(number[expected].tolist()), schedule.algorithm
        assert read_graph(path).total_bytes == schedule_graph(schedule, 8).total_bytes


@pytest.mark.parametrize("shape", [(7,), (4, 4)])
def test_programs_run_to_their_end(shape):
    """Each rank does what is ready; a receive ends when its message has been sent."""
    for schedule in pair_schedules(Torus(shape)):
        messages = parse_goal("a.goal", goal_text(schedule, 8).splitlines())
        sent = np.zeros(len(messages.source), bool)
        while True:
            ready = [all(sent[list(after)]) for after in messages.after]
            if (np.array(ready, bool) == sent).all():
                break
            sent = np.array(ready, bool)
        assert sent.all(), schedule.algorithm


def test_text_of_a_small_program():
    assert goal_text(ring_allreduce(2, 2), 8, ns_per_byte=0.25).splitlines()[:9] == [
        "num_ranks 2", "", "rank 0 {", "l1: send 8b to 1 tag 0", "l2: recv 8b from 1 tag 1", "l3: calc 2",
        "l3 requires l2", "l4: send 8b to 1 tag 2", "l4 requires l3",
    ]  # fmt: skip


def test_what_networks_do_themselves_is_refused():
    with pytest.raises(ScheduleError, match="GOAL cannot say"):
        goal_text(tree_allreduce(8, 8), 8)


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        ("ranks 2", 1, "begin with num_ranks N"),
        ("num_ranks 2\nrank 2 {", 2, "begins none of 2 ranks"),
        ("num_ranks 1\nrank 0 {\n}\nrank 0 {", 4, "begins none of 1 ranks"),
        ("num_ranks 2\nrank 0 {\nl1: send 8b to 2 tag 0\n}", 3, "there is no rank 2 of 2"),
        ("num_ranks 2\nrank 0 {\nl1: sent 8b to 1\n}", 3, "is no operation"),
        ("num_ranks 2\nrank 0 {\nl1: calc 3\nl1 requires l2\n}", 4, "no operation l2"),
        ("num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 0\n}", 3, "1 sends and 0 receives from 0 to 1"),
        ("num_ranks 2\nrank 0 {\nl1: calc 3", 3, "rank 0 has no end"),
        ("num_ranks 2\nrank 0 {\nl1: calc 3\nl1: calc 3\n}", 4, "an operation l1 already"),
        (
            "num_ranks 1\nrank 0 {\nl1: send 1b to 0\nl2: recv 1b from 0\nl3: calc 1\n"
            "l1 requires l3\nl3 requires l1\n}",
            3,
            "requires itself",
        ),
        ("// nothing", 1, "no number of ranks"),
    ],
)
def test_wrong_files_are_told_by_their_line(lines, line, said, tmp_path):
    path = tmp_path / "a.goal"
    path.write_text(lines)
    with pytest.raises(ConfigError, match=rf"a\.goal:{line}: .*{said}"):
        read_goal(path)


def test_programs_of_loggopsim_itself_are_read():
    """Comments, processors, several tags, and calculations between a receive and a send."""
    lines = """    num_ranks 2 // two

    rank 0 {
    l1: calc 100 cpu 1
    l2: send 10b to 1 tag 7 cpu 0 nic 0
    l2 requires l1
    l3: recv 20b from 1
    }
    rank 1 {
    l1: recv 10b from 0 tag 7
    l2: calc 5
    l2 requires l1
    l3: send 20b to 0
    l3 irequires l2
    }
    """
    found = parse_goal("a.goal", lines.splitlines())
    assert found.source.tolist() == [0, 1] and found.bytes.tolist() == [10, 20]
    assert found.after == ((), (0,))


def test_a_long_chain_is_read_at_once():
    n = 50_000
    lines = ["num_ranks 2", "rank 0 {", "l0: recv 1b from 1"]
    for k in range(1, n):
        lines += [f"l{k}: send 1b to 1 tag {k}", f"l{k} requires l{k - 1}"]
    lines += [
        "}",
        "rank 1 {",
        "l0: send 1b to 0",
        *(f"l{k}: recv 1b from 0 tag {k}" for k in range(1, n)),
        "}",
    ]
    found = parse_goal("a.goal", lines)
    assert found.after == ((n - 1,),) * (n - 1) + ((),)
