"""Means, covariances and probabilities of what many realizations gave.

Sums are NumPy's own, without BLAS, whose bits would depend on threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.spectra.master import solved


def standard_error(values: FloatArray) -> FloatArray:
    """Return the standard deviation of the mean over the first axis; nan for one realization."""
    n = len(values)
    if n < 2:
        return np.full(values.shape[1:], np.nan)
    found: FloatArray = values.std(axis=0, ddof=1) / np.sqrt(n)
    return found


def covariance(values: FloatArray) -> FloatArray:
    """Return the unbiased covariance of realizations (n, p), float64 (p, p).

    Raises
    ------
    DataError
        If there are less than two.
    """
    if len(values) < 2:
        raise DataError("one realization has no covariance", mend="make more")
    apart = values - values.mean(axis=0)
    found: FloatArray = np.einsum("ni,nj->ij", apart, apart) / (len(values) - 1)
    return found


def hartlap(n: int, p: int) -> float:
    """Return (n - p - 2) / (n - 1), which makes the inverse of a covariance from n draws unbiased.

    Of Gaussian vectors of length p (Hartlap, Simon & Schneider 2007, equation 17). 0 where the covariance
    has no inverse.
    """
    return max(n - p - 2, 0) / (n - 1)


def hotelling(values: FloatArray, degrees: int, p: int) -> FloatArray:
    """Return the probability of a larger T^2 = x' S^-1 x, S a covariance of `degrees` degrees of freedom.

    T^2 (degrees - p + 1) / (p degrees) has the F distribution with p and degrees - p + 1 (Hotelling 1931),
    the same as the t distribution of Sellentin & Heavens 2016, for Gaussian data of estimated covariance.

    Parameters
    ----------
    values : float64 (...)
    degrees, p : int
    """
    from scipy.stats import f

    rest = degrees - p + 1
    found: FloatArray = np.asarray(f.sf(values * rest / (p * degrees), p, rest))
    return found


def can_invert(n: int, p: int) -> bool:
    """Whether the covariance of p numbers from n realizations, one left out, is of use: n > p + 4."""
    return n > p + 4


@dataclass(frozen=True)
class MeanTest:
    """Whether numbers are 0 on average.

    Attributes
    ----------
    mean, error : float64 (p,)
        With its standard error.
    n : int
        Realizations.
    """

    mean: FloatArray
    error: FloatArray
    n: int
    chi_squared: float
    probability: float

    @staticmethod
    def of(values: FloatArray, n_other: float = np.inf) -> MeanTest:
        """Test realizations (n, p) by T^2 = n mean' S^-1 mean; nan where n is too small for p.

        Where they were compared with the mean of `n_other` others, that has its part in the errors.
        """
        n, p = values.shape
        more = 1 + n / n_other
        mean, chi_squared, probability = values.mean(axis=0), np.nan, np.nan
        if can_invert(n, p):
            chi_squared = n / more * float(quadratic(covariance(values), mean[None])[0])
            probability = float(hotelling(np.array(chi_squared), n - 1, p))
        return MeanTest(mean, standard_error(values) * np.sqrt(more), n, chi_squared, probability)

    @property
    def pulls(self) -> FloatArray:
        """Means over their errors, float64 (p,)."""
        found: FloatArray = np.divide(
            self.mean, self.error, out=np.zeros_like(self.mean), where=self.error > 0
        )
        return found

    @property
    def worst(self) -> float:
        """The largest pull, without its sign."""
        return float(np.abs(self.pulls).max())

    def chance(self, pull: float = 3.0) -> float:
        """Return how probable it is that any of p independent means lies beyond `pull` errors."""
        from scipy.stats import t

        return 1 - (1 - 2 * float(t.sf(pull, self.n - 1))) ** len(self.mean)


def quadratic(matrix: FloatArray, rows: FloatArray) -> FloatArray:
    """Return x' matrix^-1 x of rows (n, p), float64 (n,)."""
    scale = np.sqrt(matrix.diagonal())
    scaled = rows / scale
    found: FloatArray = np.einsum(
        "np,pn->n", scaled, solved(matrix / np.multiply.outer(scale, scale), scaled.T)
    )
    return found


