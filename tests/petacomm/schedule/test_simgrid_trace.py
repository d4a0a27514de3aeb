"""Schedules as traces of SimGrid: written and read back, replayed here and by smpirun, and wrong files."""

import re
import shutil

import numpy as np
import pytest
from commands import run_command
from schedules import pair_schedules

from petacomm.base.errors import ConfigError
from petacomm.mapping.graph_files import read_graph
from petacomm.mapping.graph_sources import schedule_graph
from petacomm.schedule import ScheduleError, flat_messages
from petacomm.schedule.algorithms.combining_tree import tree_allreduce
from petacomm.schedule.algorithms.ring import ring_allreduce
from petacomm.schedule.simgrid_trace import parse_simgrid, read_simgrid, simgrid_text, write_simgrid
from petacomm.topology import Torus

PLATFORM = """\
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="n" suffix="" radical="0-7" speed="1Gf" bw="1GBps" lat="1us"/>
</platform>
"""


@pytest.mark.parametrize("shape", [(2,), (5,), (4, 2), (3, 3)])
def test_messages_are_read_back(shape, tmp_path):
    schedules = list(pair_schedules(Torus(shape), root=1))
    assert len(schedules) > 5
    for schedule in schedules:
        flat = flat_messages(schedule, 8)
        listed = write_simgrid(schedule, 8, tmp_path / "a.tit")
        assert listed.read_text() == "a.tit\n"
        found = read_simgrid(tmp_path / "a.tit")
        order = np.argsort(flat.source, kind="stable")  # the file goes from rank to rank
        assert found.n_ranks == schedule.n_ranks
        for name in ("source", "destination", "bytes"):
            np.testing.assert_array_equal(getattr(found, name), getattr(flat, name)[order])
        assert read_graph(tmp_path / "a.tit").total_bytes == schedule_graph(schedule, 8).total_bytes


def replay(text, flat):
    """Replay a trace: return the sends that each rank has made, whose receives it had waited for."""
    traces = {}
    for line in text.splitlines():
        rank, action, *words = line.split()
        traces.setdefault(int(rank), []).append((action, words))
    at, sent, waited = dict.fromkeys(traces, 0), set(), set()
    while True:
        moved = False
        for rank, actions in traces.items():
            while at[rank] < len(actions):
                action, words = actions[at[rank]]
                if action == "isend":
                    number = int(words[1])
                    assert set(flat.after[flat.after_first[number] : flat.after_first[number + 1]]) <= waited
                    sent.add(number)
                elif action == "wait":
                    assert int(words[1]) == rank
                    if int(words[2]) not in sent:
                        break
                    waited.add(int(words[2]))
                at[rank], moved = at[rank] + 1, True
        if not moved:
            return sent, all(at[rank] == len(actions) for rank, actions in traces.items())


@pytest.mark.parametrize("shape", [(7,), (4, 4)])
def test_traces_run_to_their_end(shape):
    for schedule in pair_schedules(Torus(shape)):
        flat = flat_messages(schedule, 8)
        sent, ended = replay(simgrid_text(schedule, 8, flops_per_byte=0.125), flat)
        assert ended and sent == set(range(len(flat))), schedule.algorithm


def test_text_of_a_small_trace():
    assert simgrid_text(ring_allreduce(2, 2), 8, flops_per_byte=0.125).splitlines()[:9] == [
        "0 init", "0 isend 1 0 8", "0 irecv 1 1 8", "0 wait 1 0 1", "0 compute 1", "0 isend 1 2 8",
        "0 irecv 1 3 8", "0 waitall", "0 finalize",
    ]  # fmt: skip


@pytest.mark.long
def test_smpi_replays_all_of_them(tmp_path):
    if shutil.which("smpirun") is None:
        pytest.skip("no SimGrid: apt install libsimgrid-dev")
    (tmp_path / "platform.xml").write_text(PLATFORM)
    (tmp_path / "hosts").write_text("".join(f"n{number}\n" for number in range(8)))
    for schedule in pair_schedules(Torus((4, 2)), n_elements=100_000):
        flat = flat_messages(schedule, 8)
        if len(flat) > 1000:  # of packets, for which SimGrid takes minutes
            continue
        write_simgrid(schedule, 8, tmp_path / "a.tit", flops_per_byte=0.125)
        words = ["smpirun", "-platform", "platform.xml", "-hostfile", "hosts", "-np", "8", "-replay", "a.txt"]
        ended = run_command(words, cwd=tmp_path)
        seconds = re.search(r"Simulation time ([\d.]+)", ended.stderr + ended.stdout)
        assert ended.returncode == 0 and seconds, (schedule.algorithm, ended.stderr)
        # no rank receives faster than its link carries
        received = np.bincount(flat.destination, flat.bytes).max()
        assert float(seconds[1]) >= received / 1e9, schedule.algorithm


def test_what_networks_do_themselves_is_refused():
    with pytest.raises(ScheduleError, match="a trace cannot say"):
        simgrid_text(tree_allreduce(8, 8), 8)


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        ("", 1, "no actions"),
        ("0", 1, "is no action"),
        ("zero init", 1, "is no action"),
        ("0 init\n0 allreduce 8 1", 2, "messages of 'allreduce' are not in the trace"),
        ("0 isend 1 5", 1, "not followed by a rank, a tag and a size"),
        ("0 irecv -1 5 8", 1, "not followed by a rank, a tag and a size"),
        ("0 isend 1 5 8 77", 1, "elements of type 77"),
        ("0 isend 2147483647 5 8", 1, "no rank 2147483647"),
        ("0 init\n0 isend 1 5 8\n1 init", 2, "1 messages from 0 to 1, tag 5, have one end alone"),
        ("0 init\n1 irecv 0 5 8\n1 irecv 0 5 8\n0 isend 1 5 8", 3, "1 messages from 0 to 1, tag 5"),
    ],
)
def test_wrong_files_are_told_by_their_line(lines, line, said, tmp_path):
    path = tmp_path / "a.tit"
    path.write_text(lines)
    with pytest.raises(ConfigError, match=rf"a\.tit:{line}: .*{said}"):
        read_simgrid(path)


def test_the_list_of_traces_has_a_name_of_its_own(tmp_path):
    with pytest.raises(ConfigError, match=r"end it with \.tit"):
        write_simgrid(ring_allreduce(2, 2), 8, tmp_path / "a.txt")


def test_no_other_file_is_replaced_by_the_list(tmp_path):
    (tmp_path / "a.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"a\.txt: is no list of this trace"):
        write_simgrid(ring_allreduce(2, 2), 8, tmp_path / "a.tit")
    assert (tmp_path / "a.txt").read_text() == "mine" and not (tmp_path / "a.tit").exists()


def test_a_trace_that_smpi_recorded():
    """Types of elements, blocking calls, computations between them."""
    lines = """0 init
    0 compute 0.5354
    0 irecv 1 3 1000 0
    0 isend 1 3 1000 0
    0 waitall 2
    0 send 1 4 10 6
    0 finalize
    1 init
    1 irecv 0 3 1000 0
    1 isend 0 3 1000 0
    1 waitall 2
    1 recv 0 4 10 6
    1 finalize
    """
    found = parse_simgrid("all.tit", lines.splitlines())
    assert found.source.tolist() == [0, 0, 1] and found.bytes.tolist() == [8000, 10, 8000]
