"""Templates solved for with the map: against dense algebra, and on any number of ranks."""

import dataclasses

import numpy as np
import pytest
from cases import cases
from mpi import check_same_on_ranks
from scipy.linalg import block_diag
from small_systems import Models, Samples, compressed, dense, full_map, make_system, numbered, recorded, solve

from petamap.noise.model import OneOverF
from petamap.sky.healpix import Healpix
from petamap.templates.kinds import Baselines, Columns, PlateSynchronous

INTERVALS = ((0, 140), (150, 300))


def columns_of(observation):
    """Return T of all streams of an observation, dense."""
    rows = []
    for start, stop in observation.intervals:
        terms = [one.term(observation, start, stop) for one in observation.templates]
        functions = np.hstack(
            [term.matrix(0, stop - start).toarray() for term in terms] or [np.zeros((stop - start, 0))]
        )
        rows += [functions] * observation.n_det
    return block_diag(*rows)


def made(rng, **choices):
    """Return observations with templates, and one without, which determines what they leave open."""
    one = recorded(rng, 2, 300, 6, 5, INTERVALS, flagged=0.1, outside=0.05, **choices)
    templates = Baselines(6.0), Columns(rng.standard_normal((2, 300)))
    other = recorded(rng, 1, 200, 6, 5, name="other", uid=2)
    return [dataclasses.replace(one, templates=templates), other]


def dense_map(observations, stokes):
    """Return map and amplitudes by generalized least squares of the good samples."""
    parts = dense(observations, numbered(6), stokes, 5)
    templates = block_diag(*map(columns_of, observations))
    design = np.hstack([parts.response, templates])[parts.good]
    covariance = np.linalg.inv(parts.inverse)[np.ix_(parts.good, parts.good)]
    weighted = np.linalg.solve(covariance, design)
    found = np.linalg.lstsq(design.T @ weighted, weighted.T @ parts.data[parts.good], rcond=1e-12)[0]
    return found[: 6 * len(stokes)].reshape(6, -1)


@pytest.mark.parametrize("kind", ["two-level", "block-diagonal"])
@pytest.mark.parametrize("stokes", ["I", "IQU"])
@pytest.mark.parametrize("gains", [None, 3.0])
def test_equals_the_dense_solution(kind, stokes, gains):
    observations = made(np.random.default_rng(4), gains=gains)
    system = make_system(observations, numbered(6), stokes=stokes, preconditioner=kind)
    solution = solve(system)
    assert solution.converged
    expected = dense_map(observations, stokes)
    found = full_map(system, solution.map.pixels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_margins_make_no_difference_to_what_templates_are():
    observations = made(np.random.default_rng(5))
    system = make_system(observations, numbered(6), free_ends=True)
    solution = solve(system)
    assert solution.converged
    expected = dense_map(observations, "IQU")
    assert not np.allclose(full_map(system, solution.map.pixels), expected, atol=1e-6)  # other ends
    moved = [with_signal(one, 7.0) for one in observations]
    again = solve(make_system(moved, numbered(6), free_ends=True))
    np.testing.assert_allclose(
        again.map.pixels, solution.map.pixels, rtol=0, atol=1e-9 * np.abs(expected).max()
    )


def with_signal(observation, size):
    """Return an observation whose signal has some of its templates in it."""
    if not observation.templates:
        return observation
    (samples,) = observation.signals
    values = samples.values.copy()
    stop = 0
    for begin, end in observation.intervals:
        terms = [one.term(observation, begin, end) for one in observation.templates]
        functions = np.hstack([term.matrix(0, end - begin).toarray() for term in terms])
        amounts = np.random.default_rng(stop).standard_normal((functions.shape[1], observation.n_det))
        values[:, begin:end] += size * (functions @ amounts).T
        stop = end
    return dataclasses.replace(observation, signals=(Samples(values),))


@pytest.mark.parametrize("flags", ["exact", "levels", "cut"])
@pytest.mark.parametrize("kind", ["two-level", "block-diagonal"])
def test_templates_in_the_data_are_not_in_the_map(flags, kind):
    observations = made(np.random.default_rng(6))
    maps = [
        solve(make_system(each, numbered(6), flags=flags, preconditioner=kind), 1e-13).map.pixels
        for each in (observations, [with_signal(one, 3.0) for one in observations])
    ]
    np.testing.assert_allclose(maps[1], maps[0], rtol=0, atol=1e-8 * np.abs(maps[0]).max())


def test_a_cell_that_is_all_gaps_does_no_harm():
    observations = made(np.random.default_rng(7))
    observations[0].flags[0].values[:, 60:130] = True
    system = make_system(observations, numbered(6), preconditioner="two-level")
    solution = solve(system)
    assert solution.converged
    expected = dense_map(observations, "IQU")
    found = full_map(system, solution.map.pixels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def _steep(kind, comm):
    """Return the bits of a solution of slow noise with gaps, offsets and baselines."""
    one = compressed(np.random.default_rng(8), n_samp=3000, n_det=3, flagged=0.05, speed=0.01)
    noise = Models(((OneOverF(net=0.3, fknee=0.5, fmin=2e-3, alpha=-2.5),),))
    one = dataclasses.replace(one, noise=noise, templates=(Baselines(20.0),))
    system = make_system([one], Healpix(4, nest=True), comm, n_lag=200, preconditioner=kind)
    solution = solve(system, 1e-7, 80)
    parts = comm.allgather((system.keys, solution.map.pixels))
    keys, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return solution.iterations, values[np.argsort(keys)].tobytes()


def _bits(comm):
    return [_steep(kind, comm) for kind in ("two-level", "block-diagonal")]


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 5)))
def test_ranks_do_not_change_a_bit(n_ranks):
    check_same_on_ranks(_bits, n_ranks)


def test_more_amplitudes_than_samples_are_refused():
    from petacomm.base.errors import ConfigError

    one = made(np.random.default_rng(9))[0]
    many = dataclasses.replace(one, templates=(Columns(np.ones((200, 300))),))
    with pytest.raises(ConfigError, match="amplitudes"):
        make_system([many], numbered(6))


def test_a_plate_that_is_not_there_is_told():
    from petacomm.base.errors import ConfigError

    one = dataclasses.replace(made(np.random.default_rng(9))[0], templates=(PlateSynchronous(),))
    with pytest.raises(ConfigError, match="half-wave plate"):
        make_system([one], numbered(6))
