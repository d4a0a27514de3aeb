"""Tests of ``petamap run``: arguments, exit codes, products."""

import json
import os
import sys
from dataclasses import replace
from types import ModuleType

import jsonschema
import pytest
from commands import run_command

from petacomm.base.errors import ConfigError
from petacomm.cli.parser import parse_arguments
from petamap.cli.configuration_words import configuration_path, split_words
from petamap.cli.main import build_parser, main
from petamap.cli.run import command_line, require_free
from petamap.data.run_summary import Summary, summary_schema
from petamap.sky.map_digest import map_sha256
from petamap.sky.map_file import read_map

CONFIG = """\
[run]
name = "small"
[map]
n_side = 16
[[source]]
kind = "noise"
net = "60 uK s^0.5"
"""

TINY = """\
[run]
name = "tiny"
[map]
n_side = 8
[noise]
n_lag = 32
[[source]]
kind = "satellite"
sample_rate = "5 Hz"
duration = "2 h"
net = "100 uK s^0.5"
fknee = "50 mHz"
[[source]]
kind = "noise"
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(CONFIG)
    return tmp_path / "run.toml"


@pytest.fixture
def asked(monkeypatch, make_summary):
    """Replace the map-maker by a function that records its arguments and returns a made-up summary."""
    calls = []
    module = ModuleType("petamap.mapmaking.run")

    def run(config, *, out, progress, comm, command, stop, resume):
        calls.append((config, out, comm, command))
        progress.begin("solve", 1)
        progress.end()
        make_summary(**answer).write(out)
        return make_summary(**answer)

    answer = {}
    calls.append(answer)
    module.run = run
    monkeypatch.setitem(sys.modules, "petamap.mapmaking.run", module)
    return calls


def test_order_of_words_and_options():
    arguments = parse_arguments(
        build_parser(), ["run", "a.toml", "solver.tolerance=1", "--out", "x", "map.n_side=8", "--force"]
    )
    assert split_words(arguments.words)[1] == ["solver.tolerance=1", "map.n_side=8"]
    assert (str(arguments.out), arguments.force) == ("x", True)


def test_one_configuration(tmp_path):
    with pytest.raises(ConfigError, match=r"found a\.toml and b\.toml"):
        split_words(["a.toml", "b.toml"])
    with pytest.raises(ConfigError, match="no configuration given"):
        configuration_path(None, None)
    with pytest.raises(ConfigError, match="give one of them"):
        configuration_path(tmp_path, "spire")
    with pytest.raises(ConfigError, match="unknown example 'no-such'"):
        configuration_path(None, "no-such")


def test_earlier_run_is_kept(tmp_path):
    require_free(tmp_path / "new", False)
    require_free(tmp_path, False)
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"holds an earlier run.*--force"):
        require_free(tmp_path, False)
    require_free(tmp_path, True)
    with pytest.raises(ConfigError, match="is a file"):
        require_free(tmp_path / "summary.json", True)


def test_report_and_closing_table(config, asked, capsys):
    assert main(["run", str(config), "--threads", "3", "solver.tolerance=1e-9"]) == 0
    read, out, comm, _ = asked[1]
    assert (read.resources.threads, read.solver.tolerance, read.map.n_side) == (3, 1e-9, 16)
    assert (str(out), comm.size) == ("small", 1)
    assert (config.parent / "small" / "report.html").exists()
    said = capsys.readouterr()
    assert "solve: begins" in said.err
    assert f"report       {os.path.join('small', 'report.html')}" in said.err
    assert said.out == ""


def test_second_run_needs_force(config, asked, capsys):
    words = ["run", str(config), "--out", "maps"]
    assert main(words) == 0
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "petamap: error: maps: holds an earlier run" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


def test_without_report(config, asked):
    assert main(["run", str(config), "products.report=false"]) == 0
    assert not (config.parent / "small" / "report.html").exists()


def test_not_converged(config, asked, make_summary, capsys):
    asked[0]["solver"] = replace(make_summary().solver, converged=False, reason="stagnation")
    assert main(["run", str(config)]) == 4
    assert "converged    NO, stagnation" in capsys.readouterr().err
    assert (config.parent / "small" / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no.toml"], "no.toml"),
        (["run.toml", "solver.tolerence=1"], "unknown key 'solver.tolerence' (did you mean"),
        (["run.toml", "map.n_side=big"], "map.n_side"),
        (["--example", "no-such"], "unknown example 'no-such'"),
    ],
)
def test_invalid_configurations(config, asked, capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        main(["run", *words])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("petamap: error: ")
    assert said in error
    assert len(asked) == 1


def test_several_ranks_print_an_error_once(config):
    launcher = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    if not os.path.exists(launcher):
        pytest.skip("no mpiexec beside this Python")
    command = [
        launcher,
        "-n",
        "2",
        sys.executable,
        "-m",
        "petamap.cli.main",
        "run",
        "run.toml",
        "map.n_side=big",
    ]
    done = run_command(command, cwd=config.parent)
    assert done.returncode == 2
    assert done.stderr.count("petamap: error:") == 1


@pytest.mark.parametrize(
    ("place", "phase"),
    [
        ("petamap.simulation.virtual_scans.SatelliteSource.extend", "sources"),
        ("petamap.mapmaking.system.inverse_noise", "noise kernels"),
        ("petamap.mapmaking.binning.output_samples", "weights"),
        ("petamap.mapmaking.projection.Projection.read", "data"),
        ("petamap.mapmaking.products.MapWriter.write", "products"),
    ],
)
def test_memory_that_fails_is_one_line_with_the_phase(tmp_path, monkeypatch, capsys, place, phase):
    def fail(*arguments, **options):
        raise MemoryError

    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.setattr(place, fail)
    with pytest.raises(SystemExit) as ended:
        main(["run", "tiny.toml", "--threads", "1"])
    said = [line for line in capsys.readouterr().err.splitlines() if not line[:2].isdigit()]
    assert ended.value.code == 5
    assert len(said) == 1 and said[0].startswith(f"petamap: error: no memory left in phase '{phase}' (use"), (
        said
    )


def test_command_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/venv/bin/petamap", "run", "run.toml"])
    assert command_line(1) == ["petamap", "run", "run.toml"]
    assert command_line(3) == ["mpiexec", "-n", "3", "petamap", "run", "run.toml"]


def test_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    words = ["run", "tiny.toml", "--out", "maps", "--threads", "1", "solver.tolerance=1e-6"]
    monkeypatch.setattr(sys, "argv", ["petamap", *words])
    assert main(words) == 0
    summary = Summary.read("maps")
    document = json.loads((tmp_path / "maps" / "summary.json").read_text())
    jsonschema.validate(document, summary_schema())
    assert summary.command == ("petamap", *words)
    assert (summary.solver.converged, summary.solver.tolerance) == (True, 1e-6)
    assert {product.kind for product in summary.products} >= {"map", "binned", "hits"}
    for product in summary.products:
        assert map_sha256(read_map(tmp_path / "maps" / product.file).values) == product.sha256
    assert "data-theme" in (tmp_path / "maps" / "report.html").read_text()
    said = capsys.readouterr().err
    assert "iterations: begins" in said
    assert "converged       yes" in said


@pytest.mark.parametrize("command", [["check"], ["run", "--dry-run"]])
def test_splits_and_products_are_judged_before_any_work(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    text = '[map]\nn_side = 8\n[[source]]\nkind = "satellite"\nsample_rate = "1 Hz"\nnet = "1 mK s^0.5"\n'
    split = '[[split]]\nname = "s"\nby = "detectors"\ngroups = ["{}", "*B"]\n'
    (tmp_path / "good.toml").write_text(text + split.format("*A"))
    (tmp_path / "bad.toml").write_text(text + split.format("Z*"))
    assert _code_of([*command, "good.toml"]) == 0
    assert "split      s: by detectors, parts 1, 2" in capsys.readouterr().out
    assert _code_of([*command, "bad.toml"]) == 2
    assert "split s: no detector 'Z*'" in capsys.readouterr().err
    assert _code_of([*command, "good.toml", "products.sky=true"]) == 2
    assert "no source simulates a sky" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["check"], ["run", "--dry-run"], ["run"]])
@pytest.mark.parametrize("part", ["split", "band"])
def test_names_of_files_that_are_too_long_are_told_before_any_work(
    tmp_path, monkeypatch, capsys, command, part
):
    monkeypatch.chdir(tmp_path)
    text = '[map]\nn_side = 8\n[[source]]\nkind = "satellite"\nsample_rate = "1 Hz"\nnet = "1 mK s^0.5"\n'
    more = {"split": 'by = "time"', "band": 'detectors = ["*"]'}[part]
    (tmp_path / "long.toml").write_text(text + f'[[{part}]]\nname = "{128 * "s"}"\n{more}\n')
    out = [] if command == ["check"] else ["--out", "out"]
    assert _code_of([*command, "long.toml", *out, f"run.name={128 * 'n'}"]) == 2
    assert "bytes are too long a name" in capsys.readouterr().err
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*"))


def test_the_longest_names_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = '[map]\nn_side = 4\n[[source]]\nkind = "satellite"\nsample_rate = "1 Hz"\nnet = "1 mK s^0.5"\n'
    (tmp_path / "long.toml").write_text(text + f'[[band]]\nname = "{110 * "b"}"\ndetectors = ["*"]\n')
    words = ["run", "long.toml", "--out", "out", "-q"]
    assert _code_of([*words, f"run.name={128 * 'n'}"]) == 0
    assert (tmp_path / "out" / f"{128 * 'n'}_{110 * 'b'}_residual.fits").exists()
    assert _code_of([*words, f"run.name={129 * 'n'}"]) == 2
    assert "at most 128 letters" in capsys.readouterr().err


def _code_of(words):
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code
