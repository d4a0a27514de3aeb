"""Conjugate gradients as a Lanczos process: the eigenvalues of M^-1 A that they have seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import FloatArray

_DENSE = 200  # rows


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
    if not len(alphas) or not np.all(np.asarray(alphas) >= np.finfo(np.float64).tiny):
        return 0.0, 0.0
    diagonal, beside = lanczos_matrix(alphas, betas)
    if not np.all(np.isfinite(diagonal)):
        return 0.0, 0.0
    least, largest = _extreme_eigenvalues(diagonal, beside)
    return max(least, 0.0), max(largest, 0.0)


def _extreme_eigenvalues(diagonal: FloatArray, beside: FloatArray) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a symmetric tridiagonal matrix.

    NumPy's are as good while the matrix is small, and spare most runs the import of SciPy: 0.2 s and 31 MB.
    """
    n = len(diagonal)
    if n <= _DENSE:
        with single_blas_thread():
            values = np.linalg.eigvalsh(np.diag(diagonal) + np.diag(beside, -1))
        return float(values[0]), float(values[-1])
    from scipy.linalg import eigvalsh_tridiagonal

    ends = [eigvalsh_tridiagonal(diagonal, beside, select="i", select_range=(k, k)) for k in (0, n - 1)]
    return float(ends[0][0]), float(ends[1][0])
