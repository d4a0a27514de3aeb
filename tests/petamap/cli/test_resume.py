"""Tests of commands that are stopped or killed and go on: the same bytes as if they had not been."""

import random
import re
import signal
import time

import pytest
from cases import cases
from killed_jobs import Job
from mpi import MPIEXEC

from petamap.cli.main import main
from petamap.data.run_summary import Summary

# 1/f noise with a high knee needs many iterations, the more so with many unknown samples, and little data
# little time for each.
TEXT = """\
[run]
name = "long"
[map]
n_side = 8
[noise]
n_lag = 512
[solver]
tolerance = 1e-11
max_iterations = 2000
rcond_min = 1e-2
rcond_solved = 1e-2
[products]
report = false
[[source]]
kind = "satellite"
sample_rate = "5 Hz"
duration = "8 h"
net = "100 uK s^0.5"
fknee = "2 Hz"
spin_period = "10 min"
opening = "60 deg"
precession_angle = "40 deg"
precession_period = "3 h"
[[source]]
kind = "noise"
"""
SETTINGS = ("--threads", "1", "resources.checkpoint_interval=20 ms")
# that a stop comes before the last iteration
LONG = ("source.0.duration=16 h", "resources.checkpoint_interval=10 min")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.toml").write_text(TEXT)
    return tmp_path


def run(out, *settings):
    assert main(["run", "long.toml", "--out", str(out), *SETTINGS, *settings]) == 0
    return products(out)


def products(folder):
    found = {path.name: path.read_bytes() for path in sorted(folder.glob("*.fits"))}
    history = [one.relative_residual for one in Summary.read(folder).solver.history]
    return found, history


@pytest.mark.parametrize(
    ("n_ranks", "number"), cases((3, signal.SIGTERM), long=((1, signal.SIGUSR1),)), ids=["three", "one"]
)
def test_a_signal_stops_with_a_checkpoint(folder, n_ranks, number):
    words = ["run", "long.toml", "--out", "stopped", *SETTINGS, *LONG]
    job = Job([*words, "--verbose"], n_ranks, folder)
    job.wait_for("iteration 1, ")
    number = job.stop(number)
    assert job.end() == 75, job.said()
    said = [line for line in job.said().splitlines() if line.startswith("petamap: ")]
    assert said == [
        f"petamap: stopped/long.checkpoint: stopped by {number.name}, after a checkpoint "
        "(the same command with --resume goes on)"
    ]
    assert list((folder / "stopped").iterdir()) == [folder / "stopped" / "long.checkpoint"]
    job = Job(words, 1, folder)
    assert job.end() == 2 and "--resume goes on, --force begins anew" in job.said()
    job = Job([*words, "--resume"], n_ranks, folder)
    assert job.end() == 0, job.said()
    assert "checkpoint: done" in job.said() and "goes on after iteration" in job.said()
    assert Summary.read(folder / "stopped").resumed == 1
    assert products(folder / "stopped") == run(folder / "whole", *LONG)


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_a_signal_during_the_set_up_ends_at_once(folder, n_ranks):
    job = Job(
        ["run", "long.toml", "--out", "stopped", *SETTINGS, "source.0.duration=30 day"], n_ranks, folder
    )
    job.wait_for("pointing: begins")
    number = job.stop()
    assert job.end() == 75, job.said()
    # each rank is in a phase of the set-up, or between two: the first to say so is told
    said = re.findall(rf"petamap: stopped by {number.name} (?:in|after) phase '", job.said())
    assert len(said) == 1, job.said()
    assert "iterations" not in job.said()


@pytest.mark.parametrize("told", cases("slurm", long=["option"]))
def test_the_end_of_the_wall_clock(folder, told):
    limit = ["--time-limit", "10 s"] if told == "option" else []
    slurm = {} if limit else {"SLURM_JOB_END_TIME": str(int(time.time()) + 11)}
    # a short set-up, and iterations for half a minute
    settings = (*SETTINGS, "source.0.duration=20 day", "solver.preconditioner=block-diagonal")
    words = ["run", "long.toml", "--out", "stopped", *settings]
    job = Job([*words, *limit], 1, folder, **slurm)
    begin = time.monotonic()
    assert job.end() == 75, job.said()
    assert time.monotonic() - begin < 12
    assert "stopped before the end of its time, after a checkpoint" in job.said()


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_time_that_ends_during_the_set_up(folder, n_ranks):
    words = ["run", "long.toml", "--out", "stopped", *SETTINGS, "source.0.duration=60 day"]
    job = Job([*words, "--time-limit", "3 s"], n_ranks, folder)
    assert job.end() == 2, job.said()
    said = r"petamap: error: the time of the job ends (?:in|after) phase '.*', before there is anything"
    assert len(re.findall(said, job.said())) == 1, job.said()
    assert "iterations: begins" not in job.said()


