"""Small systems of detectors that share noise, and their dense matrices."""

import dataclasses

import numpy as np
from scipy.linalg import toeplitz
from small_systems import Dense, dense, numbered, recorded

from petamap.noise.common_modes import CommonNoise, mode_amplitudes
from petamap.noise.model import OneOverF
from petamap.noise.toeplitz import inverse_lags

N_LAG = 5
SLOW = OneOverF(net=2.0, fknee=1.0, fmin=0.05, alpha=-2.0)
FAST = OneOverF(net=1.0, fknee=0.3, fmin=0.05, alpha=-1.0)


def sharing(one, rng, n_modes=1):
    """Return an observation whose detectors share noise."""
    common = tuple(
        CommonNoise(rng.uniform(0.5, 2.0, one.n_det), model) for model in (SLOW, FAST, SLOW)[:n_modes]
    )
    return dataclasses.replace(one, common_noise=common)


def joint_scans(rng, n_modes=1, **choices):
    """Return an observation with shared noise in two intervals, and one without."""
    one = recorded(rng, 3, 150, 6, N_LAG, ((0, 70), (75, 150)), flagged=0.1, outside=0.05, **choices)
    return [sharing(one, rng, n_modes), recorded(rng, 2, 90, 6, N_LAG, name="other", uid=2)]


def joint_inverse(one, interval, n, own):
    """Return N^-1 of the detectors of an interval of n samples, of D^-1 of each."""
    models = [one.noise.noise_model(detector, interval) for detector in range(one.n_det)]
    modes = mode_amplitudes(models, one.common_noise, one.sample_rate)
    a, b = (np.kron(part.T, np.eye(n)) for part in (modes.forward, modes.backward))
    left = np.eye(len(own)) - b.T @ a
    inverse = left.T @ own @ left
    for number, model in enumerate(modes.models):
        column = np.zeros(n)
        column[: N_LAG + 1] = inverse_lags(model, one.sample_rate, N_LAG)
        rows = a[number * n : (number + 1) * n]
        inverse += rows.T @ toeplitz(column) @ rows
    return inverse


def dense_joint(observations, stokes="IQU", n_pix=6):
    """Return what the map-making equation is made of, by NumPy."""
    parts = dense(observations, numbered(n_pix), stokes, N_LAG)
    inverse, begin = parts.inverse.copy(), 0
    for one in observations:
        for interval, (start, stop) in enumerate(one.intervals):
            end = begin + (stop - start) * one.n_det
            if one.common_noise:
                own = slice(begin, end), slice(begin, end)
                inverse[own] = joint_inverse(one, interval, stop - start, inverse[own])
            begin = end
    return Dense(parts.response, parts.good, inverse, parts.data)
