"""Tests of the entry point of commands."""

import os
import sys

import pytest

from petacomm.cli import start_command, start_petacomm
from petamap.cli import start_petamap
from petamap.cli.main import main as petamap_main


def test_the_exit_code_is_that_of_main(tmp_path, monkeypatch):
    (tmp_path / "tool_done.py").write_text("def main(): return 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert start_command("tool_done") == 3


def test_an_interrupted_import_is_told_in_a_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "tool_slow").mkdir()
    (tmp_path / "tool_slow" / "__init__.py").touch()
    (tmp_path / "tool_slow" / "main.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert start_command("tool_slow.main") == 130
    assert capsys.readouterr().err == "tool_slow: interrupted\n"
    assert "tool_slow.main" not in sys.modules


@pytest.mark.parametrize(("name", "start"), [("petacomm", start_petacomm), ("petamap", start_petamap)])
def test_the_commands_of_the_packages(monkeypatch, capsys, name, start):
    monkeypatch.setattr(sys, "argv", [name, "--version"])
    with pytest.raises(SystemExit) as ended:
        start()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"{name} ")


def test_a_folder_that_was_removed_is_told_in_a_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    os.rmdir(tmp_path / "gone")
    assert petamap_main(["check", "run.toml"]) == 5
    assert capsys.readouterr().err == (
        "petamap: error: the current folder is not there any more (cd to one that is)\n"
    )


def test_an_empty_path_is_not_the_current_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert petamap_main(["run", "run.toml", "--out", ""]) == 2
    assert capsys.readouterr().err == (
        "petamap: error: argument --out: an empty path (see petamap run --help)\n"
    )
