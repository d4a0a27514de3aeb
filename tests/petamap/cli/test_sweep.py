"""``petamap sweep``: combinations, folders, table, going on."""

import csv
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petamap.cli.main import main
from petamap.cli.sweep import split_values
from petamap.data.run_summary import Summary

TINY = """\
[run]
name = "tiny"
[map]
n_side = 8
stokes = "I"
[noise]
kernel = "white"
[products]
report = false
[[source]]
kind = "satellite"
sample_rate = "2 Hz"
duration = "1 h"
[[source]]
kind = "noise"
net = "1 mK s^0.5"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def sweep(*words):
    try:
        return main(["sweep", "tiny.toml", "--threads", "1", *words])
    except SystemExit as ended:
        return ended.code


def test_each_combination_has_a_run_and_a_row(folder, capsys):
    words = ("map.n_side=4,8", "source.satellite.duration=1 h,2 h", "noise.kernel=white", "--out", "all")
    assert sweep(*words) == 0
    rows = list(csv.DictReader((folder / "all" / "sweep.csv").open()))
    pairs = [(row["map.n_side"], row["source.satellite.duration"]) for row in rows]
    assert pairs == list(itertools.product(("4", "8"), ("1 h", "2 h")))
    assert [row["folder"] for row in rows][1] == "n_side=4_duration=2-h"
    for row in rows:
        made = Summary.read(folder / "all" / row["folder"])
        assert int(row["samples used"]) == made.totals.samples_used
        assert made.totals.pixels == 12 * int(row["map.n_side"]) ** 2
    said = capsys.readouterr()
    assert said.out.splitlines()[0].split()[:2] == ["map.n_side", "source.satellite.duration"]
    assert "run 4 of 4" in said.err


def test_the_same_command_goes_on(folder, capsys):
    assert sweep("map.n_side=4,8") == 0
    times = {path: path.stat().st_mtime_ns for path in folder.glob("tiny_sweep/*/summary.json")}
    capsys.readouterr()
    assert sweep("map.n_side=4,8,16") == 0
    said = capsys.readouterr().err
    assert said.count(": is there\n") == 2 and said.count(": begins\n") > 0
    assert all(path.stat().st_mtime_ns == time for path, time in times.items()) and len(times) == 2
    assert sweep("map.n_side=4,8", "map.stokes=IQU") == 2
    assert "holds an earlier run" in capsys.readouterr().err
    assert sweep("map.n_side=4,8", "map.stokes=IQU", "--force") == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["map.n_side=4"], "no option has several values"),
        (["map.n_side=4,4"], "a value is empty or given twice"),
        (["map.n_side=4,"], "a value is empty or given twice"),
        (["map.n_side=4,5"], "map.n_side"),
        (["map.n_sides=4,8"], "unknown key 'map.n_sides'"),
        (["run.title='a b','a-b'"], "two runs would have the same folder"),
    ],
)
def test_all_is_judged_before_the_first_run(folder, capsys, words, said):
    assert sweep(*words) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "tiny_sweep").exists()


def test_dry_run_names_the_folders(folder, capsys):
    assert sweep("map.n_side=4,8", "--dry-run") == 0
    assert capsys.readouterr().out.split() == ["tiny_sweep/n_side=4", "tiny_sweep/n_side=8"]
    assert not (folder / "tiny_sweep").exists()


VALUES = ["8", "1e-6", "[1, 2]", '"a,b"', "'x'", "{a = 1, b = [2,3]}"]


@given(st.lists(st.sampled_from(VALUES), min_size=1, max_size=4))
def test_values_are_parted_outside_of_brackets_and_quotes(values):
    assert split_values(",".join(values)) == values
    assert split_values(" , ".join(values)) == values


def test_names_of_runs_are_swept_in_one_folder(folder):
    assert sweep("run.name=x,y", "--dry-run", "map.n_side=4") == 0
    assert sweep("run.name=x,y") == 0
    assert sorted(path.name for path in folder.glob("x_sweep/*/summary.json")) == ["summary.json"] * 2
    assert not (folder / "y_sweep").exists()


def test_a_key_given_twice_is_an_error(folder, capsys):
    assert sweep("map.n_side=4,8", "map.n_side=16,32") == 2
    assert "map.n_side is given twice" in capsys.readouterr().err
