"""A run that replaces another one: the folder is that of the one or of the other, wherever it is cut."""

import errno
import shutil

import pytest
from montecarlo_runs import TINY

from petacomm.base import files
from petacomm.base.errors import ResourceError
from petamap.cli.main import main
from petamap.data.product_file import read_product
from petamap.data.run_summary import Summary
from petamap.mapmaking import product_set
from petamap.mapmaking import run as run_module

OLD = ("products.binned=true",)
NEW = ("solver.tolerance=1e-3", "products.binned=false")


def run(folder, *words):
    """Run the command, and return its exit code."""
    try:
        return main(["run", str(folder / "tiny.toml"), "--out", str(folder / "out"), "--quiet", *words])
    except SystemExit as ended:
        return ended.code


def content(folder):
    out = folder / "out"
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a folder with a run, its files, and those of the run that replaces it."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "tiny.toml").write_text(TINY)
    assert run(folder, *NEW) == 0
    new = content(folder)
    shutil.rmtree(folder / "out")
    assert run(folder, *OLD) == 0
    return folder, content(folder), new


@pytest.fixture
def old(runs, tmp_path):
    shutil.copytree(runs[0], tmp_path / "runs")
    return tmp_path / "runs"


def is_new(folder, new):
    """Return whether a folder holds the new run: its products, and a summary of them."""
    found = content(folder)
    summary = Summary.read(folder / "out")
    products = {one.file for one in summary.products}
    assert set(found) - products <= {"summary.json", "report.html"}
    return all(found[name] == new[name] for name in products)


def test_the_new_run_alone_is_there_at_the_end(runs, old):
    _, before, new = runs
    assert set(before) != set(new)  # the old run has files that the new one has not
    assert run(old, *NEW, "--force") == 0
    assert is_new(old, new) and set(content(old)) == set(new)


def test_a_full_disk_at_each_write(runs, old, monkeypatch, capsys):
    """All files are synced before they get their names: each time another one cannot be."""
    _, before, new = runs
    sync, calls = files._sync, 0

    def fail_at(n):
        def synced(path):
            nonlocal calls
            calls += 1
            if calls == n:
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            sync(path)

        return synced

    outcomes = []
    for n in range(1, 200):
        calls = 0
        monkeypatch.setattr(files, "_sync", fail_at(n))
        code = run(old, *NEW, "--force")
        monkeypatch.setattr(files, "_sync", sync)
        if code == 0:
            break
        said = capsys.readouterr().err
        assert code == ResourceError.exit_code and said.count("petamap: error") == 1, said
        found = content(old)
        if found == before:
            outcomes.append("old")
            continue
        if {name: found.get(name) for name in before} == before:  # all made, and nothing moved
            outcomes.append("made")
            assert run(old, *NEW, "--resume") == 0
        elif "--resume puts the rest in place" in said:  # the disk failed while files were moved
            outcomes.append("moving")
            assert run(old, *NEW, "--resume") == 0
        else:
            outcomes.append("new")
            assert "report.html" in found or "all else is written: petamap report" in said
        assert is_new(old, new)
        shutil.rmtree(old / "out")
        shutil.copytree(runs[0] / "out", old / "out")
    assert code == 0 and n > 15
    assert outcomes.count("old") > 10 and set(outcomes) == {"old", "made", "moving", "new"}


@pytest.mark.parametrize("force", [True, False])
def test_a_run_that_is_refused_touches_nothing_of_the_one_that_writes(runs, old, monkeypatch, capsys, force):
    seen, solve = [], run_module._Job._solve

    def beside_another(*given):
        begun = content(old)
        seen.append((run(old, *NEW, *["--force"] * force), content(old) == begun))
        return solve(*given)

    monkeypatch.setattr(run_module._Job, "_solve", beside_another)
    assert run(old, *NEW, "--force") == 0
    assert seen == [(2, True)] and is_new(old, runs[2])
    if force:
        assert "another process writes to this folder now" in capsys.readouterr().err


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_killed_while_files_are_moved(runs, old, monkeypatch, n):
    _, _, new = runs
    calls = []

    def cut(path):
        calls.append(path)
        if len(calls) == n:
            raise KeyboardInterrupt

    monkeypatch.setattr(product_set, "sync_folder", cut)
    assert run(old, *NEW, "--force") == 130
    monkeypatch.undo()
    assert (old / "out" / "summary.json").exists() == (n == 4)
    assert (old / "out" / "report.html").exists() == (n == 1)
    assert run(old, *NEW, "--resume") == 0
    assert is_new(old, new) and set(content(old)) == set(new)


def test_a_stopped_run_leaves_the_old_one(runs, old, monkeypatch):
    """What is read of the folder of a run that goes on is what stood there."""
    _, before, _ = runs

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("petamap.mapmaking.run.put_in_place", interrupted)
    assert run(old, *NEW, "--force") == 130
    found = content(old)
    assert {name: found[name] for name in before} == before
    summary = Summary.read(old / "out")
    for product in summary.products:
        if product.kind in ("map", "hits"):
            read_product(old / "out", summary, product)


def test_a_coadded_map_replaces_another_one(runs, old, monkeypatch):
    assert run(old, "run.seed=2", "source.0.duration=2 h", "--force") == 0
    shutil.copytree(runs[0] / "out", old / "other")

    def coadd(*words):
        return main(["coadd", str(old / "out"), str(old / "other"), "--out", str(old / "sum"), *words])

    assert coadd() == 0
    before = {path.name: path.read_bytes() for path in (old / "sum").iterdir()}
    sync, calls = files._sync, []

    def fail_late(path):
        calls.append(path)
        if len(calls) == 5:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        sync(path)

    monkeypatch.setattr(files, "_sync", fail_late)
    assert coadd("--force", "--name", "new") == ResourceError.exit_code
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in (old / "sum").iterdir()} == before
    assert coadd("--force", "--name", "new") == 0
    names = {path.name for path in (old / "sum").iterdir()}
    assert names == {name.replace("coadd_", "new_") for name in before}
