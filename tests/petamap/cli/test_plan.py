"""Tests of ``petamap plan``: tables, JSON, machines, errors."""

import json

import pytest

from petacomm.base.errors import ConfigError
from petamap.cli.main import main
from petamap.examples import example_names, find_example


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "run.toml"
    source = '[[source]]\nkind = "satellite"\nsample_rate = "5 Hz"\nduration = "1 h"\nnet = "1 K s^0.5"\n'
    path.write_text(f"[map]\nn_side = 16\n[noise]\nn_lag = 16\n{source}")
    return str(path)


def test_table_and_json(config, capsys):
    words = ["plan", config, "--ranks", "8", "--machine", "pleiades-h"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "8 cores on 1 of 5888 nodes" in text and "\nbest: " in text
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["machine"] == "pleiades-h" and {o["threads"] for o in data["predictions"]} == {1, 4, 8}
    assert all(o["seconds"][o["best"]] == min(o["seconds"].values()) for o in data["predictions"])


def test_the_estimate_of_the_noise_is_told(config, capsys):
    words = ["plan", config, "--ranks", "2", "--machine", "one-node", "noise.kernel=estimate"]
    assert main([*words, "noise.max_rounds=4"]) == 0
    said = "and before it the estimate of the noise, in at most 4 rounds, each of which but the first solves"
    assert said in capsys.readouterr().out
    assert main([*words[:-1], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["noise_rounds"] == 0


def test_times_are_those_of_a_run_like_it(config, capsys, tmp_path):
    assert main(["run", config, "--out", str(tmp_path / "day"), "-q"]) == 0
    words = ["plan", config, "--ranks", "2", "--machine", "one-node", "--like", str(tmp_path / "day")]
    assert main(words) == 0
    text = capsys.readouterr().out
    iterations = json.loads((tmp_path / "day" / "summary.json").read_text())["solver"]["iterations"]
    assert f", {iterations} iterations " in text
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["iterations"] == iterations


def test_settings(config, capsys):
    main(["plan", config, "--ranks", "4", "--machine", "franklin", "--json", "map.n_side=8"])
    assert json.loads(capsys.readouterr().out)["pixels"] == 768


def test_list_of_machines(capsys):
    assert main(["plan", "--machines"]) == 0
    assert "jaguar " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--ranks", "4"], "--machine is missing"),
        (["--machine", "jaguar"], "--ranks is missing"),
        (["--ranks", "0", "--machine", "jaguar"], "0 ranks on jaguar"),
        (["--ranks", "9", "--machine", "one-node"], "9 ranks on one-node, which has 8 cores"),
        (["--ranks", "4", "--machine", "jaguare"], "did you mean 'jaguar'?"),
        (["--ranks", "4", "--machine", "jaguar", "map.n_sid=3"], "n_sid"),
        (["--ranks", "4000", "--machine", "jaguar"], "blocks of data for 4000 ranks"),
        (["--ranks", "many", "--machine", "jaguar"], "many"),
    ],
)
def test_errors_are_one_line(config, words, what, capsys):
    assert main(["plan", config, *words]) == 2
    error = capsys.readouterr().err.rstrip("\n").splitlines()[-1]
    assert error.startswith("petamap: error: ") and what in error


def test_planck_year_can_only_be_planned():
    assert find_example("planck-year", ("plan.toml", "run.toml")).name == "plan.toml"
    assert find_example("spire", ("plan.toml", "run.toml")).name == "run.toml"
    assert "planck-year" not in example_names()
    with pytest.raises(ConfigError, match="unknown example 'planck-year'"):
        find_example("planck-year")


def test_examples_are_checked_by_name(capsys):
    assert main(["check", "--example", "planck-lfi", "map.n_side=16"]) == 0
    assert "n_side 16" in capsys.readouterr().out
    assert main(["check", "run.toml", "--example", "planck-lfi"]) == 2
    assert "give one of them" in capsys.readouterr().err
