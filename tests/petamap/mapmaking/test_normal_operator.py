"""P^T N^-1 P against the same made of dense matrices."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_systems import (
    Bad,
    as_matrix,
    compressed,
    dense,
    make_system,
    n_gap_samples,
    numbered,
    operator_of,
    recorded,
    spinning,
    times,
)

from petacomm.base.exact import round_limbs, zero_limbs
from petamap.mapmaking import _mapmaking
from petamap.mapmaking.vectors import Unknowns
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.focalplane import hexagonal
from petamap.sky.healpix import Healpix

# pixels that cannot be solved for are a matter of their own: here every one is kept
KEEP_ALL = 1e-300


def matrix_of(system):
    projection = system.projection
    return as_matrix(operator_of(system), projection.n_local, projection.stokes.n, projection.gaps.n)


def dense_with_gaps(made, pixelization, system, stokes, n_lag, flags):
    """Return P^T N^-1 P over the system's pixels and gaps."""
    parts = dense(made, pixelization, stokes, n_lag)
    n_stokes = len(stokes)
    columns = (system.keys[:, None] * n_stokes + np.arange(n_stokes)).ravel()
    response = parts.response[:, columns]
    bad = np.flatnonzero(~parts.good)
    gaps = np.zeros((len(parts.good), system.projection.gaps.n))
    if flags == "exact":
        gaps[bad, np.arange(len(bad))] = 1
    elif flags == "levels":
        streams = system.layout.streams
        inside = bad - streams.keys(streams.holding(bad))
        begins = np.append(True, (np.diff(bad) > 1) | (inside[1:] % 64 == 0))
        gaps[bad, np.cumsum(begins) - 1] = 1
    if flags != "cut":
        # a gap is told in the unit of its stream
        gaps *= system.projection.gaps.of_segments(system.projection.units)
    everything = np.hstack([response, gaps])
    return everything.T @ parts.inverse @ everything


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["I", "QU", "IQU"]),
    st.sampled_from([0, 1, 3, 17]),
    st.sampled_from([1, 2, 18, 63, 64, 65, 300, 700]),
    st.sampled_from([None, 1.0, 30.0]),
    st.sampled_from(["exact", "levels", "cut"]),
    st.sampled_from([0.0, 0.2, 1.0]),
)
def test_equals_dense(seed, stokes, n_lag, n_samp, gains, flags, flagged):
    rng = np.random.default_rng(seed)
    cut = int(rng.integers(0, n_samp))
    made = [
        recorded(rng, 2, n_samp, 5, n_lag, ((0, cut), (cut, n_samp)), gains, flagged, 0.1, (1.0, 0.1)),
        recorded(rng, 1, 50, 5, n_lag, None, gains, name="other", uid=2),
    ]
    pixels = numbered(5)
    system = make_system(made, pixels, stokes=stokes, n_lag=n_lag, flags=flags, rcond_min=KEEP_ALL)
    assume(not system.statistics.dead.any())  # a pixel of two samples has no I, Q and U
    found = matrix_of(system)
    expected = dense_with_gaps(made, pixels, system, stokes, n_lag, flags)
    if flags == "cut":
        # the one unknown of cut samples is never set: what is added up there is not used
        found, expected = (m[:-1, :-1] for m in (found, expected))
    scale = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-13 * max(scale, 1e-300) * (gains or 1) ** 2)
    np.testing.assert_allclose(found, found.T, rtol=0, atol=2e-13 * scale * (gains or 1) ** 2)


@pytest.mark.parametrize(
    "n_samp",
    [895, 896, 897, 896 + 64, 1791, 1792, 1793, 1792 + 63, 1792 + 64, 2688, 2689, 5000],
)
def test_first_half_filled_and_last_blocks(n_samp):
    # n_lag 64: transforms of 1024, blocks of two halves of 896 outputs
    made = [recorded(np.random.default_rng(n_samp), 1, n_samp, 4, 64, flagged=0.002)]
    system = make_system(made, numbered(4), n_lag=64)
    assert system.layout.block == 1792
    found, expected = matrix_of(system), dense_with_gaps(made, numbered(4), system, "IQU", 64, "exact")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
    assert np.linalg.eigvalsh((found + found.T) / 2).min() > 0


