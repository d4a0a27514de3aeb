"""The space that products need is known before they are made."""

import shutil
from collections import namedtuple

import pytest
from montecarlo_runs import TINY

from petacomm.base.errors import ResourceError
from petamap.data.config import parse_config
from petamap.mapmaking import run as runs
from petamap.mapmaking.run import run

SPLIT = '\n[[split]]\nname = "half"\nby = "time"\n'


@pytest.mark.parametrize("more", ["", "split", "covariance"])
def test_bytes_are_those_of_the_files(more, tmp_path, monkeypatch):
    asked, require = [], runs.require_space
    monkeypatch.setattr(runs, "require_space", lambda *what: (asked.append(what[-1]), require(*what)))
    settings = ["products.residual=true", "map.n_side=32"]
    if more == "covariance":
        settings = ["products.pixel_covariance=true", "map.n_side=4", "solver.rcond_min=1e-3"]
    text = TINY + (SPLIT if more == "split" else "")
    run(parse_config(text, overrides=settings), out=tmp_path)
    found = sum(path.stat().st_size for path in tmp_path.glob("*.fits"))
    assert found * 0.9 < asked[0] < found * 1.1


def test_want_of_space_is_told_before_the_solver(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**6, 10**6, 1000))
    config = parse_config(TINY)
    with pytest.raises(ResourceError, match=r"the maps take .* GB, and 1e-06 GB are free \(free"):
        run(config, out=tmp_path)
    assert not list(tmp_path.rglob("*.fits"))
    assert run(config).summary.solver is not None  # nothing is written
