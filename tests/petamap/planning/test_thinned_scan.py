"""Thinned scans: plans near those of all samples, work that is bounded, and what is made of few looks."""

import dataclasses
import math

import numpy as np
import pytest
from made_scans import satellite

from petacomm.base.progress import SilentProgress
from petacomm.costs.occupancy import Occupancy
from petacomm.topology import load_machine
from petamap.data.config import load_config, parse_config
from petamap.examples import find_example
from petamap.mapmaking.distribution import STREAMS, TIME_MAJOR
from petamap.planning import planner as planner_module
from petamap.planning.node_samples import select_ranks
from petamap.planning.plan import plan
from petamap.planning.plan_table import plan_json, plan_table
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.thinned_scan import ThinnedScan, growth, thin_occupancy, unlike_period

MACHINE = dataclasses.replace(load_machine("jaguar"), sockets_per_node=1, cores_per_socket=4)
RASTER = """
[map]
n_side = 128
frame = "equatorial"
[noise]
n_lag = 64
[[source]]
kind = "raster"
n_det = 200
spacing = "12 arcmin"
sample_rate = "20 Hz"
net = "100 uK s^0.5"
duration = "6 h"
n_observations = 6
latitude = "-40 deg"
width = "12 deg"
height = "12 deg"
row_spacing = "10 arcmin"
speed = "2 deg/s"
turnarounds = "keep"
"""


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(satellite(n_side=64, rate=40, hours=12), id="satellite"),
        pytest.param(parse_config(RASTER), id="raster", marks=pytest.mark.long),
    ],
)
def test_a_thinned_plan_is_near_that_of_all_samples(config, monkeypatch):
    whole = plan(config, 24, MACHINE, distributions=[STREAMS, TIME_MAJOR], threads=[1, 4], n_threads=1)
    assert whole.thinning is None and whole.fraction == 1
    monkeypatch.setattr(planner_module, "MAX_SAMPLES", 0)
    monkeypatch.setattr(ThinnedScan.__init__, "__defaults__", (whole.n_samp / 40,))
    thinned = plan(config, 24, MACHINE, threads=[1, 4], n_threads=1)
    assert thinned.thinning is not None and thinned.n_samp == whole.n_samp
    for one, other in zip(thinned.predictions, whole.predictions, strict=True):
        assert (one.distribution, one.threads) == (other.distribution, other.threads)
        assert one.forecast.n_keys == pytest.approx(other.forecast.n_keys, rel=0.25)
        assert one.forecast.n_global.value == pytest.approx(other.forecast.n_global.value, rel=0.1)
        assert one.forecast.multiplicity.value == pytest.approx(other.forecast.multiplicity.value, rel=0.25)
        assert one.memory == pytest.approx(other.memory, rel=0.1)
        assert one.seconds["owner"] == pytest.approx(other.seconds["owner"], rel=0.5)


def test_what_was_looked_at_is_told(monkeypatch):
    config = satellite(n_side=32, rate=40, hours=6)
    monkeypatch.setattr(planner_module, "MAX_SAMPLES", 0)
    monkeypatch.setattr(ThinnedScan.__init__, "__defaults__", (1e5,))
    thinned = plan(config, 8, MACHINE, threads=[1], n_threads=1)
    told = thinned.thinning
    assert f"looked at: 2 of 2 lines of sight, one sample of {told.samples:.0f}, " in plan_table(thinned)
    assert "sent by a rank about" in plan_table(thinned) and "estimates, no bounds" in plan_table(thinned)
    assert all("sent_about" in one and "sent_at_most" not in one for one in plan_json(thinned)["predictions"])
    assert plan_json(thinned)["thinning"]["n_side"] == told.n_side <= 32
    assert told.samples == pytest.approx(2 * 6 * 3600 * 40 / 1e5, rel=0.3)


def test_a_part_of_the_sky_that_is_asked_for_is_scanned(monkeypatch):
    monkeypatch.setattr(planner_module, "MAX_SAMPLES", 0)
    assert plan(satellite(), 8, MACHINE, sample=1, threads=[1], n_threads=1).thinning is None


def test_a_run_with_cuts_of_its_own_detectors_is_not_thinned():
    source = RASTER.replace("n_det = 200", 'n_det = 200\ndetectors = ["000*"]')
    config = parse_config(source)
    assert not ThinnedScan.possible(config, ScannedRun.open(config))
    config = parse_config(RASTER)
    assert ThinnedScan.possible(config, ScannedRun.open(config))


