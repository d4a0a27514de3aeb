"""The matrix of the map under the model of the noise that two-level preconditioners have, dense."""

import numpy as np
from scipy.linalg import block_diag

from petamap.mapmaking.preconditioning import plan_preconditioner


def dense_model(system, more=None):
    """Return the matrix of the map under the model: P^T W P of good samples less what amplitudes take up.

    Baselines are averaged over the samples of a visit where pixels see them.

    `more`: called with the number of a segment and of its samples, returns functions beside the baselines,
    (n, n_functions), and the standard deviations of their amplitudes.
    """
    projection = system.projection
    plan = plan_preconditioner("two-level", projection, system.noise, system.comm, projection.amplitudes)
    alive = np.flatnonzero(~system.statistics.unsolved)
    matrix = 0.0
    for number, segment in enumerate(projection.local.segments):
        n, noise = segment.stop - segment.start, plan.noises[number]
        samples = projection.kept.slice(segment.offset, segment.offset + n)
        good = samples.pixels >= 0
        response = _responses(samples, projection.responses[number], len(system.keys))
        response = response[good][:, alive].reshape(good.sum(), -1)
        at, after = np.divmod(np.arange(n) + 0.5, noise.step)
        hats = np.zeros((n, (n - 1) // noise.step + 2))
        hats[np.arange(n), at.astype(int)] = 1 - after / noise.step
        hats[np.arange(n), at.astype(int) + 1] = after / noise.step
        seen = _averaged(hats, samples.pixels, at)
        prior = _band(noise.inverse_prior, hats.shape[1])
        if more is not None:
            functions, sigmas = more(number, n)
            hats, seen = np.hstack([hats, functions]), np.hstack([seen, functions])
            prior = block_diag(prior, np.diag(1 / sigmas**2))
        coupling = noise.weight * seen[good].T @ response
        inner = prior + noise.weight * hats[good].T @ hats[good]
        matrix = matrix + noise.weight * response.T @ response - coupling.T @ np.linalg.solve(inner, coupling)
    return matrix


def _responses(samples, of_detector, n_pixels):
    """Return what samples see of pixels, (n, n_pixels, 3)."""
    intensity, efficiency = of_detector
    n, good = len(samples.pixels), samples.pixels >= 0
    angle = samples.angles * (2 * np.pi / 2**32)
    each = np.stack([np.full(n, intensity), np.cos(angle), np.sin(angle)], axis=1)
    each[:, 1:] *= efficiency
    response = np.zeros((n, n_pixels, 3))
    response[np.flatnonzero(good), samples.pixels[good]] = each[good]
    return response


def _averaged(hats, pixels, at):
    """Return baselines averaged over visits: samples of one pixel in a row, between two knots."""
    ends = (pixels[1:] != pixels[:-1]) | (at[1:] != at[:-1])
    visits = np.concatenate([[0], np.cumsum(ends)])
    sums = np.zeros((visits[-1] + 1, hats.shape[1]))
    np.add.at(sums, visits, hats)
    return (sums / np.bincount(visits)[:, None])[visits]


def _band(lags, n):
    return sum(value * (np.eye(n, k=lag) + (lag > 0) * np.eye(n, k=-lag)) for lag, value in enumerate(lags))
