"""The matrix of the map under the model of the noise that two-level preconditioners have, dense."""

import numpy as np
from scipy.linalg import block_diag

from petamap.mapmaking.preconditioning import plan_preconditioner


def dense_model(system, more=None):
    """Return P^T N^-1 P of the good samples under the model, dense.

    `more`: called with the number of a segment and of its samples, returns what is added to the covariance.
    """
    projection = system.projection
    plan = plan_preconditioner("two-level", projection, system.noise, system.comm, projection.amplitudes)
    alive = np.flatnonzero(~system.statistics.dead)
    rows, noises = [], []
    for number, segment in enumerate(projection.local.segments):
        n, noise = segment.stop - segment.start, plan.noises[number]
        samples = projection.kept.slice(segment.offset, segment.offset + n)
        intensity, efficiency = projection.responses[number]
        good = samples.pixels >= 0
        angle = samples.angles * (2 * np.pi / 2**32)
        each = np.stack([np.full(n, intensity), np.cos(angle), np.sin(angle)], axis=1)
        each[:, 1:] *= efficiency
        response = np.zeros((n, len(system.keys), 3))
        response[np.flatnonzero(good), samples.pixels[good]] = each[good]
        rows.append(response[good][:, alive].reshape(good.sum(), -1))
        at, after = np.divmod(np.arange(n) + 0.5, noise.step)
        hats = np.zeros((n, (n - 1) // noise.step + 2))
        hats[np.arange(n), at.astype(int)] = 1 - after / noise.step
        hats[np.arange(n), at.astype(int) + 1] = after / noise.step
        prior = np.zeros((hats.shape[1],) * 2)
        for lag, value in enumerate(noise.inverse_prior):
            prior += value * (np.eye(len(prior), k=lag) + (lag > 0) * np.eye(len(prior), k=-lag))
        covariance = np.eye(n) / noise.weight + hats @ np.linalg.solve(prior, hats.T)
        if more is not None:
            covariance += more(number, n)
        noises.append(covariance[np.ix_(good, good)])
    response = np.concatenate(rows)
    return response.T @ np.linalg.solve(block_diag(*noises), response)