@pytest.mark.parametrize("name", ["quiet", "epic"])
def test_the_largest_runs_are_planned_with_bounded_work(name):
    config = load_config(find_example(name, ("plan.toml",)))
    run = ScannedRun.open(config)
    assert run.layout.n_samp > 1e14 and run.layout.n_blocks > 1e9
    scan = ThinnedScan(config, run, 512, [TIME_MAJOR], n_samples=1e6)
    # of a satellite eight lines of sight, five times a turn; of a raster, as many samples as are asked for
    looked_at = sum(one.n_samp * one.n_det for one in scan._observations)
    assert looked_at < (1.5e6 if name == "quiet" else 8.1 * 4.7 / 60 * 1461 * 86400)
    (samples,) = scan.samples
    n_streams = len(scan._layout.streams)
    assert n_streams < 40 * run.layout.streams.n_rows and len(samples.ranks) <= n_streams + 40 * 512
    (held,) = (scan.held(samples, 512),)
    assert sum(one.n for one in held) == pytest.approx(run.layout.n_samp, rel=0.02)


def test_each_rank_of_a_thinned_scan_holds_what_it_would():
    config = parse_config(RASTER)
    run = ScannedRun.open(config)
    scan = ThinnedScan(config, run, 24, [TIME_MAJOR], n_samples=run.layout.n_samp / 20)
    from petamap.planning.rank_samples import distribute_samples

    exact = distribute_samples(run.layout, 1, 24).held(run.layout, 1)
    (samples,) = scan.samples
    for one, other in zip(scan.held(samples, 1), exact, strict=True):
        assert one.n == pytest.approx(other.n, rel=0.1)
        assert len(one.streams) * one.weight == pytest.approx(len(other.streams), rel=0.1)
    margins = [sum(one.in_margins for one in held) for held in (scan.held(samples, 1), exact)]
    assert margins[0] == pytest.approx(margins[1], rel=0.05)


def test_growth_is_that_of_looks_at_random():
    rng = np.random.default_rng(3)
    n_pix, n = 20_000, 30_000
    looks = rng.integers(0, n_pix, 4 * n)
    half, seen, more = (len(np.unique(looks[:k])) for k in (n // 2, n, 4 * n))
    assert seen * growth(half, seen, 4) == pytest.approx(more, rel=0.01)
    assert growth(100, 100, 7) == 1  # all were seen
    assert growth(100, 200, 7) == 7  # none was seen twice
    assert growth(80, 100, 1) == 1


def test_holders_are_left_with_a_probability_each():
    keys = [np.arange(20_000) for _ in range(5)]
    thin = thin_occupancy(Occupancy.from_rank_keys(keys), 0.3, seed=1)
    assert len(thin.keys) / 20_000 == pytest.approx(1 - 0.7**5, abs=0.01)
    assert len(thin.holders) / 100_000 == pytest.approx(0.3, abs=0.01)
    assert np.bincount(thin.holders) / 20_000 == pytest.approx(np.full(5, 0.3), abs=0.02)
    whole = Occupancy.from_rank_keys(keys)
    assert thin_occupancy(whole, 1.0, seed=1) is whole


def test_some_ranks_keep_their_keys():
    keys = [np.arange(10 * rank, 10 * rank + 15) for rank in range(6)]
    some = select_ranks(Occupancy.from_rank_keys(keys), np.array([1, 4]))
    expected = Occupancy.from_rank_keys([keys[1], keys[4]])
    for name in ("keys", "offsets", "holders", "size"):
        assert np.array_equal(getattr(some, name), getattr(expected, name))


@pytest.mark.parametrize("rate", [0.1, 0.1001, 2.0, 0.002])
def test_samples_have_all_phases_of_a_period(rate):
    period = 60.0
    found = unlike_period(rate, period)
    assert found == pytest.approx(rate, rel=0.7)
    phases = np.sort(np.mod(np.arange(400) / found / period, 1.0))
    assert np.diff(phases, append=phases[0] + 1).max() < 4 * math.sqrt(5) / 400


def test_progress_is_told(monkeypatch):
    told = []

    class Progress(SilentProgress):
        def begin(self, what, total, unit):
            told.append(what)

    monkeypatch.setattr(planner_module, "MAX_SAMPLES", 0)
    monkeypatch.setattr(ThinnedScan.__init__, "__defaults__", (1e5,))
    plan(satellite(n_side=16, rate=20), 4, MACHINE, threads=[1], n_threads=1, progress=Progress())
    assert told == ["pixels of some ranks", "pixel coverage", "ranks that see pixels", "messages and memory"]
