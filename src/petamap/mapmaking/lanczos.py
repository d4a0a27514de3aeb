"""Conjugate gradients as a Lanczos process: the eigenvalues of M^-1 A that they have seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petacomm.base.typing import FloatArray


def lanczos_matrix(
    alphas: Sequence[float] | FloatArray, betas: Sequence[float] | FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the diagonal (n,) and what lies beside it (n - 1,) of the matrix of a Lanczos process.

    Its eigenvalues are the Ritz values of M^-1 A (Saad 2003, section 6.7.3).

    Parameters
    ----------
    alphas, betas : sequence of float, (n,)
        Of each iteration the step length, and how much of the direction before is in its own; the first beta
        is not used.
    """
    alpha, beta = np.asarray(alphas, np.float64), np.asarray(betas, np.float64)
    diagonal = 1 / alpha
    diagonal[1:] += beta[1:] / alpha[:-1]
    return diagonal, np.sqrt(beta[1:]) / alpha[:-1]


def smallest_ritz_value(alphas: Sequence[float] | FloatArray, betas: Sequence[float] | FloatArray) -> float:
    """Return the smallest Ritz value, above the smallest eigenvalue of M^-1 A; 0 where none is known."""
    return extreme_ritz_values(alphas, betas)[0]


def extreme_ritz_values(
    alphas: Sequence[float] | FloatArray, betas: Sequence[float] | FloatArray
) -> tuple[float, float]:
    """Return the smallest and the largest Ritz value, between the eigenvalues of M^-1 A; 0 if not known."""
    from scipy.linalg import eigvalsh_tridiagonal

    if not len(alphas) or not np.all(np.asarray(alphas) >= np.finfo(np.float64).tiny):
        return 0.0, 0.0
    diagonal, beside = lanczos_matrix(alphas, betas)
    if not np.all(np.isfinite(diagonal)):
        return 0.0, 0.0
    ends = [
        float(eigvalsh_tridiagonal(diagonal, beside, select="i", select_range=(end, end))[0])
        for end in (0, len(diagonal) - 1)
    ]
    return max(ends[0], 0.0), max(ends[1], 0.0)
