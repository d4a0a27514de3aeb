"""How far the iterates of conjugate gradients are from the solution: bounds in the norm of A.

For the iterate x_k, with step lengths alpha_k, residuals r_k and ``||r||_M^2 = r^T M^-1 r``, the error lies
between the bound of Hestenes and Stiefel 1952 (J. Res. Natl. Bur. Stand. 49, 409, theorem 6:1), which later
iterations give, and that of a Gauss-Radau quadrature (Meurant and Tichy 2013, Numer. Algorithms 62, 163;
2019, Numer. Algorithms 82, 937)::

    sum_{j >= k} alpha_j ||r_j||_M^2  <=  ||x - x_k||_A^2  <  gamma_k ||r_k||_M^2

    gamma_0 = 1 / mu,   gamma_{k+1} = (gamma_k - alpha_k) / (mu (gamma_k - alpha_k) + beta_{k+1})

where mu is below all eigenvalues of M^-1 A. Nobody knows these. The smallest eigenvalue of the Lanczos matrix
of the iterations so far, a Ritz value, is above the smallest of M^-1 A and falls to it: so what is called a
bound here is an estimate until the Ritz value has converged. When the solver has ended, the bounds of all
iterates are computed anew with the last Ritz value. A mode that hardly shows in the right-hand side may not
have been seen by then: of it, no scalar of the iterations says anything.

In map-making A = P^T N^-1 P is the inverse of the map's covariance. The modes A^{1/2} (x - x_k) are then the
error in units of the noise: the noise of each has variance 1, and none is larger than ``||x - x_k||_A``. If
that is 0.01, the error of the map is below 1% of its noise in every mode, so at every scale. Unknowns of gaps
only make the norm larger: of all errors that agree on the pixels, the one that is least has the norm of the
pixels' own matrix, from which the gaps are eliminated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.mapmaking.lanczos import smallest_ritz_value

# mu over the smallest Ritz value, which has not converged on the way. Measured in ten solutions to 1e-11, of
# five scans of benchmarks/solver.py with each preconditioner: with a quarter, the bound was 1.7 to 20 times
# the error once that was below 0.3, and no less than 0.59 of it before. With a half the bound is
# at most 1.4 times smaller, on either side of the error.
_SAFETY = 0.25
# The Ritz value is computed anew after this fraction more iterations: what it costs stays small.
_GROWTH = 0.05

# Squared norm of the residual of an iterate, and alpha and beta of the step that led to it.
Step = tuple[float, float, float]


class ErrorBound:
    """Bounds of ``||x - x_k||_A`` for one right-hand side, from the scalars of its iterations.

    Attributes
    ----------
    steps : list of (float, float, float)
        Of each iterate, the start first: the squared norm of its residual, and alpha and beta of the step
        that led to it.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._mu = self._gamma = 0.0
        self._n_used = 0

    def add(self, norm: float, alpha: float, beta: float) -> float:
        """Take an iterate; return the upper bound of its error, with the Ritz value of now or a bit before.

        It is infinite at the start, where no Ritz value is known.
        """
        self.steps.append((norm, alpha, beta))
        n = len(self.steps) - 1
        if n >= (1 + _GROWTH) * self._n_used or self._gamma <= alpha:
            return self.renew()
        self._gamma = _next_gamma(self._gamma, self._mu, alpha, beta)
        return _root(self._gamma, norm)

    def renew(self) -> float:
        """Return the upper bound for the last iterate, with the Ritz value of all iterations."""
        self._n_used = len(self.steps) - 1
        self._mu = _smallest_eigenvalue(self.steps)
        *_, self._gamma = _gammas(self.steps, self._mu)
        return _root(self._gamma, self.steps[-1][0])

    def upper(self) -> list[float]:
        """Return the upper bounds for all iterates, with the Ritz value of all iterations."""
        gammas = _gammas(self.steps, _smallest_eigenvalue(self.steps))
        return [_root(gamma, norm) for gamma, (norm, _, _) in zip(gammas, self.steps, strict=True)]

    def lower(self) -> FloatArray:
        """Return the lower bounds for all iterates, each from all iterations after it; 0 for the last."""
        norms, alphas, _ = np.array(self.steps).T
        sums = np.cumsum((alphas[1:] * norms[:-1])[::-1])[::-1]
        return np.asarray(np.sqrt(np.append(sums, 0.0)), np.float64)


def _smallest_eigenvalue(steps: Sequence[Step]) -> float:
    """Return the estimate of mu: what is below the smallest Ritz value by the factor of safety."""
    _, alphas, betas = np.array(steps).T[:, 1:]
    # the beta of a step is that of the direction which comes after it
    return _SAFETY * smallest_ritz_value(alphas, np.append(0.0, betas[:-1]))


def _gammas(steps: Sequence[Step], mu: float) -> Iterator[float]:
    gamma = 1 / mu if mu > 0 else math.inf
    yield gamma
    for _, alpha, beta in steps[1:]:
        gamma = _next_gamma(gamma, mu, alpha, beta)
        yield gamma


def _next_gamma(gamma: float, mu: float, alpha: float, beta: float) -> float:
    rest = gamma - alpha
    if mu > 0 and rest > 0:
        return rest / (mu * rest + beta)
    return 1 / mu if mu > 0 else math.inf  # larger than any gamma


def _root(gamma: float, norm: float) -> float:
    return math.sqrt(gamma * norm) if norm > 0 else 0.0
