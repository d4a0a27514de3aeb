"""Streams, blocks and shares: every sample is an output once, and every block has the inputs it needs."""

import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petamap.data.observation import Observation
from petamap.mapmaking.distribution import distribute
from petamap.mapmaking.intervals import split_intervals
from petamap.mapmaking.time_layout import ALIGNMENT, TimeLayout, transform_length
from petamap.noise.common_modes import CommonNoise
from petamap.noise.model import OneOverF


@st.composite
def observations(draw):
    found = []
    for number in range(draw(st.integers(1, 3))):
        edges = sorted(
            draw(st.lists(st.one_of(st.integers(0, 40), st.integers(0, 150_000)), min_size=2, max_size=8))
        )
        intervals = tuple(zip(edges[::2], edges[1::2], strict=False))
        found.append(
            Observation(
                name=f"o{number}",
                uid=number,
                n_samp=edges[-1] + draw(st.integers(0, 5)),
                sample_rate=1.0,
                detectors=tuple("abc"[: draw(st.integers(1, 3))]),
                intervals=intervals,
            )
        )
    return found


lags = st.one_of(st.integers(0, 6), st.sampled_from([31, 64, 100, 511, 4096, 20_000]))


@settings(max_examples=60, deadline=None)
@given(observations(), lags, st.integers(1, 7), st.booleans())
def test_every_sample_is_an_output_of_one_block_with_its_halos(made, n_lag, n_ranks, free):
    margin = n_lag if free else 0
    try:
        layout = TimeLayout(made, n_lag, margin)
    except ConfigError:
        assert sum(b - a for one in made for a, b in one.intervals) == 0
        return
    bounds = distribute(layout.costs(np.arange(layout.n_blocks)), n_ranks)
    seen = {number: np.zeros(s.stop - s.start, int) for number, s in enumerate(layout.streams)}
    tables = []
    for rank in range(n_ranks):
        share = layout.local_blocks(np.arange(bounds[rank], bounds[rank + 1]))
        tables.append(_check_share(layout, share, seen))
    assert all((count == 1).all() for count in seen.values())
    # the blocks are the same whoever works on them
    whole = _check_share(layout, layout.local_blocks(np.arange(layout.n_blocks)), seen)
    np.testing.assert_array_equal(np.concatenate(tables), whole)
    assert layout.n_samp == sum((b - a) * one.n_det for one in made for a, b in one.intervals)
    assert layout.streams.n_keys == layout.n_samp + 2 * margin * len(layout.streams)


