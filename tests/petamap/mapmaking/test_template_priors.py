"""Priors of amplitudes: destriping with and without, against dense algebra; on any number of ranks."""

import dataclasses

import numpy as np
import pytest
from cases import cases
from mpi import check_same_on_ranks
from scipy.linalg import block_diag, toeplitz
from small_systems import Models, compressed, dense, full_map, make_system, numbered, recorded, solve

from petacomm.base.errors import ConfigError, ConvergenceError
from petamap.data.template import IndependentPrior, NoisePrior
from petamap.mapmaking.covariance import CovarianceColumns
from petamap.mapmaking.stream_terms import StreamTerms
from petamap.mapmaking.time_layout import TimeLayout
from petamap.noise.model import OneOverF
from petamap.noise.psd import noise_psd
from petamap.sky.healpix import Healpix
from petamap.templates.kinds import Baselines, Columns

NOISE = OneOverF(net=0.3, fknee=1.0, fmin=0.1, alpha=-1.5)
WHITE = 0.3**2 * 10.0


def made(rng, length, prior, **choices):
    """Return observations of 1/f noise with baselines."""
    one = recorded(rng, 2, 240, 8, **choices)
    noise = Models(((NOISE,),))
    return [dataclasses.replace(one, noise=noise, templates=(Baselines(length, prior),))]


def marginal_map(observations, stokes="IQU"):
    """Return the map of the good samples under N = W + T S T^T, dense; without a prior, S is huge."""
    parts = dense(observations, numbered(8), stokes, 0)
    terms = StreamTerms(observations, TimeLayout(observations, 0))
    blocks = []
    for stream, one in enumerate(terms.layout.streams):
        covariance = WHITE * np.eye(one.stop - one.start)
        for term, process in zip(terms.of(stream), terms.priors(stream), strict=True):
            functions = term.matrix(0, one.stop - one.start).toarray()
            if process is None:
                prior = np.eye(functions.shape[1]) * 1e7
            else:
                inverse = process.inverse_covariance(term.n_sets).toarray()
                prior = np.linalg.inv(np.kron(inverse, np.eye(term.n_functions)))
            covariance += functions @ prior @ functions.T
        blocks.append(covariance)
    covariance = block_diag(*blocks)[np.ix_(parts.good, parts.good)]
    return least_squares(parts, covariance, stokes)


def least_squares(parts, covariance, stokes):
    """Return the map of the good samples under a covariance."""
    design = parts.response[parts.good]
    weighted = np.linalg.solve(covariance, design)
    found = np.linalg.lstsq(design.T @ weighted, weighted.T @ parts.data[parts.good], rcond=1e-12)[0]
    return found.reshape(-1, len(stokes))


@pytest.mark.parametrize("kind", ["two-level", "block-diagonal"])
@pytest.mark.parametrize("length", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("gains", [None, 3.0])
def test_baselines_with_the_prior_of_the_noise_are_its_map(kind, length, gains):
    rng = np.random.default_rng(1)
    observations = made(rng, length, NoisePrior(), flagged=0.1, gains=gains)
    system = make_system(observations, numbered(8), n_lag=0, preconditioner=kind)
    solution = solve(system)
    assert solution.converged
    expected = marginal_map(observations)
    found = full_map(system, solution.map.pixels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_one_sample_baselines_make_the_map_of_the_spectrum():
    # the covariance of the declared spectrum itself, without the project's own kernels
    observations = made(np.random.default_rng(2), 0.1, NoisePrior())
    parts = dense(observations, numbered(8), "IQU", 0)
    grid = 1 << 16
    spectrum = noise_psd(NOISE, np.arange(grid // 2 + 1) / grid * 10.0) * 10.0 / 2
    covariance = block_diag(*[toeplitz(np.fft.irfft(spectrum)[:240])] * 2)
    expected = least_squares(parts, covariance, "IQU")
    system = make_system(observations, numbered(8), n_lag=0)
    found = full_map(system, solve(system).map.pixels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("length", [2.0, 0.0])
def test_baselines_without_a_prior_under_white_noise_destripe(length):
    observations = made(np.random.default_rng(3), length, None)
    expected = marginal_map(observations)
    system = make_system(observations, numbered(8), n_lag=0)
    solution = solve(system)
    found = full_map(system, solution.map.pixels)
    # the mean of I is what the offsets of all detectors leave open
    for one in found, expected:
        one[:, 0] -= one[:, 0].mean()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_an_rms_keeps_amplitudes_small():
    rng = np.random.default_rng(4)
    one = made(rng, 2.0, None, flagged=0.1)[0]
    templates = (
        Baselines(3.0, IndependentPrior(0.1)),
        Columns(rng.normal(size=(2, 240)), prior=IndependentPrior(0.3)),
    )
    observations = [dataclasses.replace(one, templates=templates)]
    expected = marginal_map(observations)
    system = make_system(observations, numbered(8), n_lag=0)
    found = full_map(system, solve(system).map.pixels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_correlated_noise_is_not_counted_twice():
    observations = made(np.random.default_rng(5), 1.0, NoisePrior())
    with pytest.raises(ConfigError, match="prior"):
        make_system(observations, numbered(8), n_lag=5)


def _solved(kind, comm):
    """Return the bits of a destriped map."""
    one = compressed(np.random.default_rng(8), n_samp=150_000, n_det=2, flagged=0.05, speed=0.01)
    one = dataclasses.replace(one, noise=Models(((NOISE,),)), templates=(Baselines(1.0, NoisePrior()),))
    system = make_system([one], Healpix(4, nest=True), comm, n_lag=0, preconditioner=kind)
    solution = solve(system, 1e-6, 10)
    parts = comm.allgather((system.keys, solution.map.pixels))
    keys, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return values[np.argsort(keys)].tobytes()


def _bits(comm):
    return [_solved(kind, comm) for kind in ("two-level", "block-diagonal")]


@pytest.mark.parametrize("n_ranks", cases(3, long=(2,)))
def test_ranks_do_not_change_a_bit_of_a_destriped_map(n_ranks):
    check_same_on_ranks(_bits, n_ranks)


def test_a_covariance_says_that_offsets_leave_the_mean_open():
    one = compressed(np.random.default_rng(8), n_samp=3000, n_det=3)
    open_mean = dataclasses.replace(one, templates=(Baselines(),))
    with pytest.raises(ConvergenceError, match="its mean"):
        CovarianceColumns(make_system([open_mean], Healpix(1, nest=True), n_lag=8)).solve(1e-9, 200)
    known = dataclasses.replace(one, templates=(Baselines(prior=IndependentPrior(1.0)),))
    found = CovarianceColumns(make_system([known], Healpix(1, nest=True), n_lag=8)).solve(1e-9, 200)
    assert np.linalg.eigvalsh(found.values).min() > 0
