"""Tests of runs that bin alone: the products of whole runs to the bit, without applying N^-1."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from small_runs import noisy_scans, run_on, sha_of

import petamap.mapmaking._mapmaking as kernels
from petamap.data.config import parse_config
from petamap.data.config.model import SplitOptions
from petamap.mapmaking.run import run
from petamap.templates.kinds import Baselines

KINDS = "hits", "covariance", "rcond", "binned"
CASES = {
    "bands": {},
    "free ends": {"noise": {"n_lag": 200, "ends": "free"}},
    "white": {"noise": {"kernel": "white"}},
    "uniform weights": {"products": {"binned_weights": "uniform"}},
}


SATELLITE = """
[run]
name = "sky"
[map]
n_side = 8
[solver]
max_iterations = 2
[products]
sky = true
report = false
[[source]]
kind = "satellite"
n_det = 4
sample_rate = "5 Hz"
duration = "1 h"
precession_period = "1 h"
[[source]]
kind = "dipole"
[[source]]
kind = "noise"
net = "100 uK s^0.5"
"""


def few_changes(of, n):
    """Return observations whose intervals are divided into n."""
    bounds = [[k * one.n_samp // n for k in range(n + 1)] for one in of]
    return [replace(one, intervals=tuple(pairwise(b))) for one, b in zip(of, bounds, strict=True)]


@pytest.mark.parametrize("case", CASES)
def test_products_are_those_of_a_whole_run(case, tmp_path):
    given, changes = few_changes(noisy_scans(), 5), CASES[case]
    whole = run_on(given, tmp_path / "whole", **changes)
    binned = run_on(given, tmp_path / "binned", **changes, solver={"binned_only": True})
    for kind in KINDS:
        assert sha_of(binned, kind) == sha_of(whole, kind)
    assert binned.totals == whole.totals


def test_templates_and_splits(tmp_path):
    given = [replace(one, templates=(Baselines(50.0),)) for one in noisy_scans()]
    splits = (SplitOptions(name="halves", by="detectors"),)
    found = [
        run_on(given, tmp_path / str(alone), splits=splits, solver={"binned_only": alone})
        for alone in (False, True)
    ]
    whole, binned = ({p.file: p.sha256 for p in one.products if "binned" in p.kind} for one in found)
    assert len(binned) > 1 and binned == whole


@pytest.mark.parametrize("kernel", ["white", "model"])
def test_the_sky_that_sources_simulate(kernel, tmp_path):
    """The data are read once more, whether the first pass has found pixels alone or binned as well."""
    found = {}
    for alone in (True, False):
        chosen = [f"noise.kernel={kernel}", f"solver.binned_only={str(alone).lower()}"]
        summary = run(parse_config(SATELLITE, overrides=chosen), out=tmp_path / str(alone))
        found[alone] = {one.kind: one.sha256 for one in summary.products}
    assert found[True]["sky"] == found[False]["sky"] != found[True]["binned"]


def test_nothing_is_filtered(tmp_path, monkeypatch):
    def filtered(*arguments):
        raise AssertionError("N^-1 is applied")

    monkeypatch.setattr(kernels, "filter_block", filtered)
    run_on(noisy_scans(600), tmp_path / "a", solver={"binned_only": True})
    with pytest.raises(AssertionError, match="N\\^-1"):
        run_on(noisy_scans(600), tmp_path / "b")
