"""Cholesky factors of the matrices of baselines: bands, one for each stream, as the kernel takes them."""

from __future__ import annotations

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import FloatArray, Int64Array


def factorize_baselines(
    knots: Int64Array, inverse_priors: FloatArray, diagonal: FloatArray, beside: FloatArray
) -> FloatArray:
    """Return the Cholesky factor of C^-1 + F^T W F of each stream, float64 (n_knots, 9).

    Parameters
    ----------
    knots : int64 (n_streams + 1,)
        First knot of each stream.
    inverse_priors : float64 (n_streams, 9)
        Lags of C^-1 of each.
    diagonal, beside : float64 (n_knots,)
        F^T W F: a knot with itself and with the next one.
    """
    from scipy.linalg import cholesky_banded

    band = _mapmaking.BASELINE_BAND
    factor = np.zeros((int(knots[-1]), band + 1))
    for number, prior in enumerate(inverse_priors):
        own = slice(int(knots[number]), int(knots[number + 1]))
        matrix = np.repeat(prior[:, None], own.stop - own.start, axis=1)
        matrix[0] += diagonal[own]
        matrix[1] += beside[own]
        lower = cholesky_banded(matrix, lower=True, check_finite=False)
        factor[own, 0] = 1 / lower[0]
        for lag in range(1, min(band, len(lower[0]) - 1) + 1):
            factor[own.start + lag : own.stop, lag] = lower[lag, :-lag]
    return factor
