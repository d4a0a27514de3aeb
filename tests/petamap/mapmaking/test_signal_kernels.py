"""Kernels that look at signals as they are read, beside what NumPy makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import petamap.mapmaking._mapmaking as _mapmaking

CHUNK = _mapmaking.LEVEL_CHUNK


def samples(seed, n, gaps):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 50, n).astype(np.int32)
    pixels[rng.random(n) < gaps] = -7
    return rng, pixels


@given(st.integers(0, 2**32), st.integers(1, 300), st.sampled_from([0.0, 0.3, 1.0]), st.integers(1, 3))
def test_gaps_are_zeroed_and_units_divided(seed, n, gaps, rows):
    rng, pixels = samples(seed, n, gaps)
    signals = rng.standard_normal((rows, n))
    signals[:, pixels < 0] = np.nan
    wanted = np.where(pixels < 0, 0.0, signals) / 0.25
    assert _mapmaking.zero_gaps(pixels, 0.25, signals)
    np.testing.assert_array_equal(signals, wanted)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 1, 63, 64, 100])
def test_what_is_not_finite_is_told_wherever_it_is(value, place):
    pixels, signals = np.zeros(101, np.int32), np.ones((2, 101))
    signals[1, place] = value
    assert not _mapmaking.zero_gaps(pixels, 1.0, signals)
    pixels[place] = -1
    assert _mapmaking.zero_gaps(pixels, 1.0, signals) and signals[1, place] == 0


def means_of(signal, pixels):
    n = len(signal) // CHUNK
    good = pixels[: n * CHUNK].reshape(n, CHUNK) >= 0
    counts = good.sum(axis=1)
    sums = signal[: n * CHUNK].reshape(n, CHUNK).sum(axis=1)
    return sums / np.maximum(counts, 1), counts >= CHUNK // 2


def steps_of(signal, pixels, times, fewest):
    means, valid = means_of(signal, pixels)
    known = valid[2:] & valid[1:-1] & valid[:-2]
    across = np.where(known, np.abs(means[2:] - means[:-2]), 0.0)
    if known.sum() < fewest:
        return []
    above = np.flatnonzero(across > times * np.sort(across[known])[known.sum() // 2])
    if len(above) == 0 or 8 * len(above) > len(across):
        return []
    groups = np.split(above, np.flatnonzero(np.diff(above) > 1) + 1)
    return [int(group[across[group].argmax()]) + 1 for group in groups]


@given(
    st.integers(0, 2**32), st.integers(0, 3000), st.sampled_from([0.0, 0.2, 0.6]),
    st.lists(st.tuples(st.integers(0, 2999), st.floats(-50, 50)), max_size=4),
)  # fmt: skip
def test_steps_are_those_of_numpy(seed, n, gaps, steps):
    rng, pixels = samples(seed, n, gaps)
    signal = rng.standard_normal(n)
    for place, change in steps:
        signal[place:] += change
    signal[pixels < 0] = 0
    means, valid = np.empty(n // CHUNK), np.empty(n // CHUNK, np.uint8)
    _mapmaking.chunk_means(signal, pixels, means, valid)
    wanted, known = means_of(signal, pixels)
    np.testing.assert_allclose(means, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(valid.view(bool), known)
    assert _mapmaking.level_steps(signal, pixels, 8.0, 6) == steps_of(signal, pixels, 8.0, 6)


def test_a_step_is_found():
    signal = np.random.default_rng(1).standard_normal(32 * 40)
    signal[32 * 20 + 5 :] += 30
    assert _mapmaking.level_steps(signal, np.zeros(len(signal), np.int32), 14.8, 6) == [20]
