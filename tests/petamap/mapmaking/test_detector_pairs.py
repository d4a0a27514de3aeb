"""Detectors that look at the same places are visited together, with the bits that each has alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_systems import Bad, compressed, make_system

from petamap.mapmaking import _mapmaking
from petamap.mapmaking.block_samples import samples_of
from petamap.mapmaking.detector_pairs import partner_blocks
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.quaternion import about_z
from petamap.sky.healpix import Healpix
from petamap.templates.kinds import Baselines, Columns


def looking_at(made, psi, **more):
    """Return the observation with detectors of one sight at these angles, radians."""
    pointing = made.pointing
    return replace(
        made,
        pointing=CompressedPointing(pointing.boresight, about_z(np.array(psi)), epsilon=pointing.epsilon),
        **more,
    )


def products(system, n_threads, pairs, seed=1):
    """Return the sums of P^T N^-1 P on pixels and gaps, and how many pairs were visited together."""
    projection = system.projection
    table = samples_of(
        projection, projection.local.blocks, projection.gaps.length, projection.first_slots, pairs
    )
    rng = np.random.default_rng(seed)
    pixels = rng.standard_normal((projection.n_local, projection.stokes.n, 1))
    n_gaps = projection.gaps.n + (projection.amplitudes.n if projection.amplitudes else 0)
    gaps = rng.standard_normal((n_gaps, 1))
    sums, gap_sums = (
        np.zeros((n_threads, *pixels.shape), np.int64),
        np.zeros((n_threads, *gaps.shape), np.int64),
    )
    templates = projection.amplitudes.table if projection.amplitudes else None
    _mapmaking.apply(
        table, system.noise.handle, pixels, gaps, np.full(1, 2.0**30), sums, gap_sums, templates, None
    )
    return sums.sum(axis=0).tobytes() + gap_sums.sum(axis=0).tobytes(), table.n_pairs


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["keep", "recompute"]),
    st.sampled_from(["I", "QU", "IQU"]),
    st.sampled_from([0, 3, 40]),
    st.sampled_from([(0.0, 0.0), (0.003, 0.0), (0.2, 0.4), (1.0, 0.1)]),
    st.sampled_from(["exact", "levels", "cut"]),
    st.sampled_from([np.pi / 2, -np.pi / 2, np.pi / 4, 0.3]),
    st.sampled_from([50, 65, 700, 3000]),
    st.sampled_from([1, 2]),
)
def test_pairs_have_the_bits_of_their_detectors(
    seed, pointing, stokes, n_lag, flagged, flags, apart, n_samp, n_threads
):
    rng = np.random.default_rng(seed)
    bad = rng.random((2, n_samp)) < np.array(flagged)[:, None]
    made = looking_at(compressed(rng, n_samp, 2), (0.2, 0.2 + apart), flags=(Bad(bad),))
    system = make_system(
        [made], Healpix(8, nest=True), stokes=stokes, n_lag=n_lag, flags=flags, pointing=pointing,
        rcond_min=0.1 if stokes != "I" else 1e-300,
    )  # fmt: skip
    assume(system.projection.n_local >= 8)
    together, n_pairs = products(system, n_threads, True)
    alone, none = products(system, n_threads, False)
    assert (n_pairs, none) == (len(system.projection.local.blocks) // 2, 0)
    assert together == alone


@pytest.mark.parametrize("pointing", ["keep", "recompute"])
def test_pairs_with_templates_and_other_intervals(pointing):
    """Blocks that follow each other share inputs; a detector that joins another pair must not take theirs."""
    rng = np.random.default_rng(2)
    made = looking_at(compressed(rng, 20_000, 5, flagged=0.01), np.arange(5) * np.pi / 4)
    made = replace(made, intervals=((0, 9000), (9100, 20_000)))
    made = replace(made, templates=(Baselines(20.0), Columns(rng.standard_normal((1, 20_000)))))
    system = make_system([made], Healpix(8, nest=True), n_lag=40, pointing=pointing, rcond_min=0.2)
    together, n_pairs = products(system, 2, True)
    assert n_pairs == 2 * len(system.projection.local.blocks) // 5
    assert together == products(system, 2, False)[0]


def test_few_pixels_have_the_bits_of_many():
    """Rows that gaps count on are not there."""
    made = looking_at(compressed(np.random.default_rng(4), 300, 2, flagged=0.3), (0.0, np.pi / 2))
    system = make_system([made], Healpix(1, nest=True), n_lag=3, rcond_min=1e-300)
    assert system.projection.n_local < 8
    assert products(system, 1, True)[0] == products(system, 1, False)[0]


def kept_table(pixels, angles, partners):
    n = len(pixels[0])
    blocks = np.array([[0, n, 0, n, 0, 0], [n, n, 0, n, 0, 1]], np.int64)
    return _mapmaking.KeptTable(
        blocks, np.concatenate(pixels), np.concatenate(angles), None, np.ones((2, 2)), np.zeros(2, np.int64),
        None, partners,
    )  # fmt: skip


def test_blocks_that_see_other_pixels_are_no_partners():
    pixels = np.arange(100, dtype=np.int32)
    angles, partners = np.zeros(100, np.uint32), np.array([1, 0])
    assert kept_table((pixels, pixels), (angles, angles), partners).n_pairs == 1
    other = pixels.copy()
    other[99] = 5
    assert kept_table((pixels, other), (angles, angles), partners).n_pairs == 0
    other[99] = -1
    assert kept_table((pixels, other), (angles, angles), partners).n_pairs == 1


@pytest.mark.parametrize("changed", [0, 4095, 4096, 9999])
def test_responses_are_opposite_only_if_all_are(changed):
    """One angle differs by a little: its response must not be taken from the other detector."""
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 20, 10_000).astype(np.int32)
    angles = rng.integers(0, 2**32, 10_000, np.uint32)
    opposite = angles + np.uint32(2**31)
    opposite[changed] += np.uint32(2**20)
    kernels = _mapmaking.Kernels(np.ones((1, 1)), 0)
    found = []
    for partners in (np.array([1, 0]), None):
        table = kept_table((pixels, pixels), (angles, opposite), partners)
        assert table.n_pairs == (partners is not None)
        sums, gap_sums = np.zeros((1, 20, 3, 1), np.int64), np.zeros((1, 1, 1), np.int64)
        _mapmaking.apply(
            table, kernels, np.ones((20, 3, 1)), np.ones((1, 1)), np.full(1, 2.0**30), sums, gap_sums
        )
        found.append(sums.tobytes())
    assert found[0] == found[1]


def test_partners_may_change_from_block_to_block():
    """What a block has of the inputs of the one before is that of its own detector."""
    rng = np.random.default_rng(5)
    seen = rng.integers(0, 20, 204).astype(np.int32)
    angles = rng.integers(0, 2**32, 612, np.uint32)
    one = [[0, 104, 0, 100, 0, 0], [96, 108, 4, 104, 0, 0]]  # overlap by twice the lags
    blocks = np.array([[204 * k + f, *rest, k] for k in range(3) for f, *rest, _ in one], np.int64)
    kernels = _mapmaking.Kernels(rng.standard_normal((1, 5)), 64)
    responses = np.array([[1.0, 0.9], [0.8, 0.5], [0.3, 0.2]])
    found = []
    for partners in (np.array([2, 5, 0, -1, -1, 1]), None):
        table = _mapmaking.KeptTable(
            blocks, np.tile(seen, 3), angles, None, responses, np.zeros(6, np.int64), None, partners
        )
        sums, gap_sums = np.zeros((1, 20, 3, 1), np.int64), np.zeros((1, 1, 1), np.int64)
        sky = np.random.default_rng(6).standard_normal((20, 3, 1))
        _mapmaking.apply(table, kernels, sky, np.ones((1, 1)), np.full(1, 2.0**30), sums, gap_sums)
        found.append((table.n_pairs, sums.tobytes()))
    assert [n for n, _ in found] == [2, 0]
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("partners", [[0, 1], [1, -1], [2, 0], [-2, -1], [1]])
def test_partners_that_are_none_are_refused(partners):
    seen = np.zeros(10, np.int32), np.zeros(10, np.int32)
    with pytest.raises(ValueError, match="partners"):
        kept_table(seen, (seen[0].view(np.uint32),) * 2, np.array(partners))


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 2), st.integers(5, 6)), max_size=30))
def test_partners_are_of_one_sight_and_the_same_samples(given_blocks):
    """Each block is in one pair at most, and none is left alone that could be in one."""
    n = len(given_blocks)
    sights = np.array([sight for sight, _, _ in given_blocks], np.int64)
    streams = np.zeros((n, 6), np.int64)
    streams[:, 2] = -1000 * np.arange(n)  # positions of samples that each holds for itself
    blocks = np.zeros((n, 6), np.int64)
    blocks[:, 5] = np.arange(n)
    blocks[:, 0] = 1000 * np.arange(n) + [start for _, start, _ in given_blocks]
    blocks[:, 1] = [length for _, _, length in given_blocks]
    partners = partner_blocks(blocks, streams, sights)
    alone: set[tuple[int, int, int]] = set()
    for i, key in enumerate(given_blocks):
        if partners[i] >= 0:
            assert partners[i] != i and partners[partners[i]] == i and given_blocks[partners[i]] == key
            assert key[0] >= 0
        elif key[0] >= 0:
            assert key not in alone
            alone.add(key)
