"""Tests of the entry point of commands."""

import sys

from petacomm.cli import start_command


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


def test_the_commands_of_the_packages(monkeypatch, capsys):
    for package in ("petacomm", "petamap"):
        monkeypatch.setattr(sys, "argv", [package, "--version"])
        start = sys.modules.get(f"{package}.cli") or __import__(f"{package}.cli", fromlist=["cli"])
        try:
            start.start()
        except SystemExit as ended:
            assert ended.code == 0
        assert capsys.readouterr().out.startswith(package)
