"""Detectors that share noise, weighed together: against dense algebra, and on any number of ranks."""

import dataclasses

import numpy as np
import pytest
from cases import cases
from joint_systems import FAST, N_LAG, SLOW, dense_joint, joint_scans, sharing
from mpi import check_same_on_ranks
from small_systems import (
    Models,
    as_matrix,
    compressed,
    datasets,
    full_map,
    make_system,
    numbered,
    operator_of,
    read_many,
    recorded,
    solve,
    unknowns,
)

from petacomm.mpi import SerialCommunicator
from petamap.mapmaking import stream_elimination, template_model
from petamap.noise.common_modes import CommonNoise, mode_amplitudes
from petamap.noise.model import OneOverF
from petamap.sky.healpix import Healpix
from petamap.templates.kinds import Baselines


@pytest.mark.parametrize("n_modes", [1, 2, 3])
def test_amplitudes_are_weighted_least_squares(n_modes):
    rng = np.random.default_rng(n_modes)
    models = [OneOverF(net) for net in rng.uniform(1, 3, 5)]
    shared = [CommonNoise(rng.standard_normal(5), FAST) for _ in range(n_modes)]
    modes = mode_amplitudes(models, shared, 10.0)
    couplings = np.stack([one.couplings for one in shared], axis=1)
    weights = np.diag([1 / (model.net**2 * 10.0) for model in models])
    fitted = couplings @ np.linalg.solve(couplings.T @ weights @ couplings, couplings.T @ weights)
    np.testing.assert_allclose(modes.backward @ modes.forward.T, fitted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(modes.forward.T @ modes.backward, np.eye(modes.n), rtol=0, atol=1e-12)


@pytest.mark.parametrize("fknee", [0.0, 0.2])
def test_detectors_of_one_shape_have_the_inverse_of_their_covariance(fknee):
    rng = np.random.default_rng(1)
    models = [OneOverF(net, fknee, 0.01 * bool(fknee), -1.5) for net in (1.0, 1.3, 2.0, 0.7)]
    shared = [CommonNoise(rng.uniform(0.5, 2.0, 4), SLOW)]
    modes = mode_amplitudes(models, shared, 10.0)
    from petamap.noise.psd import noise_psd

    for frequency in (0.03, 0.4, 2.0):
        at = np.array([frequency])
        own = np.array([noise_psd(model, at)[0] for model in models])
        c = shared[0].couplings
        covariance = np.diag(own) + np.outer(c, c) * noise_psd(SLOW, at)
        left = np.eye(4) - modes.backward @ modes.forward.T
        answer = modes.forward @ np.diag([1 / noise_psd(m, at)[0] for m in modes.models]) @ modes.forward.T
        found = left.T @ np.diag(1 / own) @ left + answer
        np.testing.assert_allclose(found, np.linalg.inv(covariance), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("flags", ["exact", "cut"])
def test_the_operator_is_that_of_dense_matrices(flags):
    made_here = joint_scans(np.random.default_rng(2), n_modes=2)
    system = make_system(made_here, numbered(6), n_lag=N_LAG, flags=flags, rcond_min=1e-300)
    n = system.projection.n_local
    matrix = as_matrix(operator_of(system), n, 3, system.projection.gaps.n)[: 3 * n, : 3 * n]
    expected = dense_joint(made_here).normal
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["two-level", "block-diagonal"])
@pytest.mark.parametrize(("n_modes", "gains"), [(1, None), (2, 3.0)])
def test_equals_the_dense_solution(kind, n_modes, gains):
    made_here = joint_scans(np.random.default_rng(3), n_modes, gains=gains)
    system = make_system(made_here, numbered(6), n_lag=N_LAG, preconditioner=kind)
    solution = solve(system)
    assert solution.converged
    expected = dense_joint(made_here).map().reshape(6, 3)
    found = full_map(system, solution.map.pixels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_modes_of_equal_spectra_are_each_weighed():
    made_here = [
        dataclasses.replace(
            one, common_noise=tuple(CommonNoise(np.eye(one.n_det)[n] * 0.5, FAST) for n in range(2)),
            noise=Models(((OneOverF(0.7),),)),
        )
        for one in joint_scans(np.random.default_rng(3), 2)
    ]  # fmt: skip
    solution = solve(make_system(made_here, numbered(6), n_lag=N_LAG))
    expected = dense_joint(made_here).map().reshape(6, 3)
    np.testing.assert_allclose(solution.map.pixels, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_several_data_sets_are_each_what_they_are_alone():
    made_here = joint_scans(np.random.default_rng(4))
    system = make_system(made_here, numbered(6), n_lag=N_LAG)
    sets = datasets(made_here, 3)
    together = system.solver().solve_many(unknowns(read_many(system, sets)), 1e-9, 300)
    for number, one in enumerate(together):
        (alone,) = system.solver().solve_many(unknowns(read_many(system, [sets[number]])), 1e-9, 300)
        assert one.map.pixels.tobytes() == alone.map.pixels.tobytes()


def _steep(comm, **choices):
    """Return iterations and bits of a map under an atmosphere."""
    one = compressed(np.random.default_rng(8), n_samp=4000, n_det=4, flagged=0.05, speed=0.01)
    noise = Models(((OneOverF(net=0.3, fknee=0.02, fmin=2e-3, alpha=-1.0),),))
    common = (CommonNoise(np.array([1.0, 0.9, 1.1, 1.05]), OneOverF(0.3, 0.5, 5e-3, -2.5)),)
    one = dataclasses.replace(one, noise=noise, common_noise=common)
    if choices.pop("templates", False):
        one = dataclasses.replace(one, templates=(Baselines(40.0),))
    system = make_system([one], Healpix(4, nest=True), comm, n_lag=200, **choices)
    solution = solve(system, 1e-7, 300)
    assert solution.converged
    parts = comm.allgather((system.keys, solution.map.pixels))
    keys, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return solution.iterations, values[np.argsort(keys)].tobytes()


def _bits(comm):
    return [_steep(comm, preconditioner="two-level", templates=templates) for templates in (False, True)]


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 5)))
def test_ranks_do_not_change_a_bit(n_ranks):
    check_same_on_ranks(_bits, n_ranks)


