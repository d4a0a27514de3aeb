"""Modes of the map that templates imitate: found, left at zero, and nothing else with them."""

import dataclasses

import numpy as np
import pytest
from cases import cases
from mpi import check_same_on_ranks
from small_systems import TURN, Samples, dense, full_map, make_system, numbered, recorded, solve

from petacomm.base.exact import round_limbs
from petamap.data.parts import PartRuns, Parts
from petamap.data.template import IndependentPrior
from petamap.mapmaking.linear_operators import exact_dots
from petamap.mapmaking.undetermined import OTHER, DeterminedPreconditioner
from petamap.mapmaking.vectors import Unknowns
from petamap.pointing.recorded import RecordedPixels
from petamap.templates.kinds import Baselines, Columns

N_PIX = 12


OFFSETS = (Baselines(),)


def made(rng, *fields, templates=OFFSETS, **choices):
    """Return an observation with offsets for each range of pixels."""
    found = []
    for number, (first, n_pix) in enumerate(fields):
        one = recorded(rng, 3, 400, N_PIX, name=f"field {number}", uid=number + 1, **choices)
        pointing = RecordedPixels(
            rng.integers(first, first + n_pix, (3, 400)).astype(np.int32), numbered(N_PIX),
            angles=rng.integers(0, TURN, (3, 400)).astype(np.uint32),
        )  # fmt: skip
        found.append(dataclasses.replace(one, templates=templates, pointing=pointing))
    return found


def weighted_means(system, pixels):
    """Return the means of I, Q, U responses of a map over the samples of each of two fields of six pixels."""
    parts = system.statistics
    found = []
    for field in range(2):
        rows = np.flatnonzero(system.keys // 6 == field)
        blocks = np.zeros((len(rows), 3, 3))
        triangle = np.triu_indices(3)
        blocks[:, triangle[0], triangle[1]] = parts.covariance[rows]
        blocks[:, triangle[1], triangle[0]] = parts.covariance[rows]
        found.append(np.einsum("pab,pb->pa", np.linalg.inv(blocks), pixels[rows])[:, 0].sum())
    return np.array(found)


def test_the_mean_of_all_samples_is_zero_and_the_rest_as_least_squares_have_it():
    observations = made(np.random.default_rng(1), (0, N_PIX))
    system = make_system(observations, numbered(N_PIX), n_lag=0)
    assert system.preconditioner.undetermined == ("mean of I",)
    solution = solve(system)
    assert solution.converged
    size = np.abs(solution.map.pixels).max() * system.statistics.hits.sum()
    assert abs(weighted_means(system, solution.map.pixels).sum()) < 1e-12 * size
    found, expected = full_map(system, solution.map.pixels), destriped(observations)
    for one in found, expected:
        one[:, 0] -= one[:, 0].mean()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def destriped(observations):
    """Return the map of white noise, with an offset for each stream, of least norm."""
    parts = dense(observations, numbered(N_PIX), "IQU", 0)
    streams = np.repeat(np.arange(3), 400)
    design = np.hstack([parts.response, np.eye(3)[streams]])
    return np.linalg.lstsq(design, parts.data, rcond=1e-12)[0][: 3 * N_PIX].reshape(-1, 3)


def test_fields_that_nothing_connects_have_a_mean_each():
    observations = made(np.random.default_rng(2), (0, 6), (6, 6))
    system = make_system(observations, numbered(N_PIX), n_lag=5)
    assert sorted(system.preconditioner.undetermined) == sorted(["mean of I", OTHER])
    solution = solve(system)
    assert solution.converged
    size = np.abs(solution.map.pixels).max() * system.statistics.hits.sum()
    np.testing.assert_allclose(weighted_means(system, solution.map.pixels), 0, rtol=0, atol=1e-8 * size)


def test_constants_of_detectors_change_nothing():
    (one,) = made(np.random.default_rng(3), (0, N_PIX), flagged=0.1)
    loud = Samples(1e6 * np.arange(1, 4)[:, None] * np.ones(400))
    maps = []
    for signals in one.signals, (*one.signals, loud):
        system = make_system([dataclasses.replace(one, signals=signals)], numbered(N_PIX), n_lag=5)
        maps.append(solve(system).map.pixels)
    # iterations end at 1e-12 of the constant
    np.testing.assert_allclose(maps[1], maps[0], rtol=0, atol=1e-5 * np.abs(maps[0]).max())


@pytest.mark.parametrize(
    "templates",
    [
        (),
        (Baselines(prior=IndependentPrior(1.0)),),
        (Baselines(prior=IndependentPrior(1e6)),),
        (Columns(np.linspace(-1, 1, 400)[None]),),
    ],
)
def test_what_a_prior_or_the_data_determine_is_solved_for(templates):
    observations = made(np.random.default_rng(4), (0, N_PIX), templates=templates)
    system = make_system(observations, numbered(N_PIX), n_lag=5, preconditioner="two-level")
    assert system.preconditioner.undetermined == ()


def test_amplitudes_with_a_prior_beside_offsets_without():
    templates = Baselines(), Columns(np.sin(np.arange(400.0))[None], prior=IndependentPrior(0.1))
    observations = made(np.random.default_rng(5), (0, N_PIX), templates=templates)
    system = make_system(observations, numbered(N_PIX), n_lag=5)
    assert system.preconditioner.undetermined == ("mean of I",)


def test_each_part_of_the_data_has_a_mean():
    observations = made(np.random.default_rng(6), (0, N_PIX), (0, N_PIX))
    # of the third there is no sample
    parts = Parts(("one", "two", "three"), lambda observation, detector: PartRuns.constant(observation))
    system = make_system(observations, numbered(N_PIX), n_lag=5, parts=parts)
    assert system.preconditioner.undetermined == ("mean of I of one", "mean of I of two")
    assert solve(system).converged


def test_it_is_symmetric_and_has_no_part_in_the_modes():
    rng = np.random.default_rng(7)
    system = make_system(made(rng, (0, 6), (6, 6)), numbered(N_PIX), n_lag=5)
    preconditioner = system.preconditioner
    assert isinstance(preconditioner, DeterminedPreconditioner)
    n_gaps = system.shared.gaps.n_owned
    one, other = (
        Unknowns(rng.standard_normal((N_PIX, 3, 2)), rng.standard_normal((n_gaps, 1, 2))) for _ in range(2)
    )
    left = exact_dots(one, preconditioner.apply(other))
    right = exact_dots(preconditioner.apply(one), other)
    for ours, theirs in zip(left, right, strict=True):
        np.testing.assert_allclose(round_limbs(ours), round_limbs(theirs), rtol=1e-5)
    applied = preconditioner.apply(other)
    np.testing.assert_allclose(
        weighted_means(system, applied.pixels[..., 0]), 0, rtol=0,
        atol=1e-8 * system.statistics.hits.sum() * np.abs(applied.pixels).max(),
    )  # fmt: skip


def _bits(comm):
    observations = made(np.random.default_rng(8), (0, 6), (6, 6), flagged=0.1)
    system = make_system(observations, numbered(N_PIX), n_lag=5, comm=comm)
    solution = solve(system)
    keys, values = zip(*comm.allgather((system.keys, solution.map.pixels)), strict=True)
    order = np.argsort(np.concatenate(keys))
    return system.preconditioner.undetermined, np.concatenate(values)[order].tobytes()


@pytest.mark.parametrize("n_ranks", cases(3, long=[2, 5]))
def test_ranks_find_the_same(n_ranks):
    check_same_on_ranks(_bits, n_ranks)
