"""Many right-hand sides at once, and what is learnt on some for the others."""

import tempfile
from dataclasses import replace

import numpy as np
import pytest
from mapmaking.small import (
    Samples,
    compressed,
    make_system,
    numbered,
    operator_of,
    read,
    recorded,
    solve,
)
from mpi import run_ranks

from petamap.base.errors import ConvergenceError, DataError
from petamap.comm.mpi import SerialCommunicator
from petamap.mapmaking.binning import right_hand_sides
from petamap.mapmaking.pcg import ConjugateGradients
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.vectors import Unknowns
from petamap.sky.healpix import Healpix

TOLERANCE = 1e-9


def datasets(made, n, seed=5):
    """Return n data sets of random signals, of quite different sizes."""
    rng = np.random.default_rng(seed)
    shapes = [(o.n_det, o.n_samp) for o in made]
    return [
        [(Samples(rng.standard_normal(s) * 10.0 ** (i % 4)), Samples(np.ones(s))) for s in shapes]
        for i in range(n)
    ]


def read_many(system, sets):
    statistics = system.statistics
    return right_hand_sides(
        system.projection, system.noise, system.shared, statistics.binned_weights, statistics.hits_max, sets
    )


def unknowns(rhs):
    return [Unknowns(one.pixels, one.gaps) for one in rhs]


def gradients_of(system):
    return ConjugateGradients(operator_of(system), system.preconditioner)


def with_gaps():
    return [recorded(np.random.default_rng(3), 3, 900, 40, 12, ((0, 500), (500, 900)), 2.0, 0.1)]


def on_the_sky():
    return [compressed(np.random.default_rng(8), 3000, 3, 12, flagged=0.02)]


CASES = {
    "gains": (with_gaps, numbered(40), {"n_lag": 12, "stokes": "IQU"}),
    "I": (with_gaps, numbered(40), {"n_lag": 12, "stokes": "I", "flags": "levels"}),
    "QU": (with_gaps, numbered(40), {"n_lag": 0, "stokes": "QU", "flags": "cut"}),
    "kept": (on_the_sky, Healpix(4, nest=True), {"n_lag": 12, "pointing": "keep"}),
    "recomputed": (on_the_sky, Healpix(4, nest=True), {"n_lag": 12, "pointing": "recompute"}),
}


def bytes_of(solution):
    """Return all that a solution says, the times left out."""
    history = [(step.iteration, step.relative_residual) for step in solution.history]
    parts = [part.tobytes() for part in solution.map]
    return parts, history, solution.converged, solution.true_residual, solution.reason


@pytest.mark.parametrize("name", CASES)
def test_a_data_set_gives_what_it_gives_alone(name):
    observations, grid, choices = CASES[name]
    made = observations()
    sets = datasets(made, 3)
    found = read_many(make_system(made, grid, **choices), sets)
    assert len(found) == 3
    for one, signals in zip(found, sets, strict=True):
        own = [replace(o, signals=each) for o, each in zip(made, signals, strict=True)]
        alone = read(make_system(own, grid, **choices))
        for part in ("pixels", "gaps", "binned"):
            np.testing.assert_array_equal(getattr(one, part), getattr(alone, part))


def test_a_data_set_that_is_not_finite_is_named():
    made = with_gaps()
    made = [replace(made[0], flags=())]
    sets = datasets(made, 2)
    sets[1][0][0].values[1, 77] = np.nan
    with pytest.raises(DataError, match="observation made, detector d1, sample 77"):
        read_many(make_system(made, numbered(40), n_lag=12), sets)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_solutions_are_those_of_each_alone(name, n_threads):
    observations, grid, choices = CASES[name]
    made = observations()
    system = make_system(made, grid, n_threads=n_threads, **choices)
    rhs = unknowns(read_many(system, datasets(made, 11)))
    gradients = gradients_of(system)
    alone = [bytes_of(gradients.solve(one, TOLERANCE, 200)) for one in rhs]
    assert len({len(one[1]) for one in alone}) > 1 or name in ("I", "QU")
    for n in (1, 2, 3, 8, 11):
        found = gradients.solve_many(rhs[:n], TOLERANCE, 200)
        assert [bytes_of(one) for one in found] == alone[:n]


def test_the_steps_of_each_are_told():
    made = with_gaps()
    system = make_system(made, numbered(40), n_lag=12)
    told = [[], []]
    found = gradients_of(system).solve_many(
        unknowns(read_many(system, datasets(made, 2))), TOLERANCE, 200, lambda n, step: told[n].append(step)
    )
    assert [one.history for one in found] == told
    assert all(one.converged for one in found)


def test_one_that_fails_stops_no_other():
    made = with_gaps()
    system = make_system(made, numbered(40), n_lag=12)
    rhs = unknowns(read_many(system, datasets(made, 3)))
    rhs[1].pixels[3, 1] = np.nan
    rhs.append(rhs[0].zeros_like())
    gradients = gradients_of(system)
    found = gradients.solve_many(rhs, TOLERANCE, 200)
    assert [one.converged for one in found] == [True, False, True, True]
    assert "not finite" in found[1].reason
    assert bytes_of(found[2]) == bytes_of(gradients.solve(rhs[2], TOLERANCE, 200))
    assert not found[3].map.pixels.any() and found[3].iterations == 0
    with pytest.raises(ConvergenceError, match="not finite"):
        gradients.solve(rhs[1], TOLERANCE, 200)
    assert [one.converged for one in gradients.solve_many(rhs, TOLERANCE, 2)] == [False, False, False, True]
    assert gradients.solve_many([], TOLERANCE, 200) == []


