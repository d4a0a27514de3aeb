"""A rigid focal plane is found in angles of all samples, and given up where one sample is off."""

import numpy as np
import pytest

import petamap
from petamap.arrays import rigid_plane
from petamap.arrays.rigid_plane import LEAST_DETECTORS, RIGID
from petamap.pointing import quaternion
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.sampled import SampledPointing

N_SAMP = 5000
RATE = {"sample_rate": 10.0}


def angles(n_det=LEAST_DETECTORS, seed=2):
    """Return theta, phi, psi of detectors that are fixed about a boresight."""
    rng, t = np.random.default_rng(seed), np.arange(N_SAMP)
    boresight = quaternion.from_angles(1.4 + 0.3 * np.sin(0.031 * t), 0.0123 * t, 0.01 * t)
    plane = quaternion.from_angles(*rng.uniform(0, 0.05, (2, n_det)), rng.uniform(0, np.pi, n_det))
    q = quaternion.multiply(boresight[None], plane[:, None])
    x, y, z, w = np.moveaxis(q, -1, 0)
    theta = 2 * np.arctan2(np.hypot(x, y), np.hypot(z, w))
    plus, minus = np.arctan2(z, w), np.arctan2(x, y)
    return theta, plus - minus, plus + minus


def pointing_of(theta, phi, psi, **changes):
    return petamap.array_observation(np.zeros(theta.shape), theta, phi, psi, **RATE, **changes).pointing


def test_fixed_detectors_are_compressed():
    theta, phi, psi = angles()
    found = pointing_of(theta, phi, psi, efficiency=0.9)
    assert isinstance(found, CompressedPointing)
    assert found.boresight.knots.nbytes <= theta.size
    assert found.efficiency(3) == pytest.approx(0.9, rel=1e-15)
    for detector in (0, 7, LEAST_DETECTORS - 1):
        vectors, turns = found.directions(detector, 0, N_SAMP)
        own = quaternion.rotate(
            quaternion.from_angles(theta[detector], phi[detector], psi[detector]), [0.0, 0.0, 1.0]
        )
        assert quaternion.angle_between(vectors, own).max() < 1e-12  # to which lines of sight are rounded
        off = (turns / 2.0**32 - psi[detector] / np.pi + 0.5) % 1 - 0.5
        assert np.abs(off).max() < 2**-31


def moved(theta, phi, psi):
    theta[11, 1234] += 4 * RIGID
    return theta, phi, psi


def rolled(theta, phi, psi):
    psi[11, 1234] += 4 * RIGID
    return theta, phi, psi


def single(theta, phi, psi):
    return theta.astype(np.float32), phi, psi


def few(theta, phi, psi):
    return theta[:-1], phi[:-1], psi[:-1]


@pytest.mark.parametrize("change", [moved, rolled, single, few])
def test_others_are_not(change):
    assert isinstance(pointing_of(*change(*angles())), SampledPointing)


def test_what_is_flagged_and_nan_is_not_guessed():
    theta, phi, psi = angles()
    flags = np.zeros(theta.shape, bool)
    flags[3, 10] = True
    theta[3, 10] = np.nan
    assert isinstance(pointing_of(theta, phi, psi, flags=flags), SampledPointing)


def test_maps_are_those_of_angles_sample_by_sample(monkeypatch):
    theta, phi, psi = angles()
    signal = np.random.default_rng(1).normal(size=theta.shape)
    noise = petamap.OneOverF(1.0, 0.05, 1e-3)
    given = {"noise": noise, "n_side": 16, "progress": False, **RATE}
    compressed = petamap.make_map(signal, theta, phi, psi, **given)
    assert compressed.summary.memory.bytes_per_sample < 0.2  # recomputed by default
    keep = {"resources.pointing": "keep"}
    kept = petamap.make_map(signal, theta, phi, psi, options=keep, **given)
    np.testing.assert_array_equal(kept.sky.values, compressed.sky.values)
    assert 4 < kept.summary.memory.bytes_per_sample < 9
    day = petamap.array_observation(signal, theta, phi, psi, noise=noise, **RATE)
    again = petamap.make_map([day], n_side=16, progress=False)
    np.testing.assert_array_equal(again.sky.values, compressed.sky.values)
    assert again.summary.memory.bytes_per_sample < 0.2
    monkeypatch.setattr(rigid_plane, "LEAST_DETECTORS", LEAST_DETECTORS + 1)
    sampled = petamap.make_map(signal, theta, phi, psi, **given)
    np.testing.assert_array_equal(compressed.hits.values, sampled.hits.values)
    np.testing.assert_allclose(
        compressed.sky.values, sampled.sky.values, rtol=0, atol=1e-6
    )  # of angles in 32 bits