def _check_share(layout, share, seen):
    """Check the blocks of a share; return (stream, first output, inputs, inputs before, outputs) of each."""
    rows = []
    end = 0
    for segment in share.segments:
        stream = layout.streams[segment.stream]
        assert segment.offset == -(-end // ALIGNMENT) * ALIGNMENT
        end = segment.offset + segment.stop - segment.start
        assert stream.start <= segment.start <= segment.stop <= stream.stop
        assert (segment.start - stream.start) % ALIGNMENT == 0
    assert end <= share.n_held < end + ALIGNMENT
    for first, n_in, n_left, n_out, _, number in share.blocks:
        segment = share.segments[number]
        stream = layout.streams[segment.stream]
        begin = segment.start + first - segment.offset
        out = begin + n_left
        assert n_out > 0 and n_out <= layout.block
        assert begin == max(stream.start, out - layout.n_lag) and begin >= segment.start
        assert begin + n_in == min(stream.stop, out + n_out + layout.n_lag) <= segment.stop
        seen[segment.stream][out - stream.start : out - stream.start + n_out] += 1
        rows.append((segment.stream, out, n_in, n_left, n_out))
    assert share.n_out == sum(row[-1] for row in rows)
    return np.array(rows).reshape(-1, 5)


@given(st.integers(1, 2**20))
def test_transforms_hold_the_band(n_lag):
    n = transform_length(n_lag)
    assert n & (n - 1) == 0 and n >= 8 * n_lag


def test_costs_count_samples_and_halos():
    one = Observation("o", 1, 2000, 1.0, ("a",), intervals=((0, 2000),))
    layout = TimeLayout([one], 64)
    assert layout.block == 2 * (1024 - 128)
    np.testing.assert_array_equal(layout.costs(np.arange(2)), [1792 + 128, 208 + 128])


def test_detectors_take_turns_in_time():
    n_lag = 256
    n_samp = 5 * 2 * (transform_length(n_lag) - 2 * n_lag)  # five blocks
    made = [
        Observation(
            name=name, uid=0, n_samp=n_samp, sample_rate=1.0, detectors=("a", "b"), intervals=((0, n_samp),)
        )
        for name in ("first", "second")
    ]
    layout = TimeLayout(made, n_lag)
    local = layout.local_blocks(np.arange(20))
    order = np.argsort(layout.turns(local), kind="stable")
    visits = [(int(local.blocks[n, 5]), int(local.blocks[n, 0])) for n in order]
    # two blocks of a, the same of b, the next two of a, ...; the second observation after the first
    assert [stream for stream, _ in visits[:10]] == [0, 0, 1, 1, 0, 0, 1, 1, 0, 1]
    assert {stream for stream, _ in visits[10:]} == {2, 3}
    for stream in range(4):
        starts = [start for number, start in visits if number == stream]
        assert starts == sorted(starts)


def dealt_by_sorting(made, layout, groups, size):
    """Return the blocks of each rank, by sorting all blocks of the run."""
    streams, within = layout.locate(np.arange(layout.n_blocks))
    own = layout.streams.columns(streams)
    joint = layout.is_joint(streams)
    n_det = np.array([one.n_det for one in made])[own.observation]
    order = np.arange(layout.n_blocks)
    if groups is not None or joint.any():
        n_groups = np.minimum(1 if joint.any() else groups, n_det)
        group = own.detector * n_groups // n_det
        order = np.lexsort((own.detector, within, own.interval, own.observation, group))
    names = np.stack([own.observation, own.interval, within], axis=1)[order]
    begins = np.append(True, ~joint[order][1:] | (np.diff(names, axis=0) != 0).any(axis=1))
    firsts = np.flatnonzero(begins)
    bounds = distribute(np.add.reduceat(layout.costs(order), firsts), size)
    edges = np.append(firsts, len(order))[bounds]
    return [np.sort(order[a:b]) for a, b in itertools.pairwise(edges)]


@settings(max_examples=100, deadline=None)
@given(observations(), lags, st.integers(1, 40), st.sampled_from([None, 1, 2, 3, 7]), st.data())
def test_blocks_are_dealt_by_rule_as_by_sorting_all(made, n_lag, size, groups, data):
    if not sum(b - a for one in made for a, b in one.intervals):
        return
    if data.draw(st.booleans()):
        noise = CommonNoise(
            np.ones(made[0].n_det), OneOverF(1.0), interval=data.draw(st.sampled_from([None, 0]))
        )
        made = [replace(made[0], common_noise=(noise,)), *made[1:]]
    layout = TimeLayout(made, n_lag)
    for rank, blocks in enumerate(dealt_by_sorting(made, layout, groups, size)):
        np.testing.assert_array_equal(layout.rank_blocks(groups, size, rank), blocks)


@settings(max_examples=60, deadline=None)
@given(observations(), st.integers(0, 6), st.integers(1, 40), st.booleans())
def test_whole_streams_are_dealt_by_rule_as_one_by_one(made, n_lag, size, intervals):
    if not sum(b - a for one in made for a, b in one.intervals):
        return
    layout = TimeLayout(made, n_lag, 2 * n_lag)
    streams = layout.streams
    firsts = streams.first[:-1] if intervals else np.arange(len(streams))
    lengths = np.array([float(s.stop - s.start) for s in streams])
    bounds = distribute(np.add.reduceat(lengths, firsts), size)
    np.testing.assert_array_equal(
        layout.rank_streams(size, intervals), np.append(firsts, len(streams))[bounds]
    )


def test_the_table_of_streams_has_each_of_them():
    one = Observation("a", 1, 100, 1.0, ("x", "y"), intervals=((0, 30), (30, 30), (40, 90)))
    two = Observation("b", 2, 50, 1.0, ("z",), intervals=((5, 50),))
    streams = TimeLayout([one, two], 3, 4).streams
    found = [(s.observation, s.interval, s.detector, s.start, s.stop) for s in streams]
    assert found == [
        (0, 0, 0, -4, 34),
        (0, 0, 1, -4, 34),
        (0, 2, 0, 36, 94),
        (0, 2, 1, 36, 94),
        (1, 0, 0, 1, 54),
    ]
    numbers = np.arange(len(streams))
    assert np.array_equal(np.transpose(streams.columns(numbers)), found)
    lengths = [s.stop - s.start for s in streams]
    np.testing.assert_array_equal(streams.lengths(numbers), lengths)
    np.testing.assert_array_equal(streams.keys(numbers), np.cumsum([0, *lengths[:-1]]))
    np.testing.assert_array_equal(streams.holding(np.arange(streams.n_keys)), np.repeat(numbers, lengths))
    assert streams[-1] == streams[4] and streams[1:3] == [streams[1], streams[2]]
    with pytest.raises(IndexError):
        streams[5]


@pytest.mark.parametrize("groups", [None, 1, 32, 1000])
def test_many_streams_take_the_memory_of_their_intervals(groups):
    n, length = 100_000, 7200
    intervals = tuple((k * length, (k + 1) * length) for k in range(n))
    one = Observation("o", 1, n * length, 2.0, tuple(map(str, range(1000))), intervals=intervals)
    tracemalloc.start()
    layout = TimeLayout([one], 512)
    assert len(layout.streams) == 10**8
    share = layout.local_blocks(layout.rank_blocks(groups, 16_384, 9_999))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert share.n_out == pytest.approx(layout.n_samp / 16_384, rel=5e-3)  # whole blocks
    assert peak < 50e6


def test_no_samples_are_refused():
    with pytest.raises(ConfigError, match="no samples"):
        TimeLayout([Observation("o", 1, 10, 1.0, ("a",), intervals=((3, 3),))], 4)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=6), st.floats(0.01, 300, allow_subnormal=False))
def test_split_intervals_are_short_and_whole(lengths, seconds):
    stops = np.cumsum(lengths).tolist()
    intervals = tuple(zip([0, *stops[:-1]], stops, strict=True))
    one = Observation("o", 1, stops[-1], 2.0, ("a",), intervals=intervals)
    split = split_intervals(one, seconds)
    longest = max(1, round(2 * seconds))
    assert all(0 < b - a <= longest for a, b in split.intervals)
    covered = [sample for a, b in split.intervals for sample in range(a, b)]
    assert covered == list(range(stops[-1]))
    assert set(np.ravel(intervals)) <= set(np.ravel(split.intervals))


def test_split_intervals_keep_the_noise_of_their_origin():
    class Which:
        def noise_model(self, detector, interval):
            return detector, interval

    one = Observation("o", 1, 100, 1.0, ("a",), intervals=((0, 40), (50, 100)), noise=Which())
    split = split_intervals(one, 25)
    assert split.intervals == ((0, 20), (20, 40), (50, 75), (75, 100))
    assert [split.noise.noise_model(7, i) for i in range(4)] == [(7, 0), (7, 0), (7, 1), (7, 1)]
