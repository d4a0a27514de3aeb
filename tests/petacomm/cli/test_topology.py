"""``petacomm topology``: machines with their sources, and the places of ranks."""

import json
import sys
from pathlib import Path

import pytest
from commands import run_command

from petacomm.cli.main import main
from petacomm.topology import load_machine, machine_names

MPIEXEC = Path(sys.executable).with_name("mpiexec")


def test_all_machines_are_listed(capsys):
    assert main(["topology"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == machine_names()
    assert main(["topology", "--json"]) == 0
    assert [machine["name"] for machine in json.loads(capsys.readouterr().out)] == machine_names()


@pytest.mark.parametrize("name", machine_names())
def test_each_number_stands_with_its_source(name, capsys):
    assert main(["topology", name]) == 0
    out = capsys.readouterr().out
    machine = load_machine(name)
    for key, source in {
        **machine.sources,
        **{f"network.{k}": v for k, v in machine.network_sources.items()},
    }.items():
        assert any(key in line and line.rstrip().endswith(source) for line in out.splitlines()), key
    assert main(["topology", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == machine.nodes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bluegen-l"], "did you mean 'bluegene-l'"),
        (["none.toml"], "none.toml: cannot be read"),
        (["jaguar", "more"], "unknown argument 'more'"),
    ],
)
def test_bad_input_is_one_line(words, said, capsys):
    assert main(["topology", *words]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_detect_reports_the_place_of_a_single_process(capsys):
    assert main(["topology", "detect"]) == 0
    assert "rank 0:" in capsys.readouterr().out


def test_detect_reports_the_places_of_ranks():
    if not MPIEXEC.exists():
        pytest.skip("no mpiexec beside this Python: pip install mpich")
    command = [
        str(MPIEXEC),
        "-n",
        "3",
        sys.executable,
        "-m",
        "petacomm.cli.main",
        "topology",
        "detect",
        "--json",
    ]
    ended = run_command(command, check=True)
    data = json.loads(ended.stdout)
    assert len(data["hosts"]) == len(data["nodes"]) == 3 and len(set(data["hosts"])) == 1