@pytest.mark.parametrize("stokes", ["I", "QU", "IQU"])
@pytest.mark.parametrize("gains", [None, 3.0])
def test_blocks_with_and_without_gaps(stokes, gains):
    made = recorded(np.random.default_rng(8), 2, 5000, 4, 64, gains=gains)
    bad = np.zeros((2, 5000), bool)
    bad[0, 100:140] = bad[1, 4321] = True  # blocks of 1792 samples
    made = replace(made, flags=(Bad(bad),))
    system = make_system([made], numbered(4), stokes=stokes, n_lag=64)
    found, expected = matrix_of(system), dense_with_gaps([made], numbered(4), system, stokes, 64, "exact")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("stokes", ["I", "QU", "IQU"])
def test_kept_and_expanded_pointing_give_the_same_bits(stokes):
    rng = np.random.default_rng(5)
    made = [compressed(rng, 2000, 4, flagged=0.03), compressed(rng, 700, 1, name="b", uid=2)]
    results = []
    for pointing in ("keep", "recompute"):
        for flags in ("exact", "levels", "cut"):
            for threads in (1, 2):
                system = make_system(
                    made, Healpix(16, nest=True), stokes=stokes, n_lag=40, flags=flags, pointing=pointing,
                    n_threads=threads, rcond_min=0.36 if stokes == "IQU" else 0.74,
                )  # fmt: skip
                assert system.memory.keep == (pointing == "keep")
                projection = system.projection
                vector = Unknowns.zeros(projection.n_local, projection.stokes.n, projection.gaps.n)
                values = np.random.default_rng(1)
                vector.pixels[:] = values.standard_normal(vector.pixels.shape)
                vector.gaps[:] = values.standard_normal(vector.gaps.shape) * (flags != "cut")
                out = times(operator_of(system), vector, 9.0)
                gaps = out.gaps.tobytes() if flags != "cut" else b""
                results.append((flags, out.pixels.tobytes(), gaps, n_gap_samples(system)))
                if stokes != "I":
                    assert system.statistics.dead.any() and not system.statistics.dead.all()
    for flags in ("exact", "levels", "cut"):
        assert len({result for result in results if result[0] == flags}) == 1


@pytest.mark.parametrize("pointing", ["keep", "recompute"])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_maps_larger_than_the_cache_have_the_same_bits(pointing, n_threads):
    """Blocks are visited in another order there."""
    made = [compressed(np.random.default_rng(6), 9000, 3, flagged=0.03)]
    system = make_system(made, Healpix(16, nest=True), n_lag=64, pointing=pointing, rcond_min=KEEP_ALL)
    projection = system.projection
    values = np.random.default_rng(1)
    seen = values.standard_normal((projection.n_local, 3, 1))
    gaps = values.standard_normal((projection.gaps.n, 1))
    found = set()
    for n_pix in (len(seen), 100_000):  # 4.8 MB of values and sums
        pixels = np.zeros((n_pix, 3, 1))
        pixels[: len(seen)] = seen
        sums = np.zeros((n_threads, *pixels.shape), np.int64)
        gap_sums = np.zeros((n_threads, *gaps.shape), np.int64)
        projection.n_threads = n_threads
        projection.apply(system.noise, pixels, gaps, np.full(1, 2.0**30), sums, gap_sums)
        total = sums.sum(axis=0)
        assert total[: len(seen)].any() and not total[len(seen) :].any()
        found.add((total[: len(seen)].tobytes(), gap_sums.sum(axis=0).tobytes()))
    assert len(found) == 1


