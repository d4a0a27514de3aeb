"""The two-level preconditioner: the model against dense algebra, the map against the block-diagonal one."""

import numpy as np
import pytest
from cases import cases
from dense_model import dense_model
from mpi import check_same_on_ranks
from small_systems import Models, compressed, dense, make_system, numbered, read, recorded

from petamap.mapmaking import preconditioning
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.linear_operators import BlockDiagonalPreconditioner
from petamap.mapmaking.preconditioning import plan_preconditioner
from petamap.mapmaking.two_level import TwoLevelPreconditioner
from petamap.mapmaking.vectors import Unknowns, stack
from petamap.noise.model import OneOverF
from petamap.sky.healpix import Healpix

STEEP = Models(((OneOverF(net=0.3, fknee=0.5, fmin=2e-3, alpha=-2.5),),))


def _observation(**changes):
    rng = np.random.default_rng(8)
    one = compressed(rng, **({"n_samp": 4000, "n_det": 3, "flagged": 0.0, "speed": 0.01} | changes))
    bad = one.flags[0].values if one.flags else None
    if bad is not None:  # gaps of some length, as those of real data
        bad[:] = np.repeat(rng.random((bad.shape[0], bad.shape[1] // 20)) < 0.15, 20, axis=1)
    object.__setattr__(one, "noise", STEEP)
    return one


def _system(observation, n_side=4, **choices):
    return make_system(
        [observation], Healpix(n_side, nest=True), **({"n_lag": 300, "preconditioner": "two-level"} | choices)
    )


def _applied(preconditioner, n_pixels, n_stokes, n_gaps):
    """Return a preconditioner as a dense matrix over (pixels, gaps)."""
    n = n_pixels * n_stokes + n_gaps
    columns = []
    for first in range(0, n, 8):
        unit = np.zeros((n, 8))
        for k in range(min(8, n - first)):
            unit[first + k, k] = 1.0
        vectors = Unknowns(
            unit[: n_pixels * n_stokes].reshape(n_pixels, n_stokes, 8), unit[n_pixels * n_stokes :, None, :]
        )
        out = preconditioner.apply(vectors)
        columns.append(np.concatenate([out.pixels.reshape(-1, 8), out.gaps[:, 0]]))
    return np.concatenate(columns, axis=1)[:, :n]


@pytest.mark.parametrize("stokes", ["I", "QU", "IQU"])
@pytest.mark.parametrize("flagged", [0.0, 0.1])
def test_the_map_is_that_of_block_diagonal_in_fewer_iterations(stokes, flagged):
    made = _observation(flagged=flagged)
    found = {}
    for kind in ("two-level", "block-diagonal"):
        system = _system(made, stokes=stokes, preconditioner=kind)
        found[kind] = ConjugateGradients(system.operator(), system.preconditioner).solve(
            read(system).unknowns, 1e-11, 3000
        )
        assert found[kind].converged, found[kind].reason
    two, one = found["two-level"], found["block-diagonal"]
    size = np.abs(one.map.pixels).max()
    np.testing.assert_allclose(two.map.pixels, one.map.pixels, rtol=0, atol=1e-8 * size)
    assert two.iterations < 0.5 * one.iterations


def test_a_small_system_equals_a_dense_solve():
    made = _observation(n_samp=900, flagged=0.1)
    system = _system(made, n_side=1, n_lag=40, rcond_min=1e-6)
    solution = system.solver().solve(read(system).unknowns, 1e-14, 200)
    by_numpy = dense([made], Healpix(1, nest=True), n_lag=40).map().reshape(-1, 3)[system.keys]
    np.testing.assert_allclose(solution.map.pixels, by_numpy, rtol=0, atol=1e-11 * np.abs(by_numpy).max())


@pytest.mark.parametrize("choices", [{}, {"flags": "levels"}, {"flags": "cut"}, {"stokes": "I"}])
def test_it_is_symmetric_and_positive(choices):
    system = _system(_observation(n_samp=1000, flagged=0.1), n_side=2, n_lag=100, **choices)
    alive = ~system.statistics.dead
    n_gaps = system.shared.gaps.n_owned if system.projection.gaps.length else 0
    assert isinstance(system.preconditioner, TwoLevelPreconditioner)
    stokes = system.projection.stokes.n
    matrix = _applied(system.preconditioner, len(alive), stokes, system.shared.gaps.n_owned)
    there = np.concatenate([np.repeat(alive, stokes), np.full(system.shared.gaps.n_owned, n_gaps > 0)])
    matrix = matrix[np.ix_(there, there)]
    scale = 1 / np.sqrt(np.diag(matrix))
    matrix *= scale * scale[:, None]
    np.testing.assert_allclose(matrix, matrix.T, rtol=0, atol=1e-6)
    assert np.linalg.eigvalsh((matrix + matrix.T) / 2).min() > 0


@pytest.mark.parametrize("level", [0, 1, 2])
def test_pixels_of_the_model_may_be_coarser(level, monkeypatch):
    monkeypatch.setattr(preconditioning, "_choose_level", lambda projection, least, comm: (level, 3.0))
    made = _observation(flagged=0.1)
    system = _system(made, n_side=8)
    solution = system.solver().solve(read(system).unknowns, 1e-10, 500)
    alone = _system(made, n_side=8, preconditioner="block-diagonal")
    reference = alone.solver().solve(read(alone).unknowns, 1e-10, 3000)
    assert solution.converged and solution.iterations < reference.iterations
    size = np.abs(reference.map.pixels).max()
    np.testing.assert_allclose(solution.map.pixels, reference.map.pixels, rtol=0, atol=1e-6 * size)


def test_a_model_is_the_schur_complement_of_its_noise():
    system = _system(_observation(n_samp=1200, n_det=2, flagged=0.1), n_side=2, n_lag=100)
    inverse = system.preconditioner.inverse
    model, n = inverse.model, inverse.model.pixels.n_owned
    columns = [inverse.apply(_unit(n, 3, i))[..., 0].ravel() for i in range(3 * n)]
    found = np.array(columns).T
    expected = dense_model(system)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    assert np.linalg.eigvalsh((found + found.T) / 2).min() > 0
    assert model.n_knots < 1200


def _unit(n, n_stokes, i):
    vector = np.zeros((n * n_stokes, 1))
    vector[i] = 1.0
    return vector.reshape(n, n_stokes, 1)


def test_columns_side_by_side_are_those_alone():
    system = _system(_observation(n_samp=1500, flagged=0.1), n_lag=100)
    rng = np.random.default_rng(1)
    n, n_gaps = len(system.keys), system.shared.gaps.n_owned
    each = [Unknowns(rng.standard_normal((n, 3)), rng.standard_normal((n_gaps, 1))) for _ in range(5)]
    together = system.preconditioner.apply(stack(each))
    for number, one in enumerate(each):
        alone = system.preconditioner.apply(stack([one]))
        np.testing.assert_array_equal(together.pixels[..., number], alone.pixels[..., 0])
        np.testing.assert_array_equal(together.gaps[..., number], alone.gaps[..., 0])


def test_recorded_gains_and_pieces_of_noise():
    rng = np.random.default_rng(2)
    made = recorded(rng, 3, 2000, 12, 20, intervals=((0, 700), (700, 2000)), gains=3.0, flagged=0.1)
    system = make_system([made], numbered(12), n_lag=20, preconditioner="two-level")
    assert system.solver().solve(read(system).unknowns, 1e-10, 200).converged


def test_auto_is_two_level_where_the_noise_is_steep():
    made = _observation(flagged=0.1)
    assert isinstance(_system(made, preconditioner="auto").preconditioner, TwoLevelPreconditioner)
    gentle = Models(((OneOverF(net=0.3, fknee=0.05, fmin=1e-2, alpha=-1.0),),))
    object.__setattr__(made, "noise", gentle)
    assert isinstance(_system(made, preconditioner="auto").preconditioner, BlockDiagonalPreconditioner)


def test_its_memory_is_planned():
    system = _system(_observation(n_samp=20_000, flagged=0.1), n_side=8)
    model = system.preconditioner.inverse.model
    plan = plan_preconditioner("two-level", system.projection, system.noise, system.comm)
    assert plan.n_visits == pytest.approx(len(model._visits.table), rel=0.3)
    assert plan.n_gaps == pytest.approx(len(model._gap_visits.table), rel=0.1)
    assert plan.n_knots == pytest.approx(model.n_knots, rel=0.1)
    assert system.memory.preconditioner == pytest.approx(plan.n_bytes(), rel=0.1)
    # the tables, the factor of the band, the weights of gaps
    held = (model._visits.table, model._gap_visits.table, model._factor, model._inverse_gap_weights)
    assert sum(one.nbytes for one in held) < plan.n_bytes() < 5 * sum(one.nbytes for one in held)
    assert _system(_observation(), preconditioner="block-diagonal").memory.preconditioner == 0


SLOW = Models(((OneOverF(net=0.3, fknee=1e-3, fmin=1e-4, alpha=-1.0),),))


def _one_stream(comm, noise=STEEP):
    """Return the bytes of the map of one stream, of which most ranks model nothing."""
    made = _observation(n_samp=40_000, n_det=1, flagged=0.1)
    object.__setattr__(made, "noise", noise)
    system = _system(made, stokes="I", n_lag=100, comm=comm, reduction="butterfly")
    if noise is SLOW:  # blocks that begin between the same two knots
        inverse = system.preconditioner.inverse
        assert comm.sum(inverse.model.n_knots) < comm.sum(len(system.projection.local.blocks))
    solution = system.solver().solve(read(system).unknowns, 1e-8, 200)
    parts = comm.allgather((system.keys, solution.map.pixels))
    keys, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    return values[np.argsort(keys)].tobytes()


def _bits(comm):
    return [_one_stream(comm, noise) for noise in (STEEP, SLOW)]


@pytest.mark.parametrize("n_ranks", cases(5, long=(2,)))
def test_ranks_without_a_stream(n_ranks):
    check_same_on_ranks(_bits, n_ranks)
