"""Tests of runs that bin alone: the products of whole runs to the bit, without applying N^-1."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from small_runs import noisy_scans, run_on, sha_of

import petamap.mapmaking._mapmaking as kernels
from petamap.data.config.model import SplitOptions
from petamap.templates.kinds import Baselines

KINDS = "hits", "covariance", "rcond", "binned"
CASES = {
    "bands": {},
    "free ends": {"noise": {"n_lag": 200, "ends": "free"}},
    "white": {"noise": {"kernel": "white"}},
    "uniform weights": {"products": {"binned_weights": "uniform"}},
}


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


def test_nothing_is_filtered(tmp_path, monkeypatch):
    def filtered(*arguments):
        raise AssertionError("N^-1 is applied")

    monkeypatch.setattr(kernels, "filter_block", filtered)
    run_on(noisy_scans(600), tmp_path / "a", solver={"binned_only": True})
    with pytest.raises(AssertionError, match="N\\^-1"):
        run_on(noisy_scans(600), tmp_path / "b")
