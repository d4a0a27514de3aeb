"""Conjugate gradients as a Lanczos process: the eigenvalues of M^-1 A that they have seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petacomm.base.typing import FloatArray


def lanczos_matrix(alphas: Sequence[float], betas: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Return the diagonal (n,) and what lies beside it (n - 1,) of the matrix of a Lanczos process.

    Its eigenvalues are the Ritz values of M^-1 A (Saad 2003, section 6.7.3).

    Parameters
    ----------
    alphas, betas : sequence of float
        Those of the iterations, n of each; the first beta is not used.
    """
    alpha, beta = np.asarray(alphas, np.float64), np.asarray(betas, np.float64)
    diagonal = 1 / alpha
    diagonal[1:] += beta[1:] / alpha[:-1]
    return diagonal, np.sqrt(beta[1:]) / alpha[:-1]


def smallest_ritz_value(alphas: Sequence[float], betas: Sequence[float]) -> float:
    """Return the smallest Ritz value of M^-1 A, which lies above its smallest eigenvalue."""
    from scipy.linalg import eigvalsh_tridiagonal

    return float(eigvalsh_tridiagonal(*lanczos_matrix(alphas, betas), select="i", select_range=(0, 0))[0])