def left_out(values: FloatArray, expected: FloatArray) -> FloatArray:
    """Return T^2 of each realization against `expected`, with the covariance of all the others.

    So each is independent of the covariance that it is held against, and `hotelling` with n - 2 degrees has
    its probability. With S the sum over all of (x - mean)(x - mean)', leaving out x_i takes
    n / (n - 1) (x_i - mean)(x_i - mean)' off it, and the inverse follows by Sherman & Morrison.

    Parameters
    ----------
    values : float64 (n, p)
    expected : float64 (p,)

    Returns
    -------
    float64 (n,)
    """
    n = len(values)
    apart, off = values - values.mean(axis=0), values - expected
    matrix = covariance(values) * (n - 1)
    scale = np.sqrt(matrix.diagonal())
    apart, off = apart / scale, off / scale
    inverse = solved(matrix / np.multiply.outer(scale, scale), np.concatenate((apart, off)).T)
    along, across = inverse[:, :n], inverse[:, n:]
    own, mixed, plain = (
        np.einsum("ni,in->n", rows, columns)
        for rows, columns in ((apart, along), (apart, across), (off, across))
    )
    share = n / (n - 1)
    found: FloatArray = (n - 2) * (plain + share * mixed**2 / (1 - share * own))
    return found


@dataclass(frozen=True)
class Uniformity:
    """Probabilities of realizations, float64 (n,), which should be uniform: a Kolmogorov-Smirnov test."""

    probabilities: FloatArray

    @cached_property
    def _test(self) -> tuple[float, float]:
        from scipy.stats import kstest

        found = kstest(self.probabilities, "uniform")
        return float(found.statistic), float(found.pvalue)

    @property
    def distance(self) -> float:
        """The largest difference of the distributions."""
        return self._test[0]

    @property
    def probability(self) -> float:
        """Of a larger distance, by chance."""
        return self._test[1]

    @staticmethod
    def of(values: FloatArray, expected: FloatArray) -> Uniformity | None:
        """Return the probabilities of realizations (n, p); None where n is too small for p."""
        n, p = values.shape
        if not can_invert(n, p):
            return None
        return Uniformity(hotelling(left_out(values, expected), n - 2, p))


@dataclass(frozen=True)
class Convergence:
    """How far a covariance from n realizations of p numbers can be trusted.

    Attributes
    ----------
    n, p : int
    steps : tuple of int
        Numbers of realizations.
    variances, correlations : float64 (n_steps,)
        From the first of them: rms of variances over those of all realizations, less 1, and rms of the
        correlations less those of all.
    halves : float
        Rms difference of the variances of the two halves, over their mean.
    """

    n: int
    p: int
    steps: tuple[int, ...]
    variances: FloatArray
    correlations: FloatArray
    halves: float

    @staticmethod
    def of(values: FloatArray) -> Convergence:
        """Return that of realizations (n, p), n at least 4."""
        n, p = values.shape
        matrix = covariance(values)
        steps = tuple(int(step) for step in np.unique(np.geomspace(4, n, 24).astype(int)) if step < n)
        apart = [_distance(covariance(values[:step]), matrix) for step in steps]
        variances, correlations = np.array(apart).reshape(-1, 2).T
        one, other = (covariance(half).diagonal() for half in (values[0::2], values[1::2]))
        halves = float(np.sqrt(np.mean((2 * (one - other) / (one + other)) ** 2)))
        return Convergence(n, p, steps, variances, correlations, halves)

    @property
    def error(self) -> float:
        """The relative error of a variance, sqrt(2 / (n - 1)) (Gaussian)."""
        return float(np.sqrt(2 / (self.n - 1)))

    @property
    def expected(self) -> FloatArray:
        """Of `variances` if the numbers are Gaussian: sqrt(2 / (step - 1) - 2 / (n - 1)), (n_steps,)."""
        steps = np.array(self.steps, np.float64)
        found: FloatArray = np.sqrt(2 / (steps - 1) - 2 / (self.n - 1))
        return found

    @property
    def expected_halves(self) -> float:
        """Of `halves` if the numbers are Gaussian: sqrt(4 / (n / 2 - 1))."""
        return float(np.sqrt(4 / (self.n / 2 - 1)))

    @property
    def hartlap(self) -> float:
        """The factor of the inverse, `hartlap`."""
        return hartlap(self.n, self.p)


def _distance(matrix: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Return rms of variances over those of `other`, less 1, and of correlations less those of `other`."""
    variances = matrix.diagonal() / other.diagonal() - 1
    apart = (_correlations(matrix) - _correlations(other))[np.triu_indices(len(matrix), 1)]
    return float(np.sqrt(np.mean(variances**2))), float(np.sqrt(np.mean(apart**2))) if apart.size else 0.0


def _correlations(matrix: FloatArray) -> FloatArray:
    scale = np.sqrt(matrix.diagonal())
    found: FloatArray = matrix / np.multiply.outer(scale, scale)
    return found
