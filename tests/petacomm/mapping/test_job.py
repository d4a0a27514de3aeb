"""Jobs: files, the errors of invalid files, and comparisons with the baselines."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from machine_files import write_machine

from petacomm.base.errors import ConfigError, Termination
from petacomm.mapping import STRATEGIES, Resources, mapping_metrics, nlpkkt_graph, place_ranks
from petacomm.mapping import job as jobs
from petacomm.mapping.comparison import IDENTITY, RANDOM, MappingTask, compare_strategies, map_ranks
from petacomm.mapping.graph_sources import grid_graph, subgrid_alltoall_graph
from petacomm.mapping.job import load_mapping_job
from petacomm.mapping.launchers import write_launcher_file
from petacomm.mapping.mapping_table import phase_rows
from petacomm.mapping.metrics import placement_link_loads
from petacomm.mapping.packet_time import simulate_placement
from petacomm.network.routing import link_capacities
from petacomm.topology import Allocation, Torus, load_machine, percs

GOOD = """\
ranks = 128
ranks_per_node = 2

[graph]
grid = "4x4x8"
bytes = 100

[machine]
name = "bluegene-l"
shape = [4, 4, 4]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


def test_a_job_is_read(tmp_path: Path) -> None:
    job = load_mapping_job(written(tmp_path, GOOD))
    assert (job.graph.n_ranks, job.resources.network, job.resources.ranks_per_node) == (
        128,
        Torus((4, 4, 4), False),
        2,
    )
    assert (job.strategy, job.refine, job.seed, job.format) == ("auto", True, 0, None)
    assert job.capacity is not None and set(job.capacity) == {154e6}
    assert set(job.graph.n_bytes) == {100.0}


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert load_mapping_job(written(tmp_path, "\ufeff" + GOOD)).graph.n_ranks == 128


def test_the_command_line_comes_first(tmp_path: Path) -> None:
    given = {"shape": "2x4x8", "strategy": "rcm", "refine": False, "format": "bluegene", "machine": None}
    job = load_mapping_job(written(tmp_path, GOOD + '[map]\nstrategy = "greedy"\nseed = 5\n'), given)
    assert job.resources.network == Torus((2, 4, 8), False)  # a part of a block of 8x8x8
    assert (job.strategy, job.refine, job.seed, job.format) == ("rcm", False, 5, "bluegene")


def test_a_dragonfly_has_the_cables_that_are_given(tmp_path: Path) -> None:
    head = 'ranks = 4\n[graph]\ngrid = "2x2"\nbytes = 10\n[machine]\nname = "frontier"\n'
    groups = "groups = 3\nrouters = 4\nnodes_per_router = 2\n"
    links = [
        load_mapping_job(written(tmp_path, head + groups + more)).resources.network.n_links
        for more in ("cables = 1\n", "cables = 4\n")
    ]
    assert links == [12 * 3 + 6, 12 * 3 + 4 * 6]


@pytest.mark.parametrize(
    ("kind", "numbers", "n_nodes"),
    [
        ("hyperx", "routers = [3, 4]\nnodes_per_router = 2\n", 24),
        ("slim fly", "q = 3\nnodes_per_router = 1\n", 18),
        ("dragonfly+", "groups = 3\nleaves = 2\nspines = 2\nnodes_per_router = 2\n", 12),
    ],
)
@pytest.mark.parametrize("routing", ["minimal", "valiant", "ugal"])
def test_ranks_are_placed_on_other_networks_by_their_routing(
    tmp_path: Path, kind: str, numbers: str, n_nodes: int, routing: str
) -> None:
    machine = dataclasses.replace(load_machine("percs"), network={"kind": kind, "routing": routing})
    (tmp_path / "m.toml").write_text(write_machine(machine))
    head = f'ranks = 12\n[graph]\ngrid = "3x4"\nbytes = 1000\n[machine]\nname = "{tmp_path}/m.toml"\n'
    job = load_mapping_job(written(tmp_path, head + numbers))
    assert job.resources.network.n_nodes == n_nodes and job.routing == routing
    result = map_ranks(job.task)
    loads = placement_link_loads(job.graph, result.chosen.placement, job.resources.network, routing)
    traffic = job.graph.traffic(result.chosen.placement.nodes, n_nodes)
    sent = np.bincount(traffic.source, traffic.n_bytes).max()
    assert max(loads.max(), sent) == result.chosen.metrics.largest_load
    assert result.chosen.load <= result.identity.load


