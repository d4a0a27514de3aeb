"""Pixels that are cut: solved for with the others where they can be, else their samples are unknowns."""

import dataclasses

import numpy as np
import pytest
from small_systems import dense, full_map, make_system, n_gap_samples, numbered, recorded, solve

from petacomm.base.progress import SilentProgress
from petamap.cli.closing_table import closing_table
from petamap.data.config import parse_config
from petamap.mapmaking.pixel_statistics import SINGULAR
from petamap.mapmaking.run import run

ALIVE = [0, 1, 2, 4, 5]


def seen_within(angle):
    """Return an observation of six pixels, whose samples in pixel 3 have angles within so many radians."""
    rng = np.random.default_rng(8)
    made = recorded(rng, 2, 300, 6, 5, flagged=0.1)
    pixels, angles = np.empty((2, 300), np.int32), np.empty((2, 300), np.uint32)
    for detector in range(2):
        made.pointing.expand(numbered(6), detector, 0, 300, pixels[detector], angles[detector])
    few = rng.uniform(0, angle / (2 * np.pi) * 2**32, (2, 300)).astype(np.uint32)
    angles[pixels == 3] = few[pixels == 3]
    pointing = type(made.pointing)(pixels, numbered(6), angles=angles, efficiencies=[0.9, 0.9])
    return dataclasses.replace(made, pointing=pointing)


@pytest.mark.parametrize("preconditioner", ["block-diagonal", "two-level"])
def test_a_pixel_that_is_cut_is_solved_for_with_the_others(preconditioner):
    made = seen_within(0.5)
    system = make_system([made], numbered(6), n_lag=5, preconditioner=preconditioner)
    without = make_system([made], numbered(6), n_lag=5, rcond_solved=1e-3)
    assert 1e-6 < system.statistics.rcond[3] < 1e-3
    assert system.keys[system.statistics.dead].tolist() == [3] and not system.statistics.unsolved.any()
    assert n_gap_samples(without) == n_gap_samples(system) + system.statistics.hits[3]
    solution = solve(system, tolerance=1e-11)
    expected = dense([made], numbered(6), "IQU", 5).map().reshape(6, 3)
    np.testing.assert_allclose(
        full_map(system, solution.map.pixels)[ALIVE], expected[ALIVE], rtol=0, atol=1e-7
    )
    as_flags = dense([made], numbered(6), "IQU", 5, dead=(3,)).map().reshape(6, 3)
    found = full_map(without, solve(without).map.pixels)
    np.testing.assert_allclose(found[ALIVE], as_flags[ALIVE], rtol=0, atol=1e-9)


def test_samples_of_a_pixel_that_cannot_be_solved_for_are_unknowns():
    made = seen_within(0.05)
    system = make_system([made], numbered(6), n_lag=5)
    assert system.statistics.rcond[3] < 1e-6
    assert system.keys[system.statistics.unsolved].tolist() == [3]
    as_flags = dense([made], numbered(6), "IQU", 5, dead=(3,)).map().reshape(6, 3)
    np.testing.assert_allclose(
        full_map(system, solve(system).map.pixels)[ALIVE], as_flags[ALIVE], rtol=0, atol=1e-9
    )


def test_no_condition_is_asked_for_below_which_a_matrix_is_singular():
    made = seen_within(0.0)
    system = make_system([made], numbered(6), n_lag=5, rcond_min=0.0, rcond_solved=0.0)
    assert system.statistics.rcond[3] < SINGULAR
    assert system.keys[system.statistics.unsolved].tolist() == [3]
    assert solve(system).converged


SCAN = """
[map]
n_side = 64
[noise]
n_lag = 64
[solver]
tolerance = 1e-8
{more}
[[source]]
kind = "satellite"
n_det = 4
sample_rate = "10 Hz"
duration = "3 h"
interval = "1 h"
net = "60 uK s^0.5"
fknee = "50 mHz"
[[source]]
kind = "noise"
"""


def test_a_run_tells_what_is_cut_and_what_is_not_solved_for():
    found = run(parse_config(SCAN.format(more="")), progress=SilentProgress())
    as_flags = run(parse_config(SCAN.format(more="rcond_solved = 1e-3")), progress=SilentProgress())
    few, many = found.summary.totals, as_flags.summary.totals
    assert few.pixels_cut == many.pixels_cut > 100
    assert few.samples_flagged < many.samples_flagged / 10
    (warning,) = (text for text in found.summary.warnings if "are cut" in text)
    assert "below 0.001; the samples of" in warning and "are treated as flagged" in warning
    assert any("below 0.001; their samples are treated" in text for text in as_flags.summary.warnings)
    maps = [one.sky.values for one in (found, as_flags)]
    written = [np.isfinite(values) for values in maps]
    np.testing.assert_array_equal(*written)
    difference = (maps[0] - maps[1])[written[0]]
    assert 0 < difference.std() < 0.1 * maps[0][written[0]].std()


@pytest.mark.parametrize("more", ["rcond_min = 1.0", "binned_only = true\nrcond_min = 0.05", ""])
def test_samples_used_are_those_of_pixels_that_are_written(more):
    found = run(parse_config(SCAN.format(more=more)), progress=SilentProgress())
    totals, mapped = found.summary.totals, np.isfinite(found["binned"].values).all(axis=0)
    hits = found["hits"].values[0]
    assert totals.samples_used == hits[mapped].sum()
    assert totals.samples_used + totals.samples_unwritten + totals.samples_flagged == totals.samples
    told = closing_table(found.summary, None)
    assert f"{totals.samples_used:,} used of" in told
    assert ("solved for in pixels that are cut" in told) == (totals.samples_unwritten > 0)
    assert (totals.samples_unwritten > 0) != ("binned_only" in more)
    assert repr(found).startswith(f"Maps of {totals.samples_used:,} samples in {mapped.sum():,} pixels")
