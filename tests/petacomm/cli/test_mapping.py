"""``petacomm map`` from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from petacomm.cli.main import main
from petacomm.mapping.job import load_mapping_job
from petacomm.mapping.launchers import LaunchTarget, read_launcher_file
from petacomm.mapping.metrics import concurrent_loads
from petacomm.topology import Torus

JOB = """\
ranks = 64
[graph]
grid = [4, 4, 4]
[machine]
name = "bluegene-l"
shape = [4, 4, 4]
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def test_a_file_is_written_that_can_be_read_back(job: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "map.txt"
    assert main(["map", str(job), "--format", "bluegene", "--out", str(out), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    placed = read_launcher_file("bluegene", out, LaunchTarget(Torus((4, 4, 4))))
    assert placed.nodes.tolist() == data["nodes_of_ranks"]
    assert [row["strategy"] for row in data["placements"]][:2] == ["identity", "best of 10 random"]


def test_the_command_that_is_shown_can_be_pasted(job: Path, tmp_path: Path, capsys) -> None:
    job.write_text(
        JOB.replace("64", "7").replace("grid = [4, 4, 4]", "nlpkkt = 8").replace("[4, 4, 4]", "[7, 1, 1]")
    )
    job.write_text(job.read_text() + f"hosts = {list('abcdefg')}\n")
    out = tmp_path / "my hosts"
    assert main(["map", str(job), "--format", "slurm", "--out", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert f"{out}: SLURM_HOSTFILE='{out}' srun --distribution=arbitrary -n 7" in said


@pytest.mark.parametrize("n_ranks", [1, 4, 7, 20, 23])
@pytest.mark.parametrize("name", ["cray", "split"])
def test_orders_of_ranks_leave_free_slots_where_the_launcher_does(
    tmp_path: Path, capsys, name: str, n_ranks: int
) -> None:
    draw = np.random.default_rng(n_ranks)
    rows = [f"{a},{b},{c}" for a, b, c in draw.integers(0, n_ranks, (50, 3))]
    (tmp_path / "drawn.csv").write_text("\n".join([*rows, f"{n_ranks - 1},{n_ranks - 1},0", ""]))
    machine = '[machine]\nname = "fugaku"\nshape = "2x2x2"\n'
    text = f'ranks = {n_ranks}\nranks_per_node = 3\n[graph]\nfile = "drawn.csv"\n{machine}'
    (tmp_path / "job.toml").write_text(text)
    out = tmp_path / "order"
    assert main(["map", str(tmp_path / "job.toml"), "--format", name, "--out", str(out), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    placed = read_launcher_file(name, out, LaunchTarget(Torus((2, 2, 2)), 3))
    assert placed.nodes.tolist() == data["nodes_of_ranks"]
    assert sorted(placed.slot_numbers.tolist()) == list(range(n_ranks))
    identity, _, chosen = (row["largest_load"] for row in data["placements"])
    assert chosen <= identity


def test_phases_are_measured_by_the_routing_of_the_machine(job: Path, tmp_path: Path, capsys) -> None:
    edges = [f"{rank},{8 + rank},1000" for rank in range(8)]
    for name, part in (("a.csv", edges[:4]), ("b.csv", edges[4:])):
        (tmp_path / name).write_text("\n".join([*part, "15,15,0", ""]))
    machine = 'name = "frontier"\ngroups = 4\nrouters = 2\nnodes_per_router = 2\ncables = 1\n'
    job.write_text(f'ranks = 16\n[graph]\nfile = ["a.csv", "b.csv"]\n[machine]\n{machine}')
    assert main(["map", str(job), "--strategy", "identity", "--no-refine", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["placements"][0]
    read = load_mapping_job(job)
    placement = read.task.place("identity").placement
    loads = concurrent_loads(list(read.phases.values()), placement, read.resources.network, "ugal")
    assert read.routing == "ugal" and row["phase_loads"] == list(loads.separate)
    assert row["phase_loads"] != list(
        concurrent_loads(list(read.phases.values()), placement, read.resources.network).separate
    )


def test_a_table_has_the_baselines(job: Path, capsys) -> None:
    assert main(["map", str(job), "--strategy", "greedy", "--no-refine"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[2:6]] == [
        "placement",
        "identity",
        "best of 10 random",
        "greedy",
    ]


def test_a_placement_without_gain_is_reported(job: Path, capsys) -> None:
    job.write_text(JOB.replace("grid", "alltoalls").replace("[machine]", "along = [[0, 1, 2]]\n[machine]"))
    assert main(["map", str(job)]) == 0
    assert "no better than a default or random placement" in capsys.readouterr().out


def test_compare_lists_strategies(job: Path, capsys) -> None:
    words = ["map", "compare", str(job), "--strategies", "greedy,rcm", "--simulate", "--json"]
    assert main(words) == 0
    data = json.loads(capsys.readouterr().out)
    names = [(row["strategy"], row["refined"]) for row in data["placements"]]
    assert names[2:] == [("greedy", False), ("greedy", True), ("rcm", False), ("rcm", True)]
    assert len(data["simulated"]) == len(names) and min(data["simulated"]) > 0


def test_phases_have_a_separate_table(job: Path, tmp_path: Path, capsys) -> None:
    job.write_text(JOB.replace("grid", "alltoalls").replace("[machine]", "along = [[0], [1]]\n[machine]"))
    page = tmp_path / "page.html"
    assert (
        main(["map", str(job), "--no-refine", "--report", str(page), "--boxfish", str(tmp_path / "fish")])
        == 0
    )
    out = capsys.readouterr().out
    assert "along 0  along 1  all at once  in turn, added" in out
    assert "Busiest link of each phase" in page.read_text()
    assert (tmp_path / "fish" / "after" / "links.yaml").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no job"),
        (["none.toml"], "none.toml: cannot be read"),
        (["JOB", "more"], "unknown argument 'more'"),
        (["JOB", "--out", "OUT"], "--format is missing"),
        (["JOB", "--format", "openmpi"], "--out is missing"),
        (["JOB", "--format", "opnmpi", "--out", "OUT"], "unknown format 'opnmpi'"),
        (["JOB", "--format", "slurm", "--out", "OUT"], "names hosts"),
        (["JOB", "--strategy", "best", "--format", "bluegene", "--out", "OUT"], "unknown strategy 'best'"),
        (
            ["JOB", "--shape", "4x4x2", "--format", "bluegene", "--out", "OUT"],
            "64 ranks do not fit on 32 nodes",
        ),
        (["JOB", "--simulate"], "--simulate without 'compare'"),
        (["compare", "JOB", "--out", "OUT"], "--out with 'compare'"),
        (["compare", "JOB", "--no-refine"], "--no-refine with 'compare'"),
        (["compare", "JOB", "--strategy", "rcm"], "--strategy with 'compare'"),
        (["gallery", "--machine", "fugaku"], "--machine with 'gallery'"),
        (["compare", "JOB", "--strategies", "a,b"], "unknown strategy 'a'"),
    ],
)
def test_bad_input_is_one_line_and_no_file(job: Path, tmp_path: Path, capsys, words: list, says: str) -> None:
    out = tmp_path / "out.txt"
    named = {"JOB": str(job), "OUT": str(out)}
    assert main(["map", *(named.get(word, word) for word in words)]) == 2
    error = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(error) == 1 and says in error[0]
    assert not out.exists()