DETECTED = '[graph]\ngrid = "2x4"\nbytes = 1000\n[machine]\ndetect = true\n'


@pytest.fixture
def slurm_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this be a job on four of six nodes, as salloc -N4 --ntasks-per-node=2 begins it."""
    for name, value in {
        "SLURM_JOB_NODELIST": "n[2-5]",
        "SLURM_TASKS_PER_NODE": "2(x4)",
        "SLURM_CONF": str(tmp_path / "slurm.conf"),
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "topology.conf").write_text(
        "SwitchName=s1 Nodes=n[1-3]\nSwitchName=s2 Nodes=n[4-6]\nSwitchName=top Switches=s[1-2]\n"
    )


@pytest.mark.usefixtures("slurm_job")
def test_the_allocation_of_this_job(tmp_path: Path) -> None:
    job = load_mapping_job(written(tmp_path, DETECTED), {"format": "slurm"})
    network = job.resources.network
    assert (job.graph.n_ranks, job.resources.ranks_per_node, network.n_nodes) == (8, 2, 4)
    assert job.target.hosts == ["n2", "n3", "n4", "n5"]
    assert network.hops([0, 1], [1, 2]).tolist() == [2, 4]  # one switch, and over the top
    assert job.machine.title == "this job, by Slurm's variables and topology.conf"
    result = map_ranks(job.task)
    assert result.chosen.load < result.identity.load
    path = tmp_path / "hosts"
    write_launcher_file("slurm", result.chosen.placement, path, job.target)
    assert sorted(path.read_text().split()) == sorted(["n2", "n3", "n4", "n5"] * 2)
    timed = load_mapping_job(written(tmp_path, DETECTED + 'name = "perlmutter"\n'))
    assert timed.machine.name == "perlmutter" and timed.resources.network.n_nodes == 4
    assert timed.routing == "minimal" and timed.capacity is None  # its dragonfly's are not those of this tree
    less = load_mapping_job(written(tmp_path, "ranks = 4\nranks_per_node = 1\n" + DETECTED.replace("4", "2")))
    assert (less.graph.n_ranks, less.resources.ranks_per_node) == (4, 1)


def test_the_allocation_of_a_job_of_pals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = ["x3208c0s1b0n0", "x3210c0s25b0n0", "x3208c0s7b0n0", "x3210c0s37b1n0"]
    (tmp_path / "nodefile").write_text("\n".join(hosts))
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodefile"))
    monkeypatch.setenv("PALS_PPN", "2")
    job = load_mapping_job(written(tmp_path, DETECTED), {"format": "cray"})
    assert (job.graph.n_ranks, job.resources.ranks_per_node, job.target.hosts) == (8, 2, hosts)
    result = map_ranks(job.task)
    assert result.chosen.load < result.identity.load  # neighbours in one rack
    (tmp_path / "nodefile").write_text("a b\n")
    with pytest.raises(ConfigError, match="nodefile:1: 'a b' is no name of a host"):
        load_mapping_job(tmp_path / "job.toml")


@pytest.mark.usefixtures("slurm_job")
@pytest.mark.parametrize(
    ("text", "given", "says"),
    [
        (DETECTED + 'shape = "2x2"\n', {}, "job.toml:5: 'machine.detect' and 'machine.shape'"),
        (DETECTED, {"machine": "fugaku"}, "job.toml:5: 'machine.detect' and '--machine'"),
        ("ranks = 9\n" + DETECTED, {}, "9 ranks do not fit on 4 nodes with 2 ranks a node"),
        (DETECTED.replace("true", "1"), {}, "job.toml:5: 'machine.detect' must be true or false"),
        (GOOD, {"format": "slurm"}, "the file of 'slurm' names hosts, and none are given"),
    ],
)
def test_wrong_jobs_of_an_allocation(tmp_path: Path, text: str, given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        load_mapping_job(written(tmp_path, text), given)


def test_variables_of_a_job_that_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[2-5]")
    monkeypatch.delenv("SLURM_TASKS_PER_NODE", raising=False)
    with pytest.raises(ConfigError, match=r"job\.toml:5: SLURM_TASKS_PER_NODE is not set"):
        load_mapping_job(written(tmp_path, DETECTED))


@pytest.mark.parametrize(("groups", "routing"), [(1, "minimal"), (2, "minimal"), (3, "ugal")])
def test_a_part_of_a_machine_without_a_third_group_has_no_detours(
    tmp_path: Path, groups: int, routing: str
) -> None:
    head = 'ranks = 4\n[graph]\ngrid = "4"\nbytes = 1000000\n[machine]\nname = "frontier"\n'
    part = f"groups = {groups}\nrouters = 2\nnodes_per_router = 2\n"
    job = load_mapping_job(written(tmp_path, head + part))
    assert job.routing == routing
    result = map_ranks(job.task)
    run = simulate_placement(job.graph, result.chosen.placement, job.resources.network, job.machine)
    assert run.seconds > result.chosen.metrics.largest_time > 0


def test_paths_are_relative_to_the_job(tmp_path: Path) -> None:
    (tmp_path / "halo.csv").write_text("0,1,8\n")
    (tmp_path / "hosts").write_text("a\nb\nc\n")
    text = 'ranks = 3\n[graph]\nfile = "halo.csv"\n[machine]\nname = "bluegene-l"\nshape = [8, 1, 1]\n'
    job = load_mapping_job(written(tmp_path, text + 'nodes = "2-3,7"\nhosts = "hosts"\n'))
    assert isinstance(job.resources.network, Allocation) and job.resources.network.nodes.tolist() == [2, 3, 7]
    assert job.target.hosts == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("graph", "ranks", "edges"),
    [
        ("nlpkkt = 12", 8, None),
        ("alltoalls = [2, 4]\nalong = [[1]]\nbytes = 3", 8, 8 * 3),
        ('collective = "alltoall"\nalgorithm = "pairwise"\nbytes = 16', 8, 8 * 7),
        ('collective = "broadcast"\nalgorithm = "binomial"', 8, 7),
        ('collective = "barrier"', 8, 8 * 3),
        ("grid = [2, 4]\nperiodic = false\ncorners = true", 8, 2 * (4 + 6 + 6)),
        ('matrix = "a.mtx"', 2, 2),
    ],
)
def test_graphs_of_all_kinds(tmp_path: Path, graph: str, ranks: int, edges: int | None) -> None:
    mtx = "%%MatrixMarket matrix coordinate real symmetric\n4 4 3\n2 1 1\n3 2 1\n4 3 1\n"
    (tmp_path / "a.mtx").write_text(mtx)
    text = f'ranks = {ranks}\n[graph]\n{graph}\n[machine]\nname = "bluegene-l"\nshape = [2, 2, 2]\n'
    job = load_mapping_job(written(tmp_path, text))
    assert job.graph.n_ranks == ranks and job.graph.n_edges == (job.graph.n_edges if edges is None else edges)
    assert job.graph.n_edges > 0 and job.title


def test_phases_are_placed_together_and_reported_separately(tmp_path: Path) -> None:
    for name, line in (("a", "0,1,8"), ("b", "0,1,5\n1,2,7")):
        (tmp_path / f"{name}.csv").write_text(f"{line}\n")
    head, machine = "ranks = 3\n[graph]\n", '[machine]\nname = "bluegene-l"\nshape = [3, 1, 1]\n'
    job = load_mapping_job(written(tmp_path, head + 'file = ["a.csv", "b.csv"]\n' + machine))
    assert list(job.phases) == ["a.csv", "b.csv"]
    assert job.graph.n_bytes.tolist() == [13.0, 7.0]
    _, row = phase_rows(job, [MappingTask(job.graph, job.resources).place("identity")])
    assert row == ["identity", "8 B", "7 B", "13 B", "15 B"]
    for wrong in ('["a.csv", "a.csv"]', "[]", "[1]"):
        with pytest.raises(ConfigError, match=r":3: 'graph\.file' must be"):
            load_mapping_job(written(tmp_path, head + f"file = {wrong}\n" + machine))


WRONG = [
    ("ranks = 128", "ranks = 120", ":5: a grid of 4x4x8 has 128 ranks, not 120"),
    ("ranks = 128", "rank = 128", ":1: unknown key 'rank'"),
    ("ranks = 128", "ranks = 0", ":1: 'ranks' must be 1 or more"),
    ("ranks = 128", "ranks = true", ":1: 'ranks' must be a whole number"),
    ("ranks = 128", "", "'ranks' is missing"),
    ("ranks_per_node = 2", "ranks_per_node = 1", ":1: 128 ranks do not fit on 64 nodes"),
    ("grid", "gird", ":5: unknown key 'graph.gird' (did you mean 'grid'?)"),
    ("bytes = 100", "nlpkkt = 5", "'nlpkkt' in [graph]"),
    ("bytes = 100", "bytes = [1, 2]", ":6: 2 sizes for 3 dimensions"),
    ("bytes = 100", 'bytes = "much"', ":6: 'graph.bytes' must be a whole number or a number or a list"),
    ("bytes = 100", "corner = true", ":6: unknown key 'graph.corner'"),
    ("bluegene-l", "bluegene-x", ":9: unknown machine"),
    ("[4, 4, 4]", "[4, 4, 0]", ":10: 'machine.shape' must be whole numbers"),
    ("[4, 4, 4]", '"4x4x"', "is not a shape"),
    ("shape", "shapes", ":10: unknown key 'machine.shapes'"),
    ("[machine]", "[map]\nstrategy = 'gredy'\n[machine]", ":9: unknown strategy 'gredy'"),
    ("[machine]", "[out]\nformat = 'opnmpi'\n[machine]", ":9: unknown format 'opnmpi'"),
    ("[4, 4, 4]", "[4, 4, 4]\nhosts = 'none'", "cannot be read"),
    ("[4, 4, 4]", "[4, 4, 4]\nhosts = ['a']", ":11: 1 hosts for the 64 nodes"),
    ("[4, 4, 4]", "[4, 4, 4]\nhosts = ['a slots=4']", ":11: 'a slots=4' is no name of a host (give names"),
    ("[4, 4, 4]", "[4, 4, 4]\nnodes = '1,1'", ":11: node 1 is named twice"),
    ("[4, 4, 4]", "[4, 4, 4]\nq = 5", ":10: 'q' says nothing of the torus of machine 'bluegene-l'"),
    (
        "bluegene-l",
        "frontier",
        ":10: 'shape' says nothing of the dragonfly of machine 'frontier' (leave it away",
    ),
    ("[graph]", "[graph", "not TOML"),
    ("bytes = 100", "bytes = -1", ":6: -1 bytes"),
    ("bytes = 100", "bytes = 1e300", ":6: 1e+300 bytes"),
    ('grid = "4x4x8"', 'collective = "barrier"', ":5: a barrier carries no bytes (leave them out)"),
    ("bytes = 100", "bytes = [1, 2, nan]", ":6: nan bytes"),
    ("bytes = 100", 'bytes = [1, 2, "3"]', ":6: '3' bytes"),
    ("ranks_per_node = 2", "ranks_per_node = 99999999999999999999", ":2: 64 nodes with 99,999,999,999"),
    ("ranks = 128", "ranks = 2000000000", ":1: 2000000000 ranks do not fit on 64 nodes"),
    ("[machine]", "[map]\nseed = -1\n[machine]", ":9: a seed of -1"),
    ('grid = "4x4x8"', 'alltoalls = "4x4x8"\nalong = [[3]]', ":6: [3] are no dimensions of 4x4x8"),
    ('grid = "4x4x8"', 'alltoalls = "4x4x8"\nalong = [[0], [0]]', ":6: [0] are given twice"),
]


@pytest.mark.parametrize(("old", "new", "says"), WRONG)
def test_a_wrong_job_is_one_error_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_mapping_job(written(tmp_path, GOOD.replace(old, new, 1)))
    assert says in str(caught.value) and "job.toml" in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_signal_while_a_job_is_read_is_no_error_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise Termination("terminated")

    monkeypatch.setattr(jobs, "load_machine", stopped)
    with pytest.raises(Termination):
        load_mapping_job(written(tmp_path, GOOD))


def test_a_missing_job_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_mapping_job(tmp_path / "none.toml")


def test_links_of_levels_have_their_bandwidths() -> None:
    network = percs(2)
    capacity = link_capacities(load_machine("percs"), network)
    assert capacity is not None
    assert [sorted(set(capacity[network.link_levels() == level])) for level in range(3)] == [
        [24e9],
        [5e9],
        [10e9],
    ]
    assert link_capacities(load_machine("one-node"), network) is None


TASK = MappingTask(grid_graph((4, 4, 8), True, 100.0), Resources(Torus((4, 4, 4)), 2))


def test_identity_and_random_are_compared_with_all() -> None:
    rows, lacking = compare_strategies(TASK, ["greedy", "rcm"])
    assert [row.label for row in rows] == [
        IDENTITY, RANDOM, "greedy", "greedy, refined", "rcm", "rcm, refined",
    ]  # fmt: skip
    assert not lacking
    worst = [
        mapping_metrics(
            TASK.graph, place_ranks("random", TASK.graph, TASK.resources, s), TASK.resources.network
        )
        for s in range(10)
    ]
    assert rows[1].load == min(metrics.largest_load for metrics in worst)
    for plain, refined in ((rows[2], rows[3]), (rows[4], rows[5])):
        assert refined.load <= plain.load


def test_strategies_that_cannot_be_used_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("petacomm.mapping.scotch._library", lambda: None)
    _, lacking = compare_strategies(TASK)
    assert "no libscotch" in lacking["scotch"]
    with pytest.raises(ConfigError, match="strategy 'scotch' cannot be used: there is no libscotch"):
        compare_strategies(TASK, ["scotch"])
    with pytest.raises(ConfigError, match="unknown strategy 'gredy'"):
        compare_strategies(TASK, ["gredy"])


def test_auto_takes_the_best_and_refines_it() -> None:
    result = map_ranks(TASK)
    assert result.chosen.refined and result.chosen.load <= min(result.identity.load, result.random.load)
    plain = map_ranks(TASK, refined=False)
    assert plain.chosen.load == min(TASK.place(name).load for name in ("identity", "greedy", "recursive"))
    assert [row.name for row in plain.rows] == [IDENTITY, RANDOM, plain.chosen.name]


def test_a_placement_without_gain_is_reported() -> None:
    # The loads of an all-to-all of all ranks do not depend on the placement.
    everyone = MappingTask(subgrid_alltoall_graph((4, 4), [0, 1]), Resources(Torus((4, 4))))
    assert not map_ranks(everyone).improves
    assert map_ranks(MappingTask(nlpkkt_graph(12, 64), Resources(Torus((4, 4, 4))))).improves


def test_loads_in_seconds_decide_where_links_differ() -> None:
    capacity = np.linspace(1, 2, TASK.resources.network.n_links)
    placement = MappingTask(TASK.graph, TASK.resources, capacity).place("greedy")
    assert placement.load == placement.metrics.largest_time > 0


def test_packets_take_longer_where_links_carry_more() -> None:
    machine, grid = load_machine("bluegene-l"), Torus((4, 4, 4))
    graph = grid_graph((4, 4, 4), True, 4800.0)
    near, far = (place_ranks(name, graph, Resources(grid), 1) for name in ("identity", "random"))
    seconds = [simulate_placement(graph, placed, grid, machine).seconds for placed in (near, far)]
    assert seconds[0] < seconds[1]
    with pytest.raises(ConfigError, match="packets need a whole torus"):
        simulate_placement(graph, near, Allocation(grid, range(64)), machine)
    with pytest.raises(ConfigError, match="more than 2e"):
        simulate_placement(grid_graph((4, 4, 4), True, 1e9), far, grid, machine)


@pytest.mark.parametrize("name", STRATEGIES)
def test_all_strategies_have_a_summary(name: str) -> None:
    assert STRATEGIES[name].summary and "\n" not in STRATEGIES[name].summary
