"""Integer sums: their rounding against 80-bit arithmetic, and that they never overflow."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import one_detector
from small_systems import (
    Models,
    Samples,
    dense,
    make_system,
    numbered,
    operator_of,
    read,
    recorded,
    solve,
    times,
)

from petacomm.base.errors import DataError
from petamap.mapmaking.normal_operator import NormalOperator
from petamap.mapmaking.vectors import Unknowns
from petamap.noise.model import InverseLags

LIMIT = 1e-11  # of the rms of the map


def extended(made, sky, n_lag):
    """Return P^T N^-1 P sky and P^T N^-1 d of one observation in extended precision, (n_pix, 3)."""
    sky = sky.astype(np.longdouble)
    totals = np.zeros((2, *sky.shape), np.longdouble)
    grid = numbered(len(sky))
    for detector in range(made.n_det):
        n = made.n_samp
        pixels, angles, gains = np.empty(n, np.int32), np.empty(n, np.uint32), np.ones(n, np.float32)
        made.pointing.expand(grid, detector, 0, n, pixels, angles, gains)
        phi = angles.astype(np.longdouble) * (2 * np.longdouble(np.pi) / 2**32)
        efficiency = np.longdouble(made.pointing.efficiency(detector))
        response = np.stack([np.ones(n), efficiency * np.cos(phi), efficiency * np.sin(phi)], axis=1)
        response *= gains[:, None]
        lags = np.zeros(n_lag + 1, np.longdouble)
        given_lags = made.noise.noise_model(detector, 0).lags
        lags[: len(given_lags)] = given_lags
        data = np.zeros(n)
        made.signals[0].add_signal(detector, 0, n, data)
        for total, time in zip(totals, ((response * sky[pixels]).sum(axis=1), data), strict=True):
            filtered = lags[0] * time
            for lag in range(1, n_lag + 1):
                filtered[lag:] += lags[lag] * time[:-lag]
                filtered[:-lag] += lags[lag] * time[lag:]
            np.add.at(total, pixels, response * filtered[:, None])
    return totals


def apply(system, sky, hits_max=None):
    """Return P^T N^-1 P sky by the operator."""
    operator = NormalOperator(
        system.projection, system.noise, system.shared, hits_max or system.statistics.hits_max
    )
    vector = Unknowns(sky.copy(), np.zeros((system.projection.gaps.n, 1)))
    return times(operator, vector, np.abs(sky).sum(axis=1).max()).pixels


def in_map(system, residual):
    """Return M^-1 residual: what an error of the operator does to the map."""
    full = np.zeros((len(residual), 3, 3))
    i, j = np.triu_indices(3)
    full[:, i, j] = full[:, j, i] = system.statistics.covariance
    return np.einsum("pij,pj->pi", full, residual.astype(float))


def relative_errors(made, sky, n_lag):
    """Return errors of the operator and of the right-hand side in the map, over their rms."""
    system = make_system([made], numbered(len(sky)), n_lag=n_lag)
    assert not system.statistics.dead.any()
    applied, data = extended(made, sky, n_lag)
    errors = in_map(system, apply(system, sky) - applied), in_map(system, read(system).unknowns.pixels - data)
    scales = sky, in_map(system, data)
    return [np.abs(e).max() / np.sqrt(np.mean(s**2)) for e, s in zip(errors, scales, strict=True)]


@pytest.mark.parametrize("n_lag", [0, 20])
@pytest.mark.parametrize("gains", [None, 5.0, 1e6, 1e-6])
def test_rounding(n_lag, gains):
    rng = np.random.default_rng(3)
    made = recorded(rng, 2, 3000, 50, n_lag, gains=gains, weights=(1.0, 0.1))
    assert max(relative_errors(made, rng.standard_normal((50, 3)), n_lag)) < LIMIT


def test_rounding_with_detectors_of_different_gain_and_noise():
    # gains that differ by 10^4 with matching noise: as if one were in volts
    rng = np.random.default_rng(4)
    made = recorded(rng, 2, 3000, 50, 10, gains=1.0, weights=(1.0, 1.0))
    size = np.array([[1.0], [1e-4]])
    gains = size * rng.uniform(0.5, 1.5, (2, 3000))
    pixels, angles = np.empty((2, 3000), np.int32), np.empty((2, 3000), np.uint32)
    for detector in range(2):
        made.pointing.expand(numbered(50), detector, 0, 3000, pixels[detector], angles[detector])
    # the pixels of the second detector are its own
    pixels = pixels // 2 + np.array([[0], [25]], np.int32)
    pointing = type(made.pointing)(pixels, numbered(50), angles=angles, gains=gains.astype(np.float32))
    models = Models(tuple((InverseLags(made.noise.rows[d][0].lags / size[d] ** 2),) for d in range(2)))
    made = dataclasses.replace(made, pointing=pointing, noise=models)
    assert max(relative_errors(made, rng.standard_normal((50, 3)), 10)) < LIMIT


def test_rounding_beside_a_pixel_a_million_times_brighter():
    rng = np.random.default_rng(5)
    made = recorded(rng, 2, 3000, 50, 12)
    sky = rng.standard_normal((50, 3))
    faint = np.sqrt(np.mean(sky**2))
    sky[7] *= 1e6
    assert max(relative_errors(made, sky, 12)) < LIMIT
    system = make_system([made], numbered(50), n_lag=12)
    errors = in_map(system, apply(system, sky) - extended(made, sky, 12)[0])
    assert np.abs(np.delete(errors, 7, axis=0)).max() < 1e-8 * faint


def test_rounding_where_hits_need_the_room():
    rng = np.random.default_rng(6)
    n = 400_000
    made = recorded(rng, 1, n, 3, 2)
    assert relative_errors(made, rng.standard_normal((3, 3)), 2)[0] < LIMIT
    system = make_system([made], numbered(3), n_lag=2)
    assert system.statistics.hits_max > 2**16  # far above what 51-bit terms leave room for
    # as if a pixel had been hit 10^12 times: coarser, and right to what is left
    sky = rng.standard_normal((3, 3))
    np.testing.assert_allclose(apply(system, sky, 10**12), extended(made, sky, 2)[0], rtol=2e-3, atol=2e4)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 400),
    st.floats(-300, 300).map(lambda e: 2.0 ** int(e)),
    st.integers(-200, 200).map(lambda e: 2.0**e),
    st.sampled_from([np.nextafter(1, 0), 1.0, 1 + 2.0**-40, 1.5, np.nextafter(2, 0)]),
    st.sampled_from([1.0, np.nextafter(2, 0), 0.7]),
)
def test_the_largest_sums_do_not_overflow(hits, unit, weight, value, norm):
    # every sample at the bound: no term smaller than the largest allowed
    made = one_detector(
        np.zeros(hits), np.zeros(hits), n_pix=1, noise=Models(((InverseLags(np.array([norm * weight])),),))
    )
    system = make_system([made], numbered(1), n_lag=0, stokes="I")
    sky = np.array([[value * unit]])
    for hits_max in (hits, 10 * hits, 2**30):
        found = apply(system, sky, hits_max)[0, 0]
        assert found == pytest.approx(hits * value * unit * norm * weight, rel=1e-8)


def test_the_largest_sums_of_a_million_samples_do_not_overflow():
    n = 1 << 20
    values, weight = np.full(n, np.nextafter(2, 0)), np.nextafter(2, 0)
    made = one_detector(values, np.zeros(n), n_pix=1, noise=Models(((InverseLags(np.array([weight])),),)))
    system = make_system([made], numbered(1), n_lag=0, stokes="I")
    assert apply(system, np.array([[np.nextafter(2, 0)]]))[0, 0] == pytest.approx(4 * n, rel=1e-12)
    assert read(system).unknowns.pixels[0, 0] == pytest.approx(4 * n, rel=1e-12)
    assert solve(system).map.pixels[0, 0] == pytest.approx(2, rel=1e-12)


# --- units


def in_other_units(made, factor):
    """Return the observation with its signal `factor` times larger, noise and all."""
    rows = tuple(tuple(InverseLags(m.lags / factor**2) for m in row) for row in made.noise.rows)
    return dataclasses.replace(made, noise=Models(rows), signals=(Samples(made.signals[0].values * factor),))


@pytest.mark.parametrize("exponent", [-133, -40, 40, 133])
def test_powers_of_two_as_units_change_the_exponents_alone(exponent):
    made = recorded(np.random.default_rng(9), 2, 500, 10, 8, None, 2.0, 0.1, 0.05, (1.0, 0.2))
    plain, scaled = (
        solve(make_system([one], numbered(10), n_lag=8))
        for one in (made, in_other_units(made, 2.0**exponent))
    )
    np.testing.assert_array_equal(scaled.map.pixels, plain.map.pixels * 2.0**exponent)
    assert [s.relative_residual for s in scaled.history] == [s.relative_residual for s in plain.history]


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_extreme_units(factor):
    made = recorded(np.random.default_rng(10), 2, 400, 8, 8, None, 2.0, 0.1)
    expected = dense([made], numbered(8), "IQU", 8).map().reshape(8, 3)
    found = solve(make_system([in_other_units(made, factor)], numbered(8), n_lag=8)).map.pixels
    np.testing.assert_allclose(found, factor * expected, rtol=0, atol=1e-10 * factor)


@pytest.mark.parametrize("gains", [1e-8, 1e-3, 1e5, 1e8])
@pytest.mark.parametrize("flags", ["exact", "levels"])
def test_extreme_gains(gains, flags):
    # as a stream whose unit is not that of the map: noise of the size of the response to the sky
    made = recorded(np.random.default_rng(11), 2, 400, 8, 8, None, gains, 0.1)
    made = in_other_units(made, gains)
    expected = dense([made], numbered(8), "IQU", 8).map().reshape(8, 3)
    solution = solve(make_system([made], numbered(8), n_lag=8, flags=flags))
    assert solution.converged
    if flags == "exact":
        np.testing.assert_allclose(solution.map.pixels, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


# --- samples that cannot be


@pytest.mark.parametrize("n_lag", [0, 6])
@pytest.mark.parametrize("value", [1e12, -1e12, 1e200, 1.7e308])
def test_a_sample_far_beyond_the_noise_is_refused(n_lag, value):
    made = recorded(np.random.default_rng(12), 2, 300, 5, n_lag)
    made.signals[0].values[1, 123] = value
    with pytest.raises(DataError, match="more than 10\\^9 times its noise") as caught:
        read(make_system([made], numbered(5), n_lag=n_lag))
    assert "made" in caught.value.where and "d1" in caught.value.where and "sample 123" in caught.value.where


def test_a_sample_a_hundred_million_times_the_noise_is_not():
    made = recorded(np.random.default_rng(13), 2, 300, 5, 6)
    made.signals[0].values[1, 123] = 1e8
    found = solve(make_system([made], numbered(5), n_lag=6)).map.pixels
    expected = dense([made], numbered(5), "IQU", 6).map().reshape(5, 3)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_operators_of_one_case_agree():
    """`apply` above is the operator that the solver uses."""
    made = recorded(np.random.default_rng(14), 1, 200, 4, 3)
    system = make_system([made], numbered(4), n_lag=3)
    sky = np.random.default_rng(1).standard_normal((4, 3))
    found = times(operator_of(system), Unknowns(sky, np.zeros((0, 1))), np.abs(sky).sum(axis=1).max())
    np.testing.assert_array_equal(found.pixels, apply(system, sky))