@pytest.mark.parametrize("n_det", [2, 7])
def test_pairs_that_are_expanded_together_give_the_same_bits(n_det):
    """Blocks are taken in runs of all detectors of a line of sight."""
    made = compressed(np.random.default_rng(8), 20_000, n_det, flagged=0.02)
    boresight = spinning(20_000, 0.002, spacing=40).boresight
    pointing = CompressedPointing(boresight, hexagonal(n_det, 0.1).quaternions)
    made = replace(made, pointing=pointing, intervals=((0, 9000), (9100, 20_000)))
    results = set()
    for pointing, threads in (("keep", 1), ("recompute", 1), ("recompute", 2), ("recompute", 3)):
        system = make_system(
            [made], Healpix(8, nest=True), n_lag=40, pointing=pointing, n_threads=threads, rcond_min=KEEP_ALL
        )
        projection = system.projection
        assert len(projection.local.blocks) == 11 * n_det
        vector = Unknowns.zeros(projection.n_local, projection.stokes.n, projection.gaps.n)
        vector.pixels[:] = np.random.default_rng(1).standard_normal(vector.pixels.shape)
        out = times(operator_of(system), vector, 9.0)
        results.add(out.pixels.tobytes() + out.gaps.tobytes())
    assert len(results) == 1


def test_scan_is_the_transpose_of_adding_up():
    rng = np.random.default_rng(3)
    n, n_pix, n_gaps, low_bits = 1000, 40, 7, 40
    pixels = rng.integers(-n_gaps, n_pix, n).astype(np.int32)
    angles = rng.integers(0, 2**32, n).astype(np.uint32)
    gains = rng.uniform(0.5, 2, n).astype(np.float32)
    for n_stokes, intensity in itertools.product((1, 2, 3), (1.0, 0.3, 0.0)):
        sky, gaps = rng.standard_normal((n_pix, n_stokes)), rng.standard_normal(n_gaps)
        time, scanned = rng.standard_normal(n), np.empty(n)
        looks = (pixels, angles, gains, intensity, 0.9)
        _mapmaking.scan(*looks, sky, gaps, scanned)
        other = rng.standard_normal(n)
        words, gap_words = np.zeros((n_pix, n_stokes, 4, 1), np.int64), np.zeros((n_gaps, 2, 1), np.int64)
        scale, largest = 2.0**40, np.empty(1)
        both = time[None], other[None]
        _mapmaking.add_signals(*looks, *both, 1.0, scale, low_bits, words, gap_words, largest)
        assert largest == scale * max(np.abs(time).max(), np.abs(other).max())
        words, gap_words = words[..., 0], gap_words[..., 0]
        sums, others = ((words[..., k] + words[..., k + 1] * 2.0**-low_bits) / scale for k in (0, 2))
        gap_sums = (gap_words[:, 0] + gap_words[:, 1] * 2.0**-low_bits) / scale
        assert scanned[pixels >= 0] @ other[pixels >= 0] == pytest.approx((others * sky).sum(), rel=1e-12)
        assert scanned @ time == pytest.approx((sums * sky).sum() + gap_sums @ gaps, rel=1e-12)


def test_cosines_of_all_octants():
    exact = np.arange(0, 2**32, 2**29, dtype=np.int64)
    near = (exact[:, None] + np.array([-1, 0, 1])).ravel() % 2**32
    angles = np.concatenate([near, np.random.default_rng(1).integers(0, 2**32, 100_000)]).astype(np.uint32)
    pixels = np.zeros(len(angles), np.int32)
    for k, function in ((1, np.cos), (2, np.sin)):
        sky, found = np.zeros((1, 3)), np.empty(len(angles))
        sky[0, k] = 1
        _mapmaking.scan(pixels, angles, None, 1.0, 1.0, sky, np.zeros(1), found)
        expected = function(angles.astype(np.longdouble) * (2 * np.longdouble(np.pi) / 2**32))
        assert np.abs(found - expected).max() < 3e-14
    # quarter turns are exact, so that no leakage between Q and U comes from them
    quarters = (np.arange(4) << 30).astype(np.uint32)
    found = np.empty(4)
    _mapmaking.scan(
        np.zeros(4, np.int32), quarters, None, 1.0, 1.0, np.array([[0.0, 1, 0]]), np.zeros(1), found
    )
    np.testing.assert_array_equal(found, [1, 0, -1, 0])


