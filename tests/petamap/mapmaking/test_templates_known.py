"""Known signals with unknown factors: against dense algebra, on any number of ranks, and what they take."""

import dataclasses

import numpy as np
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import check_same_on_ranks
from scipy.linalg import block_diag
from small_systems import (
    Samples,
    compressed,
    dense,
    full_map,
    make_system,
    n_gap_samples,
    numbered,
    operator_of,
    recorded,
    solve,
    times,
)

from petamap.mapmaking.amplitude_table import gather_amplitudes
from petamap.mapmaking.vectors import Unknowns
from petamap.sky.healpix import Healpix
from petamap.templates.kinds import Baselines
from petamap.templates.known_signals import KnownSignal

INTERVALS = ((0, 140), (150, 300))
RMS = 0.05


def made(rng, rms=RMS):
    """Return observations with gains of known signals and baselines, and one without."""
    one = recorded(rng, 2, 300, 6, 5, INTERVALS, flagged=0.1, outside=0.05)
    known = KnownSignal(Samples(3 * rng.standard_normal((2, 300))), length=6.0, rms=rms)
    leaks = KnownSignal(Samples(rng.standard_normal((2, 300))), "leakage", rms=rms)
    one = dataclasses.replace(one, templates=(known, Baselines(7.0), leaks))
    return [one, recorded(rng, 1, 200, 6, 5, name="other", uid=2)]


def dense_solution(observations, rms):
    """Return the map and factors by generalized least squares with their prior."""
    parts, (one, _) = dense(observations, numbered(6), "IQU", 5), observations
    rows, priors = [], []
    for start, stop in one.intervals:  # streams are those of detectors in each interval
        for detector in range(one.n_det):
            columns = []
            for template in one.templates:
                own = isinstance(template, KnownSignal)
                matrix = template.term(one, start, stop)
                if own:
                    values = template.signal.values[detector, start:stop]
                    matrix = dataclasses.replace(matrix, values=values[None])
                columns.append(matrix.matrix(0, stop - start).toarray())
                priors += [rms**-2 if own else 0.0] * columns[-1].shape[1]
            rows.append(np.hstack(columns))
    templates = np.vstack([block_diag(*rows), np.zeros((200, len(priors)))])
    design = np.hstack([parts.response, templates])[parts.good]
    covariance = np.linalg.inv(parts.inverse)[np.ix_(parts.good, parts.good)]
    weighted = np.linalg.solve(covariance, design)
    normal = design.T @ weighted + np.diag(np.concatenate([np.zeros(18), priors]))
    found = np.linalg.solve(normal, weighted.T @ parts.data[parts.good])
    return found[:18].reshape(6, 3), found[18:]


@pytest.mark.parametrize("kind", ["two-level", "block-diagonal"])
def test_equals_the_dense_solution(kind):
    observations = made(np.random.default_rng(4))
    system = make_system(observations, numbered(6), preconditioner=kind)
    solution = solve(system)
    assert solution.converged
    expected, factors = dense_solution(observations, RMS)
    found = full_map(system, solution.map.pixels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    table = gather_amplitudes(system, solution)
    np.testing.assert_allclose(table.values, factors, rtol=0, atol=1e-9 * np.abs(factors).max())


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 1.0))
def test_functions_are_the_adjoint_of_sums(seed, rms):
    rng = np.random.default_rng(seed)
    system = make_system(made(rng, rms), numbered(6))
    operator = operator_of(system)
    n_rows = n_gap_samples(system) + system.projection.amplitudes.n
    vectors = [Unknowns(rng.uniform(-1, 1, (6, 3)), rng.uniform(-1, 1, (n_rows, 1))) for _ in range(2)]
    images = [times(operator, vector, 1.0) for vector in vectors]
    for image in images:  # sums over samples have a unit of their own
        image.gaps[-system.projection.amplitudes.n :] *= system.projection.amplitudes.sum_unit
    products = [
        np.vdot(vectors[k].pixels, images[1 - k].pixels) + np.vdot(vectors[k].gaps, images[1 - k].gaps)
        for k in range(2)
    ]
    size = np.linalg.norm(images[0].pixels) + np.linalg.norm(images[0].gaps)
    assert abs(products[0] - products[1]) < 1e-12 * size * np.sqrt(n_rows)


def _bits(comm):
    """Return the bits of a solution with gains of a known sky."""
    rng = np.random.default_rng(8)
    one = compressed(rng, n_samp=3000, n_det=3, flagged=0.05, speed=0.01)
    known = KnownSignal(Samples(rng.standard_normal((3, 3000))), length=60.0, rms=0.1)
    one = dataclasses.replace(one, templates=(Baselines(20.0), known))
    system = make_system([one], Healpix(4, nest=True), comm, n_lag=20)
    solution = solve(system, 1e-7, 40)
    parts = comm.allgather((system.keys, solution.map.pixels))
    keys, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return solution.iterations, values[np.argsort(keys)].tobytes()


@pytest.mark.parametrize("n_ranks", cases(3, long=(2,)))
def test_ranks_do_not_change_a_bit(n_ranks):
    check_same_on_ranks(_bits, n_ranks)
