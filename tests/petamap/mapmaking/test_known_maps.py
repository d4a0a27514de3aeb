"""Known signals of the sky in the preconditioner's model: against dense algebra, the same on any ranks."""

import dataclasses

import numpy as np
import pytest
from dense_model import dense_model
from mpi import run_ranks
from small_systems import Models, Samples, compressed, make_system, solve

from petacomm.mpi import SerialCommunicator
from petamap.data.template import Sharing
from petamap.mapmaking.known_maps import known_maps
from petamap.noise.model import OneOverF
from petamap.simulation.sky import Sky, SkySignal
from petamap.sky.healpix import Healpix
from petamap.templates.kinds import Baselines
from petamap.templates.known_signals import KnownSignal

STEEP = Models(((OneOverF(net=0.3, fknee=0.5, fmin=2e-3, alpha=-2.5),),))
PIXELS, RMS = Healpix(2, nest=True), 0.05


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


def factor_covariance(system, one):
    """Return what adds the covariance of the factor of a stream to that of the noise of a segment."""
    known, projection = one.templates[0].signal, system.projection

    def covariance(number, n):
        stream = system.layout.streams[projection.local.segments[number].stream]
        values = np.zeros(n)
        known.add_signal(stream.detector, 0, n - 2 * stream.margin, values[stream.margin : n - stream.margin])
        return RMS**2 * np.outer(values, values) / projection.units[number] ** 2

    return covariance


def applied(apply, n, n_stokes=3):
    units = np.eye(n * n_stokes).reshape(n, n_stokes, -1)
    images = [apply(units[..., k : k + 1].copy())[..., 0].ravel() for k in range(n * n_stokes)]
    return np.array(images).T


@pytest.mark.parametrize("flagged", [0.0, 0.1])
def test_the_model_is_the_schur_complement_with_the_factors(flagged):
    one = observation(leakage, flagged=flagged)
    system = system_of(one)
    inverse = system.preconditioner.inverse
    assert len(inverse.model.known) == 1
    n = inverse.model.pixels.n_owned
    found = applied(inverse.apply, n)
    expected = dense_model(system, factor_covariance(system, one))
    # directions of the map that the factor takes: without it they are far better determined
    without = applied(system_of(dataclasses.replace(one, templates=())).preconditioner.inverse.apply, n)
    assert np.abs(without - expected).max() > 0.1 * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(found, found.T, rtol=0, atol=1e-6 * np.abs(found).max())
    assert np.linalg.eigvalsh((found + found.T) / 2).min() > 0


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


def maps_of(one, pixels=PIXELS):
    system = system_of(one, pixels=pixels)
    return known_maps(system.projection, system.shared.pixels, system.comm), system


def test_a_map_is_that_of_the_signal():
    one = observation(leakage)
    maps, system = maps_of(one)
    values = one.templates[0].signal.sky.values[:, 0]
    np.testing.assert_allclose(maps["leakage"], values[system.keys], rtol=0, atol=2e-5)


def test_a_finer_map_is_averaged_and_what_is_no_map_left_out():
    one = observation(
        lambda one: KnownSignal(sky_signal(one, 8), "fine", rms=RMS),
        KnownSignal(Samples(np.random.default_rng(1).standard_normal((2, 1200))), "noise", rms=RMS),
    )
    assert maps_of(one)[0] == {}  # samples of a pixel differ as much as those of others
    maps, system = maps_of(one, Healpix(8, nest=True))
    values = one.templates[0].signal.sky.values[:, 0]
    assert [*maps] == ["fine"]
    seen = system.statistics.hits > 0
    np.testing.assert_allclose(maps["fine"][seen], values[system.keys][seen], rtol=0, atol=2e-5)


def test_a_smooth_signal_is_one_of_coarser_pixels():
    one = observation(n_samp=4000, n_det=3)
    fine = Healpix(32, nest=True)
    height = fine.directions_of(np.arange(fine.n_pix))[None, :, 2]
    smooth = KnownSignal(SkySignal(Sky(fine, lambda: height), one.pointing), "smooth", rms=RMS)
    maps, system = maps_of(dataclasses.replace(one, templates=(smooth,)), Healpix(4, nest=True))
    seen = system.statistics.hits > 0
    coarse = Healpix(4, nest=True).directions_of(system.keys)[:, 2]
    assert np.abs(maps["smooth"] - coarse)[seen].max() < 0.2
    assert np.corrcoef(maps["smooth"][seen], coarse[seen])[0, 1] > 0.98


def bits(comm):
    """Return the bits of a solution with two known signals, of which one is a map of the pixels."""
    one = observation(
        lambda one: leakage(one, length=60.0), lambda one: KnownSignal(sky_signal(one, 8), "fine", rms=RMS),
        Baselines(20.0), n_samp=3000, n_det=3, flagged=0.05,
    )  # fmt: skip
    system = system_of(one, comm, Healpix(4, nest=True))
    n_known = len(system.preconditioner.inverse.model.known)
    solution = solve(system, 1e-7, 60)
    parts = comm.allgather((system.keys, solution.map.pixels))
    keys, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return n_known, solution.iterations, values[np.argsort(keys)].tobytes()


def same_bits(comm):
    found = bits(comm)
    assert found == bits(SerialCommunicator())
    assert found[0] > 0


@pytest.mark.parametrize("n_ranks", [2, 3, 5])
def test_ranks_do_not_change_a_bit(n_ranks):
    run_ranks(same_bits, n_ranks)
