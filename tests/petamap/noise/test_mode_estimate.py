"""Common modes measured in streams: couplings, amplitudes beside gaps, and spectra of detectors alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petamap.noise.mode_estimate import (
    ModeBasis,
    ModeStreams,
    check_n_modes,
    detector_spectra,
    fit_modes,
    line_bins,
    spectral_lines,
)
from petamap.noise.model import EstimatedPsd

RATE, N_SAMP = 10.0, 16384


def stream(rng, psd, n_samp=N_SAMP):
    """Return noise of a one-sided PSD."""
    f = np.fft.rfftfreq(2 * n_samp, 1 / RATE)
    f[0] = f[1]
    lines = rng.standard_normal((2, len(f))) * np.sqrt(psd(f) * n_samp * RATE / 2)
    return np.fft.irfft(lines[0] + 1j * lines[1], 2 * n_samp)[:n_samp]


def streams(n_det, n_modes, seed=0):
    """Return streams that share modes, (n_det, N_SAMP), the couplings, and the levels of the detectors."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1, 1], (n_det, n_modes)) if n_modes > 1 else 1
    couplings, sigmas = rng.uniform(0.5, 1.5, (n_det, n_modes)) * signs, rng.uniform(0.7, 1.3, n_det)
    shared = [stream(rng, lambda f, k=k: (1 / f) ** (2.5 - k)) for k in range(n_modes)]
    own = [sigma * stream(rng, lambda f: 2 * (1 + 0.02 / f)) for sigma in sigmas]
    return np.array(own) + np.einsum("dm,mt->dt", couplings, shared), couplings, sigmas


@pytest.mark.parametrize(("n_det", "n_modes"), [(3, 1), (12, 1), (20, 2)])
def test_couplings_and_weights_are_found(n_det, n_modes):
    samples, couplings, sigmas = streams(n_det, n_modes)
    good = np.ones(N_SAMP, bool)
    lines = np.array([spectral_lines(row, good, RATE) for row in samples])
    found = fit_modes(lines, line_bins(N_SAMP)[1], n_modes)
    np.testing.assert_allclose(
        np.einsum("dm,dn->mn", found.basis, found.basis), np.eye(n_modes), rtol=0, atol=1e-12
    )
    span = np.linalg.qr(couplings / found.sigmas[:, None])[0]
    cosines = np.linalg.svd(np.einsum("dm,dn->mn", span, found.basis))[1]
    assert np.all(cosines > 1 - 2e-4)
    ratios = found.sigmas / sigmas
    assert np.std(ratios) < 0.06 * np.mean(ratios)


def test_a_detector_without_lines_has_no_coupling():
    samples, _, _ = streams(6, 1)
    good = np.ones(N_SAMP, bool)
    lines = np.array([spectral_lines(row, good, RATE) for row in samples])
    lines[2] = 0
    found = fit_modes(lines, line_bins(N_SAMP)[1], 1)
    assert found.basis[2] == 0 and np.all(found.basis[[0, 1, 3, 4, 5]] != 0)


def test_too_few_detectors_with_lines_have_no_modes():
    found = fit_modes(np.zeros((6, 20), complex), line_bins(48)[1], 1)
    assert found.n_modes == 0 and found.couplings.shape == (6, 0)
    sums = ModeStreams(found, (1, 5))
    sums.add(0, np.ones((1, 5)), np.zeros(5, bool))
    assert sums.amplitudes()[0].shape == (0, 1, 5) and sums.amplitudes()[1].all()


@settings(max_examples=25, deadline=None)
@given(n_samp=st.integers(20, 100_000))
def test_bins_hold_all_lines_in_order(n_samp):
    lines, bins = line_bins(n_samp)
    assert bins[0] == 0 and bins[-1] == len(lines) and np.all(np.diff(bins) > 0)
    assert np.all(np.diff(lines) > 0) and lines[0] == 4 and lines[-1] < n_samp // 2


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_modes=st.integers(1, 2))
def test_amplitudes_are_least_squares_where_samples_are_missing(seed, n_modes):
    rng = np.random.default_rng(seed)
    n_det, n_samp = 6, 12
    basis = ModeBasis(np.linalg.qr(rng.standard_normal((n_det, n_modes)))[0], rng.uniform(0.5, 2, n_det))
    samples, good = rng.standard_normal((n_det, 3, n_samp)), rng.random((n_det, n_samp)) < 0.8
    sums = ModeStreams(basis, (3, n_samp))
    for detector in range(n_det):
        sums.add(detector, np.where(good[detector], samples[detector], np.nan), good[detector])
    found, known = sums.amplitudes()
    for t in range(n_samp):
        part = good[:, t]
        design = basis.basis[part]
        enough = np.linalg.eigvalsh(design.T @ design)[0] > 0.5 if part.sum() >= n_modes else False
        assert known[t] == enough
        if enough:
            data = samples[part, :, t] / basis.sigmas[part, None]
            expected = np.linalg.lstsq(design, data, rcond=None)[0]
            np.testing.assert_allclose(found[:, :, t], expected, rtol=0, atol=1e-10)
    left = samples[0].copy()
    sums.subtract(0, found, left)
    expected = samples[0] - np.einsum("m,mnt->nt", basis.couplings[0], found)
    np.testing.assert_allclose(left, expected, rtol=0, atol=1e-12)


def test_spectra_of_detectors_alone_are_solved_for():
    rng = np.random.default_rng(3)
    n_det, frequencies = 5, np.logspace(-2, 0, 9)
    basis = ModeBasis(np.linalg.qr(rng.standard_normal((n_det, 1)))[0], rng.uniform(0.5, 2, n_det))
    alone = rng.uniform(1, 3, (n_det, 9)) * basis.sigmas[:, None] ** 2
    leave = np.eye(n_det) - np.outer(basis.couplings, basis.basis / basis.sigmas[:, None])
    left = [EstimatedPsd(frequencies, row, np.full(9, 0.1)) for row in leave**2 @ alone]
    found = detector_spectra(basis, left)
    np.testing.assert_allclose([psd.values for psd in found], alone, rtol=1e-10)
    assert detector_spectra(ModeBasis(basis.basis * [[1], [1], [0], [1], [1]], basis.sigmas),
                            [*left[:2], None, *left[3:]])[2] is None  # fmt: skip


@pytest.mark.parametrize(
    ("n_modes", "n_det", "enough"), [(1, 2, False), (1, 3, True), (2, 4, False), (2, 5, True)]
)
def test_more_modes_need_more_detectors(n_modes, n_det, enough):
    if enough:
        check_n_modes(n_modes, n_det, "observation a")
    else:
        with pytest.raises(ConfigError, match=f"{n_det} detector.*lower noise.n_modes"):
            check_n_modes(n_modes, n_det, "observation a")