def test_statistics_do_not_depend_on_whether_pointing_is_kept():
    # blocks begin inside gaps: in halves of a long one, and after an interval that ends in one
    made = compressed(np.random.default_rng(6), 6000, 4, flagged=0.05)
    made.flags[0].values[:, 1700:1900] = True
    kept, expanded = (
        make_system([made], Healpix(8, nest=True), n_lag=64, pointing=pointing, rcond_min=0.4)
        for pointing in ("keep", "recompute")
    )
    assert 0 < kept.statistics.dead.sum() < len(kept.keys)
    for one, other in zip(vars(kept.statistics).values(), vars(expanded.statistics).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert n_gap_samples(kept) == n_gap_samples(expanded)
    assert kept.projection.gaps.n == expanded.projection.gaps.n == n_gap_samples(kept)
    good = 6000 * 4 - made.flags[0].values.sum()
    assert kept.statistics.hits.sum() == good


@pytest.mark.parametrize("width", [1, 2, 8])
@pytest.mark.parametrize("n_stokes", [1, 3])
def test_copies_of_threads_are_folded_where_products_are_settled(n_stokes, width):
    rng = np.random.default_rng(4)
    shape, steps = (1001, n_stokes, width), 2.0 ** -np.arange(40.0, 40 + width)
    copies = rng.integers(-(2**48), 2**48, (3, *shape))
    total, p, found = copies.sum(axis=0), rng.standard_normal(shape), np.full(shape, np.nan)
    limbs, expected = zero_limbs(width), zero_limbs(width)
    _mapmaking.settle(p, found, steps, limbs, 2, copies)
    np.testing.assert_array_equal(found, total * steps)
    assert not copies.any()
    folded = total.view(np.float64).copy()
    _mapmaking.settle(p, folded, steps, expected, 2)
    assert [round_limbs(one) for one in limbs] == [round_limbs(one) for one in expected]
    exact = [math.fsum(products) for products in (p * found).reshape(-1, width).T]
    assert [round_limbs(one) for one in limbs] == exact
    _mapmaking.clear(total, 2)
    assert not total.any()


@pytest.mark.parametrize("pointing", ["keep", "recompute"])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("flags", ["exact", "levels"])
def test_threads_that_share_sums_have_the_bits_of_those_that_do_not(pointing, width, flags):
    made = [compressed(np.random.default_rng(6), 9000, 3, flagged=0.03)]
    system = make_system(made, Healpix(16, nest=True), n_lag=64, pointing=pointing, flags=flags)
    projection = system.projection
    values = np.random.default_rng(1)
    pixels = values.standard_normal((projection.n_local, 3, width))
    gaps = values.standard_normal((projection.gaps.n, width))
    found = set()
    for n_threads, n_copies in [(1, 1), (2, 1), (3, 2), (4, 4), (5, 1)]:
        sums = np.zeros((n_copies, *pixels.shape), np.int64)
        gap_sums = np.zeros((n_copies, *gaps.shape), np.int64)
        projection.n_threads = n_threads
        projection.apply(system.noise, pixels, gaps, np.full(width, 2.0**30), sums, gap_sums)
        found.add(sums.sum(axis=0).tobytes() + gap_sums.sum(axis=0).tobytes())
    assert len(found) == 1


def test_copies_of_sums_are_shared_by_two_threads(monkeypatch):
    made = [compressed(np.random.default_rng(6), 3000, 3)]
    found, copies = set(), []
    for n_threads, n_lag in [(1, 64), (2, 64), (3, 64), (3, 0)]:
        system = make_system(made, Healpix(16, nest=True), n_lag=n_lag, n_threads=n_threads)
        vector = Unknowns.zeros(system.projection.n_local, 3, system.projection.gaps.n)
        vector.pixels[:] = np.random.default_rng(1).standard_normal(vector.pixels.shape)
        apply = system.projection.apply

        def counted(noise, pixels, gaps, scales, sums, gap_sums, apply=apply):
            copies.append(len(sums))
            apply(noise, pixels, gaps, scales, sums, gap_sums)

        monkeypatch.setattr(system.projection, "apply", counted)
        out = times(operator_of(system), vector, 9.0)
        if n_lag:
            found.add(out.pixels.tobytes())
    assert (copies, len(found)) == ([1, 1, 2, 3], 1)
