"""The examples to plan with: samples of Table 1 of Sudarsan et al. 2011, and what the docs say of them."""

import importlib.util
import sys
from pathlib import Path

import pytest

from petamap.data.config import load_config
from petamap.examples import example_names, find_example

ROOT = Path(__file__).parents[3]


def _made():
    spec = importlib.util.spec_from_file_location("make_experiments", ROOT / "docs" / "make_experiments.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


made = _made()
PAGE = made.PAGE.read_text(encoding="utf-8")
EXPERIMENTS = [pytest.param(one, id=one.name) for one in made.EXPERIMENTS]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_samples_are_those_of_the_table(experiment):
    config = load_config(find_example(experiment.name, ("plan.toml",)))
    scans = [one.options for one in config.sources]
    n_samp = sum(one.n_det * one.duration * one.sample_rate for one in scans)
    if experiment.published:  # to the one digit that it has
        assert float(f"{n_samp:.0e}") == experiment.published
    n_det = {one.n_det for one in scans} if experiment.name == "quiet" else {sum(one.n_det for one in scans)}
    assert n_det == {experiment.n_det}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_each_number_has_a_source(experiment):
    text = find_example(experiment.name, ("plan.toml",)).read_text(encoding="utf-8")
    assert " ".join(experiment.command) in text
    first = text[text.index("[[source]]") :].split("[[source]]")[1]
    unsaid = ("kind", "name", "latitude", "longitude", "height", "azimuth_max", "precession", "spin")
    told = "published" if experiment.name == "wmap" else "#"  # whose sources stand above
    for line in first.strip().splitlines():
        if "=" in line and told == "#" and experiment.name not in ("planck", "litebird"):
            assert "#" in line or line.startswith(unsaid), line


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_page_has_each_experiment(experiment):
    (row,) = [line for line in PAGE.splitlines() if f", `{experiment.name}` |" in line]
    assert row.count("|") == made._HEAD.splitlines()[0].count("|")


def test_every_example_to_plan_with_is_on_the_page():
    planned = set(example_names(("plan.toml",))) - {"planck-year"}
    assert planned == {one.name for one in made.EXPERIMENTS}


@pytest.mark.long
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_page_shows_what_is_printed(experiment):
    assert made.row(experiment) in PAGE