def test_a_finished_run_is_complete(folder, capsys):
    expected = run(folder / "whole", "--resume")
    assert run(folder / "whole", "--resume") == expected
    assert "holds this run, complete: there is nothing to resume" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        run(folder / "whole", "--resume", "solver.tolerance=1e-6")
    assert ended.value.code == 2 and "holds an earlier run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("moment", "earlier"),
    cases(
        ("pointing: begins", "solver.tolerance=1e-11"),
        ("products: begins", "solver.tolerance=1e-6"),
        long=(("pointing: begins", "solver.tolerance=1e-6"), ("products: begins", "solver.tolerance=1e-11")),
    ),
)
def test_a_run_that_replaces_another_goes_on(folder, earlier, moment):
    expected = run(folder / "whole")
    run(folder / "b", earlier)
    job = Job(["run", "long.toml", "--out", "b", *SETTINGS, "--force"], 1, folder)
    job.wait_for(moment)
    assert job.kill()
    job = Job(["run", "long.toml", "--out", "b", *SETTINGS, "--resume"], 1, folder)
    assert job.end() == 0 and "complete" not in job.said()
    assert products(folder / "b") == expected
    assert not (folder / "b" / "long.checkpoint").exists()


def test_a_report_that_is_missing_is_written(folder):
    run(folder / "whole", "products.report=true")
    (folder / "whole" / "report.html").unlink()
    run(folder / "whole", "products.report=true", "--resume")
    assert (folder / "whole" / "report.html").exists()


@pytest.mark.parametrize(("n_ranks", "n_kills"), cases((1, 2), long=((3, 2), (1, 50), (3, 50))))
def test_same_bytes_after_kills(folder, n_ranks, n_kills):
    """Kill all ranks at random moments, a quarter of them from the start and the others from the data on."""
    if n_ranks > 1 and not MPIEXEC.exists():
        pytest.skip("no mpiexec beside this Python: pip install mpich")
    expected, chance = run(folder / "whole"), random.Random(n_ranks)
    begin, job = time.monotonic(), Job(["run", "long.toml", "--out", "timed", *SETTINGS], n_ranks, folder)
    job.wait_for("data: begins")
    middle = time.monotonic()
    assert job.end() == 0
    end = time.monotonic()
    kills, folders, resumed = 0, 1, []
    # a job may be killed before its first checkpoint, and then has none to go on from
    while kills < n_kills or (not sum(resumed) and kills < 20 * n_kills):
        out = folder / f"killed-{folders}"
        job = Job(["run", "long.toml", "--out", out.name, *SETTINGS, "--resume"], n_ranks, folder)
        if chance.random() < 0.25:
            time.sleep(chance.uniform(0, end - begin))
        else:
            job.wait_for("data: begins")
            time.sleep(chance.uniform(0, end - middle))
        kills += job.kill()
        if (out / "summary.json").exists():
            resumed.append(finish(out, n_ranks, folder, expected))
            folders += 1
    resumed.append(finish(out, n_ranks, folder, expected))
    print(f"{kills} kills on {n_ranks} ranks, {len(resumed)} runs finished, resumed {resumed} times")
    assert sum(resumed) > 0


def finish(out, n_ranks, folder, expected):
    """Let a run come to its end, and return how often it went on from a checkpoint."""
    job = Job(["run", "long.toml", "--out", out.name, *SETTINGS, "--resume"], n_ranks, folder)
    assert job.end() == 0, job.said()
    assert products(out) == expected
    left = {path.name for path in out.iterdir()} - set(expected[0])
    assert left == {"summary.json"}
    return Summary.read(out).resumed
