"""Templates in the preconditioner's model as its pixels see them: against dense algebra, on any ranks."""

import dataclasses
import itertools

import numpy as np
import pytest
from cases import cases
from dense_model import dense_model
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import check_same_on_ranks
from scipy import sparse
from small_systems import Models, Samples, compressed, make_system, solve, two_level_of

from petamap.data.template import Sharing
from petamap.mapmaking.amplitude_visits import amplitude_visits, join_blocks
from petamap.noise.model import OneOverF
from petamap.simulation.sky import Sky, SkySignal
from petamap.sky.healpix import Healpix
from petamap.templates.kinds import Baselines, Columns
from petamap.templates.known_signals import KnownSignal

STEEP = Models(((OneOverF(net=0.3, fknee=0.5, fmin=2e-3, alpha=-2.5),),))
PIXELS, RMS = Healpix(2, nest=True), 0.05


# fast as a plate's, and slow
WAVES = Columns(np.sin(np.outer([1.3, 0.11, 0.004], np.arange(1200))))


def sky_signal(one, n_side=2, seed=3):
    """Return a sky of I alone that detectors see."""
    values = 40 * np.random.default_rng(seed).standard_normal((1, 12 * n_side**2))
    return SkySignal(Sky(Healpix(n_side, nest=True), lambda: values), one.pointing)


def observation(*templates, **changes):
    rng = np.random.default_rng(8)
    one = compressed(rng, **({"n_samp": 1200, "n_det": 2, "speed": 0.01} | changes))
    object.__setattr__(one, "noise", STEEP)
    made = tuple(template(one) if callable(template) else template for template in templates)
    return dataclasses.replace(one, templates=made)


def leakage(one, **choices):
    return KnownSignal(sky_signal(one), "leakage", rms=RMS, **choices)


def system_of(one, comm=None, pixels=PIXELS, **choices):
    return make_system([one], pixels, comm, **({"n_lag": 100, "preconditioner": "two-level"} | choices))


def template_functions(system, any_size=300.0):
    """Return what tells the functions of the templates of a segment, and how large their amplitudes are."""
    projection = system.projection

    def functions(number, n):
        segment = projection.local.segments[number]
        margin = system.layout.streams[segment.stream].margin
        made, sigmas = [], []
        for term in projection.amplitudes.terms.of(segment.stream):
            made.append(term.matrix(-margin, n - margin).toarray())
            sigma = any_size if term.prior is None else term.prior.rms / projection.units[number]
            sigmas += [sigma] * term.n_amplitudes
        return np.hstack(made), np.array(sigmas)

    return functions


def applied(apply, n, n_stokes=3):
    units = np.eye(n * n_stokes).reshape(n, n_stokes, -1)
    images = [apply(units[..., k : k + 1].copy())[..., 0].ravel() for k in range(n * n_stokes)]
    return np.array(images).T


def noise_like(one):
    """Return a known signal that is no map: its samples in a pixel differ as much as others."""
    return KnownSignal(Samples(np.random.default_rng(1).standard_normal((2, 1200))), "noise", rms=RMS)


@pytest.mark.parametrize("flagged", [0.0, 0.1])
@pytest.mark.parametrize(
    "template", [leakage, noise_like, Baselines(8.0), WAVES], ids=["map", "noise", "steps", "waves"]
)
def test_the_model_is_the_schur_complement_with_the_amplitudes(flagged, template):
    one = observation(template, flagged=flagged)
    system = system_of(one)
    inverse = two_level_of(system).inverse
    n = inverse.model.pixels.n_owned
    found = applied(inverse.apply, n)
    expected = dense_model(system, template_functions(system))
    without = applied(system_of(dataclasses.replace(one, templates=())).preconditioner.inverse.apply, n)
    assert np.abs(without - expected).max() > 5e-4 * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(found, found.T, rtol=0, atol=1e-7 * np.abs(found).max())
    assert np.linalg.eigvalsh((found + found.T) / 2).min() > -1e-7 * np.abs(found).max()


