"""Means, covariances and statistical tests of realizations.

Sums use NumPy without BLAS, whose bits depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.spectra.master import solve_linear


def standard_error(values: FloatArray) -> FloatArray:
    """Return the standard error of the mean over the first axis; nan for one realization."""
    n = len(values)
    if n < 2:
        return np.full(values.shape[1:], np.nan)
    error: FloatArray = values.std(axis=0, ddof=1) / np.sqrt(n)
    return error


def covariance(values: FloatArray) -> FloatArray:
    """Return the unbiased sample covariance of realizations (n, p), float64 (p, p).

    Raises
    ------
    DataError
        If there are less than two realizations.
    """
    if len(values) < 2:
        raise DataError("one realization has no covariance", mend="make more")
    deviations = values - values.mean(axis=0)
    matrix: FloatArray = np.einsum("ni,nj->ij", deviations, deviations) / (len(values) - 1)
    return matrix


def hartlap_factor(n: int, p: int) -> float:
    """Return (n - p - 2) / (n - 1), by which the inverse of a sample covariance from n samples is unbiased.

    For Gaussian vectors of length p (Hartlap, Simon & Schneider 2007, equation 17). 0 if the covariance has
    no inverse.
    """
    return max(n - p - 2, 0) / (n - 1)


def hotelling_probability(values: FloatArray, degrees: int, p: int) -> FloatArray:
    """Return the probability of a larger T^2 = x' S^-1 x, for a covariance S of `degrees` degrees of freedom.

    T^2 (degrees - p + 1) / (p degrees) has the F distribution with p and degrees - p + 1 degrees of freedom
    (Hotelling 1931), equivalent to the t distribution of Sellentin & Heavens 2016 for Gaussian data with
    estimated covariance.

    Parameters
    ----------
    values : float64 (...)
    degrees, p : int
    """
    from scipy.stats import f

    rest = degrees - p + 1
    return np.asarray(f.sf(values * rest / (p * degrees), p, rest))


def can_invert(n: int, p: int) -> bool:
    """Return whether the covariance of p numbers from n - 1 realizations can be inverted: n > p + 4."""
    return n > p + 4


@dataclass(frozen=True)
class MeanTest:
    """Test whether the mean of samples is 0 (Hotelling's T^2 test).

    Attributes
    ----------
    mean, error : float64 (p,)
        Mean and standard error.
    n : int
        Number of samples.
    chi_squared : float
        T^2 = n mean' S^-1 mean; nan if n is too small for p.
    probability : float
        Probability of a larger T^2; nan if n is too small for p.
    """

    mean: FloatArray
    error: FloatArray
    n: int
    chi_squared: float
    probability: float

    @staticmethod
    def from_samples(values: FloatArray, n_other: float = np.inf) -> MeanTest:
        """Return the test of samples (n, p).

        If the samples are differences from the mean of `n_other` other samples, errors include that of it.
        """
        n, p = values.shape
        factor = 1 + n / n_other
        mean, chi_squared, probability = values.mean(axis=0), np.nan, np.nan
        if can_invert(n, p):
            chi_squared = n / factor * float(quadratic_form(covariance(values), mean[None])[0])
            probability = float(hotelling_probability(np.array(chi_squared), n - 1, p))
        return MeanTest(mean, standard_error(values) * np.sqrt(factor), n, chi_squared, probability)

    @property
    def pulls(self) -> FloatArray:
        """Means divided by their errors, float64 (p,)."""
        return np.divide(self.mean, self.error, out=np.zeros_like(self.mean), where=self.error > 0)

    @property
    def worst(self) -> float:
        """Largest absolute pull."""
        return float(np.abs(self.pulls).max())

    def chance(self, pull: float = 3.0) -> float:
        """Return the probability that any of p independent means deviates by more than `pull` errors."""
        from scipy.stats import t

        return 1 - (1 - 2 * float(t.sf(pull, self.n - 1))) ** len(self.mean)


def quadratic_form(matrix: FloatArray, rows: FloatArray) -> FloatArray:
    """Return x' matrix^-1 x for the rows x of (n, p), float64 (n,)."""
    scaled, solved = _solved(matrix, rows)
    values: FloatArray = np.einsum("np,pn->n", scaled, solved)
    return values


def _solved(matrix: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows x of (n, p) and matrix^-1 x, (p, n), with the diagonal of the matrix scaled to 1."""
    scaled = rows / np.sqrt(matrix.diagonal())
    return scaled, solve_linear(_correlations(matrix), scaled.T)


def leave_one_out_t2(values: FloatArray, expected: FloatArray) -> FloatArray:
    """Return T^2 of each sample against `expected`, with the sample covariance of all other samples.

    The covariance is independent of the sample, hence `hotelling_probability` with n - 2 degrees of freedom
    applies. With S the sum of (x - mean)(x - mean)' over all samples, leaving out x_i subtracts
    n / (n - 1) (x_i - mean)(x_i - mean)'; the inverse follows from the formula of Sherman & Morrison.

    Parameters
    ----------
    values : float64 (n, p)
    expected : float64 (p,)

    Returns
    -------
    float64 (n,)
    """
    n = len(values)
    rows = np.concatenate((values - values.mean(axis=0), values - expected))
    scaled, solved = _solved(covariance(values) * (n - 1), rows)
    mean_mean = np.einsum("ni,in->n", scaled[:n], solved[:, :n])
    mean_expected = np.einsum("ni,in->n", scaled[:n], solved[:, n:])
    expected_expected = np.einsum("ni,in->n", scaled[n:], solved[:, n:])
    factor = n / (n - 1)
    t2: FloatArray = (n - 2) * (expected_expected + factor * mean_expected**2 / (1 - factor * mean_mean))
    return t2


@dataclass(frozen=True)
class Uniformity:
    """Kolmogorov-Smirnov test of the uniformity of the probabilities of realizations, float64 (n,)."""

    probabilities: FloatArray

    @cached_property
    def probability(self) -> float:
        """Probability of a larger difference of the cumulative distributions."""
        from scipy.stats import kstest

        return float(kstest(self.probabilities, "uniform").pvalue)

    @staticmethod
    def from_samples(values: FloatArray, expected: FloatArray) -> Uniformity | None:
        """Return the test of samples (n, p) against `expected`; None if n is too small for p."""
        n, p = values.shape
        if not can_invert(n, p):
            return None
        return Uniformity(hotelling_probability(leave_one_out_t2(values, expected), n - 2, p))


@dataclass(frozen=True)
class Convergence:
    """Convergence of a sample covariance of p numbers with the number n of samples.

    Attributes
    ----------
    n, p : int
    steps : tuple of int
        Numbers of samples.
    variances, correlations : float64 (n_steps,)
        For the covariance of the first samples: rms of the ratio of its variances to those of all samples
        minus 1, and rms difference of its correlations from those of all samples.
    halves : float
        Rms relative difference of the variances of the two halves of the samples.
    """

    n: int
    p: int
    steps: tuple[int, ...]
    variances: FloatArray
    correlations: FloatArray
    halves: float

    @staticmethod
    def from_samples(values: FloatArray) -> Convergence:
        """Return the convergence for samples (n, p), with n at least 4."""
        n, p = values.shape
        matrix = covariance(values)
        steps = tuple(int(step) for step in np.unique(np.geomspace(4, n, 24).astype(int)) if step < n)
        distances = [_distance(covariance(values[:step]), matrix) for step in steps]
        variances, correlations = np.array(distances).reshape(-1, 2).T
        even, odd = (covariance(half).diagonal() for half in (values[0::2], values[1::2]))
        halves = float(np.sqrt(np.mean((2 * (even - odd) / (even + odd)) ** 2)))
        return Convergence(n, p, steps, variances, correlations, halves)

    @property
    def error(self) -> float:
        """Relative error of a variance for Gaussian samples, sqrt(2 / (n - 1))."""
        return float(np.sqrt(2 / (self.n - 1)))

    @property
    def expected(self) -> FloatArray:
        """Expected `variances` for Gaussian samples, sqrt(2 / (step - 1) - 2 / (n - 1)), (n_steps,)."""
        steps = np.array(self.steps, np.float64)
        return np.sqrt(2 / (steps - 1) - 2 / (self.n - 1))

    @property
    def expected_halves(self) -> float:
        """Expected `halves` for Gaussian samples, sqrt(4 / (n / 2 - 1))."""
        return float(np.sqrt(4 / (self.n / 2 - 1)))

    @property
    def hartlap(self) -> float:
        """Factor of the inverse covariance (see `hartlap_factor`)."""
        return hartlap_factor(self.n, self.p)


def _distance(matrix: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Return the rms relative difference of the variances, and the rms difference of the correlations."""
    variances = matrix.diagonal() / other.diagonal() - 1
    correlations = (_correlations(matrix) - _correlations(other))[np.triu_indices(len(matrix), 1)]
    rms = float(np.sqrt(np.mean(correlations**2))) if correlations.size else 0.0
    return float(np.sqrt(np.mean(variances**2))), rms


def _correlations(matrix: FloatArray) -> FloatArray:
    scale = np.sqrt(matrix.diagonal())
    return matrix / np.multiply.outer(scale, scale)
