"""What a command shows: quiet, verbose, a log, dry runs, one line after SIGTERM, completion."""

import os
import signal
import subprocess
import sys
import time

import pytest
from commands import run_command

from petamap.cli.main import main

TINY = """\
[run]
name = "tiny"
[map]
n_side = 8
[noise]
n_lag = 32
[products]
report = false
[[source]]
kind = "satellite"
sample_rate = "5 Hz"
duration = "2 h"
[[source]]
kind = "noise"
net = "100 uK s^0.5"
"""
WORDS = ["run", "tiny.toml", "--threads", "1"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def test_quiet_shows_warnings_alone(folder, capsys):
    assert main([*WORDS, "-q"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines and all(line.startswith("warning: ") for line in lines)
    assert len(set(lines)) == len(lines)


def test_each_warning_is_told_once(folder, capsys):
    assert main(WORDS) == 0
    told = [
        line.partition("warning: ")[2] for line in capsys.readouterr().err.splitlines() if "warning: " in line
    ]
    assert told and len(set(told)) == len(told)


def test_verbose_has_a_line_for_each_iteration(folder, capsys):
    assert main([*WORDS, "--verbose"]) == 0
    said = capsys.readouterr().err
    assert "iteration 0," in said and "iteration 1," in said and "memory up to" in said
    assert main([*WORDS, "-v", "-q", "--force"]) == 2


def test_the_log_has_all_that_was_told(folder, capsys):
    assert main([*WORDS, "-q", "--log", "run.log"]) == 0
    with pytest.raises(SystemExit):
        main([*WORDS, "--log", "run.log"])  # refused: there is a run
    log = (folder / "run.log").read_text()
    assert log.count(" petamap run tiny.toml --threads 1") == 2
    for words in (
        "iteration 1,",
        "products: done",
        "peak memory",
        "warning: ",
        "petamap: error: tiny: holds an",
    ):
        assert words in log
    assert main([*WORDS, "--log", "no/such/folder.log"]) == 2
    assert "the log cannot be written" in capsys.readouterr().err


def test_a_dry_run_writes_nothing(folder, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*WORDS, "--dry-run", "map.n_side=9"])
    assert ended.value.code == 2
    assert main([*WORDS, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert not (folder / "tiny").exists()
    assert main(WORDS) == 0
    listed = said.splitlines()[-1].partition(": ")[2].split(", ")
    assert set(listed) == {path.name for path in (folder / "tiny").iterdir()}
    with pytest.raises(SystemExit) as ended:
        main([*WORDS, "--dry-run"])
    assert ended.value.code == 2 and "holds an earlier run" in capsys.readouterr().err
    assert main([*WORDS, "--dry-run", "--resume"]) == 0
    assert "nothing: tiny holds this run, complete" in capsys.readouterr().out


def test_a_dry_run_of_a_monte_carlo(folder, capsys):
    assert main(["mc", "tiny.toml", "--realizations", "5", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "realizations 0 to 4, apart" in said and "tiny_mc/tiny_mc.h5" in said
    assert not (folder / "tiny_mc").exists()


def test_sigterm_ends_a_command_with_one_line(folder):
    program = (
        "import sys, time\nfrom petamap.cli import examples, main\n"
        "def wait(arguments):\n    print('waits', flush=True)\n    time.sleep(30)\n"
        "examples._examples = wait\nsys.exit(main.main(['examples']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "waits\n"
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
        assert time.monotonic() - begin < 10
        assert process.stderr.read() == (
            "petamap: terminated at its start; files already written are whole\n"
        )


def completions(line):
    """Return what argcomplete offers for a command line, as a shell would ask."""
    environment = os.environ | {
        "_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1", "COMP_TYPE": "9", "_ARGCOMPLETE_STDOUT_FILENAME": "found.txt",
    }  # fmt: skip
    program = "import sys; sys.argv = ['petamap']; from petamap.cli.main import main; main()"
    run_command([sys.executable, "-c", program], env=environment)
    with open("found.txt", encoding="utf-8") as file:
        return {word.strip() for word in file.read().split("\n") if word}


def test_the_shell_completes_commands_options_examples_and_settings(folder):
    assert {"compare", "completion"} == completions("petamap comp")
    assert {"--threads", "--time-limit"} == completions("petamap run --t")
    assert "spire" in completions("petamap run --example s")
    assert {"solver.tolerance="} == completions("petamap run tiny.toml solver.tol")
    assert "tiny.toml" in completions("petamap run t")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_words_of_each_shell(capsys, shell):
    assert main(["completion", shell]) == 0
    assert "petamap" in capsys.readouterr().out


def test_an_unknown_shell(capsys):
    assert main(["completion", "powershell"]) == 2
    assert "fish" in capsys.readouterr().err