def results(comm):
    """Return the bits of all cases on the ranks of a communicator, gathered."""
    found = {}
    for name, (observations, grid, choices) in CASES.items():
        made = observations()
        system = make_system(made, grid, comm, **choices)
        rhs = unknowns(read_many(system, datasets(made, 6)))
        gradients = gradients_of(system)
        space = Deflation.train(gradients, rhs[:2], 1e-6, 40, 4)
        solutions = gradients.solve_many(rhs[2:], TOLERANCE, 200, space=space)
        for number, one in enumerate(solutions):
            whole = np.zeros((grid.n_pix, one.map.pixels.shape[1]))
            whole[system.keys] = one.map.pixels
            history = [(step.iteration, step.relative_residual) for step in one.history]
            found[name, number] = (comm.allreduce(whole).tobytes(), history, one.true_residual)
    return found


def print_results(comm):
    from pathlib import Path

    folder = Path(comm.bcast(tempfile.mkdtemp()))
    found = results(comm)
    if comm.rank == 0:
        (folder / "found").write_text(repr(found))
        print("FOUND", folder / "found")


@pytest.fixture(scope="module")
def alone():
    return results(SerialCommunicator())


@pytest.mark.parametrize("n_ranks", [2, 3, 5])
def test_ranks_do_not_change_a_bit(alone, n_ranks):
    ended = run_ranks(print_results, n_ranks, timeout=100)
    path = next(line for line in ended.out.splitlines() if line.startswith("FOUND")).split()[1]
    with open(path) as file:
        assert file.read() == repr(alone)


# --- recycling


def slow():
    """Return observations whose maps take many iterations."""
    from mapmaking.runs import noisy_scans

    return noisy_scans(6000, 3)


@pytest.fixture(scope="module")
def slow_system():
    made = slow()
    system = make_system(made, Healpix(8, nest=True), n_lag=512)
    return system, unknowns(read_many(system, datasets(made, 4)))


def test_a_space_makes_iterations_fewer_and_the_map_the_same(slow_system):
    system, rhs = slow_system
    gradients = gradients_of(system)
    space = Deflation.train(gradients, rhs[:2], 1e-10, 200, 20)
    assert space.n_vectors == 20
    for one in rhs[2:]:
        alone = gradients.solve(one, TOLERANCE, 300)
        helped = gradients.solve(one, TOLERANCE, 300, space=space)
        assert alone.converged and helped.converged and helped.true_residual <= 2 * TOLERANCE
        assert helped.iterations <= 0.8 * alone.iterations
        # the residual bounds the error, as M^-1 A has no eigenvalue below a hundredth
        size = np.abs(alone.map.pixels).max()
        np.testing.assert_allclose(helped.map.pixels, alone.map.pixels, rtol=0, atol=1e-5 * size)


def test_a_space_does_not_depend_on_what_was_done_before(slow_system):
    system, rhs = slow_system
    first, second = (Deflation.train(gradients_of(system), rhs[:2], 1e-6, 60, 5) for _ in range(2))
    np.testing.assert_array_equal(first.vectors.vectors.pixels, second.vectors.vectors.pixels)
    np.testing.assert_array_equal(first.images.vectors.gaps, second.images.vectors.gaps)


def test_a_space_of_all_solves_at_once():
    made = [recorded(np.random.default_rng(3), 3, 900, 6, 12)]
    system = make_system(made, numbered(6), n_lag=12, flags="cut")
    rhs = unknowns(read_many(system, datasets(made, 2)))
    gradients = gradients_of(system)
    units = []
    for at in range(18):
        units.append(rhs[0].zeros_like())
        units[-1].pixels.flat[at] = 1
    vectors = Unknowns.beside(units, 24)
    images = [gradients.times(Unknowns.beside([one])).column(0) for one in units]
    space = Deflation(vectors, Unknowns.beside(images, 24), 18, system.comm, 1)
    solution = gradients.solve(rhs[1], 1e-8, 5, space=space)
    assert solution.converged and solution.iterations == 0
    np.testing.assert_allclose(solution.map.pixels, gradients.solve(rhs[1], 1e-12, 99).map.pixels, rtol=1e-8)


def test_nothing_to_learn_is_no_space(slow_system):
    system, rhs = slow_system
    gradients = gradients_of(system)
    space = Deflation.train(gradients, [rhs[0].zeros_like()], 1e-6, 60, 5)
    assert space.n_vectors == 0
    found = gradients.solve(rhs[1], 1e-6, 100, space=space)
    assert bytes_of(found) == bytes_of(gradients.solve(rhs[1], 1e-6, 100))
    assert solve(system).converged
