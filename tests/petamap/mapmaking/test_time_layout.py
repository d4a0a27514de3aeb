"""Streams, blocks and shares: every sample is an output once, and every block has the inputs it needs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petamap.data.observation import Observation
from petamap.mapmaking.distribution import distribute
from petamap.mapmaking.intervals import split_intervals
from petamap.mapmaking.time_layout import ALIGNMENT, TimeLayout, transform_length


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
    bounds = distribute(layout.costs(), n_ranks)
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
    assert layout.sample_keys[-1] == layout.n_samp + 2 * margin * len(layout.streams)


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
    np.testing.assert_array_equal(layout.costs(), [1792 + 128, 208 + 128])


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
