"""Tests of ``petamap mc``."""

import resource

from montecarlo_runs import TINY

from petamap.cli.main import main
from petamap.data.run_summary import Summary


def ended(words):
    """Return the exit code of a command."""
    try:
        return main(words)
    except SystemExit as end:
        return end.code


def test_more_realizations(tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(TINY)
    words = ["mc", str(tmp_path / "tiny.toml"), "--out", str(tmp_path / "out"), "--threads", "1"]
    words += ["source.0.duration=3 h", "--parts", "together", "--groups", "auto"]
    assert ended([*words, "--first", "3", "--realizations", "2", "--batch", "1"]) == 0
    said = capsys.readouterr().err
    assert "realizations: begins, 2 realizations" in said and "2 of 2 done, 0 failed" in said
    assert ended([*words, "--first", "2", "--realizations", "4"]) == 0
    summary = Summary.read(tmp_path / "out")
    assert (summary.montecarlo.made, summary.montecarlo.done, summary.montecarlo.first) == (2, 4, 2)
    assert "petamap mc" not in summary.configuration and summary.montecarlo.solved == ("both",)
    capsys.readouterr()
    assert ended([*words, "--realizations", "2"]) == 2
    error = capsys.readouterr().err
    assert "holds realizations 2 to 5 (ask for these and more" in error and error.count("\n") == 1
    assert ended([*words, "run.seed=5"]) == 2
    assert "is of another configuration (--force starts anew" in capsys.readouterr().err
    assert ended([*words, "--realizations", "2", "--force"]) == 0


def test_errors_are_one_line(tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(TINY)
    for words, said in (
        (["--parts", "all"], "one of apart, together, sky, noise"),
        (["--realizations", "0"], "1 to 10000000"),
        (["--groups", "many"], "montecarlo.groups"),
        (["spectra.mask=none.fits"], "none.fits"),
    ):
        assert ended(["mc", str(tmp_path / "tiny.toml"), "--out", str(tmp_path / "out"), *words]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1, error
    assert not (tmp_path / "out").exists()


def test_folders_of_other_runs_are_kept(tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(TINY)
    out = tmp_path / "out"
    words = [str(tmp_path / "tiny.toml"), "--out", str(out), "--threads", "1", "source.0.duration=3 h"]
    assert ended(["run", *words]) == 0
    before = (out / "summary.json").read_bytes()
    capsys.readouterr()
    assert ended(["mc", *words, "--realizations", "1"]) == 2
    assert "holds another run (choose another --out; or --force replaces it)" in capsys.readouterr().err
    assert (out / "summary.json").read_bytes() == before and not (out / "tiny_mc.h5").exists()
    assert ended(["mc", *words, "--realizations", "1", "--force"]) == 0
    assert ended(["mc", *words, "--realizations", "2"]) == 0
    assert ended(["run", *words, "--force"]) == 0
    assert ended(["mc", *words, "--realizations", "2"]) == 2


def test_full_disk(tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(TINY)
    words = ["mc", str(tmp_path / "tiny.toml"), "--out", str(tmp_path / "out"), "--threads", "1"]
    words += ["source.0.duration=3 h", "--realizations", "3"]
    assert ended(words) == 0
    before = (tmp_path / "out" / "tiny_mc.h5").read_bytes()
    capsys.readouterr()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), limits[1]))
    try:
        assert ended([*words[:-1], "30"]) == 5
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    errors = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(errors) == 1 and "cannot be written" in errors[0] and "free space" in errors[0]
    assert (tmp_path / "out" / "tiny_mc.h5").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "report.html", "summary.json", "tiny_mc.h5",
    ]  # fmt: skip
