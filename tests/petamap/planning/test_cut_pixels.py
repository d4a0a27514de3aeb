"""Pixels and samples that a plan foresees not to be used, against runs and NumPy."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from made_scans import CUTS, ground, satellite

from petacomm.base.progress import SilentProgress
from petacomm.topology import load_machine
from petamap.mapmaking.run import run
from petamap.planning.cut_pixels import WeightSums
from petamap.planning.pixel_coverage import _PixelExpander, compute_pixel_coverage
from petamap.planning.plan import plan
from petamap.planning.plan_table import plan_json, plan_table
from petamap.planning.rank_samples import distribute_samples
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.sky_regions import draw_sky_sample, full_sky_sample
from petamap.sky.stokes import Stokes

MACHINE = load_machine("one-node")
BINNED = '[solver]\nbinned_only = true\n[[source]]\nkind = "noise"\nnet = "60 uK s^0.5"\n'


def summed(config, stokes=Stokes.IQU, sample=None, n_threads=1):
    """Return the sums of a run over a sample of the sky."""
    scanned = ScannedRun.open(config)
    sample = sample or full_sky_sample(scanned.pixelization)
    sums, all_of_one = WeightSums(sample, stokes), [distribute_samples(scanned.layout, None, 1)]
    compute_pixel_coverage(scanned, sample, all_of_one, n_threads, SilentProgress(), sums=sums)
    return sums


def with_stokes(config, stokes):
    return replace(config, map=replace(config.map, stokes=stokes))


@pytest.mark.parametrize("stokes", ["I", "QU", "IQU"])
@pytest.mark.parametrize("scan", [partial(satellite, n_side=128), ground])
@pytest.mark.parametrize("flags", ["", CUTS])
def test_a_small_run_does_not_use_what_is_foreseen(scan, stokes, flags):
    config = with_stokes(scan(more=flags + BINNED), stokes)
    totals = run(config).summary.totals
    unused = plan(config, 1, MACHINE).unused
    assert unused.samples == pytest.approx(totals.samples_flagged / totals.samples, rel=1e-12)
    assert unused.pixels == pytest.approx(totals.pixels_cut / totals.pixels_observed, rel=1e-12)
    assert (unused.pixels > 0) == (stokes != "I")
    assert unused.flagged > 0 or not flags


BANDS = '[[band]]\nname = "a"\ndetectors = ["0000*"]\n[[band]]\nname = "b"\ndetectors = ["0001*"]\n'


@pytest.mark.parametrize("flags", ["", CUTS])
def test_pixels_are_cut_in_each_band(flags):
    config = satellite(n_side=64, more=flags + BANDS + BINNED)
    totals = run(config).summary.totals
    planned = plan(config, 1, MACHINE)
    assert planned.unused.samples == pytest.approx(totals.samples_flagged / totals.samples, rel=1e-12)
    assert planned.unused.pixels == pytest.approx(totals.pixels_cut / totals.pixels_observed, rel=1e-12)
    assert planned.best.forecast.n_global.value == totals.pixels_observed
    assert f"of {totals.pixels:,} pixels of 2 bands seen" in plan_table(planned)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("stokes", [Stokes.I, Stokes.IQU])
def test_kernels_add_what_is_added_one_by_one(alike, stokes):
    config = satellite(n_side=64)
    observation = ScannedRun.open(config).observations[0]
    sample = draw_sky_sample(ScannedRun.open(config).pixelization, 0.1, 3)
    kernel, one_by_one = WeightSums(sample, stokes), WeightSums(sample, stokes)
    rows = np.array([[0, 0, observation.n_samp, 0], [2, 17, 5000, 0]])
    _PixelExpander(observation, sample, sums=kernel, alike=alike).pixels(rows)
    # detectors 0 and 1 are a pair, 2 and 3 another
    pairs = [[one, start, stop] for d, start, stop, _ in rows.tolist() for one in range(d, d + 1 + alike)]
    for detector, start, stop in pairs:
        pixels, angles = np.empty(stop - start, np.int32), np.empty(stop - start, np.uint32)
        observation.pointing.expand(sample.pixelization, detector, start, stop, pixels, angles)
        one_by_one.add(pixels, angles, observation.pointing.efficiency(detector))
    assert kernel.rows[:, 0].max() > 10
    np.testing.assert_array_equal(kernel.rows, one_by_one.rows)
    assert kernel._n_used + kernel._n_unused == sum(stop - start for _, start, stop in pairs)


def test_a_part_of_the_sky_tells_of_all_and_threads_do_not_matter():
    config = satellite(n_side=128, rate=20)
    whole = summed(config).unused(1e-3, 1e-3)
    sample = draw_sky_sample(ScannedRun.open(config).pixelization, 0.2, 3)
    part = summed(config, sample=sample).unused(1e-3, 1e-3)
    assert 0.1 < whole.pixels < 0.9
    assert part.pixels == pytest.approx(whole.pixels, abs=0.05)
    assert part.samples == pytest.approx(whole.samples, abs=0.05)
    assert summed(config, sample=sample, n_threads=3).unused(1e-3, 1e-3) == part


def test_memory_and_table_have_what_is_foreseen():
    config = satellite(n_side=128, rate=40, more=BINNED)
    planned = plan(config, 1, MACHINE)
    easy = plan(replace(config, solver=replace(config.solver, rcond_min=0.0)), 1, MACHINE)
    assert planned.best.memory > easy.best.memory
    assert planned.unused.describe() in plan_table(planned)
    assert "unused" not in plan_table(plan(with_stokes(config, "I"), 1, MACHINE))
    assert plan_json(planned)["unused"]["pixels"] == planned.unused.pixels
