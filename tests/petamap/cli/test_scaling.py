"""``petamap scaling``: runs in processes of their own, their rows, and what is refused before any."""

import json

import pytest

from petamap.cli import scaling as module
from petamap.cli.main import main
from petamap.data.run_summary import Summary

TINY = """\
[run]
name = "tiny"
[map]
n_side = 8
[noise]
n_lag = 64
[products]
report = false
[[source]]
kind = "satellite"
sample_rate = "4 Hz"
duration = "2 h"
[[source]]
kind = "noise"
net = "1 mK s^0.5"
fknee = "10 mHz"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def scaling(*words):
    try:
        return main(["scaling", "tiny.toml", *words])
    except SystemExit as ended:
        return ended.code


def first_samples(folder):
    return Summary.read(folder / "tiny_scaling" / "1x1-auto").totals.samples_inside


def test_runs_are_measured_and_predicted(folder, capsys):
    assert scaling("--ranks", "2,1", "--predict", "4", "--machine", "jaguar") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["cores", "ranks", "x"]
    assert lines[1].split()[:5] == ["1", "1", "x", "1", "-"]
    assert lines[2].split()[:5] == ["2", "2", "x", "1", "auto"]
    assert any("predicted on jaguar" in line for line in lines)
    content = json.loads((folder / "tiny_scaling" / "scaling.json").read_text())
    first, second = content["measured"]
    assert first["measured"] == first["predicted"]
    assert second["measured"]["communication"] > 0
    assert Summary.read(folder / "tiny_scaling" / "2x1-auto").environment.ranks == 2
    trial = Summary.read(folder / "tiny_scaling" / "2x1-trial")
    assert trial.totals.samples_inside == -(-first_samples(folder) // 8)
    assert 0 <= content["once"][0]["seconds"] <= first["measured"]["calculation"] + first["measured"]["data"]
    assert "each rank spends once" in lines[-1]


def test_a_growing_run(folder, capsys):
    assert scaling("--ranks", "1", "--weak", "source.satellite.duration=1 h", "--out", "w", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["measured"]) == 1
    assert Summary.read(folder / "w" / "1x1-auto").totals.samples == 4 * 3600 * 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ranks", "1,4096"), "blocks of data for 4096 cores"),
        (("--ranks", "1", "--weak", "source.satellite.duration=long"), "--weak"),
        (("--ranks", "1", "--versions", "--threads", "1"), "at least 2 cores"),
        (("--ranks", "0"), "at least 1"),
        (("--ranks", "one"), "--ranks"),
        (("--ranks", "1", "map.n_side=7"), "n_side"),
        (("--ranks", "1", "--machine", "none-such"), "none-such"),
    ],
)
def test_what_is_refused_before_any_run(folder, capsys, words, said):
    assert scaling(*words) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "tiny_scaling").exists()


def test_runs_of_an_earlier_command_are_kept_unless_forced(folder, capsys):
    assert scaling("--ranks", "1", "--out", "s") == 0
    before = (folder / "s" / "scaling.json").read_text()
    assert scaling("--ranks", "1", "--out", "s") == 2
    assert "--force" in capsys.readouterr().err
    assert (folder / "s" / "scaling.json").read_text() == before
    assert scaling("--ranks", "1", "--out", "s", "--force") == 0


def test_a_trial_that_fails_is_told_and_left_out(folder, capsys, monkeypatch):
    run = module._Study._run

    def fails(study, job, folder, *more):
        return run(study, job, folder, *more, *(["resources.memory=2 MB"] if more else []))

    monkeypatch.setattr(module._Study, "_run", fails)
    assert scaling("--ranks", "1") == 0
    told = capsys.readouterr()
    assert "no trial, so that nothing tells what each rank does once" in told.err
    assert "each rank spends once" not in told.out


def test_a_run_that_fails_is_told_with_its_message(folder, capsys):
    assert scaling("--ranks", "1", "resources.memory=2 MB") == 5
    assert "ended with" in capsys.readouterr().err