def test_the_coarse_matrix_is_that_of_groups():
    inverse = system_of(observation(leakage)).preconditioner.inverse
    n, groups = inverse.model.pixels.n_owned, inverse._groups
    whole = applied(inverse.apply, n).reshape(n, 3, n, 3)
    member = np.equal.outer(np.arange(groups.n), groups.numbers).astype(float)
    expected = np.einsum("gi,iajb,hj->gahb", member, whole, member).reshape(inverse.n_coarse, -1)
    np.testing.assert_allclose(inverse._coarse_matrix(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("length", "sharing"), [(0.0, None), (30.0, None), (0.0, Sharing("observation")), (0.0, Sharing("run"))]
)
def test_it_is_symmetric_and_positive_and_saves_iterations(length, sharing):
    one = observation(
        lambda one: leakage(one, length=length, sharing=sharing), Baselines(20.0), n_samp=4000, n_det=3
    )
    found = {kind: system_of(one, preconditioner=kind) for kind in ("two-level", "block-diagonal")}
    solutions = {kind: solve(system, 1e-10, 3000) for kind, system in found.items()}
    assert all(one.converged for one in solutions.values())
    two, alone = (np.squeeze(solutions[kind].map.pixels) for kind in found)
    for pixels in (two, alone):  # baselines leave the mean of I open
        pixels[:, 0] -= pixels[:, 0].mean()
    np.testing.assert_allclose(two, alone, rtol=0, atol=1e-6 * np.abs(alone).max())
    without = solve(system_of(dataclasses.replace(one, templates=(one.templates[1],))), 1e-10, 3000)
    assert solutions["two-level"].iterations <= 1.5 * without.iterations


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), n_stokes=st.integers(1, 3), n=st.integers(0, 60), pieces=st.integers(1, 4)
)
def test_sums_are_those_of_every_sample(seed, n_stokes, n, pieces):
    rng = np.random.default_rng(seed)
    rows, responses = rng.integers(-1, 5, n).astype(np.int32), rng.standard_normal((n, n_stokes))
    functions = sparse.random(n, 3, 0.6, "csr", rng=rng)
    expected = np.zeros((3, 5, n_stokes))
    for i in np.flatnonzero(rows >= 0):
        expected[:, rows[i]] += functions[[i]].toarray()[0][:, None] * responses[i]
    ends = np.linspace(0, n, pieces + 1).astype(int)
    tables = [
        amplitude_visits(functions[a:b], rows[a:b], responses[a:b]) for a, b in itertools.pairwise(ends)
    ]
    together = np.concatenate(tables)
    table, places = join_blocks(together, together[:, 1].astype(np.int64), n_stokes)
    found = np.zeros_like(expected)
    found[places, table[:, 0]] = table[:, 2:].copy().view(np.float32)
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-7 * max(1.0, np.abs(expected).max()))
    assert not table[:, 1].any()
    assert len(np.unique(places * 5 + table[:, 0])) == len(table)
    assert np.all(np.diff(places) >= 0)


def bits(comm):
    """Return the bits of a solution with templates of several kinds."""
    one = observation(
        lambda one: leakage(one, length=60.0), lambda one: KnownSignal(sky_signal(one, 8), "fine", rms=RMS),
        Baselines(20.0), n_samp=3000, n_det=3, flagged=0.05,
    )  # fmt: skip
    system = system_of(one, comm, Healpix(4, nest=True))
    n_entries = comm.sum(len(two_level_of(system).inverse.model._amplitude_visits.table))
    assert n_entries > 0
    solution = solve(system, 1e-7, 60)
    parts = comm.allgather((system.keys, solution.map.pixels))
    keys, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return n_entries, solution.iterations, values[np.argsort(keys)].tobytes()


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 5)))
def test_ranks_do_not_change_a_bit(n_ranks):
    check_same_on_ranks(bits, n_ranks)
