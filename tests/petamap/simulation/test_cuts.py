"""Tests of simulated cuts."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petamap.data.observation import Observation
from petamap.data.source import SourceContext
from petamap.simulation.cuts import CutsOptions, CutsSource

N_SAMP = 50_000


def observation(**changes):
    fields = {"name": "scan", "uid": 9, "n_samp": N_SAMP, "sample_rate": 10.0, "detectors": ("a", "b")}
    return Observation(**(fields | changes))


def cuts(existing=None, seed=3, **options):
    source = CutsSource(CutsOptions(**options), SourceContext(folder=Path(), seed=seed))
    return source.extend(existing or [observation()])


def read(one, detector=0, start=0, stop=N_SAMP):
    out = np.zeros(stop - start, np.uint8)
    for flags in one.flags:
        flags.or_flags(detector, start, stop, out)
    return out


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, N_SAMP), min_size=2, max_size=6, unique=True).map(sorted))
def test_gaps_do_not_depend_on_the_sample_range(edges):
    (one,) = cuts(gap_every=20.0, gap_length=3.0)
    parts = [read(one, 0, a, b) for a, b in pairwise(edges)]
    assert np.array_equal(np.concatenate(parts), read(one, 0, edges[0], edges[-1]))


def test_rate_and_length_of_random_gaps():
    (one,) = cuts(gap_every=20.0, gap_length=3.0)
    flags = read(one).astype(int)
    begins = np.flatnonzero(np.diff(flags, prepend=0) == 1)
    ends = np.flatnonzero(np.diff(flags, append=0) == -1) + 1
    assert abs(flags.mean() - (1 - np.exp(-3 / 20))) < 0.02
    assert np.median(ends - begins) == 30 and (ends - begins)[1:-1].min() == 30
    assert np.std(np.diff(begins)) > 80


def test_gaps_differ_by_detector_unless_shared():
    (one,) = cuts(gap_every=20.0, gap_length=3.0)
    (shared,) = cuts(gap_every=20.0, gap_length=3.0, gaps_shared=True)
    (other,) = cuts(gap_every=20.0, gap_length=3.0, seed=4)
    assert not np.array_equal(read(one, 0), read(one, 1))
    assert np.array_equal(read(shared, 0), read(shared, 1))
    assert not np.array_equal(read(one, 0), read(other, 0))


def test_time_range_of_a_detector():
    (one,) = cuts(detectors=("b",), begin=100.0, end=250.0)
    assert not read(one, 0).any()
    assert np.flatnonzero(read(one, 1)).tolist() == list(range(1000, 2500))
    assert np.flatnonzero(read(one, 1, 2400, 2600)).tolist() == list(range(100))


def test_detectors_of_named_observations():
    first, second = cuts([observation(), observation(name="next")], detectors=("a",), observations=("next",))
    assert not read(first).any()
    assert read(second, 0).all() and not read(second, 1).any()


class Latitudes:
    def directions(self, detector, start, stop):
        lat = np.linspace(-1, 1, N_SAMP)[start:stop]
        return np.stack((np.cos(lat), 0 * lat, np.sin(lat)), axis=1), np.zeros(stop - start, np.uint32)


def test_latitudes():
    (one,) = cuts([observation(pointing=Latitudes())], lat_min=-0.2, lat_max=0.5)
    lat = np.linspace(-1, 1, N_SAMP)
    assert np.array_equal(read(one) == 1, (lat >= -0.2) & (lat <= 0.5))


def test_existing_flags_are_kept():
    (one,) = cuts(begin=100.0, end=200.0)
    (both,) = cuts([one], detectors=("a",), begin=300.0, end=400.0)
    assert read(both).sum() == 2000


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "no rule"),
        ({"gap_every": 1.0}, "gap_length"),
        ({"gap_every": 1.0, "gap_length": 1.0, "begin": 1.0}, "several"),
        ({"detectors": ("c",)}, "detector 'c'"),
        ({"detectors": ("a",), "observations": ("scam",)}, "did you mean 'scan'"),
        ({"lat_min": 0.1}, "no pointing"),
    ],
)
def test_invalid_rules(options, word):
    with pytest.raises(ConfigError, match=word):
        cuts(**options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"begin": 20.0, "end": 10.0}, "cuts from begin to end are of nothing"),
        ({"begin": 20.0, "end": 20.0}, "end is not above begin"),
        ({"lat_min": 0.2, "lat_max": 0.1}, "lat_max is not above lat_min"),
        ({"begin": 5000.0}, "cuts begin after 5000 s, and their longest observation has 5000 s"),
    ],
)
def test_cuts_of_nothing_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        cuts(**options)


def test_a_time_range_may_be_beyond_some_observations():
    short = observation(name="short", uid=10, n_samp=100)
    one, other = cuts([observation(), short], begin=20.0)
    assert read(one)[200:].all() and not read(one)[:200].any() and not read(other, stop=100).any()
