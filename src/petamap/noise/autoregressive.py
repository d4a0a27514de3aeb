"""Stationary autoregressive processes: covariances whose inverse is a band, at the ends as well.

Of n consecutive values with the prediction error filter ``a_0 = 1, a_1, ..., a_p`` of power v, the inverse
covariance is that of Gohberg and Semencul 1972::

    S^-1 = (L L^T - M M^T) / v,   L_ij = a_(i-j),   M_ij = a_(n-i+j)

both lower triangular. Between its first and last p values that is the Toeplitz band of the autocorrelation of
a; there it is less, as nothing is known of values beyond.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from petacomm.base.typing import FloatArray


@dataclass(frozen=True, eq=False)
class AutoregressiveProcess:
    """Stationary process whose values are predicted by those before.

    Attributes
    ----------
    predictor : float64 (p + 1,)
        Prediction error filter, of which the first is 1.
    power : float
        Variance of the prediction error.
    """

    predictor: FloatArray
    power: float

    @staticmethod
    def of_covariance(covariance: FloatArray) -> AutoregressiveProcess:
        """Return the process with autocovariances at lags 0 to p, positive definite, float64 (p + 1,)."""
        from scipy.linalg import solve_toeplitz

        if len(covariance) == 1:
            return AutoregressiveProcess(np.ones(1), float(covariance[0]))
        predictor = np.concatenate(([1.0], solve_toeplitz(covariance[:-1], -covariance[1:])))
        return AutoregressiveProcess(predictor, float(np.sum(predictor * covariance)))

    @property
    def order(self) -> int:
        """Number of values that predict the next one, p."""
        return len(self.predictor) - 1

    @property
    def norm(self) -> float:
        """Bound of ``|S^-1 x| / max|x|`` for any number of values, not less than it by any rounding."""
        return 2.01 * float(np.abs(self.predictor).sum()) ** 2 / self.power

    @cached_property
    def band(self) -> FloatArray:
        """Lags 0 to p of S^-1 far from both ends, float64 (p + 1,)."""
        a, p = self.predictor, self.order
        return np.array([np.sum(a[: p + 1 - lag] * a[lag:]) for lag in range(p + 1)]) / self.power

    @cached_property
    def _corner(self) -> FloatArray:
        """What S^-1 is less at its last p values, (p, p); at the first, the same in reverse."""
        from scipy.linalg import toeplitz

        rows = np.triu(toeplitz(self.predictor[:0:-1]))
        # each sum in one order, without BLAS
        return np.asarray(np.einsum("ki,kj->ij", rows, rows) / self.power)

    def weigh(self, values: FloatArray) -> FloatArray:
        """Return S^-1 of consecutive values, float64 (n, ...), n > p, along the first axis.

        Each column has the same bits whatever others there are.
        """
        from scipy.ndimage import correlate1d

        kernel = np.concatenate([self.band[:0:-1], self.band])
        out: FloatArray = correlate1d(values, kernel, axis=0, mode="constant")
        if p := self.order:
            flat = values.reshape(len(values), -1)
            ends = out.reshape(len(values), -1)
            for column in range(flat.shape[1]):
                last, first = flat[-p:, column].copy(), flat[p - 1 :: -1, column].copy()
                ends[-p:, column] -= np.einsum("ij,j->i", self._corner, last)
                ends[p - 1 :: -1, column] -= np.einsum("ij,j->i", self._corner, first)
        return out

    def inverse_covariance(self, n: int) -> Any:
        """Return S^-1 of n > p consecutive values, sparse (n, n)."""
        from scipy import sparse

        p = self.order
        lags = range(-p, p + 1)
        band: Any = sparse.diags([np.full(n - abs(lag), self.band[abs(lag)]) for lag in lags], lags)
        if p == 0:
            return band.tocsr()
        rest = sparse.csr_matrix((n - p, n - p))
        first = sparse.block_diag([self._corner[::-1, ::-1], rest])
        return (band - sparse.block_diag([rest, self._corner]) - first).tocsr()
