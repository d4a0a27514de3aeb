"""Tests of the command line: start-up, help, messages and exit codes."""

import json
import os
import re
import sys

import pytest
from commands import run_command

from petacomm.base.errors import ConfigError, ConvergenceError, DataError, ResourceError
from petamap import examples
from petamap.cli import main as module
from petamap.cli.main import build_parser, main

HEAVY = {"numpy", "scipy", "astropy", "h5py", "lxml", "rich", "ducc0", "mpi4py", "matplotlib"}


def petamap(*words, **environ):
    command = [sys.executable, "-m", "petamap.cli.main", *words]
    return run_command(command, env=os.environ | environ)


def test_help_imports_no_expensive_modules():
    code = (
        "import sys, json\nfrom petamap.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    print('\\n' + json.dumps(list(sys.modules)))"
    )
    done = run_command([sys.executable, "-c", code], check=True)
    assert not HEAVY & set(json.loads(done.stdout.splitlines()[-1]))
    assert "start here:" in done.stdout


def test_every_command_has_help_and_a_handler(capsys):
    (commands,) = build_parser()._subparsers._group_actions
    assert {"report", "examples", "doctor", "init", "check", "convert"} <= set(commands.choices)
    for name, parser in commands.choices.items():
        assert callable(parser.get_default("handler")), name
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        assert f"petamap {name}" in capsys.readouterr().out


def test_no_command_shows_help(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    assert "start here:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exampels"], "unknown command 'exampels': did you mean 'examples'?"),
        (["report"], "OUT"),
        (["examples", "--all"], "unknown argument '--all'"),
        (["doctor", "now"], "unknown argument 'now'"),
        (["--colour"], "'--colour'"),
    ],
)
def test_invalid_arguments(capsys, words, said):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("petamap: error: ")
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("no"), 2), (DataError("no"), 3), (ConvergenceError("no"), 4), (ResourceError("no"), 5)],
)
def test_errors_have_their_exit_codes(capsys, monkeypatch, error, code):
    def fail(arguments):
        raise error

    monkeypatch.setattr(module.examples, "_examples", fail)
    assert main(["examples"]) == code
    assert capsys.readouterr().err == "petamap: error: no\n"


def test_interrupt(capsys, monkeypatch):
    def interrupt(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(module.examples, "_examples", interrupt)
    assert main(["examples"]) == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_only_one_rank_prints():
    assert petamap("exampels", PMI_RANK="0").stderr.startswith("petamap: error")
    silent = petamap("exampels", PMI_RANK="1")
    assert (silent.stderr, silent.returncode) == ("", 2)


def test_closed_pipe():
    command = f"{sys.executable} -m petamap.cli.main examples | true"
    done = run_command(["bash", "-o", "pipefail", "-c", command])
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_version():
    assert re.fullmatch(r"petamap \d+\.\d+\.\d+\n", petamap("--version").stdout)


def test_report_without_a_run(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 3
    assert "summary.json: cannot be read" in capsys.readouterr().err


def test_report_of_a_run(tmp_path, capsys, make_summary):
    make_summary().write(tmp_path)
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'report.html'}\n"
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.fixture
def example_folder(tmp_path, monkeypatch):
    for name in ("near_sky", "far"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.toml").write_text(f'[run]\ntitle = "The {name} one"\n')
    (tmp_path / "no_example").mkdir()
    monkeypatch.setattr(examples, "_FOLDER", tmp_path)
    return tmp_path


def test_examples_by_name(example_folder, capsys):
    assert examples.example_names() == ["far", "near-sky"]
    assert examples.find_example("near-sky") == example_folder / "near_sky" / "run.toml"
    assert examples.example_title("far") == "The far one"
    with pytest.raises(ConfigError, match=r"unknown example 'near-sly'.*did you mean 'near-sky'"):
        examples.find_example("near-sly")
    assert main(["examples"]) == 0
    assert "The near_sky one" in capsys.readouterr().out


def test_examples_of_the_package_have_titles():
    for name in examples.example_names():
        assert examples.example_title(name), name
