"""A planet scanned both ways by a slow detector: smeared and shifted as it is, recovered by deconvolution."""

from pathlib import Path

import numpy as np
import pytest
from small_systems import Models, Samples, as_matrix, make_system, numbered, operator_of, solve

from petamap.data.observation import Observation, read_signal
from petamap.data.source import SourceContext
from petamap.data.time_constants import TimeConstantsOptions, TimeConstantsSource
from petamap.noise.model import OneOverF
from petamap.pointing.recorded import RecordedPixels

RATE, TAU, SPEED, SIGMA = 50.0, 0.06, 1.0, 0.1  # Hz, s, deg/s, deg: the planet is 0.1 s wide
N_SWEEPS, SWEEP, FINE = 20, 200, 40  # samples of a sweep of 4 deg
N = N_SWEEPS * SWEEP
N_PIX = 50
NOISE = OneOverF(net=0.02, fknee=0.3, fmin=1e-2, alpha=-1.5)


def position(samples):
    """Return degrees from the planet, there and back."""
    phase = np.mod(samples, 2 * SWEEP)
    return (np.minimum(phase, 2 * SWEEP - phase) - SWEEP / 2) * SPEED / RATE


def planet(samples):
    return np.exp(-(position(samples) ** 2) / (2 * SIGMA**2))


def slow(tau):
    """Return what a detector of time constant tau answers, by steps of a 40th of a sample."""
    t = np.arange(-20 * FINE, N * FINE) / FINE
    x, a = planet(t), np.exp(-1 / (FINE * RATE * tau))
    weight = 1 - (1 - a) * FINE * RATE * tau  # of an input that changes linearly in a step
    y = np.zeros(len(t))
    for k in range(1, len(t)):
        y[k] = a * y[k - 1] + (1 - a - weight) * x[k - 1] + weight * x[k]
    return y[20 * FINE :: FINE]


def scan(values):
    cells = np.floor((position(np.arange(N)) + 2) / 4 * N_PIX).astype(np.int32)
    return Observation(
        name="planet", uid=1, n_samp=N, sample_rate=RATE, detectors=("a",), intervals=((0, N),),
        pointing=RecordedPixels(np.clip(cells, 0, N_PIX - 1)[None], numbered(N_PIX)),
        signals=(Samples(values[None]),), noise=Models(((NOISE,),)),
    )  # fmt: skip


def deconvolved(one, **options):
    source = TimeConstantsSource(TimeConstantsOptions(tau=TAU, **options), SourceContext(Path()))
    return source.extend([one])[0]


def system_of(one):
    return make_system([one], numbered(N_PIX), stokes="I", n_lag=256)


def width_and_shift(values, forward):
    """Return the second moment and the centre of the planet in sweeps of one direction, deg."""
    samples = np.arange(N)[(np.arange(N) // SWEEP % 2 == 0) == forward]
    near = samples[np.abs(position(samples)) < 8 * SIGMA]
    weights, at = values[near] / values[near].sum(), position(near)
    centre = weights @ at
    return np.sqrt(weights @ (at - centre) ** 2), centre


def test_a_planet_is_where_it_is_and_as_wide_as_the_beam():
    y = slow(TAU)
    sharp = read_signal(deconvolved(scan(y)), 0, 0, N)
    for forward in (True, False):
        width, shift = width_and_shift(y, forward)
        assert abs(shift) == pytest.approx(TAU * SPEED, rel=0.02) and (shift > 0) == forward
        assert width == pytest.approx(np.hypot(SIGMA, TAU * SPEED), rel=0.02)
        width, shift = width_and_shift(sharp, forward)
        assert abs(shift) < 1e-5 and width == pytest.approx(SIGMA, rel=1e-5)
    # of one noise, since the detail within pixels depends on the weights
    truth, smeared, found = (
        solve(system_of(scan(values))).map.pixels[:, 0] for values in (planet(np.arange(N)), y, sharp)
    )
    assert np.abs(smeared - truth - (smeared - truth).mean()).max() > 0.1
    np.testing.assert_allclose(found - found.mean(), truth - truth.mean(), rtol=0, atol=5e-5)


def test_noise_that_was_deconvolved_is_weighed_as_what_it_became():
    chi2, wrong = [], []
    system = None
    for seed in range(12):
        rng = np.random.default_rng(seed)
        f = np.fft.rfftfreq(2 * N, 1 / RATE)
        f[0] = f[1]
        psd = 2 * NOISE.net**2 * (f**1.5 + NOISE.fknee**1.5) / (f**1.5 + NOISE.fmin**1.5)
        white = rng.standard_normal((2, len(f))) * np.sqrt(psd * RATE / 4 * 2 * N)
        noise = np.fft.irfft(white[0] + 1j * white[1])[:N]
        one = deconvolved(scan(noise))
        system = system_of(one)
        error = solve(system).map.pixels[:, 0]
        matrix = marginal(system)
        chi2.append(error @ matrix @ error)
        raw = scan(noise)
        wrong.append(error @ marginal(system_of(raw)) @ error)
    assert np.mean(chi2) == pytest.approx(N_PIX, abs=4 * np.sqrt(2 * N_PIX / 12))
    assert np.mean(wrong) > 1.05 * np.mean(chi2)


def marginal(system):
    """Return the inverse covariance of the map, gaps marginalized."""
    n = system.projection.n_local
    whole = as_matrix(operator_of(system), n, 1, system.projection.gaps.n)
    cross = whole[:n, n:]
    if not cross.size:
        return whole
    return whole[:n, :n] - cross @ np.linalg.lstsq(whole[n:, n:], cross.T, rcond=1e-12)[0]
