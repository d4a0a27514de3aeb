"""Inverses of small symmetric matrices of which some directions are not determined."""

from __future__ import annotations

import numpy as np

from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import FloatArray

# Eigenvalues below are rounding, relative to the sizes of what they are of; and what they are made.
_UNDETERMINED, _MADE = 1e-9, 1e-6


def pseudo_inverse(matrix: FloatArray, same: float) -> FloatArray:
    """Return the inverse of a symmetric matrix on directions with more than `same` of the largest size."""
    values, axes, scale = _scaled_eigenvectors(matrix, np.diag(matrix))
    found = values > same * max(values.max(initial=0.0), 1e-300)
    return _squared(scale[:, None] * axes[:, found] / np.sqrt(values[found]))


def small_directions(matrix: FloatArray, least: float) -> FloatArray:
    """Return the directions, (n, n_found), in which a symmetric matrix has up to `least` of its diagonal."""
    values, axes, scale = _scaled_eigenvectors(matrix, np.diag(matrix))
    return np.ascontiguousarray(scale[:, None] * axes[:, (values <= least) & (scale @ axes**2 > 0)])


def regularized_inverse(matrix: FloatArray, sizes: FloatArray, least: float) -> FloatArray:
    """Return the inverse of a symmetric matrix whose directions are made larger by `least` of their sizes.

    Those that are not determined, below 1e-9 of their sizes, are made 1e-6 of these.

    Parameters
    ----------
    matrix : float64 (n, n)
        Positive semidefinite, but for rounding.
    sizes : float64 (n,)
        Sizes of the rows, of the numbers that the matrix is a difference of. Where 0, the inverse is 0.
    least : float
    """
    values, axes, scale = _scaled_eigenvectors(matrix, sizes)
    values = np.where(values > _UNDETERMINED, values + least, _MADE)
    return _squared(scale[:, None] * axes / np.sqrt(values))


def _scaled_eigenvectors(matrix: FloatArray, sizes: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    scale = np.where(sizes > 0, 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0)), 0.0)
    with single_blas_thread():
        values, axes = np.linalg.eigh(matrix * scale * scale[:, None])
    return values, axes, scale


def _squared(basis: FloatArray) -> FloatArray:
    with single_blas_thread():
        return np.ascontiguousarray(basis @ basis.T)
