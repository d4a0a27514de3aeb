"""``petamap slurm``: a job script that is sized by the planner and runs as shell."""

import re

import pytest
from commands import run_command

from petacomm.base.errors import ResourceError
from petacomm.topology import load_machine
from petamap.cli.main import main
from petamap.data.config import parse_config
from petamap.planning.job_size import size_job

TEXT = """\
[run]
name = "night"
[map]
n_side = 16
[noise]
n_lag = 64
[[source]]
kind = "satellite"
duration = "2 h"
sample_rate = "5 Hz"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(TEXT)
    return tmp_path


def options(script):
    return dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", script, re.MULTILINE))


def test_the_script_is_sized_and_goes_on(folder, capsys):
    words = [
        "run.toml",
        "--machine",
        "perlmutter",
        "--out",
        "my maps",
        "map.n_side=8",
        "--sbatch",
        "qos=debug",
    ]
    assert main(["slurm", *words]) == 0
    script = capsys.readouterr().out
    found = options(script)
    assert int(found["ntasks-per-node"]) * int(found["cpus-per-task"]) <= 128
    assert (found["nodes"], found["qos"], "requeue" in found) == ("1", "debug", True)
    assert "petamap run run.toml map.n_side=8 --out 'my maps'" in script and "--resume" in script
    assert run_command(["bash", "-n"], input=script).returncode == 0
    assert all(len(line) <= 110 for line in script.splitlines() if line[:1] == "#")


def test_a_job_is_sized_by_what_a_run_like_it_took(folder, capsys):
    assert main(["run", "run.toml", "--out", "day", "-q"]) == 0
    assert main(["slurm", "run.toml", "--machine", "perlmutter", "--like", "day"]) == 0
    assert "as the run in day took them" in capsys.readouterr().out
    assert main(["slurm", "run.toml", "--machine", "perlmutter", "--like", "night"]) == 3
    assert "night/summary.json: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(("code", "requeued"), [(0, False), (75, True), (3, False)])
def test_the_job_goes_back_to_the_queue_only_with_a_checkpoint(folder, capsys, code, requeued):
    assert main(["slurm", "run.toml", "--machine", "perlmutter"]) == 0
    script = capsys.readouterr().out
    around = f"srun() {{ return {code}; }}; scontrol() {{ echo scontrol $@; }}; SLURM_JOB_ID=7\n"
    done = run_command(["bash"], input=around + script)
    assert (done.returncode, done.stdout == "scontrol requeue 7\n") == (code, requeued)


def test_memory_and_time_ask_for_more_nodes():
    config, machine = parse_config(TEXT), load_machine("franklin")
    sizes = [size_job(config, machine, 8e9, seconds, nodes) for seconds, nodes in ((7200, None), (7200, 4))]
    assert [size.nodes for size in sizes] == [1, 4]
    in_haste = size_job(config, machine, 8e9, 1.0)  # in no time: the quickest
    assert in_haste.seconds <= min(size.seconds for size in sizes)
    with pytest.raises(ResourceError, match=r"a node would need 0\.\d+ GB, and 0\.05 GB are there"):
        size_job(config, machine, 5e7, 7200)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "--machine is missing"),
        (["--machine", "perlmuter"], 2, "perlmutter"),
        (["--machine", "perlmutter", "--time", "0 h"], 2, "--time 0 h (more than 0)"),
        (["--machine", "perlmutter", "--node-memory", "100 kB"], 5, "a node would need"),
        (["--machine", "perlmutter", "--account", "a\nrm"], 2, r"'a\nrm' is no option of sbatch"),
    ],
)
def test_what_cannot_be_sized(folder, capsys, words, code, said):
    assert main(["slurm", "run.toml", *words]) == code
    assert said in capsys.readouterr().err
