"""Kernels on the bits of gaps, beside what NumPy makes of single samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import petamap.mapmaking._mapmaking as _mapmaking

CHUNK = 128


def marked(seed, n_words, runs):
    """Return gaps of samples, alone and in runs, and their bits."""
    rng = np.random.default_rng(seed)
    gaps = rng.random(64 * n_words) < 0.1
    for _ in range(runs):
        begin = rng.integers(0, len(gaps))
        gaps[begin : begin + rng.integers(1, 200)] = True
    return gaps, np.packbits(gaps, bitorder="little")


def slots_of(gaps, length):
    """Return where slots begin: at each gap, or at each run of gaps and within it at multiples of 64."""
    if length == 1:
        return np.flatnonzero(gaps)
    goes_on = np.concatenate([[False], gaps[:-1]])
    goes_on[::length] = False
    return np.flatnonzero(gaps & ~goes_on)


given_gaps = given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 4), st.sampled_from([1, 64]))


@given_gaps
def test_slots_are_counted_and_found(seed, n_words, runs, length):
    gaps, bits = marked(seed, n_words, runs)
    wanted = slots_of(gaps, length)
    counts = np.empty(-(-len(gaps) // CHUNK), np.int64)
    _mapmaking.count_slots(bits, length, CHUNK, counts)
    np.testing.assert_array_equal(counts, np.bincount(wanted // CHUNK, minlength=len(counts)))
    begin, end = 64 * (n_words // 3), len(gaps) - 7
    inside = wanted[(wanted >= begin) & (wanted < end)]
    found = np.empty(len(inside), np.int64)
    _mapmaking.find_slots(bits, length, begin, end, 1000, found)
    np.testing.assert_array_equal(found, inside + 1000)


@given_gaps
def test_first_slots(seed, n_words, runs, length):
    gaps, bits = marked(seed, n_words, runs)
    begins = slots_of(gaps, length)
    before = np.searchsorted(begins, CHUNK * np.arange(len(gaps) // CHUNK + 2))
    positions, found = np.arange(len(gaps)), np.empty(len(gaps), np.int64)
    _mapmaking.first_slots(bits, length, CHUNK, before, positions, found)
    # a gap belongs to the last slot that has begun, and else the next one is the first
    wanted = np.searchsorted(begins, positions, side="right") - gaps
    np.testing.assert_array_equal(found, wanted)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(0, 3))
def test_gaps_are_counted(seed, n_words, runs):
    gaps, bits = marked(seed, n_words, runs)
    rng = np.random.default_rng(seed)
    begins, ends = np.sort(rng.integers(0, len(gaps) + 1, (2, 20)), axis=0)
    counts = np.empty(20, np.int64)
    _mapmaking.count_gaps(bits, begins, ends, counts)
    assert counts.tolist() == [int(gaps[b:e].sum()) for b, e in zip(begins, ends, strict=True)]


@pytest.mark.parametrize("length", [0, 2, 63, 128])
def test_other_lengths_of_slots_are_refused(length):
    with pytest.raises(ValueError, match="length: 1 or 64"):
        _mapmaking.count_slots(np.zeros(8, np.uint8), length, CHUNK, np.zeros(1, np.int64))
