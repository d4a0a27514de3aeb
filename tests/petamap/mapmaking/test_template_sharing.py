"""Amplitudes that streams have in common: against dense algebra, and on any number of ranks."""

import dataclasses

import numpy as np
import pytest
from cases import cases
from mpi import check_same_on_ranks
from small_systems import Models, compressed, dense, full_map, make_system, numbered, recorded, solve

from petacomm.base.errors import ConfigError
from petamap.data.template import IndependentPrior, Sharing
from petamap.mapmaking.stream_terms import StreamTerms
from petamap.mapmaking.time_layout import TimeLayout
from petamap.noise.model import OneOverF
from petamap.sky.healpix import Healpix
from petamap.templates.kinds import Baselines, Columns

INTERVALS = ((0, 140), (150, 300))


@dataclasses.dataclass(frozen=True, eq=False)
class SharedColumns(Columns):
    """Columns whose amplitudes are shared."""

    sharing: Sharing | None = None


def made(rng, sharing, prior=None):
    """Return two observations with shared columns and offsets, and one without."""
    found = []
    for uid in (1, 2):
        one = recorded(rng, 2, 300, 6, 5, INTERVALS, flagged=0.1, outside=0.05, name=f"o{uid}", uid=uid)
        shared = SharedColumns(rng.standard_normal((3, 300)), prior=prior, sharing=sharing)
        found.append(dataclasses.replace(one, templates=(Baselines(20.0), shared)))
    return [*found, recorded(rng, 1, 200, 6, 5, name="other", uid=3)]


def dense_map(observations, rms=None):
    """Return the map by generalized least squares, with columns of amplitudes by their keys."""
    parts = dense(observations, numbered(6), "IQU", 5)
    terms = StreamTerms(observations, TimeLayout(observations, 5))
    columns, begin = {}, 0
    for stream, one in enumerate(terms.layout.streams):
        n = one.stop - one.start
        for keys, term in zip(terms.shared_keys(stream), terms.of(stream), strict=True):
            for key, function in zip(keys.tolist(), term.matrix(0, n).toarray().T, strict=True):
                columns.setdefault(key, np.zeros(len(parts.data)))[begin : begin + n] = function
        begin += n
    templates = np.array([columns[key] for key in sorted(columns)]).T
    design = np.hstack([parts.response, templates])[parts.good]
    covariance = np.linalg.inv(parts.inverse)[np.ix_(parts.good, parts.good)]
    weighted = np.linalg.solve(covariance, design)
    normal = design.T @ weighted
    if rms:
        known = [key for key in sorted(columns) if key in shared_of(terms)]
        places = 18 + np.searchsorted(sorted(columns), known)
        normal[places, places] += rms**-2
    found = np.linalg.lstsq(normal, weighted.T @ parts.data[parts.good], rcond=1e-12)[0]
    return found[:18].reshape(6, 3)


def shared_of(terms):
    """Return the keys of all columns."""
    return {k for s in range(len(terms.layout.streams)) for keys in terms.shared_keys(s)[1:] for k in keys}


SHARINGS = [Sharing("observation"), Sharing("run"), Sharing("run", True), Sharing("interval", True)]


@pytest.mark.parametrize("kind", ["two-level", "block-diagonal"])
@pytest.mark.parametrize("sharing", SHARINGS)
def test_equals_the_dense_solution(kind, sharing):
    observations = made(np.random.default_rng(4), sharing)
    system = make_system(observations, numbered(6), preconditioner=kind)
    amplitudes = system.projection.amplitudes
    n_sets = {"observation": 4, "run": 1 if sharing.detectors else 2, "interval": 4}[sharing.time]
    assert len(shared_of(amplitudes.terms)) == 3 * n_sets
    solution = solve(system)
    assert solution.converged
    expected = dense_map(observations)
    found = full_map(system, solution.map.pixels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_a_prior_is_counted_once():
    observations = made(np.random.default_rng(5), Sharing("run", True), IndependentPrior(0.01))
    system = make_system(observations, numbered(6))
    expected = dense_map(observations, rms=0.01)
    found = full_map(system, solve(system).map.pixels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def _bits(comm):
    return [_solved(kind, comm) for kind in ("two-level", "block-diagonal")]


def _solved(kind, comm):
    """Return the bits of a solution whose detectors have a common template."""
    rng = np.random.default_rng(8)
    one = compressed(rng, n_samp=3000, n_det=3, flagged=0.05, speed=0.01)
    noise = Models(((OneOverF(net=0.3, fknee=0.5, fmin=2e-3, alpha=-2.5),),))
    columns = SharedColumns(rng.normal(size=(4, 3000)), sharing=Sharing("observation", True))
    one = dataclasses.replace(one, noise=noise, templates=(Baselines(20.0), columns))
    system = make_system([one], Healpix(4, nest=True), comm, n_lag=200, preconditioner=kind)
    solution = solve(system, 1e-7, 12)
    parts = comm.allgather((system.keys, solution.map.pixels))
    keys, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return solution.iterations, values[np.argsort(keys)].tobytes()


@pytest.mark.parametrize("n_ranks", cases(3, long=(2,)))
def test_ranks_do_not_change_a_bit(n_ranks):
    check_same_on_ranks(_bits, n_ranks)


def test_other_numbers_of_amplitudes_are_refused():
    observations = made(np.random.default_rng(6), Sharing("run"))
    other = SharedColumns(np.ones((2, 300)), sharing=Sharing("run"))
    observations[1] = dataclasses.replace(observations[1], templates=(other,))
    with pytest.raises(ConfigError, match="the same as 3"):
        make_system(observations, numbered(6))
