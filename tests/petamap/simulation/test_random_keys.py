"""Tests of random numbers: accuracy, distribution, dependence on the key."""

import numpy as np
import pytest
from scipy import stats

from petamap.simulation import _simulation
from petamap.simulation.random_keys import Purpose, gaussians, random_stream, random_streams, uniforms

WORDS = random_stream(Purpose.NOISE, 7, 0, 11, 3)


def reference_gaussians(words, group):
    """Return the numbers of a group from Philox, log, cos and sin of libraries."""
    pairs = _simulation.GROUP // 2
    counters = np.zeros((pairs, 4), np.uint32)
    index = np.arange(group * pairs, (group + 1) * pairs).astype(np.uint64)
    counters[:, 0], counters[:, 1], counters[:, 2:] = index & 0xFFFFFFFF, index >> 32, words[2:]
    out = np.empty_like(counters)
    _simulation.philox4x32(counters, words[:2].copy(), out)
    wide = out.astype(np.uint64)
    u = ((wide[:, 1] << 32 | wide[:, 0]) >> 12).astype(np.float64) * 2.0**-52 + 2.0**-53
    turn = (wide[:, 3] << 32 | wide[:, 2]).astype(np.float64) * 2.0**-64
    radius = np.sqrt(-2 * np.log(u))
    return np.concatenate((radius * np.cos(2 * np.pi * turn), radius * np.sin(2 * np.pi * turn)))


@pytest.mark.parametrize("group", [0, 1, -1, -(2**20), 2**27, 2**50])
def test_gaussians_against_libraries(group):
    out = np.empty(_simulation.GROUP)
    _simulation.gaussians(WORDS, group, out)
    np.testing.assert_allclose(out, reference_gaussians(WORDS, group), rtol=1e-12, atol=2e-15)


def test_distribution_of_gaussians():
    sample = gaussians(WORDS, 1 << 20)
    assert stats.kstest(sample, "norm").pvalue > 1e-3
    for moment, expected, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(sample**moment) - expected) < 4 * np.sqrt(spread / sample.size)
    # tail: expected 2.7e-3 * 2^20 / 1000 beyond about 4.8 sigma
    beyond = np.count_nonzero(np.abs(sample) > 4)
    assert abs(beyond - 2 * stats.norm.sf(4) * sample.size) < 4 * np.sqrt(beyond)
    halves = sample.reshape(-1, 2, 32)
    assert abs(np.mean(halves[:, 0] * halves[:, 1])) < 4 / np.sqrt(sample.size / 2)


def test_streams_differ_for_all_keys():
    base = (Purpose.NOISE, 1, 0, 0, 0, 0)
    found = {tuple(random_stream(*base))}
    for at in range(6):
        other = list(base)
        other[at] = Purpose.SKY if at == 0 else 2**31 + 5
        found.add(tuple(random_stream(*other)))
    found.add(tuple(random_stream(Purpose.NOISE, 1 + 2**40, 0)))
    found.add(tuple(random_streams(*base, n_levels=2)[1]))
    assert len(found) == 9
    assert np.array_equal(random_streams(*base, n_levels=3)[0], random_stream(*base))


def test_uniform_numbers():
    sample = uniforms(WORDS, 100_000)
    assert stats.kstest(sample, "uniform").pvalue > 1e-3
    assert np.array_equal(uniforms(WORDS, 10), sample[:10])