def test_threads_and_recomputed_pointing_do_not_change_a_bit():
    comm = SerialCommunicator()
    kept = _steep(comm, preconditioner="two-level")
    assert kept == _steep(comm, preconditioner="two-level", pointing="recompute", n_threads=3)


@pytest.mark.parametrize("templates", [False, True])
def test_two_levels_know_what_detectors_share(templates):
    comm = SerialCommunicator()
    with_modes, without = (
        _steep(comm, preconditioner=kind, templates=templates)[0] for kind in ("two-level", "block-diagonal")
    )
    assert 2 * with_modes < without
    assert with_modes < 30


@pytest.mark.parametrize("limits", [{"_WHOLE": 0, "_REACH": 3}, {"_MOST_SHARED": 8}])
def test_what_is_cut_off_or_too_large_costs_iterations_alone(limits, monkeypatch):
    comm = SerialCommunicator()
    exact, expected = _steep(comm, preconditioner="two-level", templates=True)
    for name, value in limits.items():
        module = template_model if hasattr(template_model, name) else stream_elimination
        monkeypatch.setattr(module, name, value)
    iterations, found = _steep(comm, preconditioner="two-level", templates=True)
    assert iterations <= (exact + 1 if "_REACH" in limits else 5 * exact)
    found, expected = (np.frombuffer(one).reshape(-1, 3).copy() for one in (found, expected))
    for pixels in (found, expected):  # baselines leave the mean of I open
        pixels[:, 0] -= pixels[:, 0].mean()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_couplings_that_are_nothing_are_refused():
    from petacomm.base.errors import DataError

    one = sharing(recorded(np.random.default_rng(9), 3), np.random.default_rng(9))
    for couplings in (np.zeros(3), np.array([1.0, np.nan, 1.0])):
        bad = dataclasses.replace(one, common_noise=(CommonNoise(couplings, SLOW),))
        with pytest.raises(DataError, match="coupling"):
            make_system([bad], numbered(12))
