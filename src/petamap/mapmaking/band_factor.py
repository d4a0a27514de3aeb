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

    Raises
    ------
    LinAlgError
        If a matrix is not positive.
    """
    factor = np.empty((int(knots[-1]), 1 + _mapmaking.BASELINE_BAND))
    priors = np.reshape(inverse_priors, (-1, factor.shape[1]))  # or of no stream
    matrices = [np.ascontiguousarray(one, np.float64) for one in (priors, diagonal, beside)]
    firsts = np.ascontiguousarray(knots, np.int64)
    failed = _mapmaking.factorize_baselines(firsts, matrices[0], matrices[1], matrices[2], factor)
    if failed >= 0:
        raise np.linalg.LinAlgError(f"the matrix of baselines is not positive at knot {failed}")
    return factor
