"""Runs where there is nothing that Linux alone has, as on macOS, give the same products."""

import os
import tempfile
from pathlib import Path

import pytest
from montecarlo_runs import TINY, arrays, made, same
from mpi import launch

from petamap.data.config import parse_config
from petamap.data.run_summary import Summary
from petamap.mapmaking.run import run


def work(comm, folder=None):
    """Make a map and two realizations."""
    folder = Path(folder or os.environ["MADE_IN"])
    run(parse_config(TINY, Path("made.toml")), out=folder / "run", comm=comm)
    made(folder / "mc", "montecarlo.realizations=2", comm=comm)


def work_elsewhere(comm):
    assert not hasattr(os, "posix_fallocate")
    with pytest.raises(FileNotFoundError, match="but on Linux"):
        Path("/proc/meminfo").read_text()
    work(comm)


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_the_products_are_the_same(monkeypatch, tmp_path, n_ranks):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support/not_linux"))
    monkeypatch.setenv("MADE_IN", str(tmp_path / "there"))
    ended = launch(work_elsewhere, n_ranks)
    assert ended.code == 0, ended.err
    with tempfile.TemporaryDirectory() as here:
        work(None, here)
        found = [Summary.read(Path(folder) / "run") for folder in (here, tmp_path / "there")]
        hashes = [[(one.kind, one.sha256) for one in summary.products] for summary in found]
        assert hashes[0] == hashes[1] and len(hashes[0]) > 3
        values = [arrays(Path(folder) / "mc") for folder in (here, tmp_path / "there")]
    assert values[0].keys() == values[1].keys()
    assert all(same(one, values[1][name]) for name, one in values[0].items())
