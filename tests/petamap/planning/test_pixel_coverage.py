"""Pixel coverage of sample ranges against NumPy; distributions and pixels against the map-maker."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_scans import CUTS, ground, satellite

from petacomm.base.progress import SilentProgress
from petacomm.costs.occupancy import Occupancy
from petamap.mapmaking.distribution import distribute
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.split_parts import split_parts
from petamap.planning.node_samples import rank_pixels
from petamap.planning.pixel_coverage import (
    LookedAtRanges,
    PixelCoverage,
    _PixelExpander,
    compute_pixel_coverage,
)
from petamap.planning.rank_samples import SampleDistribution, distribute_samples
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.sky_regions import draw_sky_sample, full_sky_sample
from petamap.sky.healpix import Healpix
from petamap.sky.stokes import Stokes


def seen_by_numpy(pointing, sample, detector, start, stop):
    pixels = np.empty(stop - start, np.int32)
    pointing.expand(sample.pixelization, detector, start, stop, pixels, None)
    pixels = np.unique(pixels)
    number = {region: i for i, region in enumerate(sample.regions.tolist())}
    kept = [p for p in pixels.tolist() if p >> sample.shift in number]
    return [(number[p >> sample.shift] << sample.shift) + p % (1 << sample.shift) for p in kept]


@pytest.mark.parametrize("fraction", [0.004, 0.03, 1.0])
def test_no_pixel_of_the_sample_is_missed(fraction):
    observation = ScannedRun.open(satellite(rate=200, hours=1)).observations[0]
    grid = Healpix(512, nest=True)
    sample = draw_sky_sample(grid, fraction, 3)
    expander = _PixelExpander(observation, sample)
    assert (expander._stride > 4) == (fraction < 1)
    n = observation.n_samp
    rows = np.array([[0, 0, n, 0], [3, 1, 2, 0], [1, 7, 7, 0], [2, 12_345, n - 1, 0]])
    pixels, counts = expander.pixels(rows)
    expected = [seen_by_numpy(observation.pointing, sample, *row[:3]) for row in rows.tolist()]
    assert counts.tolist() == [len(part) for part in expected]
    assert pixels.tolist() == [pixel for part in expected for pixel in part]
    assert sample.keys(pixels.astype(np.int64)).max() < grid.n_pix and counts[0] > 100
    # of several maps, each of which has pixels of its own
    maps = np.array([2, 0, 1, 0])
    of_maps, same = expander.pixels(np.column_stack([rows[:, :3], maps]))
    assert same.tolist() == counts.tolist()
    own = sample.keys(of_maps.astype(np.int64)) - sample.keys(pixels.astype(np.int64))
    assert own.tolist() == np.repeat(maps * grid.n_pix, counts).tolist()


@pytest.mark.parametrize(
    ("ends", "more", "n_side"), [("zero", "", 32), ("free", CUTS, 32), ("zero", "", 512)]
)
def test_ranks_hold_the_samples_of_the_map_maker(ends, more, n_side):
    config = satellite(n_side, ends=ends, more=more)
    run = ScannedRun.open(config)
    observations, layout, grid = run.observations, run.layout, run.pixelization
    all_groups, size = (None, 1, 2, 4), 7
    distributions = [distribute_samples(layout, groups, size) for groups in all_groups]
    coverage = compute_pixel_coverage(run, full_sky_sample(grid), distributions, 2, SilentProgress())
    # of few pixels, those that are seen have numbers of their own
    assert (len(coverage._seen[0]) < coverage.pixels.max()) == (n_side > 32)
    for groups, distribution in zip(all_groups, distributions, strict=True):
        occupancy = coverage.occupancy(distribution)
        order = layout.order(groups)
        assert sorted(order) == list(range(layout.n_blocks))
        bounds = distribute(layout.costs(order), size)
        for rank in range(size):
            share = layout.local_blocks(np.sort(order[bounds[rank] : bounds[rank + 1]]))
            held = sum(segment.stop - segment.start for segment in share.segments)
            assert distribution.n_held[rank] == held
            keys = Projection(observations, layout, share, grid, Stokes.I).keys()
            mine = np.repeat(occupancy.keys, occupancy.multiplicity)[occupancy.holders == rank]
            np.testing.assert_array_equal(mine, keys)


BANDS = '[[band]]\nname = "a"\ndetectors = ["0000*"]\n[[band]]\nname = "b"\ndetectors = ["0001*"]\n'
IN_TIME = '[[split]]\nname = "halves"\nby = "time"\nn_parts = 3\n'
OF_ONE = '[[split]]\nname = "few"\nby = "detectors"\ngroups = ["0000A", "0001B"]\n'


@pytest.mark.parametrize("flags", ["", CUTS])
@pytest.mark.parametrize("more", [BANDS, IN_TIME, OF_ONE], ids=["bands", "time", "detectors"])
def test_ranks_hold_the_pixels_of_parts_that_the_map_maker_has(more, flags):
    config = satellite(ends="free", more=more + flags)
    run = ScannedRun.open(config)
    if config.splits:
        run = replace(run, parts=split_parts(config.splits[0], run.observations))
    distribution = distribute_samples(run.layout, 1, 5)
    coverage = compute_pixel_coverage(
        run, full_sky_sample(run.pixelization), [distribution], 2, SilentProgress()
    )
    occupancy = coverage.occupancy(distribution)
    assert occupancy.keys.max() >= run.pixelization.n_pix
    for rank, blocks in enumerate(run.layout.blocks_of_ranks(1, 5)):
        share = run.layout.local_blocks(blocks)
        parts = Projection(run.observations, run.layout, share, run.pixelization, Stokes.I, parts=run.parts)
        mine = np.repeat(occupancy.keys, occupancy.multiplicity)[occupancy.holders == rank]
        np.testing.assert_array_equal(mine, parts.keys())
        np.testing.assert_array_equal(rank_pixels(run, distribution, rank), parts.keys())


def test_distributions_have_the_order_of_their_name():
    layout = ScannedRun.open(satellite()).layout
    detectors = np.array([stream.detector for stream in layout.streams])
    streams, _ = layout.locate(layout.order(4))
    assert (np.diff(detectors[streams]) >= 0).all()
    streams, within = layout.locate(layout.order(1))
    assert (np.diff(detectors[streams].reshape(-1, 4)) == 1).all()
    assert (np.diff(within.reshape(-1, 4)) == 0).all()


def test_samples_are_drawn_evenly_and_the_same_again():
    grid = Healpix(256, nest=True)
    sample = draw_sky_sample(grid, 0.01, 5)
    assert sample.fraction == pytest.approx(0.01, rel=0.01)
    strata = np.searchsorted(sample.stratum_edges, sample.regions, side="right") - 1
    np.testing.assert_array_equal(strata, np.arange(len(sample.regions)))
    np.testing.assert_array_equal(draw_sky_sample(grid, 0.01, 5).regions, sample.regions)
    assert draw_sky_sample(grid, 1.0, 5).fraction == 1


@pytest.mark.parametrize("more", ["", CUTS])
def test_what_a_rank_holds_may_end_in_the_margin(more):
    run = ScannedRun.open(ground(n_lag=1024, duration="1 h", n_observations=2, more=more))
    layout = run.layout
    distribution = distribute_samples(layout, None, layout.n_blocks)
    # between the ends of what two ranks hold there is then nothing but margin
    streams, every = distribution.streams, layout.streams
    to_go = every.keys(streams) + every.lengths(streams) - distribution.end
    assert np.any((to_go > 0) & (to_go < layout.margin))
    sample = full_sky_sample(run.pixelization)
    coverage = compute_pixel_coverage(run, sample, [distribution], 1, SilentProgress())
    share = layout.local_blocks(np.arange(layout.n_blocks))
    whole = Projection(run.observations, layout, share, run.pixelization, Stokes.I).keys()
    np.testing.assert_array_equal(np.unique(coverage.occupancy(distribution).keys), whole)


@given(
    st.lists(st.sets(st.integers(0, 767), max_size=40), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 11), st.integers(1, 5)), max_size=8),
)
def test_holders_of_pixels_are_ranks_with_a_range_that_has_them(pixels, segments):
    n, sky = len(pixels), full_sky_sample(Healpix(8, nest=True))
    segments = sorted((rank, min(first, n - 1), min(first + more, n)) for rank, first, more in segments)
    ranks, begin, end = (
        (np.array(column, np.int64) for column in zip(*segments, strict=True))
        if segments
        else [np.zeros(0, np.int64)] * 3
    )
    coverage = PixelCoverage(
        sky, np.arange(n + 1), np.cumsum([0, *map(len, pixels)]),
        np.array([p for one in pixels for p in sorted(one)], np.int32),
        LookedAtRanges(*[np.zeros(0, np.int64)] * 3),
    )  # fmt: skip
    found = coverage.occupancy(SampleDistribution(6, ranks, 0 * ranks, begin, end))
    held = [set() for _ in range(6)]
    for rank, first, last in segments:
        held[rank].update(*pixels[first:last])
    expected = Occupancy.from_rank_keys([np.array(sorted(one), np.int64) for one in held])
    for name in ("keys", "offsets", "holders", "size"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
