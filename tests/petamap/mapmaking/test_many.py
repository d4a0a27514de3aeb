"""Many right-hand sides at once: each is solved for as it is alone, to the bit."""

import tempfile
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks
from small_systems import (
    Samples,
    as_matrix,
    compressed,
    datasets,
    gradients_of,
    make_system,
    numbered,
    operator_of,
    read,
    read_many,
    recorded,
    unknowns,
)

from petacomm.base.errors import ConvergenceError, DataError
from petacomm.mpi import SerialCommunicator
from petamap.mapmaking import right_hand_side
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.vectors import stack
from petamap.sky.healpix import Healpix

TOLERANCE = 1e-9


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
    history = [(step.number, step.relative_residual) for step in solution.history]
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
        for mine, other in zip((*one.unknowns, one.binned), (*alone.unknowns, alone.binned), strict=True):
            np.testing.assert_array_equal(mine, other)


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


@pytest.mark.parametrize("most", [4, 5])
def test_each_gets_its_own_best_iterate(most):
    observations, grid, choices = CASES["I"]
    made = observations()
    system = make_system(made, grid, **choices)
    rhs = unknowns(read_many(system, datasets(made, 8)))
    gradients = gradients_of(system)
    found = gradients.solve_many(rhs, 0.0, most)
    assert {one.returned for one in found} == {most - 1, most}
    for one, right in zip(found, rhs, strict=True):
        assert bytes_of(one) == bytes_of(gradients.solve(right, 0.0, most))
        best = gradients.solve(right, 0.0, one.returned)
        assert best.returned == best.iterations and bytes_of(best)[0] == bytes_of(one)[0]


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_columns_are_those_of_the_matrix(width):
    observations, grid, choices = CASES["gains"]
    system = make_system(observations(), grid, **choices)
    projection, values = system.projection, np.random.default_rng(1)
    matrix = as_matrix(operator_of(system), projection.n_local, 3, projection.gaps.n)
    vectors = stack([system.shared.zeros(3)] * width)
    for part in vectors:
        part[:] = values.standard_normal(part.shape)
    found = operator_of(system).apply(vectors)
    given, products = (np.concatenate([part.reshape(-1, width) for part in v]) for v in (vectors, found))
    np.testing.assert_allclose(products, matrix @ given, rtol=0, atol=1e-12 * np.abs(matrix @ given).max())


def test_the_steps_of_each_are_told():
    made = with_gaps()
    system = make_system(made, numbered(40), n_lag=12)
    told = [[], []]
    found = gradients_of(system).solve_many(
        unknowns(read_many(system, datasets(made, 2))), TOLERANCE, 200, lambda n, step: told[n].append(step)
    )
    for one, steps in zip(found, told, strict=True):
        # the bounds of the error that are told on the way are not yet those of the end
        assert [replace(step, error_bound=0.0) for step in one.history] == [
            replace(step, error_bound=0.0) for step in steps
        ]
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
        solutions = gradients.solve_many(rhs[2:], TOLERANCE, 200, deflation=space)
        for number, one in enumerate(solutions):
            whole = np.zeros((grid.n_pix, one.map.pixels.shape[1]))
            whole[system.keys] = one.map.pixels
            history = [(step.number, step.relative_residual) for step in one.history]
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


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 5)))
def test_ranks_do_not_change_a_bit(alone, n_ranks):
    ended = run_ranks(print_results, n_ranks)
    path = next(line for line in ended.out.splitlines() if line.startswith("FOUND")).split()[1]
    with open(path) as file:
        assert file.read() == repr(alone)


@pytest.mark.parametrize("in_cache", [0, 1 << 25])
@pytest.mark.parametrize("kinds", [["any"], ["any", "rows"]])
def test_blocks_are_read_range_by_range_only_where_order_is_free(monkeypatch, in_cache, kinds):
    """The right-hand side does not depend on it."""
    read = []

    @dataclass(frozen=True, eq=False)
    class Recorded(Samples):
        any_order: bool = False

        def add_signal(self, detector, start, stop, out):
            read.append(detector)
            super().add_signal(detector, start, stop, out)

    monkeypatch.setattr(right_hand_side, "_IN_CACHE", in_cache)
    rng = np.random.default_rng(3)
    made = compressed(rng, 20_000, 3, flagged=0.01)
    signals = tuple(Recorded(rng.standard_normal((3, 20_000)), kind == "any") for kind in kinds)
    made = replace(made, signals=signals)
    system = make_system([made], Healpix(8, nest=True), n_lag=40)
    found = right_hand_side.right_hand_side(system)
    turns = np.flatnonzero(np.diff(read)).size + 1
    assert (turns > 3) == (in_cache == 0 and kinds == ["any"])
    plain = replace(made, signals=tuple(Samples(one.values) for one in signals))
    expected = right_hand_side.right_hand_side(make_system([plain], Healpix(8, nest=True), n_lag=40))
    assert found.binned.tobytes() == expected.binned.tobytes()
    assert found.unknowns.pixels.tobytes() == expected.unknowns.pixels.tobytes()


@pytest.mark.parametrize("in_memory", [False, True])
def test_sums_of_what_is_made_are_shared_by_two_threads(monkeypatch, in_memory):
    """No two add to the same sums at the same time."""

    @dataclass(frozen=True, eq=False)
    class Quick(Samples):
        any_order = True

    Quick.in_memory = in_memory
    added_to, all_sums, together = set(), set(), []
    add = right_hand_side._mapmaking.add_signals

    def add_slowly(*arguments):
        sums = arguments[-3].ctypes.data
        together.append(sums in added_to)
        added_to.add(sums)
        all_sums.add(sums)
        time.sleep(2e-3)
        add(*arguments)
        added_to.discard(sums)

    monkeypatch.setattr(right_hand_side._mapmaking, "add_signals", add_slowly)
    rng = np.random.default_rng(3)
    signals = (Quick(rng.standard_normal((3, 20_000))),)
    made = replace(compressed(rng, 20_000, 3, flagged=0.01), signals=signals)
    copies, found = [], set()
    for n_threads in (1, 2, 3):
        system = make_system([made], Healpix(1, nest=True), n_lag=40, n_threads=n_threads)
        all_sums.clear()
        rhs = right_hand_side.right_hand_side(system)
        found.add(rhs.binned.tobytes() + b"".join(part.tobytes() for part in rhs.unknowns))
        copies.append(len(all_sums))
    assert not any(together)
    assert (copies, len(found)) == ([1, 2, 3] if in_memory else [1, 1, 2], 1)
